"""The connected clusters by role: joining and leaving at run time, and what each tells."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from typing import Any, Protocol

from hanse.kube.clock import Clock
from hanse.kube.errors import KubeError, Unreachable
from hanse.kube.rest_mapper import Notifier
from hanse.kube.store import Store
from hanse.kube.watch_events import Applied, Deleted, Event, Interrupted, Listed, NotServed
from hanse.model.facts import ClusterDeparted, ClusterState, Fact, Facts, KindServed, Role
from hanse.model.kinds.core import Namespace
from hanse.model.objects import ClusterId, Kind, Object
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot, Watch
from hanse.runtime.api import Api
from hanse.runtime.connection import Connection, Informer, Scope, wanted_scopes
from hanse.runtime.health_probe import listen

log = logging.getLogger(__name__)

RECOVERY = timedelta(seconds=30)
"""How long after a restore nothing is done on the strength of what the cluster lacks."""


class ChangeHandler(Protocol):
    """Who is told of every change; `listed` when it is one of a list's many."""

    def on_change(self, change: Change, *, listed: bool = False) -> None: ...

    def on_unwatched(self, where: ClusterId, obj: Object) -> None:
        """An object is no longer watched: it may well exist."""
        ...


class ClusterInformers:
    """Connections, their streams and stores, and the facts about them."""

    def __init__(
        self, watches: Iterable[Watch], facts: Facts, clock: Clock, local: ClusterId
    ) -> None:
        self.facts = facts
        self.local = local
        self.connections: dict[ClusterId, Connection] = {}
        self.stores: dict[tuple[ClusterId, Kind], list[Store[Any]]] = {}
        self.change_handler: ChangeHandler | None = None
        self.on_watch_event: Callable[[ClusterId, Scope, Event[Any]], None] | None = None
        self._watches = tuple(watches)
        self._clock = clock
        self._tasks: dict[tuple[ClusterId, Scope], asyncio.Task[None]] = {}
        self._attending: dict[ClusterId, tuple[asyncio.Task[None], ...]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._listed = Notifier()
        self._parted: list[Api] = []
        """Ways to clusters that are no longer connected, until they have ended."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follow everything that is joined, until the block ends."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for connection in self.connections.values():
                self._open_streams(connection)
            try:
                yield
            finally:
                self._group = None
                attending = (task for tasks in self._attending.values() for task in tasks)
                for task in (*self._tasks.values(), *attending):
                    task.cancel()
                self._tasks.clear()
                self._attending.clear()

    def snapshot(self) -> Snapshot:
        """Everything as it is known now."""
        return Snapshot(self.stores, self.facts, self._clock.now(), self.local)

    def join(self, cluster: ClusterId, roles: Iterable[Role], api: Api) -> None:
        """Connect a cluster; joining one that is connected replaces the way to it."""
        if cluster in self.connections:
            former = self.connections[cluster]
            self._disconnect(former)
            self._let_go(former.api)
        connection = Connection(cluster, frozenset(roles), api, self._clock.now())
        self.connections[cluster] = connection
        self.drop_fact(ClusterDeparted, cluster)
        self._adjust_streams(connection)
        self._tell(FactChange(None, connection.state), put=connection.state)

    def set_roles(self, cluster: ClusterId, roles: Iterable[Role]) -> None:
        """Give a cluster other roles: streams start and stop with them."""
        connection = self.connections[cluster]
        connection.roles = frozenset(roles)
        self._adjust_streams(connection)
        self._update_state(connection)

    def set_leaving(self, cluster: ClusterId, leaving: bool = True) -> None:
        """Mark a cluster as one that we leave, where nothing is wanted any more, or take it back.

        At home that means the federation: home goes on being home.
        """
        connection = self.connections[cluster]
        connection.leaving = leaving
        self._update_state(connection)

    def restart_informers(self, cluster: ClusterId) -> None:
        """Begin every stream of a cluster anew, at once: the way to it is another now."""
        connection = self.connections[cluster]
        for scope in list(connection.informers):
            self._restart(connection, scope)

    async def disconnect(self, cluster: ClusterId) -> None:
        """Let go of a cluster for good."""
        connection = self.connections.pop(cluster)
        self._disconnect(connection)
        self.drop_fact(ClusterState, cluster)
        self.put_fact(ClusterDeparted(cluster, self._clock.now()))
        self._parted.append(connection.api)
        await self._end(connection.api)

    async def close(self) -> None:
        """End every way, also those whose end somebody began and was kept from waiting for."""
        for api in [*(c.api for c in self.connections.values()), *self._parted]:
            await api.close()
        self._parted.clear()

    def heard_at(self, cluster: ClusterId) -> float:
        """The loop's time when a cluster last answered anything; it is asked at once.

        Whoever holds silence against others has to know that they could have been heard.
        """
        connection = self.connections[cluster]
        connection.doubted.set()
        return connection.heard_at

    def put_fact(self, fact: Fact) -> None:
        """Keep a fact and tell of it, if it says anything new."""
        before = self.facts.put(fact)
        if before != fact:
            self._tell(FactChange(before, fact))

    def drop_fact(self, type_: type[Fact], key: object) -> None:
        """Forget a fact and tell of it, if it was there."""
        before = self.facts.drop(type_, key)
        if before is not None:
            self._tell(FactChange(before, None))

    async def relist(self) -> None:
        """List everything once more, and wait until every stream that can has done so."""
        before: dict[Informer, int] = {}
        for connection in self.connections.values():
            for scope, stream in connection.informers.items():
                if stream.error is None:
                    before[stream] = stream.store.lists
                    self._restart(connection, scope)
        while any(
            s.store.lists <= n and s.open and s.served is not False for s, n in before.items()
        ):
            await self._listed.since(self._listed.rung)

    def _let_go(self, api: Api) -> None:
        """End a way that was replaced; before we run there is nobody to wait for that."""
        self._parted.append(api)
        if self._group is not None:
            self._group.create_task(self._end(api), name="close a replaced way")

    async def _end(self, api: Api) -> None:
        await api.close()
        if api in self._parted:
            self._parted.remove(api)

    def _restart(self, connection: Connection, scope: Scope) -> None:
        task = self._tasks.pop((connection.cluster, scope), None)
        if task is not None:
            task.cancel()
        connection.informers[scope].reopened = True
        if self._group is not None:
            self._open_streams(connection)

    def stores_of(self, cluster: ClusterId, kind: Kind) -> Sequence[Store[Any]]:
        """The stores that hold a kind of a cluster."""
        return self.stores.get((cluster, kind), ())

    def wrote(self, cluster: ClusterId, obj: Object) -> None:
        """Take in the answer to our own write, as if the watch had told it already."""
        self._heard(cluster)
        for stream in self._streams_for(cluster, type(obj)):
            store = stream.store
            for change in store.put(obj) if _selects(stream, obj) else store.forget(obj):
                self._tell(ObjectChange(cluster, change.before, change.after))

    def deleted(self, cluster: ClusterId, obj: Object) -> None:
        """Take in that our own deletion went through; its watch tells when it is time to act."""
        self._heard(cluster)
        for stream in self._streams_for(cluster, type(obj)):
            stream.store.mark_deleting(obj)

    def is_deleting(self, cluster: ClusterId, obj: Object) -> bool:
        """Whether we deleted an object, and only its watch has not told yet."""
        return any(s.is_deleting(obj) for s in self.stores_of(cluster, type(obj).kind))

    def _streams_for(self, cluster: ClusterId, kind: type[Object]) -> Iterable[Informer]:
        connection = self.connections.get(cluster)
        if connection is None:
            return ()
        return [s for s in connection.informers.values() if s.scope.kind is kind]

    def _adjust_streams(self, connection: Connection) -> None:
        wanted = wanted_scopes(self._watches, connection.roles).scopes
        for scope in [s for s in connection.informers if s not in wanted]:
            self._close_stream(connection, scope)
        for scope, indexes in wanted.items():
            if scope not in connection.informers:
                stream = Informer(scope, indexes)
                connection.informers[scope] = stream
                place = (connection.cluster, scope.kind.kind)
                self.stores.setdefault(place, []).append(stream.store)
            else:
                connection.informers[scope].store.add_indexes(indexes)
        if self._group is not None:
            self._open_streams(connection)

    def _open_streams(self, connection: Connection) -> None:
        assert self._group is not None
        cluster = connection.cluster
        if cluster not in self._attending:
            hearing = listen(connection, self._identify, self._update_state)
            self._attending[cluster] = (
                self._group.create_task(connection.api.discover(), name=f"discover {cluster}"),
                self._group.create_task(hearing, name=f"listen to {cluster}"),
            )
        for scope, stream in connection.informers.items():
            if (connection.cluster, scope) not in self._tasks:
                name = f"watch {connection.cluster} {scope.kind.kind}"
                self._tasks[connection.cluster, scope] = self._group.create_task(
                    self._follow(connection, stream), name=name
                )

    def _close_stream(self, connection: Connection, scope: Scope) -> None:
        stream = connection.informers.pop(scope)
        stream.open = False
        self._listed.ring()  # nobody is to wait for it any longer
        place = (connection.cluster, scope.kind.kind)
        self.stores[place].remove(stream.store)
        if not self.stores[place]:
            del self.stores[place]
            self.facts.drop(KindServed, place)
        task = self._tasks.pop((connection.cluster, scope), None)
        if task is not None:
            task.cancel()
        if self.change_handler is not None:
            for obj in stream.store.all():
                self.change_handler.on_unwatched(connection.cluster, obj)

    def _disconnect(self, connection: Connection) -> None:
        for task in self._attending.pop(connection.cluster, ()):
            task.cancel()
        for scope in list(connection.informers):
            self._close_stream(connection, scope)

    async def _follow(self, connection: Connection, stream: Informer) -> None:
        scope = stream.scope
        following = connection.api.follow(
            scope.kind, namespace=scope.namespace, labels=scope.labels, fields=scope.fields
        )
        async with aclosing(following) as events:
            async for event in events:
                rewinds = stream.store.rewinds
                recovering = stream.error is not None or not stream.settled
                self._take(connection, stream, event)
                if stream.store.rewinds > rewinds:
                    self._restored(connection, scope)
                elif recovering and stream.error is None:
                    await self._recognize(connection)

    def _take(self, connection: Connection, stream: Informer, event: Event[Any]) -> None:
        if self.on_watch_event is not None:
            self.on_watch_event(connection.cluster, stream.scope, event)
        if not isinstance(event, Interrupted):
            self._heard(connection.cluster)
        troubled = stream.error is not None or not stream.settled
        changes = stream.take(event)
        if isinstance(event, Listed | NotServed):
            self._listed.ring()
        if troubled or not isinstance(event, Applied | Deleted):
            self._update_served(connection, stream)
            self._update_state(connection)
        listed = isinstance(event, Listed)
        for change in changes:
            self._tell(
                ObjectChange(connection.cluster, change.before, change.after, change.live),
                listed=listed,
            )

    def _update_served(self, connection: Connection, stream: Informer) -> None:
        if stream.served is not None:
            kind = stream.scope.kind.kind
            self.put_fact(KindServed(connection.cluster, kind, stream.served))

    def _update_state(self, connection: Connection) -> None:
        before, after = connection.state, connection.next_state(self._clock.now())
        if after != before:
            connection.state = after
            if after.phase != before.phase:
                _log(connection)
            self._tell(FactChange(before, after), put=after)

    def _heard(self, cluster: ClusterId) -> None:
        """Take in that a cluster has answered something."""
        connection = self.connections.get(cluster)
        if connection is not None:
            connection.heard_at = asyncio.get_running_loop().time()
            if connection.silent:
                connection.silent = ""
                self._update_state(connection)

    def _restored(self, connection: Connection, noticed_by: Scope) -> None:
        """The cluster went back in time: hold everything until each stream has listed again."""
        if connection.restored_at:
            return
        log.warning("cluster was restored", extra={"cluster": connection.cluster})
        connection.mark_restored()
        connection.restored_at.pop(noticed_by, None)
        loop = asyncio.get_running_loop()
        loop.call_later(RECOVERY.total_seconds(), self._recovered, connection)
        self._update_state(connection)
        for scope in list(connection.restored_at):
            self._restart(connection, scope)

    def _recovered(self, connection: Connection) -> None:
        """What others had to put back into a restored cluster is there by now."""
        if self.connections.get(connection.cluster) is connection:
            connection.recovering = False
            self._update_state(connection)

    async def _recognize(self, connection: Connection) -> None:
        """Look who answers once for all streams that came back before: they do so together."""
        came_back = connection.came_back = connection.came_back + 1
        async with connection.looking:
            if connection.looked_after < came_back:
                all_so_far = connection.came_back
                await self._identify(connection)
                connection.looked_after = all_so_far

    async def _identify(self, connection: Connection) -> str:
        """Notice another cluster behind the same address; gives why there was no answer, if so."""
        try:
            found = await connection.api.identity()
        except Unreachable as error:
            return str(error)
        except KubeError:
            self._heard(connection.cluster)  # whatever it says, it has answered
            return ""
        self._heard(connection.cluster)
        known, connection.identity = connection.identity, found
        if known and known != found:
            self._restored(connection, Scope(Namespace, "", "-"))
        return ""

    def _tell(self, change: Change, *, put: Fact | None = None, listed: bool = False) -> None:
        if put is not None:
            self.facts.put(put)
        if self.change_handler is not None:
            self.change_handler.on_change(change, listed=listed)


def _selects(stream: Informer, obj: Object) -> bool:
    """Whether a stream will tell of an object; a label selector is matched by equality alone."""
    scope = stream.scope
    if scope.namespace and scope.namespace != obj.metadata.namespace:
        return False
    if scope.name and scope.name != obj.metadata.name:
        return False
    labels = obj.metadata.labels
    return all(
        _term_holds(term.strip(), labels) for term in scope.labels.split(",") if term.strip()
    )


def _term_holds(term: str, labels: dict[str, str]) -> bool:
    name, equals, value = term.partition("=")
    if equals and not name.endswith("!"):
        return labels.get(name.strip()) == value.lstrip("=").strip()
    return name.strip() in labels


def _log(connection: Connection) -> None:
    """Say how a cluster stands now; an outage ends by itself, missing rights need somebody."""
    state = connection.state
    told = {"cluster": state.cluster, "phase": state.phase.value, "why": state.reason}
    log.log(logging.WARNING if connection.refused else logging.INFO, "cluster seen", extra=told)
