"""Random histories of a federation: users' actions, faults and crashes, and invariants."""

import asyncio
from datetime import timedelta
from random import Random

from hanse.features.federated.feature import FederatedServices
from hanse.features.federated.names import CLUSTER
from hanse.features.federated.names import FEDERATED as FEDERATED_ANNOTATION
from hanse.kube.errors import AlreadyExists, NotFound
from hanse.model.kinds.core import Service, ServicePort, ServiceSpec
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import ClusterId, Meta
from tests.features.federated.builders import GLOBAL_ANNOTATION, SHOP, pods
from tests.support.builders import namespace
from tests.support.faults import READ_METHODS, LinkFaults
from tests.support.supervised_world import SupervisedWorld
from tinykube.virtual_time import run

NAMES = ("lubeck", "hamburg", "bergen")
FEDERATED = ("web", "fish")
FLAKY_LINK = LinkFaults(delay=timedelta(milliseconds=300), refused=0.1, lost=0.1, breaks=0.05)


class History:
    """One federation, and the endpoints that it must have after all actions."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = SupervisedWorld(NAMES, 2, lambda: (FederatedServices(),), seed=seed)
        self.members: dict[tuple[ClusterId, str], set[str]] = {}
        """The pods of each Service that joins, by cluster and federated Service."""
        self._addresses = 0
        self._present: set[tuple[ClusterId, ClusterId, str]] = set()
        """(cluster, source, federated Service) with all endpoints, not changed by a user since."""

    async def play(self, steps: int) -> None:
        world = self.world
        await world.open()
        for name in NAMES:
            await world.admin(name).create(namespace(SHOP))
        service = Service(
            metadata=Meta(name="fish", namespace=SYSTEM),
            spec=ServiceSpec(ports=(ServicePort(port=7, name="theirs"),)),
        )
        foreign = await world.admin("hamburg").create(service)
        async with world.running():
            for _ in range(steps):
                await self._check_nothing_vanished()
                await self._step()
                await asyncio.sleep(self.random.choice((0, 0.05, 1, 7, 25)))
            await self._heal_and_settle()
            await self._check(foreign)

    async def _check_nothing_vanished(self) -> None:
        """Endpoints that no user changed are still there, whatever failed."""
        for name in NAMES:
            for federated in FEDERATED:
                found = await self._endpoints(name, federated)
                for (where, joined), addresses in self.members.items():
                    key = (name, where, federated)
                    complete = (
                        joined == federated and bool(addresses) and found.get(where) == addresses
                    )
                    assert complete or joined != federated or key not in self._present, (
                        f"{key} vanished"
                    )
                    if complete:
                        self._present.add(key)

    def _forget_presence(self, where: ClusterId, federated: str) -> None:
        self._present = {p for p in self._present if p[1:] != (where, federated)}

    async def _step(self) -> None:
        actions = (
            self._join,
            self._scale,
            self._scale,
            self._leave,
            self._cut_link,
            self._degrade_link,
        )
        faults = (self._crash, self._delete_generated, self._heal)
        await self.random.choice((*actions, *faults))()

    def _address(self) -> str:
        self._addresses += 1
        return f"10.9.{self._addresses // 200}.{self._addresses % 200 + 1}"

    async def _join(self) -> None:
        where, federated = self.random.choice(NAMES), self.random.choice(FEDERATED)
        name = f"{federated}-{where}"
        service = Service(
            metadata=Meta(name=name, namespace=SHOP, annotations={GLOBAL_ANNOTATION: federated}),
            spec=ServiceSpec(ports=(ServicePort(port=80, name="http"),)),
        )
        try:
            await self.world.admin(where).create(service)
        except AlreadyExists:
            return
        addresses = {self._address()}
        self.members[where, federated] = addresses
        await self.world.admin(where).create(pods(name, *addresses))

    async def _scale(self) -> None:
        if not self.members:
            return
        where, federated = self.random.choice(sorted(self.members))
        addresses = {self._address() for _ in range(self.random.randrange(4))}
        self.members[where, federated] = addresses
        self._forget_presence(where, federated)
        change = [{"addresses": [a], "conditions": {"ready": True}} for a in sorted(addresses)]
        await self.world.admin(where).patch(
            EndpointSlice, f"{federated}-{where}-pods", SHOP, {"endpoints": change}
        )

    async def _leave(self) -> None:
        if not self.members:
            return
        where, federated = self.random.choice(sorted(self.members))
        del self.members[where, federated]
        self._forget_presence(where, federated)
        admin = self.world.admin(where)
        await admin.delete(Service, f"{federated}-{where}", SHOP)
        await admin.delete(EndpointSlice, f"{federated}-{where}-pods", SHOP)

    async def _cut_link(self) -> None:
        self.world.network.cut(
            self.random.choice(self.world.supervisor_names), self.random.choice(NAMES)
        )

    async def _degrade_link(self) -> None:
        link = self.world.network.link(
            self.random.choice(self.world.supervisor_names), self.random.choice(NAMES)
        )
        link.faults = FLAKY_LINK

    async def _heal(self) -> None:
        self.world.network.heal_all()

    async def _crash(self) -> None:
        name = self.random.choice(self.world.supervisor_names)
        if name in self.world.supervisors:
            await self.world.kill(name)
        else:
            self.world.start(name)

    async def _delete_generated(self) -> None:
        """A user deletes a generated slice."""
        name = self.random.choice(NAMES)
        self._present = {p for p in self._present if p[0] != name}
        admin = self.world.admin(name)
        listed = (await admin.list(EndpointSlice, namespace=SYSTEM)).objects
        if listed:
            chosen = self.random.choice(sorted(listed, key=lambda s: s.metadata.name))
            try:
                await admin.delete(EndpointSlice, chosen.metadata.name, SYSTEM)
            except NotFound:
                return

    async def _heal_and_settle(self) -> None:
        self.world.network.heal_all()
        for name in self.world.supervisor_names:
            if name not in self.world.supervisors:
                self.world.start(name)
        await self.world.settle(timedelta(minutes=10))

    async def _check(self, foreign: Service) -> None:
        start = len(self.world.network.sent)
        for name in NAMES:
            for federated in FEDERATED:
                found = await self._endpoints(name, federated)
                assert found == self._expected(name, federated), (
                    f"{name} has {federated} as {found}"
                )
        current = await self.world.admin("hamburg").read(Service, "fish", SYSTEM)
        assert (current.metadata.uid, current.spec) == (foreign.metadata.uid, foreign.spec)
        await self.world.settle(timedelta(minutes=5))
        written = [
            f"{s.source}: {s.request.method} {s.target}{s.request.path}"
            for s in self.world.network.sent[start:]
            if s.request.method not in READ_METHODS and "/leases" not in s.request.path
        ]
        assert written == []

    def _expected(self, where: ClusterId, federated: str) -> dict[str, set[str]]:
        if (where, federated) == ("hamburg", "fish"):
            return {}  # a foreign Service has that name there
        return {
            c: addresses
            for (c, f), addresses in self.members.items()
            if f == federated and addresses
        }

    async def _endpoints(self, where: ClusterId, federated: str) -> dict[str, set[str]]:
        """The endpoints of a federated Service, by source cluster; empty without the Service."""
        services = (await self.world.admin(where).list(Service, namespace=SYSTEM)).objects
        if not any(
            s.name == federated and FEDERATED_ANNOTATION in s.metadata.annotations for s in services
        ):
            return {}
        listed = await self.world.admin(where).list(
            EndpointSlice, namespace=SYSTEM, labels=f"{KUBE_SERVICE}={federated}"
        )
        addresses: dict[str, set[str]] = {}
        for endpoint_slice in listed.objects:
            source = endpoint_slice.metadata.annotations[CLUSTER]
            addresses.setdefault(source, set()).update(
                a for e in endpoint_slice.endpoints or () for a in e.addresses
            )
        return addresses


def replay(seed: int, steps: int = 30) -> None:
    """Play one history to its end; fails with the first broken invariant."""

    async def history() -> None:
        await History(seed).play(steps)

    run(history())
