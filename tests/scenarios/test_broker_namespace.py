"""The broker loses the namespace that clusters share, whichever watch tells an agent first."""

import asyncio
from datetime import timedelta

import pytest

from hanse.kube import requests
from hanse.model.kinds.core import Namespace
from hanse.model.naming import BROKER_NAMESPACE
from tests.scenarios.disturbances import EACH, Disturbance, disturb
from tests.scenarios.services import ServicesScenario
from tests.support.faults import LinkFaults
from tests.support.scenario import all_of
from tests.support.testbed_embedded import EmbeddedTestbed

LATE_NAMESPACES = LinkFaults(lag=timedelta(seconds=10), lags="namespaces")
LATE_SLICES = LinkFaults(lag=timedelta(seconds=2), lags="endpointslices")
"""Later than a renewal, and earlier than the second one."""
READ_NAMESPACE = requests.resource_path(Namespace.kind, name=BROKER_NAMESPACE)


@pytest.mark.parametrize("how", EACH)
async def test_imports_stand_while_the_brokers_namespace_is_gone_and_heal_with_it(
    members: ServicesScenario, how: Disturbance
) -> None:
    scenario = members.scenario
    broker = members.admin(scenario.broker)
    for cluster in ("bergen", "lubeck"):
        await members.serve_and_export(cluster)
    await members.serve_and_export("lubeck", "old")
    await scenario.eventually(members.everywhere("web", "bergen", "lubeck"))
    await scenario.eventually(members.everywhere("old", "lubeck"))
    await scenario.settled()

    if isinstance(scenario.testbed, EmbeddedTestbed):  # else the new agent's account comes with it
        scenario.testbed.keeps_accounts = True
    await broker.delete(Namespace, BROKER_NAMESPACE, "")

    held = [members.imports(cluster, "web", "bergen", "lubeck") for cluster in scenario.names]
    async with asyncio.TaskGroup() as group:
        group.create_task(disturb(scenario, how, "hamburg"), name="disturbance")
        await scenario.always(all_of(*held), for_=timedelta(seconds=12))
    if isinstance(scenario.testbed, EmbeddedTestbed):
        scenario.testbed.keeps_accounts = False
    await members.unexport("lubeck", "old")
    await scenario.eventually(scenario.has_no_namespace(scenario.broker, BROKER_NAMESPACE))
    await scenario.always(all_of(*held), for_=timedelta(seconds=12))

    await scenario.make_namespace(scenario.broker, BROKER_NAMESPACE, keep=True)
    for cluster in scenario.names:
        await scenario.allow_on_broker(cluster)
        await members.add_record(cluster)
    await scenario.always(all_of(*held), for_=timedelta(seconds=30))
    await scenario.eventually(members.everywhere("web", "bergen", "lubeck"))
    await scenario.eventually(members.everywhere("old"))


@pytest.mark.virtual
@pytest.mark.parametrize("exporters", [("lubeck",), ("bergen", "lubeck")])
@pytest.mark.parametrize("how", ["", "restarted"])
async def test_imports_stand_where_the_end_of_the_brokers_namespace_is_seen_last(
    members: ServicesScenario, exporters: tuple[str, ...], how: Disturbance
) -> None:
    scenario = members.scenario
    for cluster in exporters:
        await members.serve_and_export(cluster)
    await scenario.eventually(members.everywhere("web", *exporters))
    await scenario.settled()
    for cluster in scenario.names:
        scenario.network.link(cluster, scenario.broker).faults = LATE_NAMESPACES

    await members.admin(scenario.broker).delete(Namespace, BROKER_NAMESPACE, "")

    held = [members.imports(cluster, "web", *exporters) for cluster in scenario.names]
    async with asyncio.TaskGroup() as group:
        group.create_task(disturb(scenario, how, "hamburg"), name="disturbance")
        await scenario.always(all_of(*held), for_=timedelta(seconds=40))


@pytest.mark.virtual
async def test_a_withdrawal_costs_each_importer_one_read_of_the_brokers_namespace(
    members: ServicesScenario,
) -> None:
    scenario = members.scenario
    for cluster in ("bergen", "lubeck"):
        await members.serve_and_export(cluster)
        await members.serve_and_export(cluster, "old")
    await scenario.eventually(members.everywhere("old", "bergen", "lubeck"))
    await scenario.settled()
    await asyncio.sleep(60)  # what was listed at the start is doubted no more
    sent = scenario.network.sent
    start = len(sent)

    await members.unexport("lubeck", "old")
    await scenario.eventually(members.everywhere("old", "bergen"))
    await scenario.settled()

    reads = [s.source for s in sent[start:] if s.request.path == READ_NAMESPACE]
    assert sorted(reads) == sorted(scenario.names)
    places = sorted((s.source, s.target) for s in scenario.writes_since(start))
    of_each = [(cluster, cluster) for cluster in sorted(scenario.names) for _ in range(2)]
    assert places == sorted([*of_each, ("lubeck", scenario.broker), ("bergen", scenario.broker)])


@pytest.mark.virtual
async def test_imports_stand_where_leases_of_a_broker_made_anew_come_before_the_slices(
    members: ServicesScenario,
) -> None:
    scenario = members.scenario
    for cluster in ("bergen", "lubeck"):
        await members.serve_and_export(cluster)
    await scenario.eventually(members.everywhere("web", "bergen", "lubeck"))
    await scenario.settled()
    await members.admin(scenario.broker).delete(Namespace, BROKER_NAMESPACE, "")
    await scenario.eventually(scenario.has_no_namespace(scenario.broker, BROKER_NAMESPACE))
    scenario.network.link("hamburg", scenario.broker).faults = LATE_SLICES
    slow = LinkFaults(delay=timedelta(milliseconds=300))  # so that the importer lists before
    scenario.network.link("lubeck", scenario.broker).faults = slow

    await scenario.make_namespace(scenario.broker, BROKER_NAMESPACE, keep=True)
    for cluster in scenario.names:
        await scenario.allow_on_broker(cluster)
        await members.add_record(cluster)

    stands = members.imports("hamburg", "web", "bergen", "lubeck")
    await scenario.always(stands, for_=timedelta(seconds=30))
