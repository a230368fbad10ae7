"""Random histories of a federation: people, faults and crashes, and what must hold at the end."""

import asyncio
from datetime import timedelta
from random import Random

from hanse.features.federated.feature import FederatedServices
from hanse.features.federated.names import CLUSTER
from hanse.features.federated.names import FEDERATED as MARK
from hanse.kube.errors import AlreadyExists, NotFound
from hanse.model.kinds.core import Service, ServicePort, ServiceSpec
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import ClusterId, Meta
from tests.features.federated.builders import GLOBAL_MARK, SHOP
from tests.features.federated.people import pods
from tests.support.builders import namespace
from tests.support.faults import READ_METHODS, LinkFaults
from tests.support.supervised_world import SupervisedWorld
from tinykube.virtual_time import run

NAMES = ("lubeck", "hamburg", "bergen")
FEDERATED = ("web", "fish")
STORM = LinkFaults(delay=timedelta(milliseconds=300), refused=0.1, lost=0.1, breaks=0.05)


class History:
    """One federation and what its people did, so that the end can be told from the beginning."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = SupervisedWorld(NAMES, 2, lambda: (FederatedServices(),), seed=seed)
        self.members: dict[tuple[ClusterId, str], set[str]] = {}
        """The pods of each Service that joins, by cluster and federated Service."""
        self._addresses = 0
        self._present: set[tuple[ClusterId, ClusterId, str]] = set()
        """Where all endpoints of a member were seen, and nobody touched either since."""

    async def play(self, steps: int) -> None:
        world = self.world
        await world.open()
        for name in NAMES:
            await world.admin(name).create(namespace(SHOP))
        theirs = Service(
            metadata=Meta(name="fish", namespace=SYSTEM),
            spec=ServiceSpec(ports=(ServicePort(port=7, name="theirs"),)),
        )
        foreign = await world.admin("hamburg").create(theirs)
        async with world.running():
            for _ in range(steps):
                await self._nothing_vanished()
                await self._step()
                await asyncio.sleep(self.random.choice((0, 0.05, 1, 7, 25)))
            await self._calm()
            await self._check(foreign)

    async def _nothing_vanished(self) -> None:
        """Whatever fails meanwhile, what people did not touch stays where it was."""
        for name in NAMES:
            for of in FEDERATED:
                found = await self._endpoints(name, of)
                for (where, joined), told in self.members.items():
                    key = (name, where, of)
                    whole = joined == of and bool(told) and found.get(where) == told
                    assert whole or joined != of or key not in self._present, f"{key} vanished"
                    if whole:
                        self._present.add(key)

    def _touched(self, where: ClusterId, of: str) -> None:
        self._present = {p for p in self._present if p[1:] != (where, of)}

    async def _step(self) -> None:
        acts = (self._join, self._scale, self._scale, self._leave, self._cut, self._storm)
        faults = (self._crash, self._meddle, self._heal)
        await self.random.choice((*acts, *faults))()

    def _address(self) -> str:
        self._addresses += 1
        return f"10.9.{self._addresses // 200}.{self._addresses % 200 + 1}"

    async def _join(self) -> None:
        where, of = self.random.choice(NAMES), self.random.choice(FEDERATED)
        name = f"{of}-{where}"
        service = Service(
            metadata=Meta(name=name, namespace=SHOP, annotations={GLOBAL_MARK: of}),
            spec=ServiceSpec(ports=(ServicePort(port=80, name="http"),)),
        )
        try:
            await self.world.admin(where).create(service)
        except AlreadyExists:
            return
        told = {self._address()}
        self.members[where, of] = told
        await self.world.admin(where).create(pods(name, *told))

    async def _scale(self) -> None:
        if not self.members:
            return
        where, of = self.random.choice(sorted(self.members))
        told = {self._address() for _ in range(self.random.randrange(4))}
        self.members[where, of] = told
        self._touched(where, of)
        change = [{"addresses": [a], "conditions": {"ready": True}} for a in sorted(told)]
        await self.world.admin(where).patch(
            EndpointSlice, f"{of}-{where}-pods", SHOP, {"endpoints": change}
        )

    async def _leave(self) -> None:
        if not self.members:
            return
        where, of = self.random.choice(sorted(self.members))
        del self.members[where, of]
        self._touched(where, of)
        admin = self.world.admin(where)
        await admin.delete(Service, f"{of}-{where}", SHOP)
        await admin.delete(EndpointSlice, f"{of}-{where}-pods", SHOP)

    async def _cut(self) -> None:
        self.world.network.cut(
            self.random.choice(self.world.supervisor_names), self.random.choice(NAMES)
        )

    async def _storm(self) -> None:
        link = self.world.network.link(
            self.random.choice(self.world.supervisor_names), self.random.choice(NAMES)
        )
        link.faults = STORM

    async def _heal(self) -> None:
        self.world.network.heal_all()

    async def _crash(self) -> None:
        name = self.random.choice(self.world.supervisor_names)
        if name in self.world.supervisors:
            await self.world.kill(name)
        else:
            self.world.start(name)

    async def _meddle(self) -> None:
        """Somebody deletes one of the things that we made."""
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

    async def _calm(self) -> None:
        self.world.network.heal_all()
        for name in self.world.supervisor_names:
            if name not in self.world.supervisors:
                self.world.start(name)
        await self.world.settle(timedelta(minutes=10))

    async def _check(self, foreign: Service) -> None:
        start = len(self.world.network.sent)
        for name in NAMES:
            for of in FEDERATED:
                found = await self._endpoints(name, of)
                assert found == self._wanted(name, of), f"{name} has {of} as {found}"
        standing = await self.world.admin("hamburg").read(Service, "fish", SYSTEM)
        assert (standing.metadata.uid, standing.spec) == (foreign.metadata.uid, foreign.spec)
        await self.world.settle(timedelta(minutes=5))
        written = [
            f"{s.source}: {s.request.method} {s.target}{s.request.path}"
            for s in self.world.network.sent[start:]
            if s.request.method not in READ_METHODS and "/leases" not in s.request.path
        ]
        assert written == []

    def _wanted(self, where: ClusterId, of: str) -> dict[str, set[str]]:
        if (where, of) == ("hamburg", "fish"):
            return {}  # a foreign Service has that name there
        return {c: told for (c, f), told in self.members.items() if f == of and told}

    async def _endpoints(self, where: ClusterId, of: str) -> dict[str, set[str]]:
        """What a federated Service leads to, by where that is; nothing without the Service."""
        services = (await self.world.admin(where).list(Service, namespace=SYSTEM)).objects
        if not any(s.name == of and MARK in s.metadata.annotations for s in services):
            return {}
        listed = await self.world.admin(where).list(
            EndpointSlice, namespace=SYSTEM, labels=f"{KUBE_SERVICE}={of}"
        )
        told: dict[str, set[str]] = {}
        for endpoint_slice in listed.objects:
            source = endpoint_slice.metadata.annotations[CLUSTER]
            told.setdefault(source, set()).update(
                a for e in endpoint_slice.endpoints or () for a in e.addresses
            )
        return told


def replay(seed: int, steps: int = 30) -> None:
    """Play one history to its end; fails as the first law that it breaks."""

    async def history() -> None:
        await History(seed).play(steps)

    run(history())
