"""Replicas keep apart by numbered places that they hold by Lease."""

import asyncio
from random import Random

import pytest

from hanse.kube.client import Client
from hanse.kube.lease import LeaseTimings
from hanse.local.in_process import InProcessTransport
from hanse.model.kinds.coordination import Lease
from hanse.runtime.replica_slots import ReplicaSlots
from tinykube.apiserver import ApiServer
from tinykube.virtual_time import ON_VIRTUAL_TIME, LoopClock

pytestmark = pytest.mark.anyio

PLACES = ("a", "b", "c")


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


class Replica:
    """One that wants a place."""

    def __init__(self, api: ApiServer, name: str, clock: LoopClock) -> None:
        self.place: int | None = None
        self._places = ReplicaSlots(
            Client(InProcessTransport(api)),
            "default",
            name,
            PLACES,
            clock=clock,
            random=Random(1),
            timings=LeaseTimings(),
        )
        self.task = asyncio.create_task(self._places.run(self._tell))

    def _tell(self, number: int | None) -> None:
        self.place = number

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


async def test_each_replica_has_a_slot_of_its_own_and_a_freed_one_is_taken_again() -> None:
    clock = LoopClock()
    api = ApiServer("lubeck", clock=clock)
    one, two = Replica(api, "one", clock), Replica(api, "two", clock)
    await asyncio.sleep(60)

    assert {one.place, two.place} == {0, 1}
    freed = one.place
    await one.end()
    three = Replica(api, "three", clock)
    await asyncio.sleep(60)

    assert three.place == freed
    held = await Client(InProcessTransport(api)).read(Lease, PLACES[three.place or 0], "default")
    assert held.spec.holder_identity == "three"
    for replica in (two, three):
        await replica.end()


async def test_a_replica_that_finds_all_slots_taken_waits_for_one() -> None:
    clock = LoopClock()
    api = ApiServer("lubeck", clock=clock)
    four = [Replica(api, f"r{number}", clock) for number in range(4)]
    await asyncio.sleep(60)
    waiting = [replica for replica in four if replica.place is None]
    assert len(waiting) == 1

    gone = next(replica for replica in four if replica.place is not None)
    await gone.end()
    await asyncio.sleep(120)

    assert waiting[0].place is not None
    for replica in four:
        await replica.end()
