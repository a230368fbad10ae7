"""Two and three clusters export one service: merged ports, conflicts, and refused exports.

Exports of one second are ordered by the names of their clusters, so here bergen is always the
oldest.
"""

import pytest

from hanse.app import BROKER
from hanse.features.services.derived import derived_name
from hanse.features.services.names import DERIVED_SERVICE, SERVICE_NAME
from hanse.model.conditions import find_condition
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.hanse import Profile
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.naming import BROKER_NAMESPACE, unique_name
from hanse.model.plan import Key
from tests.scenarios.services import ServicesScenario
from tests.support.scenario import Check, describe_writes

BOTH = {"http": 80, "tls": 443}
both_profiles = pytest.mark.parametrize("profile", ["lighthouse", "kep-1645"])


async def test_three_clusters_with_the_same_ports_make_one_import_and_then_rest(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    for cluster in scenario.names:
        await services.serve_and_export(cluster)

    await scenario.eventually(services.everywhere("web", *scenario.names))
    for cluster in scenario.names:
        await scenario.eventually(
            services.has_conditions(cluster, Ready="Exported", Conflict="NoConflicts")
        )
    await scenario.lengthen_leases()
    await scenario.settled()
    start = len(scenario.network.sent)
    await scenario.restart_agents()
    await scenario.settled()

    assert describe_writes(scenario.writes_since(start)) == []


async def test_the_import_is_never_gone_when_one_of_two_leaves(services: ServicesScenario) -> None:
    scenario = services.scenario
    for cluster in ("bergen", "lubeck"):
        await services.serve_and_export(cluster)
    await scenario.eventually(services.everywhere("web", "bergen", "lubeck"))
    before = [await services.found(c, ServiceImport) for c in scenario.names]
    aggregate = await services.found(
        BROKER, ServiceImport, unique_name("web", scenario.namespace), BROKER_NAMESPACE
    )

    await services.unexport("bergen")
    await scenario.eventually(services.everywhere("web", "lubeck"))

    after = [await services.found(c, ServiceImport) for c in scenario.names]
    assert [i and i.metadata.uid for i in before] == [i and i.metadata.uid for i in after]
    left = await services.found(
        BROKER, ServiceImport, unique_name("web", scenario.namespace), BROKER_NAMESPACE
    )
    assert left is not None
    assert aggregate is not None
    assert left.metadata.uid == aggregate.metadata.uid


@both_profiles
async def test_differing_ports_conflict_until_they_match(
    services: ServicesScenario, profile: Profile
) -> None:
    scenario = services.scenario
    await services.set_profile(profile)
    await services.serve_and_export("bergen", "web", BOTH)
    await services.serve_and_export("lubeck", "web", {"http": 80})
    ports = {"http": 80} if profile == "lighthouse" else BOTH

    await scenario.eventually(services.everywhere("web", "bergen", "lubeck", ports=ports))
    for cluster in ("bergen", "lubeck"):
        await scenario.eventually(
            services.has_conditions(
                cluster, Valid="Valid", Ready="Exported", Conflict="PortConflict"
            )
        )

    more = [{"name": n, "port": p} for n, p in BOTH.items()]
    await services.edit("lubeck", Service, {"spec": {"ports": more}})
    await scenario.eventually(services.everywhere("web", "bergen", "lubeck", ports=BOTH))
    for cluster in ("bergen", "lubeck"):
        await scenario.eventually(services.has_conditions(cluster, Conflict="NoConflicts"))


@both_profiles
async def test_another_app_protocol_is_told_and_the_port_stays(
    services: ServicesScenario, profile: Profile
) -> None:
    scenario = services.scenario
    await services.set_profile(profile)
    await services.serve_and_export("bergen")
    await services.serve_and_export("lubeck")
    await scenario.eventually(services.everywhere("web", "bergen", "lubeck"))

    port = {"name": "http", "port": 80, "appProtocol": "kubernetes.io/h2c"}
    await services.edit("bergen", Service, {"spec": {"ports": [port]}})

    for cluster in ("bergen", "lubeck"):
        await scenario.eventually(
            services.has_conditions(cluster, Ready="Exported", Conflict="PortConflict")
        )
    await scenario.eventually(services.everywhere("web", "bergen", "lubeck", ports={"http": 80}))
    for cluster in scenario.names:
        found = await services.admin(cluster).read(ServiceImport, "web", scenario.namespace)
        assert [p.app_protocol for p in found.spec.ports] == ["kubernetes.io/h2c"], "the oldest's"


async def test_a_port_conflict_ends_when_the_odd_one_leaves(services: ServicesScenario) -> None:
    scenario = services.scenario
    await services.serve_and_export("bergen", "web", BOTH)
    await services.serve_and_export("hamburg", "web", BOTH)
    await services.serve_and_export("lubeck", "web", {"http": 80})
    await scenario.eventually(services.everywhere("web", *scenario.names, ports={"http": 80}))
    await scenario.eventually(services.has_conditions("bergen", Conflict="PortConflict"))

    await services.unexport("lubeck")

    await scenario.eventually(services.everywhere("web", "bergen", "hamburg", ports=BOTH))
    for cluster in ("bergen", "hamburg"):
        await scenario.eventually(services.has_conditions(cluster, Conflict="NoConflicts"))


@both_profiles
async def test_one_name_with_two_numbers_is_a_port_of_the_oldest_or_of_none(
    services: ServicesScenario, profile: Profile
) -> None:
    scenario = services.scenario
    await services.set_profile(profile)
    await services.serve_and_export("bergen", "web", {"http": 80})
    await services.serve_and_export("lubeck", "web", {"http": 81})
    ports: dict[str, int] = {} if profile == "lighthouse" else {"http": 80}

    await scenario.eventually(services.everywhere("web", "bergen", "lubeck", ports=ports))
    for cluster in ("bergen", "lubeck"):
        await scenario.eventually(services.has_conditions(cluster, Conflict="PortConflict"))


async def test_a_union_tells_which_ports_it_leaves_out(services: ServicesScenario) -> None:
    scenario = services.scenario
    await services.set_profile("kep-1645")
    await services.serve_and_export("bergen", "web", {"http": 80})
    await services.serve_and_export("lubeck", "web", {"http": 81, "plain": 80, "tls": 443})
    await scenario.eventually(services.everywhere("web", "bergen", "lubeck", ports=BOTH))
    left_out = (
        "the ports of all are imported but http TCP/81 of lubeck, whose name an older export uses "
        "and plain TCP/80 of lubeck, whose number is that of http; "
    )

    async def told() -> None:
        for cluster in ("bergen", "lubeck"):
            export = await services.admin(cluster).read(ServiceExport, "web", scenario.namespace)
            conflict = find_condition(export.status.conditions, "Conflict")
            assert conflict is not None, cluster
            assert conflict.message.startswith(left_out), conflict

    await scenario.eventually(told)
    agreed = [{"name": "http", "port": 80}, {"name": "tls", "port": 443}]
    for cluster in ("bergen", "lubeck"):
        await services.edit(cluster, Service, {"spec": {"ports": agreed}})

    for cluster in ("bergen", "lubeck"):
        await scenario.eventually(services.has_conditions(cluster, Conflict="NoConflicts"))


@pytest.mark.parametrize(
    "oldest_is_headless", [True, False], ids=["headless first", "address first"]
)
async def test_a_later_type_is_refused_until_the_types_are_equal(
    services: ServicesScenario, oldest_is_headless: bool
) -> None:
    scenario = services.scenario
    await services.serve_and_export("bergen", headless=oldest_is_headless)
    await services.serve_and_export("lubeck", headless=not oldest_is_headless)

    await scenario.eventually(services.everywhere("web", "bergen", headless=oldest_is_headless))
    await scenario.eventually(
        services.has_conditions("lubeck", Valid="Valid", Ready="Failed", Conflict="TypeConflict")
    )
    await scenario.eventually(
        services.has_conditions("bergen", Ready="Exported", Conflict="NoConflicts")
    )

    await services.unserve("lubeck")
    await services.serve("lubeck", headless=oldest_is_headless)

    both = services.everywhere("web", "bergen", "lubeck", headless=oldest_is_headless)
    await scenario.eventually(both)
    await scenario.eventually(
        services.has_conditions("lubeck", Ready="Exported", Conflict="NoConflicts")
    )


async def test_when_the_oldest_leaves_the_one_it_refused_is_admitted(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await services.serve_and_export("bergen", headless=True)
    await services.serve_and_export("lubeck")
    await scenario.eventually(services.has_conditions("lubeck", Conflict="TypeConflict"))

    await services.unexport("bergen")

    await scenario.eventually(services.everywhere("web", "lubeck"))
    await scenario.eventually(services.has_endpoints("hamburg", lubeck=[True]))
    await scenario.eventually(
        services.has_conditions("lubeck", Ready="Exported", Conflict="NoConflicts")
    )


async def test_in_kep_1645_the_oldest_type_holds_for_all_and_all_report_the_conflict(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await services.set_profile("kep-1645")
    await services.serve_and_export("bergen", headless=True)
    await services.serve_and_export("lubeck")

    await scenario.eventually(services.everywhere("web", "bergen", "lubeck", headless=True))
    for cluster in ("bergen", "lubeck"):
        await scenario.eventually(
            services.has_conditions(
                cluster, Valid="Valid", Ready="Exported", Conflict="TypeConflict"
            )
        )


async def test_affinity_labels_and_annotations_are_the_oldests_and_the_difference_is_reported(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await services.serve("bergen", session_affinity="ClientIP")
    await services.export(
        "bergen", exported_labels={"tier": "gold"}, exported_annotations={"note": "b"}
    )
    await services.serve("lubeck")
    await services.export("lubeck", exported_labels={"other": "x"})
    reasons = ",".join(
        (
            "AnnotationsConflict",
            "LabelsConflict",
            "SessionAffinityConfigConflict",
            "SessionAffinityConflict",
        )
    )

    for cluster in ("bergen", "lubeck"):
        await scenario.eventually(services.has_conditions(cluster, Conflict=reasons))
    await scenario.eventually(imports_as(services, "ClientIP", {"tier": "gold"}, {"note": "b"}))

    await services.unexport("bergen")
    await scenario.eventually(imports_as(services, "None", {"other": "x"}, {}))
    await scenario.eventually(services.has_conditions("lubeck", Conflict="NoConflicts"))


def imports_as(
    services: ServicesScenario, affinity: str, labels: dict[str, str], notes: dict[str, str]
) -> Check[None]:
    async def check() -> None:
        for cluster in services.scenario.names:
            found = await services.found(cluster, ServiceImport)
            assert found is not None
            meta = found.metadata
            assert found.spec.session_affinity == affinity
            assert {n: v for n, v in meta.labels.items() if "/" not in n} == labels
            assert {n: v for n, v in meta.annotations.items() if "/" not in n} == notes

    return check


async def test_in_kep_1645_each_cluster_gives_the_import_an_address_of_its_own(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await services.set_profile("kep-1645")
    for cluster in ("bergen", "lubeck"):
        await services.serve_and_export(cluster)
    derived = derived_name(Key("import", "web"))

    async def addressed() -> None:
        for cluster in scenario.names:
            service = await services.found(cluster, Service, derived)
            found = await services.found(cluster, ServiceImport)
            assert service is not None, cluster
            assert found is not None, cluster
            assert found.spec.ips == service.spec.cluster_ips != ()
            assert found.metadata.annotations[DERIVED_SERVICE] == derived
            listed = await services.admin(cluster).list(
                EndpointSlice, namespace=scenario.namespace, labels=f"{SERVICE_NAME}=web"
            )
            assert {s.metadata.labels.get(KUBE_SERVICE) for s in listed.objects} == {derived}

    await scenario.eventually(services.everywhere("web", "bergen", "lubeck"))
    await scenario.eventually(addressed)

    await services.set_profile("lighthouse")

    async def plain() -> None:
        for cluster in scenario.names:
            found = await services.found(cluster, ServiceImport)
            assert await services.found(cluster, Service, derived) is None
            assert found is not None
            assert found.spec.ips == ()

    await scenario.eventually(plain)


async def test_addresses_outside_of_a_clusters_ranges_are_not_imported(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await services.patch_clusterset({"clusters": [{"id": "lubeck", "ranges": ["192.0.2.0/24"]}]})
    for cluster in ("bergen", "lubeck"):
        await services.serve_and_export(cluster)

    await scenario.eventually(services.has_endpoints("hamburg", bergen=[True], lubeck=[]))
    await scenario.eventually(services.has_conditions("lubeck", AddressesAllowed="OutsideRanges"))

    await services.patch_clusterset({"clusters": None})

    await scenario.eventually(services.has_endpoints("hamburg", bergen=[True], lubeck=[True]))
    await scenario.eventually(services.has_conditions("lubeck", AddressesAllowed="Allowed"))


async def test_a_foreign_import_of_the_same_name_is_left_alone_and_reported(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await services.serve_and_export("lubeck", "other")
    await scenario.eventually(services.imports("hamburg", "other", "lubeck"))
    made = await services.found("hamburg", ServiceImport, "other")
    assert made is not None
    mine = await services.admin("hamburg").create(
        ServiceImport(
            metadata=type(made.metadata)(name="web", namespace=scenario.namespace), spec=made.spec
        )
    )

    for cluster in ("hamburg", "lubeck"):
        await services.serve_and_export(cluster)

    await scenario.eventually(services.imports("bergen", "web", "hamburg", "lubeck"))
    await scenario.eventually(
        services.has_conditions("hamburg", Ready="Exported", ImportedHere="ImportFailed")
    )
    assert await services.found("hamburg", ServiceImport) == mine

    await services.admin("hamburg").delete(ServiceImport, "web", scenario.namespace)
    await scenario.eventually(services.everywhere("web", "hamburg", "lubeck"))
    await scenario.eventually(services.has_conditions("hamburg", ImportedHere="Imported"))
