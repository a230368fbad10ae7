"""A fleet moves to another broker: nothing vanishes, whatever happens in the middle."""

import asyncio
from datetime import timedelta

import pytest

from hanse.cli.join.move import Broker, Brokers, begin_move, retire_broker, set_moving
from hanse.cli.member_records import set_phase
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.naming import BROKER_NAMESPACE
from tests.scenarios.disturbances import Disturbance, disturb
from tests.scenarios.services import ServicesScenario
from tests.support.scenario import all_of

A_WHILE = timedelta(seconds=12)
"""Longer than the fleet's lease duration of 3 s and several renewals."""

LONG = timedelta(seconds=75)
"""Longer than a cluster that never renewed its Lease is waited for."""

NEW = "lubeck"
"""The broker to which the fleet moves: a member's API server."""


@pytest.mark.races("an agent that starts may see the Lease of a new broker before the slices")
@pytest.mark.parametrize(
    ("how", "pause"),
    [
        ("", A_WHILE),
        pytest.param("", LONG, marks=pytest.mark.virtual),
        pytest.param("restarted", A_WHILE, marks=pytest.mark.virtual),
        pytest.param("cut", LONG, marks=pytest.mark.virtual),
    ],
)
async def test_a_fleet_moves_to_another_broker_and_nothing_vanishes(
    members: ServicesScenario, how: Disturbance, pause: timedelta
) -> None:
    scenario, names = members.scenario, members.scenario.names
    old = Broker(scenario.broker, members.admin(scenario.broker))
    brokers = Brokers(old, Broker(NEW, members.admin(NEW)), BROKER_NAMESPACE)
    for cluster in names:
        await members.serve_and_export(cluster)
    await scenario.eventually(members.everywhere("web", *names))
    held = all_of(*(members.imports(cluster, "web", *names) for cluster in names))

    scenario.broker = NEW
    await members.open()
    await begin_move(brokers, dry_run=False)
    async with asyncio.TaskGroup() as group:
        retired = group.create_task(retire_broker(brokers, dry_run=False), name="retire")
        for cluster in names:
            assert not retired.done()
            await members.add_record(cluster)
            record = await members.admin(NEW).read(ClusterMember, cluster, BROKER_NAMESPACE)
            await set_phase(members.admin(NEW), record, "Joining")
            await set_moving(members.admin(NEW), record, moving=True)
            await scenario.stop_agent(cluster)
            await scenario.start_agent(cluster)
            if cluster != NEW:  # which has no other way to its broker than to itself
                group.create_task(disturb(scenario, how, cluster), name="disturbance")
            await scenario.always(held, for_=pause)

    for kind in (EndpointSlice, ClusterMember):
        listed = await old.client.list(kind, namespace=BROKER_NAMESPACE)
        assert [one.name for one in listed.objects] == [], kind
    moved = await members.admin(NEW).list(ClusterMember, namespace=BROKER_NAMESPACE)
    assert {(one.name, one.status.phase, one.status.moving) for one in moved.objects} == {
        (name, "Ready", False) for name in names
    }
    await scenario.always(held, for_=A_WHILE)
    await members.unexport("bergen", "web")
    await scenario.eventually(members.everywhere("web", *(set(names) - {"bergen"})))
    await scenario.kill_agent("hamburg")
    await scenario.eventually(members.imports("bergen", "web", "lubeck"))
