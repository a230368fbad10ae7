"""Random schedules of user actions, faults and time over a toy federation, with the laws to hold.

A schedule is a function of its seed: `python -m tests.runtime.schedules SEED [COUNT]` replays.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from datetime import timedelta
from random import Random
from typing import Any

import msgspec

from hanse.kube.errors import KubeError
from hanse.kube.transport import Request
from hanse.model.crds import crd_of
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.objects import Meta
from tests.runtime.write_audit import WriteAudit
from tests.support.builders import namespace
from tests.support.faults import LinkFaults
from tests.support.toy import HOME, OFFER, Toy
from tests.support.world import BROKER, World
from tinykube.controllers.controller_manager import ControllerManager
from tinykube.storage import Snapshot
from tinykube.virtual_time import run

SHOP = "shop"
NAMES = ("bread", "salt")
DEFINE_CLUSTER_SETS = Request(
    "POST",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    body=msgspec.json.encode(crd_of(ClusterSet)),
)
"""As every broker does; else each agent would look for the kind twice a minute."""

CLUSTERS = ("lubeck", "hamburg", "bergen")
NAMESPACES = frozenset({"namespace"})
BAD_LINK = LinkFaults(delay=timedelta(milliseconds=30), refused=0.15, lost=0.1, breaks=0.1)
Step = Callable[[], Coroutine[Any, Any, None]]


class LawViolation(AssertionError):
    """A law did not hold; the message says which and how to replay."""


class Schedule:
    """One world, the state that its users want, and the laws that must hold in it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        names = CLUSTERS[: 3 if self.random.random() < 0.2 else 2]
        skews = {n: timedelta(seconds=self.random.choice((0, 0, -70, 3600))) for n in names}
        self.world = World(names, lambda: (Toy(),), seed=seed, skews=skews)
        self.violations: list[str] = []
        self.audit = WriteAudit(self.world, SHOP, self.violations.append)
        self.deletes_namespaces = self.random.random() < 0.2
        self.backup: Snapshot | None = None
        self.without_namespace: set[str] = set()
        self.offers: dict[tuple[str, str], str] = {}
        self.withdrawn: set[str] = set()
        self.foreign: dict[tuple[str, str], str] = {}
        self.log: list[str] = []

    async def play(self) -> None:
        """Set up, play random steps, heal, and check the laws."""
        world = self.world
        for cluster in world.names:
            await world.client(cluster).create(namespace(SHOP))
        await world.client(BROKER).create(namespace(HOME))
        await world.client(BROKER).send(DEFINE_CLUSTER_SETS)
        controllers = [
            asyncio.create_task(ControllerManager(world.clusters[n], enabled=NAMESPACES).run())
            for n in (world.names if self.deletes_namespaces else ())
        ]
        for cluster in world.names:
            world.start_agent(cluster)
        try:
            for _ in range(self.random.randint(4, 14)):
                await self._random_step()
                self._check_nothing_lost()
            await self._heal()
            self._check_all()
            await self._check_no_writes()
        finally:
            await world.stop()
            for task in controllers:
                task.cancel()
            await asyncio.gather(*controllers, return_exceptions=True)

    async def _random_step(self) -> None:
        steps: tuple[tuple[Step, int], ...] = (
            (self._offer, 5),
            (self._withdraw, 2),
            (self._edit_copy, 2),
            (self._create_foreign, 1),
            (self._replace_copy, 3),
            (self._cut_link, 2),
            (self._heal_links, 1),
            (self._degrade_link, 2),
            (self._kill_or_start_agent, 2),
            (self._restart_isolated, 1),
            (self._crash_at_a_request, 2),
            (self._restart_server, 1),
            (self._lose_history, 1),
            (self._back_up, 1),
            (self._restore, 1 if self.backup is not None else 0),
            (self._delete_namespace, 2 if self.deletes_namespaces else 0),
        )
        step = self.random.choices([s for s, _ in steps], [w for _, w in steps])[0]
        await step()
        await asyncio.sleep(self.random.choice((0, 0.01, 0.1, 1, 10, 40)))

    def _log(self, text: str) -> None:
        self.log.append(f"{asyncio.get_running_loop().time():8.2f}  {text}")

    def _cluster(self) -> str:
        return self.random.choice(self.world.names)

    async def _offer(self) -> None:
        """A user creates an offer or edits it."""
        cluster, name = self._cluster(), self.random.choice(NAMES)
        if cluster not in self.without_namespace:
            await self._set_price(cluster, name)

    async def _set_price(self, cluster: str, name: str) -> None:
        price = str(self.random.randint(1, 99))
        client = self.world.client(cluster)
        if (cluster, name) in self.offers:
            await client.patch(ConfigMap, name, SHOP, {"data": {"price": price}})
        else:
            meta = Meta(name=name, namespace=SHOP, labels={OFFER: "yes"})
            await client.create(ConfigMap(metadata=meta, data={"price": price}))
        self.offers[cluster, name] = price
        self._log(f"{cluster} offers {name} for {price}")

    async def _withdraw(self) -> None:
        if not self.offers:
            return
        await self._delete_offer(*self.random.choice(sorted(self.offers)))

    async def _delete_offer(self, cluster: str, name: str) -> None:
        await self.world.client(cluster).delete(ConfigMap, name, SHOP)
        del self.offers[cluster, name]
        self.withdrawn.add(name)
        self._log(f"{cluster} withdraws {name}")

    async def _edit_copy(self) -> None:
        """A user edits or deletes an object of ours."""
        cluster, name = self._cluster(), f"copy-of-{self.random.choice(NAMES)}"
        if (cluster, name) in self.foreign:
            return
        client = self.world.client(cluster)
        try:
            with self.audit.by_hand(cluster):
                if self.random.random() < 0.5:
                    change = {"data": {"price": "free", "x": "y"}}
                    await client.patch(ConfigMap, name, SHOP, change)
                else:
                    await client.delete(ConfigMap, name, SHOP)
        except KubeError:
            return
        self._log(f"{cluster}: somebody meddles with {name}")

    async def _create_foreign(self) -> None:
        """A user creates an object with a name that we use."""
        cluster, name = self._cluster(), f"copy-of-{self.random.choice(NAMES)}"
        await self._take_name(cluster, name)

    async def _take_name(self, cluster: str, name: str) -> None:
        mine = ConfigMap(metadata=Meta(name=name, namespace=SHOP), data={"mine": "yes"})
        try:
            with self.audit.by_hand(cluster):
                made = await self.world.client(cluster).create(mine)
        except KubeError:
            return
        self.foreign[cluster, name] = made.metadata.resource_version
        self._log(f"{cluster}: somebody makes a {name} of their own")

    async def _replace_copy(self) -> None:
        """A user replaces a copy by an object of their own while the copy is written."""
        cluster = self._cluster()
        if not self.offers:
            await self._offer()
            await asyncio.sleep(1)
        theirs = sorted(k for k in self.offers if (cluster, f"copy-of-{k[1]}") not in self.foreign)
        if not theirs or cluster in self.without_namespace:
            return
        products = [name for _, name in self.offers]
        alone = [key for key in theirs if products.count(key[1]) == 1]
        withdrawn = alone and self.random.random() < 0.5
        seller, name = self.random.choice(alone if withdrawn else theirs)
        link = self.world.network.link(cluster, cluster)
        link.faults = LinkFaults(delay=timedelta(milliseconds=50))
        if withdrawn:
            await self._delete_offer(seller, name)
        else:
            await self._set_price(seller, name)
        await asyncio.sleep(self.random.choice((0, 0.01, 0.02, 0.04)))
        try:
            with self.audit.by_hand(cluster):
                await self.world.client(cluster).delete(ConfigMap, f"copy-of-{name}", SHOP)
        except KubeError:
            return
        await self._take_name(cluster, f"copy-of-{name}")

    async def _delete_namespace(self) -> None:
        """A user deletes the namespace with all that is in it, or creates it again."""
        cluster = self._cluster()
        client = self.world.client(cluster)
        if cluster in self.without_namespace:
            await client.create(namespace(SHOP))
            self.without_namespace.discard(cluster)
            self._log(f"{cluster} has its namespace again")
            return
        self.without_namespace.add(cluster)
        for lost in (self.offers, self.foreign):
            for key in [key for key in lost if key[0] == cluster]:
                del lost[key]
        with self.audit.by_hand(cluster):
            await client.delete(Namespace, SHOP, "")
            while self._namespace_exists(cluster):  # noqa: ASYNC110 - nobody else can tell
                await asyncio.sleep(0.1)
        self._log(f"{cluster} loses its namespace")

    def _namespace_exists(self, cluster: str) -> bool:
        return self.world.clusters[cluster].storage.get("namespaces", "", SHOP) is not None

    async def _back_up(self) -> None:
        self.backup = self.world.clusters[BROKER].storage.snapshot()
        self._log("the broker is backed up")

    async def _restore(self) -> None:
        """The broker is down for a while and comes back as it was when it was backed up."""
        assert self.backup is not None, "chosen only with a backup"
        up = [link for link in self.world.network.links_to(BROKER) if not link.cut]
        for link in up:
            self.world.network.cut(link.source, BROKER)
        await asyncio.sleep(self.random.choice((0.5, 5)))
        self.world.clusters[BROKER].storage.restore(self.backup)
        for link in up:
            self.world.network.heal(link.source, BROKER)
        self._log("the broker is restored from its backup")

    async def _cut_link(self) -> None:
        source = self._cluster()
        target = self.random.choice((source, BROKER))
        self.world.network.cut(source, target)
        self._log(f"{source} is cut off from {target}")

    async def _heal_links(self) -> None:
        self.world.network.heal_all()
        self._log("all links heal")

    async def _degrade_link(self) -> None:
        source = self._cluster()
        target = self.random.choice((source, BROKER))
        self.world.network.link(source, target).faults = BAD_LINK
        self._log(f"a storm between {source} and {target}")

    async def _kill_or_start_agent(self) -> None:
        cluster = self._cluster()
        if cluster in self.world.agents:
            await self.world.kill_agent(cluster)
            self._log(f"the agent of {cluster} is killed")
        else:
            self.world.start_agent(cluster)
            self._log(f"the agent of {cluster} starts")

    async def _restart_isolated(self) -> None:
        """An agent restarts without a link to the broker, and knows nothing of what is there."""
        cluster = self._cluster()
        self.world.network.cut(cluster, BROKER)
        if cluster in self.world.agents:
            await self.world.kill_agent(cluster)
        self.world.start_agent(cluster)
        self._log(f"the agent of {cluster} starts cut off from the broker")

    async def _crash_at_a_request(self) -> None:
        """An agent dies while it waits for an answer, and is started again."""
        crash = self.world.network.crash_at(self.random.randint(1, 12))
        done, _ = await asyncio.wait({crash}, timeout=30)
        self.world.network.cancel_crash()
        if done and crash.result() in self.world.agents:
            await self.world.kill_agent(crash.result())
            self.world.start_agent(crash.result())
            self._log(f"the agent of {crash.result()} crashed at a request")

    async def _restart_server(self) -> None:
        target = self.random.choice((*self.world.names, BROKER))
        for link in self.world.network.links_to(target):
            self.world.network.break_watches(link.source, target)
        self._log(f"the API server of {target} restarts")

    async def _lose_history(self) -> None:
        target = self.random.choice((*self.world.names, BROKER))
        self.world.clusters[target].storage.compact()
        await self._restart_server()
        self._log(f"{target} forgets its history")

    async def _heal(self) -> None:
        self.world.network.heal_all()
        for cluster in self.world.names:
            if cluster not in self.world.agents:
                self.world.start_agent(cluster)
        await self.world.settle(timedelta(minutes=12))  # what was refused is tried by then

    # -- the laws

    def _require(self, held: bool, law: str) -> None:
        if not held:
            story = "\n".join(self.log)
            raise LawViolation(f"{law}\nseed {self.seed}:\n{story}")

    def _objects(self, cluster: str, space: str) -> dict[str, dict[str, Any]]:
        listed = self.world.clusters[cluster].storage.objects("configmaps", space)
        return {o["metadata"]["name"]: o for o in listed}

    def _check_nothing_lost(self) -> None:
        """At any moment: what users made is there, and nothing went or came without a reason."""
        self._require(not self.violations, "; ".join(self.violations))
        for (cluster, name), price in self.offers.items():
            find_configmap = self._objects(cluster, SHOP).get(name)
            self._require(find_configmap is not None, f"{cluster} lost the offer {name}")
            assert find_configmap is not None
            self._require(
                find_configmap["data"] == {"price": price}, f"{cluster} has another {name}"
            )
        for (cluster, name), version in self.foreign.items():
            find_configmap = self._objects(cluster, SHOP).get(name)
            self._require(
                find_configmap is not None
                and find_configmap["metadata"]["resourceVersion"] == version,
                f"the foreign {name} of {cluster} was touched",
            )

    def _check_all(self) -> None:
        """In the end: everywhere exactly what users offer, nothing that they withdrew."""
        self._check_nothing_lost()
        for name in NAMES:
            offers = {c: p for (c, n), p in self.offers.items() if n == name}
            wanted = {c: msgspec.json.encode({"price": p}).decode() for c, p in offers.items()}
            for cluster in self.world.names:
                self._check_copy(cluster, name, wanted)
            total = self._objects(BROKER, HOME).get(f"sum.{SHOP}.{name}")
            data = total["data"] if total else None
            expected = {"clusters": ",".join(sorted(offers))} if offers else None
            self._require(data == expected, f"the sum of {name} is {data}, not {expected}")

    def _check_copy(self, cluster: str, name: str, wanted: dict[str, str]) -> None:
        copy, receipt = f"copy-of-{name}", f"receipt-of-{name}"
        if (cluster, copy) in self.foreign:
            return
        objects = self._objects(cluster, SHOP)
        if cluster in self.without_namespace:
            wanted = {}
        data = objects[copy]["data"] if copy in objects else {}
        self._require(data == wanted, f"{copy} in {cluster} is {data}, not {wanted}")
        clusters = objects[receipt]["data"]["from"] if receipt in objects else ""
        self._require(
            clusters == ",".join(sorted(wanted)), f"{receipt} in {cluster} says {clusters!r}"
        )

    async def _check_no_writes(self) -> None:
        """A settled fleet writes nothing, and neither does an agent that starts over it."""
        with self.world.network.counting_writes() as writes:
            await self.world.settle(timedelta(minutes=8))
            for cluster in self.world.names:
                await self.world.kill_agent(cluster)
                self.world.start_agent(cluster)
            await self.world.settle(timedelta(minutes=2))
        made = [(w.source, w.request.method, w.request.path, w.request.body) for w in writes]
        self._require(not made, f"a settled fleet wrote {made}")


def play(seed: int) -> None:
    """Play one schedule to its end."""

    async def run_schedule() -> None:
        await Schedule(seed).play()

    run(run_schedule())


def main() -> None:
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    for seed in range(first, first + count):
        play(seed)
    print(f"{count} schedules from seed {first}: every law held")  # noqa: T201


if __name__ == "__main__":
    main()
