"""Random schedules of user actions, faults and time over one federated set, and their laws.

A schedule is a function of its seed, and `python -m tests.features.statefulsets.schedules SEED`
replays it.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import cache
from random import Random
from typing import Any

import msgspec

from hanse.features.statefulsets.feature import StatefulSets
from hanse.features.statefulsets.names import LB_NEEDED
from hanse.kube.errors import KubeError
from hanse.kube.lease import format_micro_time, new_lease
from hanse.kube.transport import Request
from hanse.model.crds import crd_of
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.coordination import LeaseSpec
from hanse.model.kinds.core import Service
from hanse.model.kinds.hanse import FederatedStatefulSet
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetShares
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import Meta
from hanse.model.ownership import OWNER
from tests.scenarios.statefulsets import headless, spec_of
from tests.support.builders import namespace
from tests.support.faults import LinkFaults
from tests.support.world import BROKER, World
from tinykube.virtual_time import run

SHOP = "shop"
CLUSTERS = ("bergen", "hamburg", "lubeck")
STORM = LinkFaults(delay=timedelta(milliseconds=30), refused=0.15, lost=0.1, breaks=0.1)
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LONG = 100_000
Action = Callable[[], Coroutine[Any, Any, None]]


class Broken(AssertionError):
    """A law did not hold; the message says which and how to replay."""


@cache
def _definitions() -> tuple[bytes, ...]:
    kinds = (FederatedStatefulSet, StatefulSetPart, StatefulSetShares)
    return tuple(msgspec.json.encode(crd_of(kind)) for kind in kinds)


class Schedule:
    """One world with one set; no controllers run, since shares do not depend on pods."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.world = World(CLUSTERS, lambda: (StatefulSets(BROKER_NAMESPACE),), seed=seed)
        self.log: list[str] = []
        self.wanted = 0
        self.balanced = False
        self.backup = self.world.clusters[BROKER].storage.snapshot()

    async def play(self, actions: int = 12) -> None:
        await self._set_up()
        for _ in range(actions):
            deed = self.random.choices(*zip(*self._actions(), strict=True))[0]
            try:
                await deed()
            except KubeError as error:
                self._log(f"… {error}")
            await asyncio.sleep(self.random.choice((0, 0.05, 1, 20)))
        self.world.network.heal_all()
        for name in CLUSTERS:
            if name not in self.world.agents:
                self.world.start_agent(name)
        await self.world.settle(timedelta(minutes=20))
        await self._check_laws()
        await self.world.stop()

    def _actions(self) -> list[tuple[Action, int]]:
        return [
            (self._scale, 5),
            (self._toggle_load_balancers, 2),
            (self._change_template, 1),
            (self._edit_owned_objects, 2),
            (self._delete_shares, 1),
            (self._restore_broker_without_set, 1),
            (self._cut, 2),
            (self._disturb_link, 2),
            (self._heal, 2),
            (self._kill_or_start_agent, 2),
            (self._crash, 3),
        ]

    async def _set_up(self) -> None:
        for name in (*CLUSTERS, BROKER):
            client = self.world.client(name)
            for definition in _definitions():
                await client.send(Request("POST", CRDS, body=definition))
            await client.create(namespace(SHOP))
        broker = self.world.client(BROKER)
        await broker.create(namespace(BROKER_NAMESPACE))
        for name in CLUSTERS:
            spec = LeaseSpec(
                holder_identity=name,
                lease_duration_seconds=LONG,
                renew_time=format_micro_time(self.world.clock.now()),
            )
            await broker.create(new_lease(BROKER_NAMESPACE, name, spec))
        self.backup = self.world.clusters[BROKER].storage.snapshot()
        self.wanted = self.random.randint(0, 7)
        await self._submit()
        for name in CLUSTERS:
            self.world.start_agent(name)

    async def _submit(self) -> None:
        broker = self.world.client(BROKER)
        await broker.create(headless("etcd", SHOP))
        annotations = {LB_NEEDED: "true"} if self.balanced else {}
        meta = Meta(name="store", namespace=SHOP, annotations=annotations)
        await broker.create(StatefulSet(metadata=meta, spec=spec_of(self.wanted)))

    async def _scale(self) -> None:
        self.wanted = self.random.randint(0, 9)
        self._log(f"scaled to {self.wanted}")
        await self._edit({"spec": {"replicas": self.wanted}})

    async def _toggle_load_balancers(self) -> None:
        self.balanced = not self.balanced
        self._log(f"balancers {'on' if self.balanced else 'off'}")
        value = "true" if self.balanced else "false"
        await self._edit({"metadata": {"annotations": {LB_NEEDED: value}}})

    async def _change_template(self) -> None:
        image = f"etcd:{self.random.randint(1, 9)}"
        self._log(f"image {image}")
        await self._edit({"spec": {"template": spec_of(image=image).template}})

    async def _edit(self, change: dict[str, Any]) -> None:
        await self.world.client(BROKER).patch(StatefulSet, "store", SHOP, change)

    async def _edit_owned_objects(self) -> None:
        """Somebody edits or deletes what is in a cluster."""
        name = self.random.choice(CLUSTERS)
        client = self.world.client(name)
        self._log(f"somebody meddles in {name}")
        if self.random.random() < 0.5:
            await client.delete(StatefulSet, f"store-{name}", SHOP)
        else:
            change = {"spec": {"replicas": self.random.randint(0, 9)}}
            await client.patch(StatefulSet, f"store-{name}", SHOP, change)

    async def _delete_shares(self) -> None:
        self._log("somebody deletes the shares")
        await self.world.client(BROKER).delete(StatefulSetShares, "store", SHOP)

    async def _restore_broker_without_set(self) -> None:
        """The broker is restored from before the set existed; people submit it again, later.

        What runs is left alone meanwhile, whoever has just begun to look.
        """
        self._log("the broker is restored")
        for name in CLUSTERS:
            self.world.network.break_watches(name, BROKER)
        self.world.clusters[BROKER].storage.restore(self.backup)
        ran = await self._running()
        await asyncio.sleep(self.random.choice((0.1, 10, 300)))
        runs = await self._running()
        self._require(ran <= runs, f"{ran - runs} was not deleted for want of the set")
        self._log("the set is submitted again")
        await self._submit()

    async def _running(self) -> set[str]:
        """The uids of what runs in all clusters."""
        sets = [
            one
            for name in CLUSTERS
            for one in (await self.world.client(name).list(StatefulSet, namespace=SHOP)).objects
        ]
        return {s.metadata.uid for s in sets if s.metadata.deletion_timestamp is None}

    async def _cut(self) -> None:
        name = self.random.choice(CLUSTERS)
        self._log(f"{name} is cut off")
        self.world.network.cut(name, BROKER)

    async def _disturb_link(self) -> None:
        name = self.random.choice(CLUSTERS)
        self._log(f"storm around {name}")
        for target in (name, BROKER):
            self.world.network.link(name, target).faults = STORM

    async def _heal(self) -> None:
        self._log("fair weather")
        self.world.network.heal_all()

    async def _kill_or_start_agent(self) -> None:
        name = self.random.choice(CLUSTERS)
        self._log(f"the agent of {name} is killed or started")
        if name in self.world.agents:
            await self.world.kill_agent(name)
        else:
            self.world.start_agent(name)

    async def _crash(self) -> None:
        """An agent dies at the very moment of a request, and another takes its place."""
        crash = self.world.network.crash_at(self.random.randint(1, 12))
        await self._scale()
        done, _ = await asyncio.wait({crash}, timeout=30)
        self.world.network.cancel_crash()
        if done and crash.result() in self.world.agents:
            self._log(f"the agent of {crash.result()} crashed")
            await self.world.kill_agent(crash.result())
            self.world.start_agent(crash.result())

    async def _check_laws(self) -> None:
        """Every law, once the fleet is whole and had time."""
        record = await self.world.client(BROKER).read(StatefulSetShares, "store", SHOP)
        shares = {share.name: share.replicas for share in record.spec.shares}
        self._require(sum(shares.values()) == self.wanted, f"shares {shares} are {self.wanted}")
        for name in CLUSTERS:
            await self._check_cluster(name, shares.get(name, 0))
        broker = await self.world.client(BROKER).read(StatefulSet, "store", SHOP)
        conditions = {c.type: c.reason for c in broker.status.conditions}
        self._require(conditions.get("Placed") == "Placed", f"all are placed: {conditions}")
        with self.world.network.counting_writes() as writes:
            await self.world.settle(timedelta(minutes=10))
        self._require(not writes, f"nothing is written any more: {writes[:3]}")

    async def _check_cluster(self, name: str, share: int) -> None:
        client = self.world.client(name)
        sets = (await client.list(StatefulSet, namespace=SHOP)).objects
        found = {s.metadata.name: s.spec.replicas for s in sets}
        expected = {f"store-{name}": share} if share else {}
        self._require(found == expected, f"{name} has {expected}, not {found}")
        services = (await client.list(Service, namespace=SHOP)).objects
        load_balancers = {s.metadata.name for s in services if s.spec.type == "LoadBalancer"}
        replicas = {f"store-{name}-{n}" for n in range(share if self.balanced else 0)}
        self._require(
            load_balancers == replicas, f"{name} has balancers {replicas}, not {load_balancers}"
        )
        copied = [s for s in services if s.metadata.name == "etcd" and OWNER in s.metadata.labels]
        self._require(len(copied) == 1, f"{name} has the headless Service")

    def _require(self, holds: bool, message: str) -> None:
        if not holds:
            log = "\n".join(self.log)
            replay = f"python -m tests.features.statefulsets.schedules {self.seed}"
            raise Broken(f"it should be that {message}; replay: {replay}\n{log}")

    def _log(self, message: str) -> None:
        self.log.append(f"{self.world.clock.now():%H:%M:%S.%f} {message}")


def play(seed: int) -> None:
    """One schedule on virtual time; raises `Broken`."""

    async def from_the_start() -> None:
        await Schedule(seed).play()

    run(from_the_start())


if __name__ == "__main__":
    first = int(sys.argv[1])
    for one in range(first, first + int(sys.argv[2] if len(sys.argv) > 2 else 1)):
        play(one)
