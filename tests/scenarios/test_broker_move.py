"""A fleet moves to another broker: nothing vanishes, whatever happens in the middle."""

import asyncio
from datetime import timedelta
from typing import Literal

import pytest

from hanse.cli.join.move import Broker, Brokers, begin_move, retire_broker, set_moving
from hanse.cli.member_records import set_phase
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId
from tests.scenarios.disturbances import Disturbance, disturb
from tests.scenarios.services import ServicesScenario
from tests.support.faults import LinkFaults
from tests.support.scenario import Scenario, all_of

MoverDisturbance = Disturbance | Literal["late"]

LEASE = 6
"""Seconds that Leases last: longer than a watch with random latencies is late."""

A_WHILE = timedelta(seconds=12)
"""Longer than a Lease lasts, and several renewals."""

LONG = timedelta(seconds=75)
"""Longer than a cluster that never renewed its Lease is waited for."""

NEW = "lubeck"
"""The broker to which the fleet moves: a member's API server."""


LATE_SLICES = LinkFaults(lag=timedelta(seconds=1.5), lags="endpointslices")
"""Later than a Lease that is made, and earlier than its second renewal."""


async def add_moving_record(members: ServicesScenario, cluster: ClusterId) -> None:
    """Create the record of a cluster on the new broker, as `hanse join --from` does."""
    new = members.admin(NEW)
    await members.add_record(cluster)
    record = await new.read(ClusterMember, cluster, BROKER_NAMESPACE)
    await set_phase(new, record, "Joining")
    await set_moving(new, record, moving=True)


async def disturb_mover(scenario: Scenario, how: MoverDisturbance, cluster: ClusterId) -> None:
    """Disturb the agent of a cluster that has just moved, or delay what it sees of others."""
    if how == "late":
        scenario.network.link(cluster, NEW).faults = LATE_SLICES
    elif cluster != NEW:  # which has no other way to its broker than to itself
        await disturb(scenario, how, cluster)


@pytest.mark.parametrize(
    ("how", "pause"),
    [
        ("", A_WHILE),
        pytest.param("", LONG, marks=pytest.mark.virtual),
        pytest.param("late", A_WHILE, marks=pytest.mark.virtual),
        pytest.param("restarted", A_WHILE, marks=pytest.mark.virtual),
        pytest.param("cut", LONG, marks=pytest.mark.virtual),
    ],
)
async def test_a_fleet_moves_to_another_broker_and_nothing_vanishes(
    members: ServicesScenario, how: MoverDisturbance, pause: timedelta
) -> None:
    scenario, names = members.scenario, members.scenario.names
    old, new = (Broker(one, members.admin(one)) for one in (scenario.broker, NEW))
    brokers = Brokers(old, new, BROKER_NAMESPACE)
    await members.patch_clusterset({"leaseDurationSeconds": LEASE})
    for cluster in names:
        await members.serve_and_export(cluster)
    await scenario.eventually(members.everywhere("web", *names))
    held = all_of(*(members.imports(cluster, "web", *names) for cluster in names))

    scenario.broker = NEW
    await members.open(lease=LEASE)
    await begin_move(brokers, dry_run=False)
    async with asyncio.TaskGroup() as group:
        retired = group.create_task(retire_broker(brokers, dry_run=False), name="retire")
        for cluster in names:
            assert not retired.done()
            await add_moving_record(members, cluster)
            await scenario.stop_agent(cluster)
            await scenario.start_agent(cluster)
            group.create_task(disturb_mover(scenario, how, cluster), name="disturbance")
            await scenario.always(held, for_=pause)

    scenario.network.heal_all()
    for kind in (EndpointSlice, ClusterMember):
        left = await old.client.list(kind, namespace=BROKER_NAMESPACE)
        assert [one.name for one in left.objects] == [], kind
    listed = await new.client.list(ClusterMember, namespace=BROKER_NAMESPACE)
    moved = {(one.name, one.status.phase, one.status.moving) for one in listed.objects}
    assert moved == {(name, "Ready", False) for name in names}
    await scenario.always(held, for_=A_WHILE)
    await members.unexport("bergen", "web")
    await scenario.eventually(members.everywhere("web", *(set(names) - {"bergen"})))
    await scenario.kill_agent("hamburg")
    await scenario.eventually(members.imports("bergen", "web", "lubeck"))
