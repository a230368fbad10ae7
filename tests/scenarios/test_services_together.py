"""Two and three clusters export one service: what is shared, what conflicts, and who gives way.

Exports of one second are ordered by the names of their clusters, so here bergen is always the
oldest.
"""

import pytest

from hanse.app import BROKER
from hanse.features.services.feature import BROKER_NAMESPACE
from hanse.features.services.imports import derived_name
from hanse.features.services.names import DERIVED_SERVICE, SERVICE_NAME
from hanse.model.keys import Key
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.hanse import Profile
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.naming import unique
from tests.scenarios.harbour import Harbour
from tests.support.stage import Check, told

BOTH = {"http": 80, "tls": 443}
both_profiles = pytest.mark.parametrize("profile", ["lighthouse", "kep-1645"])


async def test_three_clusters_with_the_same_ports_make_one_import_and_then_rest(
    harbour: Harbour,
) -> None:
    stage = harbour.stage
    for cluster in stage.names:
        await harbour.offer(cluster)

    await stage.eventually(harbour.everywhere("web", *stage.names))
    for cluster in stage.names:
        await stage.eventually(harbour.is_told(cluster, Ready="Exported", Conflict="NoConflicts"))
    await stage.settled()
    start = len(stage.network.sent)
    for cluster in stage.names:
        await stage.kill_agent(cluster)
    await stage.start_agents()
    await stage.settled()

    assert told(stage.writes_since(start)) == []


async def test_the_import_does_not_blink_when_one_of_two_leaves(harbour: Harbour) -> None:
    stage = harbour.stage
    for cluster in ("bergen", "lubeck"):
        await harbour.offer(cluster)
    await stage.eventually(harbour.everywhere("web", "bergen", "lubeck"))
    before = [await harbour.found(c, ServiceImport) for c in stage.names]
    aggregate = await harbour.found(
        BROKER, ServiceImport, unique("web", stage.shop), BROKER_NAMESPACE
    )

    await harbour.unexport("bergen")
    await stage.eventually(harbour.everywhere("web", "lubeck"))

    after = [await harbour.found(c, ServiceImport) for c in stage.names]
    assert [i and i.metadata.uid for i in before] == [i and i.metadata.uid for i in after]
    left = await harbour.found(BROKER, ServiceImport, unique("web", stage.shop), BROKER_NAMESPACE)
    assert left is not None
    assert aggregate is not None
    assert left.metadata.uid == aggregate.metadata.uid


@both_profiles
async def test_differing_ports_conflict_until_they_match(
    harbour: Harbour, profile: Profile
) -> None:
    stage = harbour.stage
    await harbour.follow(profile)
    await harbour.offer("bergen", "web", BOTH)
    await harbour.offer("lubeck", "web", {"http": 80})
    ports = {"http": 80} if profile == "lighthouse" else BOTH

    await stage.eventually(harbour.everywhere("web", "bergen", "lubeck", ports=ports))
    for cluster in ("bergen", "lubeck"):
        await stage.eventually(
            harbour.is_told(cluster, Valid="Valid", Ready="Exported", Conflict="PortConflict")
        )

    more = [{"name": n, "port": p} for n, p in BOTH.items()]
    await harbour.edit("lubeck", Service, {"spec": {"ports": more}})
    await stage.eventually(harbour.everywhere("web", "bergen", "lubeck", ports=BOTH))
    for cluster in ("bergen", "lubeck"):
        await stage.eventually(harbour.is_told(cluster, Conflict="NoConflicts"))


async def test_a_port_conflict_ends_when_the_odd_one_leaves(harbour: Harbour) -> None:
    stage = harbour.stage
    await harbour.offer("bergen", "web", BOTH)
    await harbour.offer("hamburg", "web", BOTH)
    await harbour.offer("lubeck", "web", {"http": 80})
    await stage.eventually(harbour.everywhere("web", *stage.names, ports={"http": 80}))
    await stage.eventually(harbour.is_told("bergen", Conflict="PortConflict"))

    await harbour.unexport("lubeck")

    await stage.eventually(harbour.everywhere("web", "bergen", "hamburg", ports=BOTH))
    for cluster in ("bergen", "hamburg"):
        await stage.eventually(harbour.is_told(cluster, Conflict="NoConflicts"))


@both_profiles
async def test_one_name_with_two_numbers_is_a_port_of_the_oldest_or_of_none(
    harbour: Harbour, profile: Profile
) -> None:
    stage = harbour.stage
    await harbour.follow(profile)
    await harbour.offer("bergen", "web", {"http": 80})
    await harbour.offer("lubeck", "web", {"http": 81})
    ports: dict[str, int] = {} if profile == "lighthouse" else {"http": 80}

    await stage.eventually(harbour.everywhere("web", "bergen", "lubeck", ports=ports))
    for cluster in ("bergen", "lubeck"):
        await stage.eventually(harbour.is_told(cluster, Conflict="PortConflict"))


@pytest.mark.parametrize(
    "oldest_is_headless", [True, False], ids=["headless first", "address first"]
)
async def test_a_later_type_is_refused_until_the_types_are_equal(
    harbour: Harbour, oldest_is_headless: bool
) -> None:
    stage = harbour.stage
    await harbour.offer("bergen", headless=oldest_is_headless)
    await harbour.offer("lubeck", headless=not oldest_is_headless)

    await stage.eventually(harbour.everywhere("web", "bergen", headless=oldest_is_headless))
    await stage.eventually(
        harbour.is_told("lubeck", Valid="Valid", Ready="Failed", Conflict="TypeConflict")
    )
    await stage.eventually(harbour.is_told("bergen", Ready="Exported", Conflict="NoConflicts"))

    await harbour.unserve("lubeck")
    await harbour.serve("lubeck", headless=oldest_is_headless)

    both = harbour.everywhere("web", "bergen", "lubeck", headless=oldest_is_headless)
    await stage.eventually(both)
    await stage.eventually(harbour.is_told("lubeck", Ready="Exported", Conflict="NoConflicts"))


async def test_when_the_oldest_leaves_the_one_it_refused_is_admitted(harbour: Harbour) -> None:
    stage = harbour.stage
    await harbour.offer("bergen", headless=True)
    await harbour.offer("lubeck")
    await stage.eventually(harbour.is_told("lubeck", Conflict="TypeConflict"))

    await harbour.unexport("bergen")

    await stage.eventually(harbour.everywhere("web", "lubeck"))
    await stage.eventually(harbour.knows("hamburg", lubeck=[True]))
    await stage.eventually(harbour.is_told("lubeck", Ready="Exported", Conflict="NoConflicts"))


async def test_in_kep_1645_the_oldest_type_holds_for_all_and_all_are_told(
    harbour: Harbour,
) -> None:
    stage = harbour.stage
    await harbour.follow("kep-1645")
    await harbour.offer("bergen", headless=True)
    await harbour.offer("lubeck")

    await stage.eventually(harbour.everywhere("web", "bergen", "lubeck", headless=True))
    for cluster in ("bergen", "lubeck"):
        await stage.eventually(
            harbour.is_told(cluster, Valid="Valid", Ready="Exported", Conflict="TypeConflict")
        )


async def test_affinity_labels_and_annotations_are_the_oldests_and_the_difference_is_told(
    harbour: Harbour,
) -> None:
    stage = harbour.stage
    await harbour.serve("bergen", session_affinity="ClientIP")
    await harbour.export(
        "bergen", exported_labels={"tier": "gold"}, exported_annotations={"note": "b"}
    )
    await harbour.serve("lubeck")
    await harbour.export("lubeck", exported_labels={"other": "x"})
    reasons = ",".join(
        (
            "AnnotationsConflict",
            "LabelsConflict",
            "SessionAffinityConfigConflict",
            "SessionAffinityConflict",
        )
    )

    for cluster in ("bergen", "lubeck"):
        await stage.eventually(harbour.is_told(cluster, Conflict=reasons))
    await stage.eventually(imports_as(harbour, "ClientIP", {"tier": "gold"}, {"note": "b"}))

    await harbour.unexport("bergen")
    await stage.eventually(imports_as(harbour, "None", {"other": "x"}, {}))
    await stage.eventually(harbour.is_told("lubeck", Conflict="NoConflicts"))


def imports_as(
    harbour: Harbour, affinity: str, labels: dict[str, str], notes: dict[str, str]
) -> Check[None]:
    async def check() -> None:
        for cluster in harbour.stage.names:
            found = await harbour.found(cluster, ServiceImport)
            assert found is not None
            meta = found.metadata
            assert found.spec.session_affinity == affinity
            assert {n: v for n, v in meta.labels.items() if "/" not in n} == labels
            assert {n: v for n, v in meta.annotations.items() if "/" not in n} == notes

    return check


async def test_in_kep_1645_each_cluster_gives_the_import_an_address_of_its_own(
    harbour: Harbour,
) -> None:
    stage = harbour.stage
    await harbour.follow("kep-1645")
    for cluster in ("bergen", "lubeck"):
        await harbour.offer(cluster)
    derived = derived_name(Key("import", "web"))

    async def addressed() -> None:
        for cluster in stage.names:
            service = await harbour.found(cluster, Service, derived)
            found = await harbour.found(cluster, ServiceImport)
            assert service is not None, cluster
            assert found is not None, cluster
            assert found.spec.ips == service.spec.cluster_ips != ()
            assert found.metadata.annotations[DERIVED_SERVICE] == derived
            listed = await harbour.person(cluster).list(
                EndpointSlice, namespace=stage.shop, labels=f"{SERVICE_NAME}=web"
            )
            assert {s.metadata.labels.get(KUBE_SERVICE) for s in listed.objects} == {derived}

    await stage.eventually(harbour.everywhere("web", "bergen", "lubeck"))
    await stage.eventually(addressed)

    await harbour.follow("lighthouse")

    async def plain() -> None:
        for cluster in stage.names:
            found = await harbour.found(cluster, ServiceImport)
            assert await harbour.found(cluster, Service, derived) is None
            assert found is not None
            assert found.spec.ips == ()

    await stage.eventually(plain)


async def test_addresses_outside_of_a_clusters_ranges_are_not_imported(harbour: Harbour) -> None:
    stage = harbour.stage
    await harbour.rule({"clusters": [{"id": "lubeck", "ranges": ["192.0.2.0/24"]}]})
    for cluster in ("bergen", "lubeck"):
        await harbour.offer(cluster)

    await stage.eventually(harbour.knows("hamburg", bergen=[True], lubeck=[]))
    await stage.eventually(harbour.is_told("lubeck", AddressesAllowed="OutsideRanges"))

    await harbour.rule({"clusters": None})

    await stage.eventually(harbour.knows("hamburg", bergen=[True], lubeck=[True]))
    await stage.eventually(harbour.is_told("lubeck", AddressesAllowed="Allowed"))


async def test_a_foreign_import_of_the_same_name_is_left_alone_and_told(harbour: Harbour) -> None:
    stage = harbour.stage
    await harbour.offer("lubeck", "other")
    await stage.eventually(harbour.imports("hamburg", "other", "lubeck"))
    made = await harbour.found("hamburg", ServiceImport, "other")
    assert made is not None
    mine = await harbour.person("hamburg").create(
        ServiceImport(
            metadata=type(made.metadata)(name="web", namespace=stage.shop), spec=made.spec
        )
    )

    for cluster in ("hamburg", "lubeck"):
        await harbour.offer(cluster)

    await stage.eventually(harbour.imports("bergen", "web", "hamburg", "lubeck"))
    await stage.eventually(
        harbour.is_told("hamburg", Ready="Exported", ImportedHere="ImportFailed")
    )
    assert await harbour.found("hamburg", ServiceImport) == mine

    await harbour.person("hamburg").delete(ServiceImport, "web", stage.shop)
    await stage.eventually(harbour.everywhere("web", "hamburg", "lubeck"))
    await stage.eventually(harbour.is_told("hamburg", ImportedHere="Imported"))
