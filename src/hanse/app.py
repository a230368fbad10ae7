"""The composition root: the only file that knows every part."""

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

from msgspec import Struct

from hanse.engine.api import KubeApi
from hanse.engine.engine import Engine
from hanse.engine.health import serving
from hanse.engine.leaders import Leaders
from hanse.kube.client import Client
from hanse.kube.clock import Clock, WallClock
from hanse.kube.lease import Terms
from hanse.kube.request import Transport
from hanse.model.facts import Role
from hanse.model.objects import ClusterId
from hanse.model.plan import Feature

SYSTEM_NAMESPACE = "hanse-system"
BROKER: ClusterId = "broker"


def features() -> tuple[Feature, ...]:
    """Every feature of the product; a new one is named here."""
    return ()


class Settings(Struct, frozen=True):
    """What an agent is told when it starts."""

    cluster: ClusterId
    identity: str
    """Who this replica is among those of its cluster: a pod's name."""
    namespace: str = SYSTEM_NAMESPACE
    replicated: bool = True
    """Whether other replicas may run, so that a Lease decides which of them works."""
    terms: Terms = Terms()


class Agent:
    """One cluster's agent: it watches, decides and writes."""

    def __init__(
        self,
        settings: Settings,
        home: Transport,
        *,
        broker: Transport | None = None,
        features: Sequence[Feature] = (),
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        clock = clock or WallClock()
        random = random or Random()  # noqa: S311 - spreads retries, guards nothing
        self.settings = settings
        self._home = Client(home)
        self.engine = Engine(
            features,
            settings.cluster,
            clock=clock,
            random=random,
            system_namespace=settings.namespace,
        )
        self.leaders = Leaders(
            self.engine.fleet,
            f"{settings.cluster}_{settings.identity}",
            clock=clock,
            random=random,
            terms=settings.terms,
        )
        self.engine.fence(self.leaders)
        self.engine.fleet.join(settings.cluster, {Role.LOCAL}, KubeApi(self._home, random))
        if broker is not None:
            self.engine.fleet.join(BROKER, {Role.BROKER}, KubeApi(Client(broker), random))

    @asynccontextmanager
    async def running(self, listener: socket.socket | None = None) -> AsyncIterator[None]:
        """Work until the block ends; with replicas, only while this one holds their Lease."""
        async with AsyncExitStack() as stack:
            alone = not self.settings.replicated
            await stack.enter_async_context(self.engine.running(active=alone))
            await stack.enter_async_context(self.leaders.running())
            if listener is not None:
                await stack.enter_async_context(serving(self.engine, listener))
            if not alone:
                self.leaders.stand_at_home(self._home, self.settings.namespace, self._work)
            yield

    async def close(self) -> None:
        """Let go of every connection."""
        for connection in self.engine.fleet.connections.values():
            await connection.api.close()

    def _work(self, chosen: bool) -> None:
        if chosen and not self.engine.active:
            self.engine.activate()
        elif not chosen and self.engine.active:
            self.engine.deactivate()
