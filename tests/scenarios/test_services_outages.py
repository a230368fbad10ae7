"""Clusters that die and come back, agents that missed something, and what was left behind."""

from datetime import timedelta

import msgspec
import pytest

from hanse.app import BROKER
from hanse.features.services.feature import BROKER_NAMESPACE
from hanse.features.services.migration import OLD_CLUSTER, OLD_NAME, OLD_NAMESPACE
from hanse.features.services.names import RECORD, SERVICE_NAME, SERVICE_NAMESPACE, SOURCE_CLUSTER
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import Endpoint, EndpointSlice
from hanse.model.kinds.multicluster import (
    ImportedPort,
    ServiceExport,
    ServiceImport,
    ServiceImportSpec,
)
from hanse.model.objects import Meta
from tests.scenarios.harbour import Harbour
from tests.support.stage import Check, all_of

A_WHILE = timedelta(seconds=3)
LEASE = timedelta(seconds=3)


async def exported(harbour: Harbour, *clusters: str) -> None:
    for cluster in clusters:
        await harbour.offer(cluster)
    await harbour.stage.eventually(harbour.everywhere("web", *clusters))


async def test_an_exporter_that_dies_is_withdrawn_elsewhere_and_comes_back(
    harbour: Harbour,
) -> None:
    stage = harbour.stage
    await exported(harbour, "bergen", "lubeck")
    await stage.eventually(renewed(harbour, "lubeck"))

    await stage.kill_agent("lubeck")

    for cluster in ("bergen", "hamburg"):
        await stage.eventually(harbour.imports(cluster, "web", "bergen"))
    await harbour.imports("lubeck", "web", "bergen", "lubeck")()

    await stage.start_agent("lubeck")

    await stage.eventually(harbour.everywhere("web", "bergen", "lubeck"))


def renewed(harbour: Harbour, cluster: str) -> Check[None]:
    """That a cluster's sign of life stands on the broker with the fleet's own terms."""

    async def check() -> None:
        lease = await harbour.found(BROKER, Lease, cluster, BROKER_NAMESPACE)
        assert lease is not None
        assert lease.spec.lease_duration_seconds == LEASE.total_seconds()

    return check


async def test_while_the_broker_cannot_be_reached_everything_stays(harbour: Harbour) -> None:
    stage = harbour.stage
    await exported(harbour, "bergen", "lubeck")

    stage.cut_off_from_broker()
    await harbour.unexport("lubeck")
    await harbour.pods("bergen", "web", False)
    standing = [harbour.imports(cluster, "web", "bergen", "lubeck") for cluster in stage.names]
    await stage.always(all_of(*standing), for_=A_WHILE)
    stage.network.heal_all()

    await stage.eventually(harbour.everywhere("web", "bergen"))
    await stage.eventually(harbour.knows("hamburg", bergen=[False]))


async def test_an_agent_that_starts_without_the_broker_keeps_what_it_finds(
    harbour: Harbour,
) -> None:
    stage = harbour.stage
    await exported(harbour, "bergen", "lubeck")

    stage.cut_off_from_broker("hamburg")
    await stage.kill_agent("hamburg")
    await stage.start_agent("hamburg")
    await stage.always(harbour.imports("hamburg", "web", "bergen", "lubeck"), for_=A_WHILE)
    await harbour.unexport("lubeck")
    await stage.eventually(harbour.imports("bergen", "web", "bergen"))
    await harbour.imports("hamburg", "web", "bergen", "lubeck")()
    stage.network.heal_all()

    await stage.eventually(harbour.everywhere("web", "bergen"))


@pytest.mark.parametrize("kind", [ServiceExport, Service], ids=["export", "service"])
async def test_an_agent_that_missed_a_deletion_makes_up_for_it(
    harbour: Harbour, kind: type[ServiceExport] | type[Service]
) -> None:
    stage = harbour.stage
    await exported(harbour, "bergen", "lubeck")

    await stage.kill_agent("lubeck")
    await harbour.person("lubeck").delete(kind, "web", stage.shop)
    await stage.start_agent("lubeck")

    await stage.eventually(harbour.everywhere("web", "bergen"))


async def test_an_agent_that_missed_the_end_of_a_namespace_withdraws_what_was_in_it(
    harbour: Harbour,
) -> None:
    stage = harbour.stage
    await exported(harbour, "bergen", "lubeck")

    await stage.kill_agent("lubeck")
    await stage.delete_namespace("lubeck", stage.shop)
    await stage.eventually(stage.has_no_namespace("lubeck", stage.shop))
    await stage.start_agent("lubeck")

    for cluster in ("bergen", "hamburg"):
        await stage.eventually(harbour.imports(cluster, "web", "bergen"))

    await stage.make_namespace("lubeck", stage.shop)

    await stage.eventually(harbour.everywhere("web", "bergen"))


async def test_a_namespace_that_ends_unexports_and_made_anew_imports_again(
    harbour: Harbour,
) -> None:
    stage = harbour.stage
    await exported(harbour, "bergen", "lubeck")

    await stage.delete_namespace("lubeck", stage.shop)
    await stage.eventually(stage.has_no_namespace("lubeck", stage.shop))
    for cluster in ("bergen", "hamburg"):
        await stage.eventually(harbour.imports(cluster, "web", "bergen"))
    await stage.make_namespace("lubeck", stage.shop)

    await stage.eventually(harbour.everywhere("web", "bergen"))


async def test_stale_things_of_ours_go_when_agents_start(harbour: Harbour) -> None:
    """The exporter left while nobody was there to see it: on the broker and in every cluster."""
    stage = harbour.stage
    await exported(harbour, "bergen", "lubeck")

    for cluster in stage.names:
        await stage.kill_agent(cluster)
    for cluster in ("bergen", "lubeck"):
        await harbour.unexport(cluster)
    await stage.start_agents()

    await stage.eventually(harbour.everywhere("web"))


async def test_slices_of_others_on_the_broker_harm_nobody_and_stay(harbour: Harbour) -> None:
    stage = harbour.stage
    strangers = [
        await stranger(harbour, "no-record", {}),
        await stranger(harbour, "no-json", {RECORD: "{"}),
        await stranger(harbour, "huge", {RECORD: "[" * 100_000}),
        await stranger(harbour, "no-zone", {RECORD: record(exportedAt="2026-01-01T00:00:00")}),
        await stranger(harbour, "bad-label", {RECORD: record(exportedLabels={"a": "b c"})}),
        await stranger(harbour, "other-name", {RECORD: record(name="bank")}),
    ]

    await exported(harbour, "bergen")

    await stage.eventually(harbour.is_told("bergen", Ready="Exported", Conflict="NoConflicts"))
    for one in strangers:
        left = await harbour.found(BROKER, EndpointSlice, one.metadata.name, BROKER_NAMESPACE)
        assert left == one


async def stranger(harbour: Harbour, name: str, marks: dict[str, str]) -> EndpointSlice:
    """A slice of shop/web on the broker that a cluster called visby is said to have published."""
    labels = {
        SERVICE_NAME: "web",
        SERVICE_NAMESPACE: harbour.stage.shop,
        SOURCE_CLUSTER: "visby",
    }
    meta = Meta(name=name, namespace=BROKER_NAMESPACE, labels=labels, annotations=marks)
    piece = EndpointSlice(
        metadata=meta, address_type="IPv4", endpoints=(Endpoint(addresses=("10.1.1.1",)),)
    )
    return await harbour.person(BROKER).create(piece)


def record(**fields: object) -> str:
    said = {
        "cluster": "visby",
        "namespace": "shop",
        "name": "web",
        "exportedAt": "2020-01-01T00:00:00Z",
        "type": "ClusterSetIP",
        "ports": [{"port": 80, "name": "http"}],
        **fields,
    }
    return msgspec.json.encode(said).decode()


async def test_a_record_of_a_later_version_is_neither_imported_nor_touched(
    harbour: Harbour,
) -> None:
    stage = harbour.stage
    await exported(harbour, "bergen")
    said = record(namespace=stage.shop, schema=99, type="Anycast")
    theirs = await stranger(harbour, "from-the-future", {RECORD: said})

    await harbour.offer("lubeck")

    slices = harbour.knows("hamburg", bergen=[True], lubeck=[True])
    await stage.eventually(slices)
    await harbour.unexport("bergen")
    await harbour.unexport("lubeck")
    await stage.eventually(harbour.knows("hamburg"))
    left = await harbour.found(BROKER, EndpointSlice, "from-the-future", BROKER_NAMESPACE)
    assert left == theirs


async def test_an_older_agents_service_is_imported_and_its_copies_go_when_it_is_upgraded(
    harbour: Harbour,
) -> None:
    """Lubeck still has an older agent, which knows nothing of records."""
    stage = harbour.stage
    await stage.kill_agent("lubeck")
    await old_import(harbour, BROKER, BROKER_NAMESPACE)
    await old_import(harbour, "hamburg", stage.system)

    await stage.eventually(harbour.knows("hamburg", lubeck=[True]))
    assert (await harbour.endpoints("hamburg"))["lubeck"] == [("10.250.0.1", True)]

    service = await harbour.serve("lubeck")
    await harbour.pods("lubeck", "web", True)
    await harbour.export("lubeck")
    await stage.start_agent("lubeck")

    async def tidy() -> None:
        name = f"web-{stage.shop}-lubeck"
        assert await harbour.found("hamburg", ServiceImport, name, stage.system) is None
        assert await harbour.found(BROKER, ServiceImport, name, BROKER_NAMESPACE) is None
        assert await harbour.endpoints("bergen") == {"lubeck": [(service.spec.cluster_ip, True)]}

    await stage.eventually(tidy)
    await stage.eventually(harbour.everywhere("web", "lubeck"))


async def old_import(harbour: Harbour, where: str, space: str) -> None:
    shop = harbour.stage.shop
    meta = Meta(
        name=f"web-{shop}-lubeck",
        namespace=space,
        labels={OLD_CLUSTER: "lubeck", OLD_NAME: "web", OLD_NAMESPACE: shop},
    )
    ports = (ImportedPort(port=80, name="http"),)
    spec = ServiceImportSpec(type="ClusterSetIP", ports=ports, ips=("10.250.0.1",))
    await harbour.person(where).create(ServiceImport(metadata=meta, spec=spec))


@pytest.mark.virtual
async def test_while_the_broker_answers_nothing_everything_stays(harbour: Harbour) -> None:
    stage = harbour.stage
    await exported(harbour, "bergen", "lubeck")
    await stage.eventually(renewed(harbour, "lubeck"))

    for cluster in stage.names:
        stage.network.hang(cluster, BROKER)

    for cluster in stage.names:
        await stage.always(harbour.imports(cluster, "web", "bergen", "lubeck"), for_=20 * LEASE)
    stage.network.heal_all()
    for cluster in stage.names:
        await stage.always(harbour.imports(cluster, "web", "bergen", "lubeck"), for_=3 * LEASE)


@pytest.mark.virtual
async def test_a_broker_that_answers_late_makes_nobody_look_dead(harbour: Harbour) -> None:
    stage = harbour.stage
    await exported(harbour, "bergen", "lubeck")
    await stage.eventually(renewed(harbour, "lubeck"))

    for cluster in stage.names:
        stage.network.hang(cluster, BROKER)
    await stage.always(harbour.imports("hamburg", "web", "bergen", "lubeck"), for_=2 * LEASE)
    stage.network.heal_all()

    for cluster in stage.names:
        await stage.always(harbour.imports(cluster, "web", "bergen", "lubeck"), for_=3 * LEASE)
