"""Sets over larger fleets, of the sizes in the design, with an agent per cluster."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from hanse.features.statefulsets.feature import StatefulSets
from hanse.kube.lease import format_micro_time, new_lease
from hanse.kube.transport import Request
from hanse.model.crds import crd_of
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.coordination import LeaseSpec
from hanse.model.kinds.hanse import FederatedStatefulSet
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetShares
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import Meta
from tests.scenarios.statefulsets import spec_of
from tests.support.builders import namespace
from tests.support.world import BROKER, World
from tinykube.virtual_time import ON_VIRTUAL_TIME

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


async def create_fleet(count: int) -> World:
    """A world of so many clusters, without controllers, since pods are not needed."""
    names = [f"c{number:02}" for number in range(count)]
    world = World(names, lambda: (StatefulSets(BROKER_NAMESPACE),))
    for name in (*names, BROKER):
        client = world.client(name)
        for kind in (FederatedStatefulSet, StatefulSetPart, StatefulSetShares):
            body = msgspec.json.encode(crd_of(kind))
            await client.send(Request("POST", CRDS, body=body))
    door = world.client(BROKER)
    await door.create(namespace(BROKER_NAMESPACE))
    await door.create(namespace("shop"))
    for name in names:
        spec = LeaseSpec(
            holder_identity=name,
            lease_duration_seconds=100_000,
            renew_time=format_micro_time(world.clock.now()),
        )
        await door.create(new_lease(BROKER_NAMESPACE, name, spec))
    return world


async def shares(world: World) -> list[int]:
    found = []
    for name in world.names:
        sets = (await world.client(name).list(StatefulSet, namespace="shop")).objects
        found.append(sum(one.spec.replicas for one in sets))
    return found


@pytest.mark.parametrize(
    ("count", "steps"),
    [
        pytest.param(10, (0, 1, 4, 11, 30), id="up to thirty over ten"),
        pytest.param(5, (3, 100), id="a hundred over five"),
    ],
)
async def test_every_cluster_runs_its_share(count: int, steps: tuple[int, ...]) -> None:
    world = await create_fleet(count)
    set_ = StatefulSet(metadata=Meta(name="store", namespace="shop"), spec=spec_of(0))
    await world.client(BROKER).create(set_)
    async with world.agents_running():
        for wanted in steps:
            change = {"spec": {"replicas": wanted}}
            await world.client(BROKER).patch(StatefulSet, "store", "shop", change)
            await asyncio.sleep(timedelta(seconds=30).total_seconds())

            found = await shares(world)
            assert sum(found) == wanted
            assert max(found) - min(found) <= 1, found


async def test_a_scaling_costs_one_write_of_shares_and_one_in_each_cluster_that_changes() -> None:
    world = await create_fleet(10)
    set_ = StatefulSet(metadata=Meta(name="store", namespace="shop"), spec=spec_of(10))
    await world.client(BROKER).create(set_)
    async with world.agents_running():
        await world.settle()
        with world.network.counting_writes() as writes:
            change = {"spec": {"replicas": 13}}
            await world.client(BROKER).patch(StatefulSet, "store", "shop", change)
            await world.settle()

    def of(kind: str) -> int:
        return sum(f"/{kind}/" in write.request.path for write in writes)

    assert of("statefulsetshares") == 1
    assert sum(w.target != BROKER for w in writes) == 3
    assert of("statefulsetparts") == 3
    assert len(writes) <= 1 + 3 + 3 + 4, "the rest is the status on the broker"
