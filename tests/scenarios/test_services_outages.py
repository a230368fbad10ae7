"""Dead and returning clusters, missed events, foreign and legacy objects."""

from datetime import timedelta
from typing import Literal

import msgspec
import pytest

from hanse.app import BROKER
from hanse.features.services.legacy import LEGACY_CLUSTER, LEGACY_NAME, LEGACY_NAMESPACE
from hanse.features.services.names import RECORD, SERVICE_NAME, SERVICE_NAMESPACE, SOURCE_CLUSTER
from hanse.model.agent_report import DISCONNECTED, FORBIDDEN, REJECTED, reported_connection
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import Endpoint, EndpointConditions, EndpointSlice
from hanse.model.kinds.multicluster import (
    ImportedPort,
    ServiceExport,
    ServiceImport,
    ServiceImportSpec,
)
from hanse.model.naming import AGENT, BROKER_NAMESPACE
from hanse.model.objects import Meta
from tests.scenarios.disturbances import Disturbance, disturb
from tests.scenarios.services import ServicesScenario
from tests.support.faults import NO_FAULTS, LinkFaults
from tests.support.scenario import Check, all_of

A_WHILE = timedelta(seconds=3)
LEASE = timedelta(seconds=3)


async def exported(services: ServicesScenario, *clusters: str) -> None:
    for cluster in clusters:
        await services.serve_and_export(cluster)
    await services.scenario.eventually(services.everywhere("web", *clusters))


async def test_a_failed_exporter_is_withdrawn_elsewhere_and_comes_back(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await exported(services, "bergen", "lubeck")
    await scenario.eventually(renewed(services, "lubeck"))

    await scenario.kill_agent("lubeck")

    for cluster in ("bergen", "hamburg"):
        await scenario.eventually(services.imports(cluster, "web", "bergen"))
    await services.imports("lubeck", "web", "bergen", "lubeck")()

    await scenario.start_agent("lubeck")

    await scenario.eventually(services.everywhere("web", "bergen", "lubeck"))


def renewed(services: ServicesScenario, cluster: str) -> Check[None]:
    """That a cluster's sign of life stands on the broker with the fleet's own terms."""

    async def check() -> None:
        lease = await services.found(BROKER, Lease, cluster, BROKER_NAMESPACE)
        assert lease is not None
        assert lease.spec.lease_duration_seconds == LEASE.total_seconds()

    return check


async def test_while_the_broker_cannot_be_reached_everything_stays(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await exported(services, "bergen", "lubeck")

    scenario.cut_off_from_broker()
    await services.unexport("lubeck")
    await services.pods("bergen", "web", False)
    imported = [services.imports(cluster, "web", "bergen", "lubeck") for cluster in scenario.names]
    await scenario.always(all_of(*imported), for_=A_WHILE)
    scenario.network.heal_all()

    await scenario.eventually(services.everywhere("web", "bergen"))
    await scenario.eventually(services.has_endpoints("hamburg", bergen=[False]))


@pytest.mark.parametrize("how", ["", pytest.param("restarted", marks=pytest.mark.virtual)])
async def test_an_export_whose_agent_is_cut_off_does_not_claim_to_be_ready(
    services: ServicesScenario, how: Disturbance
) -> None:
    scenario = services.scenario
    await exported(services, "bergen", "lubeck")
    await scenario.eventually(renewed(services, "lubeck"))
    await scenario.eventually(services.has_conditions("lubeck", Ready="Exported"))

    scenario.cut_off_from_broker("lubeck")
    await disturb(scenario, how, "lubeck")
    await scenario.eventually(services.has_conditions("lubeck", Ready="Disconnected"))
    await scenario.eventually(services.imports("bergen", "web", "bergen"))
    export = await services.found("lubeck", ServiceExport)
    assert export is not None
    assert {c.type: c.status for c in export.status.conditions}["Ready"] == "Unknown"
    scenario.network.heal_all()

    await scenario.eventually(services.has_conditions("lubeck", Ready="Exported"))
    await scenario.eventually(services.everywhere("web", "bergen", "lubeck"))


@pytest.mark.virtual
async def test_an_export_whose_broker_rejects_its_token_says_what_to_do(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await exported(services, "bergen", "lubeck")
    await scenario.eventually(services.has_conditions("lubeck", Ready="Exported"))

    scenario.network.link("lubeck", scenario.broker).rejects = True
    scenario.network.break_watches("lubeck", scenario.broker)

    await scenario.eventually(services.has_conditions("lubeck", Ready="CredentialsRejected"))
    export = await services.found("lubeck", ServiceExport)
    assert export is not None
    (ready,) = [c for c in export.status.conditions if c.type == "Ready"]
    assert "`hanse join --broker BROKER --cluster-id lubeck` gives it a new one" in ready.message
    await scenario.always(
        services.imports("lubeck", "web", "bergen", "lubeck"), timedelta(minutes=3)
    )
    scenario.network.link("lubeck", scenario.broker).rejects = False
    await scenario.eventually(services.has_conditions("lubeck", Ready="Exported"))


@pytest.mark.virtual
@pytest.mark.parametrize("forbids", ["writes", "everything"])
async def test_an_agent_says_in_its_own_lease_why_the_broker_refuses_it(
    services: ServicesScenario, forbids: Literal["writes", "everything"]
) -> None:
    scenario = services.scenario
    await scenario.stop_agent("lubeck")
    await scenario.start_agent("lubeck", "1")  # one of several replicas: they have a Lease
    link = scenario.network.link("lubeck/1", scenario.broker)
    await scenario.eventually(reports(services, "lubeck", None))

    link.rejects = True
    scenario.network.break_watches("lubeck/1", scenario.broker)
    await scenario.eventually(reports(services, "lubeck", REJECTED))
    link.rejects = False
    await scenario.eventually(reports(services, "lubeck", None))
    link.faults = LinkFaults(forbids=forbids)
    scenario.network.break_watches("lubeck/1", scenario.broker)
    await scenario.eventually(reports(services, "lubeck", FORBIDDEN))
    link.faults = NO_FAULTS
    await scenario.eventually(reports(services, "lubeck", None))
    scenario.cut_off_from_broker("lubeck/1")
    await scenario.eventually(reports(services, "lubeck", DISCONNECTED))


def reports(services: ServicesScenario, cluster: str, reason: str | None) -> Check[None]:
    """That the agent of a cluster says why it is cut off from the broker; None if it is not."""

    async def check() -> None:
        lease = await services.found(cluster, Lease, AGENT, services.scenario.system)
        assert lease is not None
        found = reported_connection(lease)
        assert (found.reason if found is not None else None) == reason

    return check


async def test_an_agent_that_starts_without_the_broker_keeps_what_it_finds(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await exported(services, "bergen", "lubeck")

    scenario.cut_off_from_broker("hamburg")
    await scenario.kill_agent("hamburg")
    await scenario.start_agent("hamburg")
    await scenario.always(services.imports("hamburg", "web", "bergen", "lubeck"), for_=A_WHILE)
    await services.unexport("lubeck")
    await scenario.eventually(services.imports("bergen", "web", "bergen"))
    await services.imports("hamburg", "web", "bergen", "lubeck")()
    scenario.network.heal_all()

    await scenario.eventually(services.everywhere("web", "bergen"))


@pytest.mark.parametrize("kind", [ServiceExport, Service], ids=["export", "service"])
async def test_an_agent_that_missed_a_deletion_makes_up_for_it(
    services: ServicesScenario, kind: type[ServiceExport] | type[Service]
) -> None:
    scenario = services.scenario
    await exported(services, "bergen", "lubeck")

    await scenario.kill_agent("lubeck")
    await services.admin("lubeck").delete(kind, "web", scenario.namespace)
    await scenario.start_agent("lubeck")

    await scenario.eventually(services.everywhere("web", "bergen"))


async def test_an_agent_that_missed_the_end_of_a_namespace_withdraws_what_was_in_it(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await exported(services, "bergen", "lubeck")

    await scenario.kill_agent("lubeck")
    await scenario.delete_namespace("lubeck", scenario.namespace)
    await scenario.eventually(scenario.has_no_namespace("lubeck", scenario.namespace))
    await scenario.start_agent("lubeck")

    for cluster in ("bergen", "hamburg"):
        await scenario.eventually(services.imports(cluster, "web", "bergen"))

    await scenario.make_namespace("lubeck", scenario.namespace)

    await scenario.eventually(services.everywhere("web", "bergen"))


async def test_a_deleted_namespace_ends_exports_and_a_recreated_one_imports_again(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await exported(services, "bergen", "lubeck")

    await scenario.delete_namespace("lubeck", scenario.namespace)
    await scenario.eventually(scenario.has_no_namespace("lubeck", scenario.namespace))
    for cluster in ("bergen", "hamburg"):
        await scenario.eventually(services.imports(cluster, "web", "bergen"))
    await scenario.make_namespace("lubeck", scenario.namespace)

    await scenario.eventually(services.everywhere("web", "bergen"))


async def test_stale_things_of_ours_go_when_agents_start(services: ServicesScenario) -> None:
    """The exporter left while nobody was there to see it: on the broker and in every cluster."""
    scenario = services.scenario
    await exported(services, "bergen", "lubeck")

    for cluster in scenario.names:
        await scenario.kill_agent(cluster)
    for cluster in ("bergen", "lubeck"):
        await services.unexport(cluster)
    await scenario.start_agents()

    await scenario.eventually(services.everywhere("web"))


async def test_foreign_slices_on_the_broker_are_ignored_and_stay(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    foreign_slices = [
        await foreign_slice(services, "no-record", {}),
        await foreign_slice(services, "no-json", {RECORD: "{"}),
        await foreign_slice(services, "huge", {RECORD: "[" * 100_000}),
        await foreign_slice(services, "deep", {RECORD: f'{{"x": {"[" * 50_000}{"]" * 50_000}}}'}),
        await foreign_slice(
            services, "no-zone", {RECORD: record(exportedAt="2026-01-01T00:00:00")}
        ),
        await foreign_slice(services, "bad-label", {RECORD: record(exportedLabels={"a": "b c"})}),
        await foreign_slice(services, "other-name", {RECORD: record(name="bank")}),
    ]

    await exported(services, "bergen")

    await scenario.eventually(
        services.has_conditions("bergen", Ready="Exported", Conflict="NoConflicts")
    )
    for one in foreign_slices:
        left = await services.found(BROKER, EndpointSlice, one.metadata.name, BROKER_NAMESPACE)
        assert left == one


async def test_what_somebody_published_with_the_token_of_a_member_is_withdrawn(
    services: ServicesScenario,
) -> None:
    """Its agent knows what it published; a new token alone would leave the rest there."""
    scenario = services.scenario
    await exported(services, "bergen")

    of_web = await foreign_slice(services, "bergen.forged", {RECORD: record()}, source="bergen")
    other = {RECORD: record(name="bank")}
    of_bank = await foreign_slice(services, "bergen.bank", other, source="bergen", service="bank")

    async def withdrawn() -> None:
        for one in (of_web, of_bank):
            name = one.metadata.name
            assert await services.found(BROKER, EndpointSlice, name, BROKER_NAMESPACE) is None

    await scenario.eventually(withdrawn)
    await scenario.eventually(services.everywhere("web", "bergen"))
    await scenario.eventually(services.everywhere("bank"))


async def foreign_slice(
    services: ServicesScenario,
    name: str,
    annotations: dict[str, str],
    *,
    source: str = "visby",
    service: str = "web",
) -> EndpointSlice:
    """A slice of a service on the broker, as if a cluster had published it."""
    labels = {
        SERVICE_NAME: service,
        SERVICE_NAMESPACE: services.scenario.namespace,
        SOURCE_CLUSTER: source,
    }
    meta = Meta(name=name, namespace=BROKER_NAMESPACE, labels=labels, annotations=annotations)
    endpoint_slice = EndpointSlice(
        metadata=meta, address_type="IPv4", endpoints=(Endpoint(addresses=("10.1.1.1",)),)
    )
    return await services.admin(BROKER).create(endpoint_slice)


def record(**fields: object) -> str:
    content = {
        "cluster": "visby",
        "namespace": "shop",
        "name": "web",
        "exportedAt": "2020-01-01T00:00:00Z",
        "type": "ClusterSetIP",
        "ports": [{"port": 80, "name": "http"}],
        **fields,
    }
    return msgspec.json.encode(content).decode()


async def test_a_record_of_a_later_version_is_neither_imported_nor_touched(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await exported(services, "bergen")
    content = record(namespace=scenario.namespace, schema=99, type="Anycast")
    theirs = await foreign_slice(services, "from-the-future", {RECORD: content})

    await services.serve_and_export("lubeck")

    slices = services.has_endpoints("hamburg", bergen=[True], lubeck=[True])
    await scenario.eventually(slices)
    await services.unexport("bergen")
    await services.unexport("lubeck")
    await scenario.eventually(services.has_endpoints("hamburg"))
    left = await services.found(BROKER, EndpointSlice, "from-the-future", BROKER_NAMESPACE)
    assert left == theirs


async def test_an_older_agents_service_is_imported_and_its_copies_go_when_it_is_upgraded(
    services: ServicesScenario,
) -> None:
    """Lubeck still has an older agent, which knows nothing of records."""
    scenario = services.scenario
    await scenario.kill_agent("lubeck")
    await old_import(services, BROKER, BROKER_NAMESPACE)
    await old_slice(services)
    await old_import(services, "hamburg", scenario.system)

    await scenario.eventually(services.has_endpoints("hamburg", lubeck=[True]))
    assert (await services.endpoints("hamburg"))["lubeck"] == [("10.250.0.1", True)]

    service = await services.serve("lubeck")
    await services.pods("lubeck", "web", True)
    await services.export("lubeck")
    await scenario.start_agent("lubeck")

    async def tidy() -> None:
        name = f"web-{scenario.namespace}-lubeck"
        assert await services.found("hamburg", ServiceImport, name, scenario.system) is None
        assert await services.found(BROKER, ServiceImport, name, BROKER_NAMESPACE) is None
        assert await services.endpoints("bergen") == {"lubeck": [(service.spec.cluster_ip, True)]}

    await scenario.eventually(tidy)
    await scenario.eventually(services.everywhere("web", "lubeck"))


async def old_import(services: ServicesScenario, where: str, space: str) -> None:
    namespace = services.scenario.namespace
    meta = Meta(
        name=f"web-{namespace}-lubeck",
        namespace=space,
        labels={LEGACY_CLUSTER: "lubeck", LEGACY_NAME: "web", LEGACY_NAMESPACE: namespace},
    )
    ports = (ImportedPort(port=80, name="http"),)
    spec = ServiceImportSpec(type="ClusterSetIP", ports=ports, ips=("10.250.0.1",))
    await services.admin(where).create(ServiceImport(metadata=meta, spec=spec))


async def old_slice(services: ServicesScenario) -> None:
    """The pods of the service, by which its import counts as ready."""
    namespace = services.scenario.namespace
    labels = {SERVICE_NAME: "web", SOURCE_CLUSTER: "lubeck", LEGACY_NAMESPACE: namespace}
    meta = Meta(name=f"web-{namespace}-lubeck", namespace=BROKER_NAMESPACE, labels=labels)
    ready = Endpoint(addresses=("10.250.1.1",), conditions=EndpointConditions(ready=True))
    pods = EndpointSlice(metadata=meta, address_type="IPv4", endpoints=(ready,))
    await services.admin(BROKER).create(pods)


@pytest.mark.virtual
async def test_while_the_broker_answers_nothing_everything_stays(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await exported(services, "bergen", "lubeck")
    await scenario.eventually(renewed(services, "lubeck"))

    for cluster in scenario.names:
        scenario.network.hang(cluster, BROKER)

    for cluster in scenario.names:
        await scenario.always(services.imports(cluster, "web", "bergen", "lubeck"), for_=20 * LEASE)
    scenario.network.heal_all()
    for cluster in scenario.names:
        await scenario.always(services.imports(cluster, "web", "bergen", "lubeck"), for_=3 * LEASE)


@pytest.mark.virtual
async def test_a_slow_broker_makes_no_cluster_look_dead(
    services: ServicesScenario,
) -> None:
    scenario = services.scenario
    await exported(services, "bergen", "lubeck")
    await scenario.eventually(renewed(services, "lubeck"))

    for cluster in scenario.names:
        scenario.network.hang(cluster, BROKER)
    await scenario.always(services.imports("hamburg", "web", "bergen", "lubeck"), for_=2 * LEASE)
    scenario.network.heal_all()

    for cluster in scenario.names:
        await scenario.always(services.imports(cluster, "web", "bergen", "lubeck"), for_=3 * LEASE)
