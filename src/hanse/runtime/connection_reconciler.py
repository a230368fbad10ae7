"""Keeps the fleet's connections equal to what guides read out of objects at home."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from typing import Protocol, assert_never

from msgspec import Struct
from msgspec.structs import replace

from hanse.kube.client import Client
from hanse.kube.client_config import (
    ClientConfig,
    Credentials,
    Endpoint,
    Identity,
    UpdatableCredentials,
)
from hanse.kube.credentials import config_from_kubeconfig
from hanse.kube.errors import BadCredentials, KubeError
from hanse.kube.http_transport import HttpTransport
from hanse.kube.rest_mapper import Notifier
from hanse.kube.transport import Transport
from hanse.model.connections import (
    AbandonedCluster,
    ClusterConnection,
    ConnectionSource,
    KubeconfigCredentials,
    LeavingCluster,
    ReleasedCluster,
    ServerCredentials,
)
from hanse.model.facts import (
    ClusterDeparted,
    ClusterState,
    InvalidConnection,
    KindServed,
    Leadership,
    Phase,
    Role,
)
from hanse.model.objects import ClusterId, ClusterObjectRef, Object
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot
from hanse.runtime.api import ClusterClient
from hanse.runtime.leader_election import LeaderElections
from hanse.runtime.leaving import force_leave, leave, owned_refs
from hanse.runtime.ownership import owner_of, sources_of
from hanse.runtime.reconciler import Reconciler

log = logging.getLogger(__name__)

DOUBT = timedelta(seconds=5)
"""How long it takes until it counts that all clusters are gone at once."""


class TransportFactory(Protocol):
    """Makes the way to a cluster; credentials are asked for at each request."""

    def __call__(self, cluster: ClusterId, credentials: Credentials, /) -> Transport: ...


def http_transport(cluster: ClusterId, credentials: Credentials, /) -> Transport:  # noqa: ARG001 - a `TransportFactory`
    """The way to a cluster by its URL."""
    return HttpTransport(credentials)


class Told(Struct, frozen=True):
    """What one guide said last."""

    ways: dict[ClusterId, ClusterConnection] = {}
    leaving: dict[ClusterId, ClusterConnection] = {}
    retired: frozenset[ClusterId] = frozenset()
    abandoned: frozenset[ClusterId] = frozenset()
    troubles: dict[ClusterId, InvalidConnection] = {}


class ManagedConnection:
    """A connection that was made on a guide's word."""

    def __init__(
        self,
        way: ClusterConnection,
        access: ClientConfig,
        client: Client,
        handed: UpdatableCredentials | None,
    ) -> None:
        self.way = way
        self.access = access
        self.client = client
        self.handed = handed
        """How new credentials get to it; home has its own."""


class ConnectionReconciler:
    """Connects, stands for election, reconnects and leaves as guides say, while the agent works.

    A guide is asked only when all that it goes by was read; a cluster that it can say nothing good
    about any more keeps the way it has.
    """

    def __init__(
        self,
        reconciler: Reconciler,
        elections: LeaderElections,
        home: Client,
        guides: Sequence[ConnectionSource],
        *,
        dial: TransportFactory = http_transport,
        random: Random,
    ) -> None:
        self._reconciler = reconciler
        self._informers = reconciler.informers
        self._elections = elections
        self._home = home
        self._guides = tuple(guides)
        self._dial = dial
        self._random = random
        self._kinds = frozenset(kind for guide in guides for kind in guide.source_kinds)
        self._told: dict[str, Told] = {}
        self.known: dict[ClusterId, ManagedConnection] = {}
        """The connections that were made, by cluster."""
        self._partings: dict[ClusterId, asyncio.Task[None]] = {}
        self._led: dict[ClusterId, tuple[ClusterObjectRef, ...]] = {}
        """What was ours in a member when we ceased to lead it: from then on we do not see it."""
        self._doubts: dict[str, float] = {}
        """Since when a guide names none of several clusters any more."""
        self._news = Notifier()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follow the guides until the block ends; connections stay, elections end elsewhere."""
        if not self._guides:
            yield
            return
        self._reconciler.event_handlers.append(self._saw)
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(self._keep(group), name="roads")
            try:
                yield
            finally:
                self._reconciler.event_handlers.remove(self._saw)
                keeping.cancel()
                for parting in self._partings.values():
                    parting.cancel()

    def look_again(self) -> None:
        """Something that guides do not see has changed: whether this replica works."""
        self._news.ring()

    def _saw(self, change: Change) -> None:
        match change:
            case ObjectChange():
                if type(change.object) in self._kinds:
                    self._news.ring()
            case FactChange(Leadership(member, ours=True), _):
                self._led[member] = tuple(owned_refs(self._reconciler, member))
                self._news.ring()
            case FactChange():
                if isinstance(change.fact, ClusterState | Leadership):
                    self._news.ring()

    async def _keep(self, group: asyncio.TaskGroup) -> None:
        while True:
            heard = self._news.rung
            if self._reconciler.active:
                await self._follow_guides(group)
            else:
                for member in self._elections.members:
                    await self._elections.resign(member)
            await self._news.since(heard)
            await asyncio.sleep(0)  # so that changes that come together are one

    async def _follow_guides(self, group: asyncio.TaskGroup) -> None:
        seen = self._reconciler.snapshot()
        for guide in self._guides:
            if all(_is_known(kind, seen) for kind in guide.source_kinds):
                try:
                    said = self._asked(guide, seen)
                    self._told[guide.name] = await self._believed(guide, said)
                except Exception:  # one guide's mistake must not end the agent: what stands, stands
                    log.exception("guide failed", extra={"guide": guide.name})
        self._tell_troubles()
        wanted = self._wanted()
        for cluster, way in self._left_over(wanted):
            await self._go(cluster, way)  # somebody has to go there to leave it
        for cluster in sorted(self.known.keys() - wanted.keys()):
            await self._part(cluster, group)
        for cluster, way in sorted(wanted.items()):
            await self._go(cluster, way)
        if len(self._told) == len(self._guides):
            self._forget_the_unnamed(wanted)

    async def _believed(self, guide: ConnectionSource, said: Told) -> Told:
        """What a guide says; that all clusters are gone at once, only after a second look.

        Whoever removes a kind deletes its objects first: that is no wish to leave everybody.
        """
        before = self._told.get(guide.name, Told())
        if said.ways or said.troubles or len(before.ways) < 2:
            self._doubts.pop(guide.name, None)
            return said
        loop = asyncio.get_running_loop()
        rest = self._doubts.setdefault(guide.name, loop.time()) - loop.time()
        if rest + DOUBT.total_seconds() <= 0:
            if await self._is_sure_of(guide):
                del self._doubts[guide.name]
                return said
            self._doubts[guide.name], rest = loop.time(), 0.0
        loop.call_later(rest + DOUBT.total_seconds(), self.look_again)
        return before

    async def _is_sure_of(self, guide: ConnectionSource) -> bool:
        """Whether home answers, at this very moment, for all that a guide goes by."""
        try:
            for watch in guide.watches:
                if watch.role is Role.LOCAL and watch.kind in guide.source_kinds:
                    await self._home.newest(watch.kind, namespace=watch.namespace)
        except KubeError:
            return False
        return True

    def _asked(self, guide: ConnectionSource, snapshot: Snapshot) -> Told:
        """What a guide says now; where it knows no good way, the one before stays."""
        before = self._told.get(guide.name, Told())
        ways: dict[ClusterId, ClusterConnection] = {}
        leaving: dict[ClusterId, ClusterConnection] = {}
        troubles: dict[ClusterId, InvalidConnection] = {}
        retired: set[ClusterId] = set()
        abandoned: set[ClusterId] = set()
        for said in guide.connection_intents(snapshot):
            match said:
                case ClusterConnection(cluster):
                    trouble = self._trouble_with(guide, said)
                    if trouble is None:
                        ways[cluster] = said
                    else:
                        troubles[cluster] = trouble
                case InvalidConnection(_, cluster):
                    troubles[cluster] = said
                case LeavingCluster(way):
                    if self._trouble_with(guide, way) is None:
                        leaving[way.cluster] = way
                case ReleasedCluster(cluster):
                    retired.add(cluster)
                case AbandonedCluster(cluster):
                    abandoned.add(cluster)
                case _:
                    assert_never(said)
        kept = {c: before.ways[c] for c in troubles.keys() & before.ways.keys() - ways.keys()}
        return Told({**kept, **ways}, leaving, frozenset(retired), frozenset(abandoned), troubles)

    def _trouble_with(
        self, guide: ConnectionSource, way: ClusterConnection
    ) -> InvalidConnection | None:
        ours = way.cluster in self.known or way.cluster == self._informers.local
        if way.cluster in self._informers.connections and not ours:
            text = f"{way.cluster!r} is something else here; give the cluster another id"
            return InvalidConnection(guide.name, way.cluster, way.field, "NameTaken", text)
        try:
            cluster_access(way.credentials)
        except BadCredentials as error:
            return InvalidConnection(
                guide.name, way.cluster, way.field, "BadCredentials", str(error)
            )
        return None

    def _tell_troubles(self) -> None:
        now = {t.key: t for told in self._told.values() for t in told.troubles.values()}
        for known in list(self._informers.facts.all(InvalidConnection)):
            if known.key not in now:
                self._informers.drop_fact(InvalidConnection, known.key)
        for trouble in now.values():
            self._informers.put_fact(trouble)

    def _wanted(self) -> dict[ClusterId, ClusterConnection]:
        """All ways by cluster; of several guides the first says how, and roles add up."""
        wanted: dict[ClusterId, ClusterConnection] = {}
        for told in self._told.values():
            for cluster, way in told.ways.items():
                known = wanted.get(cluster, way)
                wanted[cluster] = replace(
                    known, roles=known.roles | way.roles, stands=known.stands or way.stands
                )
        return wanted

    def _left_over(
        self, wanted: dict[ClusterId, ClusterConnection]
    ) -> list[tuple[ClusterId, ClusterConnection]]:
        """Clusters that an agent before us was about to leave."""
        return [
            (cluster, way)
            for told in self._told.values()
            for cluster, way in told.leaving.items()
            if cluster not in wanted and cluster not in self.known
        ]

    async def _go(self, cluster: ClusterId, way: ClusterConnection) -> None:
        """Make a connection what its way says."""
        await self._stay(cluster)
        road = self.known.get(cluster)
        if road is None:
            road = self.known[cluster] = self._new_road(cluster, way)
        else:
            self._mend(road, way)
        connection = self._informers.connections[cluster]
        led = {Role.LED} & connection.roles
        home = {Role.LOCAL} if cluster == self._informers.local else set()
        if connection.roles != way.roles | led | home:
            self._informers.set_roles(cluster, way.roles | led | home)
        if way.stands:
            self._elections.contend(cluster, road.client, lambda: road.way.rivals)
        elif cluster in self._elections.members:
            await self._elections.resign(cluster)

    def _new_road(self, cluster: ClusterId, way: ClusterConnection) -> ManagedConnection:
        access = cluster_access(way.credentials)
        if cluster == self._informers.local:
            return ManagedConnection(way, access, self._home, None)
        handed = UpdatableCredentials(access)
        client = ClusterClient(self._dial(cluster, handed), self._random)
        self._informers.join(cluster, way.roles, client)
        log.info("cluster joined", extra={"cluster": cluster, "server": access.endpoint.url})
        return ManagedConnection(way, access, client, handed)

    def _mend(self, road: ManagedConnection, way: ClusterConnection) -> None:
        """Hand changed credentials on; streams begin anew only where they could not go on."""
        cluster, access = way.cluster, cluster_access(way.credentials)
        before, road.way, road.access = road.access, way, access
        if road.handed is None or access == before:
            return
        road.handed.hand(access)
        state = self._informers.facts.get(ClusterState, cluster)
        moved = access.endpoint != before.endpoint
        if moved or state is None or state.phase is not Phase.SYNCED:
            self._informers.restart_informers(cluster)
        log.info("way changed", extra={"cluster": cluster, "server": access.endpoint.url})

    async def _stay(self, cluster: ClusterId) -> None:
        """Take a parting back."""
        parting = self._partings.pop(cluster, None)
        if parting is None or parting.done():
            return
        parting.cancel()
        await asyncio.wait({parting})
        if cluster in self._informers.connections:
            self._informers.set_leaving(cluster, False)

    async def _part(self, cluster: ClusterId, group: asyncio.TaskGroup) -> None:
        """Leave a cluster that is no longer wanted, as it was said that it be left."""
        given_up = any(cluster in told.abandoned for told in self._told.values())
        if given_up and cluster != self._informers.local:  # nobody gives up home
            await self._part_by_force(cluster)
        elif any(cluster in told.retired for told in self._told.values()):
            await self._let_go(cluster)
        elif cluster not in self._partings:
            log.info("leaving cluster", extra={"cluster": cluster})
            self._partings[cluster] = group.create_task(
                self._take_leave(cluster), name=f"leave {cluster}"
            )

    async def _take_leave(self, cluster: ClusterId) -> None:
        await leave(self._reconciler, cluster, lambda: self._elections.resign(cluster))
        self.known.pop(cluster, None)
        self._partings.pop(cluster, None)
        log.info("cluster left", extra={"cluster": cluster})

    async def _part_by_force(self, cluster: ClusterId) -> None:
        await self._stay(cluster)
        await self._elections.resign(cluster)
        await force_leave(self._reconciler, cluster, self._led.pop(cluster, ()))
        self.known.pop(cluster, None)

    async def _let_go(self, cluster: ClusterId) -> None:
        """Go without a word: what was written there is others' to look after."""
        await self._stay(cluster)
        await self._elections.resign(cluster)
        if cluster == self._informers.local:
            self._informers.set_roles(cluster, {Role.LOCAL})
        else:
            await self._informers.disconnect(cluster)
        self.known.pop(cluster, None)
        log.info("cluster given up to others", extra={"cluster": cluster})

    def _forget_the_unnamed(self, wanted: dict[ClusterId, ClusterConnection]) -> None:
        """A cluster that leaders' objects rest on and nobody names has left, maybe before us."""
        named = {c for told in self._told.values() for c in (*told.ways, *told.troubles)}
        known = self._informers.connections.keys() | wanted.keys() | named
        for cluster in _rested_on(self._reconciler.owned.objects()) - known:
            if self._informers.facts.get(ClusterDeparted, cluster) is None:
                self._informers.put_fact(ClusterDeparted(cluster, self._reconciler.snapshot().now))


def _is_known(kind: type[Object], snapshot: Snapshot) -> bool:
    """Whether it is known what there is of a kind at home; where it is not served, nothing is."""
    served = snapshot.fact(KindServed, (snapshot.local, kind.kind))
    return snapshot.listed(snapshot.local, kind) or (served is not None and not served.served)


def cluster_access(credentials: ServerCredentials | KubeconfigCredentials) -> ClientConfig:
    """What an entrance comes to; raises `BadCredentials` for what may not be or cannot be read."""
    match credentials:
        case ServerCredentials(server, ca, token, certificate, key):
            identity = Identity(token=token, certificate=certificate, key=key)
            return ClientConfig(Endpoint(server.rstrip("/"), ca), identity)
        case KubeconfigCredentials(text, context, origin):
            return config_from_kubeconfig(text, origin=origin, context=context)
        case _:
            assert_never(credentials)


def _rested_on(owned: Iterable[tuple[ClusterId, Object]]) -> set[ClusterId]:
    """The clusters that objects written by leaders rest on."""
    rested: set[ClusterId] = set()
    for _, obj in owned:
        owner = owner_of(obj)
        if owner is not None and owner.led:
            rested |= sources_of(obj)
    return rested
