"""Random schedules of users, faults and time over a toy federation, and the laws that must hold.

A schedule is a function of its seed: `python -m tests.engine.schedules SEED [COUNT]` replays.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from datetime import timedelta
from random import Random
from typing import Any

import msgspec

from hanse.kube.errors import KubeError
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import Meta
from hanse.testing.builders import namespace
from hanse.testing.faults import Weather
from hanse.testing.time import run
from hanse.testing.toy import HOME, OFFER, Toy
from hanse.testing.world import BROKER, World

SHOP = "shop"
NAMES = ("bread", "salt")
STORM = Weather(delay=timedelta(milliseconds=30), refused=0.15, lost=0.1, breaks=0.1)
Deed = Callable[[], Coroutine[Any, Any, None]]


class Broken(AssertionError):
    """A law did not hold; the message says which and how to replay."""


class Schedule:
    """One world, what its users did, and what has to be true of it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.world = World(("lubeck", "hamburg"), lambda: (Toy(),), seed=seed)
        self.offers: dict[tuple[str, str], str] = {}
        self.withdrawn: set[str] = set()
        self.foreign: dict[tuple[str, str], str] = {}
        self.story: list[str] = []

    async def play(self) -> None:
        """Set up, let things happen, heal, and look."""
        world = self.world
        for cluster in world.names:
            await world.client(cluster).create(namespace(SHOP))
        await world.client(BROKER).create(namespace(HOME))
        for cluster in world.names:
            world.start_agent(cluster)
        try:
            for _ in range(self.random.randint(4, 14)):
                await self._something_happens()
                self._check_nothing_lost()
            await self._heal()
            self._check_all()
            await self._check_silence()
        finally:
            await world.stop()

    async def _something_happens(self) -> None:
        deeds: tuple[tuple[Deed, int], ...] = (
            (self._offer, 5),
            (self._withdraw, 2),
            (self._meddle, 2),
            (self._squat, 1),
            (self._cut, 2),
            (self._mend, 1),
            (self._storm, 2),
            (self._kill, 2),
            (self._crash_at_a_request, 2),
            (self._restart_server, 1),
            (self._lose_history, 1),
        )
        deed = self.random.choices([d for d, _ in deeds], [w for _, w in deeds])[0]
        await deed()
        await asyncio.sleep(self.random.choice((0, 0.01, 0.1, 1, 10, 40)))

    def _tell(self, text: str) -> None:
        self.story.append(f"{asyncio.get_running_loop().time():8.2f}  {text}")

    def _cluster(self) -> str:
        return self.random.choice(self.world.names)

    async def _offer(self) -> None:
        """A user creates an offer or edits it."""
        cluster, name = self._cluster(), self.random.choice(NAMES)
        price = str(self.random.randint(1, 99))
        client = self.world.client(cluster)
        if (cluster, name) in self.offers:
            await client.patch(ConfigMap, name, SHOP, {"data": {"price": price}})
        else:
            meta = Meta(name=name, namespace=SHOP, labels={OFFER: "yes"})
            await client.create(ConfigMap(metadata=meta, data={"price": price}))
        self.offers[cluster, name] = price
        self._tell(f"{cluster} offers {name} for {price}")

    async def _withdraw(self) -> None:
        if not self.offers:
            return
        cluster, name = self.random.choice(sorted(self.offers))
        await self.world.client(cluster).delete(ConfigMap, name, SHOP)
        del self.offers[cluster, name]
        self.withdrawn.add(name)
        self._tell(f"{cluster} withdraws {name}")

    async def _meddle(self) -> None:
        """A user edits or deletes what is ours."""
        cluster, name = self._cluster(), f"copy-of-{self.random.choice(NAMES)}"
        if (cluster, name) in self.foreign:
            return
        client = self.world.client(cluster)
        try:
            if self.random.random() < 0.5:
                await client.patch(ConfigMap, name, SHOP, {"data": {"price": "free", "x": "y"}})
            else:
                await client.delete(ConfigMap, name, SHOP)
        except KubeError:
            return
        self._tell(f"{cluster}: somebody meddles with {name}")

    async def _squat(self) -> None:
        """A user takes a name that we would use."""
        cluster, name = self._cluster(), f"copy-of-{self.random.choice(NAMES)}"
        mine = ConfigMap(metadata=Meta(name=name, namespace=SHOP), data={"mine": "yes"})
        try:
            made = await self.world.client(cluster).create(mine)
        except KubeError:
            return
        self.foreign[cluster, name] = made.metadata.resource_version
        self._tell(f"{cluster}: somebody makes a {name} of their own")

    async def _cut(self) -> None:
        source = self._cluster()
        target = self.random.choice((source, BROKER))
        self.world.network.cut(source, target)
        self._tell(f"{source} is cut off from {target}")

    async def _mend(self) -> None:
        self.world.network.heal_all()
        self._tell("all links heal")

    async def _storm(self) -> None:
        source = self._cluster()
        target = self.random.choice((source, BROKER))
        self.world.network.link(source, target).weather = STORM
        self._tell(f"a storm between {source} and {target}")

    async def _kill(self) -> None:
        cluster = self._cluster()
        if cluster in self.world.agents:
            await self.world.kill_agent(cluster)
            self._tell(f"the agent of {cluster} is killed")
        else:
            self.world.start_agent(cluster)
            self._tell(f"the agent of {cluster} starts")

    async def _crash_at_a_request(self) -> None:
        """An agent dies while it waits for an answer, and is started again."""
        crash = self.world.network.crash_at(self.random.randint(1, 12))
        done, _ = await asyncio.wait({crash}, timeout=30)
        self.world.network.disarm()
        if done and crash.result() in self.world.agents:
            await self.world.kill_agent(crash.result())
            self.world.start_agent(crash.result())
            self._tell(f"the agent of {crash.result()} crashed at a request")

    async def _restart_server(self) -> None:
        target = self.random.choice((*self.world.names, BROKER))
        for link in self.world.network.links_to(target):
            self.world.network.break_watches(link.source, target)
        self._tell(f"the API server of {target} restarts")

    async def _lose_history(self) -> None:
        target = self.random.choice((*self.world.names, BROKER))
        self.world.clusters[target].storage.lose_history()
        await self._restart_server()
        self._tell(f"{target} forgets its history")

    async def _heal(self) -> None:
        self.world.network.heal_all()
        for cluster in self.world.names:
            if cluster not in self.world.agents:
                self.world.start_agent(cluster)
        await self.world.settle(timedelta(minutes=15))

    # -- the laws

    def _require(self, held: bool, law: str) -> None:
        if not held:
            story = "\n".join(self.story)
            raise Broken(f"{law}\nseed {self.seed}:\n{story}")

    def _objects(self, cluster: str, space: str) -> dict[str, dict[str, Any]]:
        listed = self.world.clusters[cluster].storage.objects("configmaps", space)
        return {o["metadata"]["name"]: o for o in listed}

    def _check_nothing_lost(self) -> None:
        """At any moment: what users made is there, and copies of a standing offer do not vanish."""
        for (cluster, name), price in self.offers.items():
            found = self._objects(cluster, SHOP).get(name)
            self._require(found is not None, f"{cluster} lost the offer {name}")
            assert found is not None
            self._require(found["data"] == {"price": price}, f"{cluster} has another {name}")
        for (cluster, name), version in self.foreign.items():
            found = self._objects(cluster, SHOP).get(name)
            self._require(
                found is not None and found["metadata"]["resourceVersion"] == version,
                f"the foreign {name} of {cluster} was touched",
            )

    def _check_all(self) -> None:
        """In the end: everywhere exactly what users offer, nothing that they withdrew."""
        self._check_nothing_lost()
        for name in NAMES:
            offers = {c: p for (c, n), p in self.offers.items() if n == name}
            wanted = {c: msgspec.json.encode({"price": p}).decode() for c, p in offers.items()}
            for cluster in self.world.names:
                self._check_copy(cluster, f"copy-of-{name}", wanted)
            total = self._objects(BROKER, HOME).get(f"sum.{SHOP}.{name}")
            told = total["data"] if total else None
            expected = {"clusters": ",".join(sorted(offers))} if offers else None
            self._require(told == expected, f"the sum of {name} is {told}, not {expected}")

    def _check_copy(self, cluster: str, copy: str, wanted: dict[str, str]) -> None:
        if (cluster, copy) in self.foreign:
            return
        found = self._objects(cluster, SHOP).get(copy)
        data = found["data"] if found else {}
        self._require(data == wanted, f"{copy} in {cluster} is {data}, not {wanted}")

    async def _check_silence(self) -> None:
        """A settled fleet writes nothing, and neither does an agent that starts over it."""
        with self.world.network.counting_writes() as writes:
            await self.world.settle(timedelta(minutes=20))
            for cluster in self.world.names:
                await self.world.kill_agent(cluster)
                self.world.start_agent(cluster)
            await self.world.settle(timedelta(minutes=5))
        made = [(w.source, w.request.method, w.request.path, w.request.body) for w in writes]
        self._require(not made, f"a settled fleet wrote {made}")


def play(seed: int) -> None:
    """Play one schedule to its end."""

    async def whole() -> None:
        await Schedule(seed).play()

    run(whole())


def main() -> None:
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    for seed in range(first, first + count):
        play(seed)
    print(f"{count} schedules from seed {first}: every law held")  # noqa: T201


if __name__ == "__main__":
    main()
