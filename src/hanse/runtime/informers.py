"""The informers of all connected clusters, which join and leave while the agent runs."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Container, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any, Protocol

from hanse.kube.clock import Clock, loop_time
from hanse.kube.store import Store
from hanse.kube.watch_events import (
    Applied,
    Deleted,
    Interrupted,
    Listed,
    NotServed,
    Progress,
    WatchEvent,
)
from hanse.model.facts import (
    ClusterDeparted,
    ClusterState,
    Fact,
    Facts,
    KindServed,
    LeasesRelisted,
    Role,
    ServerClock,
)
from hanse.model.kinds.coordination import Lease
from hanse.model.objects import ClusterId, Kind, Object
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot, Watch
from hanse.runtime.api import Api
from hanse.runtime.connection import Connection, Informer, Scope, wanted_scopes
from hanse.runtime.health_probe import run_probe
from hanse.runtime.identity_check import IdentityCheck
from hanse.runtime.relists import Relists

log = logging.getLogger(__name__)


class ChangeHandler(Protocol):
    """Handles every change of an object or fact; `listed` for those that a list brings."""

    def on_change(self, change: Change, *, listed: bool = False) -> None:
        """Handle a change; `listed` if a list brought it, not a watch event or a write."""

    def on_unwatched(self, where: ClusterId, obj: Object) -> None:
        """Handle that an informer with an object stopped; it may exist, and be in another one."""


class ClusterInformers:
    """Connections to clusters, their informers and stores, and the facts about them."""

    def __init__(
        self, watches: Iterable[Watch], facts: Facts, clock: Clock, local: ClusterId
    ) -> None:
        """Nothing is connected yet; `change_handler` is to be set before the first connection."""
        self.facts = facts
        self.local = local
        self.connections: dict[ClusterId, Connection] = {}
        self.stores: dict[tuple[ClusterId, Kind], list[Store[Any]]] = {}
        self.change_handler: ChangeHandler | None = None
        self.on_watch_event: Callable[[ClusterId, Scope, WatchEvent[Any]], None] | None = None
        self._watches = tuple(watches)
        self._clock = clock
        self._informer_tasks: dict[tuple[ClusterId, Scope], asyncio.Task[None]] = {}
        self._cluster_tasks: dict[ClusterId, tuple[asyncio.Task[None], ...]] = {}
        self._group: asyncio.TaskGroup | None = None
        self.relists = Relists(self.connections, self._restart_informer)
        self._identity = IdentityCheck(self, clock, self._begin_recovery)
        self._closing: list[Api] = []
        """APIs of clusters that are no longer connected, until they are closed."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the informers of every joined cluster until the block ends, then cancel them all."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for connection in self.connections.values():
                self._start_informers(connection)
            try:
                yield
            finally:
                self._group = None
                cluster_tasks = (task for tasks in self._cluster_tasks.values() for task in tasks)
                for task in (*self._informer_tasks.values(), *cluster_tasks):
                    task.cancel()
                self._informer_tasks.clear()
                self._cluster_tasks.clear()

    @property
    def is_running(self) -> bool:
        """Whether informers run: nothing is observed before and after."""
        return self._group is not None

    def snapshot(self) -> Snapshot:
        """A view of all stores and facts, to be used before anything else runs."""
        return Snapshot(self.stores, self.facts, self._clock.now(), self.local)

    def join(self, cluster: ClusterId, roles: Iterable[Role], api: Api) -> None:
        """Connect a cluster and put its state; joining a connected one replaces and closes its API.

        The cluster no longer counts as departed. Informers of its roles' watches are added, and
        start now or when `running` begins.
        """
        if cluster in self.connections:
            former = self.connections[cluster]
            self._stop_cluster(former)
            self._close_replaced(former.api)
        connection = Connection(cluster, frozenset(roles), api, self._clock.now())
        self.connections[cluster] = connection
        self.drop_fact(ClusterDeparted, cluster)
        self._adjust_informers(connection)
        self._notify(FactChange(None, connection.state), put=connection.state)

    def set_roles(self, cluster: ClusterId, roles: Iterable[Role]) -> None:
        """Give a connected cluster other roles: its informers start and stop with them.

        Its state is put anew. Raises KeyError if it is not connected.
        """
        connection = self.connections[cluster]
        connection.roles = frozenset(roles)
        self._adjust_informers(connection)
        self._update_state(connection)

    def set_watches(self, role: Role, watches: Iterable[Watch]) -> None:
        """Replace all watches of a role by these of that role; informers start and stop."""
        self._watches = (*(w for w in self._watches if w.role is not role), *watches)
        for connection in self.connections.values():
            self._adjust_informers(connection)

    def set_leaving(self, cluster: ClusterId, leaving: bool = True) -> None:
        """Mark a cluster as one that we leave, where nothing is desired any more, or unmark it.

        Only its state changes; nothing is deleted or disconnected here.
        """
        connection = self.connections[cluster]
        connection.leaving = leaving
        self._update_state(connection)

    def restart_informers(self, cluster: ClusterId) -> None:
        """Restart every informer of a cluster at once: its server or credentials have changed.

        Each lists again; the stores keep what they have.
        """
        connection = self.connections[cluster]
        for scope in list(connection.informers):
            self._restart_informer(connection, scope)

    async def disconnect(self, cluster: ClusterId) -> None:
        """Stop a departed cluster's informers, put a `ClusterDeparted` fact, and close its API.

        Its stores and its state are dropped. Raises KeyError if it is not connected.
        """
        api = self._drop(cluster)
        self.put_fact(ClusterDeparted(cluster, self._clock.now()))
        self._closing.append(api)
        await self._close_api(api)

    def disconnect_undeparted(self, cluster: ClusterId) -> None:
        """Disconnect a cluster that has not departed, at once; its API is closed later.

        Its stores and its state are dropped, and no `ClusterDeparted` is put.
        """
        self._close_replaced(self._drop(cluster))

    def _drop(self, cluster: ClusterId) -> Api:
        """Stop a cluster's informers, and drop its stores and its state.

        Returns its API, which the caller closes. Raises KeyError if it is not connected.
        """
        connection = self.connections.pop(cluster)
        self._stop_cluster(connection)
        self.drop_fact(ClusterState, cluster)
        return connection.api

    async def close(self) -> None:
        """Close every API: of connected clusters, and those not closed yet of former ones."""
        for api in [*(c.api for c in self.connections.values()), *self._closing]:
            await api.close()
        self._closing.clear()

    def probe_soon(self, cluster: ClusterId) -> float:
        """Have a connected cluster probed at once; returns the loop's time when it last answered.

        It does not wait for the answer.
        """
        connection = self.connections[cluster]
        connection.suspected.set()
        return connection.answered_at

    def begin_recovery(self, cluster: ClusterId) -> None:
        """Mark a cluster as restored and list it again; nothing if it is not connected.

        Nothing either if an earlier recovery is still listing.
        """
        if cluster in self.connections:
            self._begin_recovery(self.connections[cluster])

    def relist_for_leader(self, cluster: ClusterId, roles: Container[Role]) -> None:
        """List again what is watched in a cluster in these roles: we begin to lead in them.

        Until then the cluster is partial. Leases are left out: they are judged by renewals. So are
        informers that have not listed yet. Nothing if the cluster is not connected.
        """
        connection = self.connections.get(cluster)
        if connection is None:
            return
        connection.mark_outdated({w.kind for w in self._watches if w.role in roles} - {Lease})
        self._update_state(connection)
        for scope in list(connection.outdated):
            self._restart_informer(connection, scope)

    def put_fact(self, fact: Fact) -> None:
        """Store a fact, and notify the handler if it differs from the one before."""
        before = self.facts.put(fact)
        if before != fact:
            self._notify(FactChange(before, fact))

    def drop_fact(self, type_: type[Fact], key: object) -> None:
        """Delete a fact, and notify the handler if there was one."""
        before = self.facts.drop(type_, key)
        if before is not None:
            self._notify(FactChange(before, None))

    def _close_replaced(self, api: Api) -> None:
        """Close an API in a task while we run; otherwise `close` does it later."""
        self._closing.append(api)
        if self._group is not None:
            self._group.create_task(self._close_api(api), name="close a replaced API")

    async def _close_api(self, api: Api) -> None:
        """Close an API, and drop it from those still to be closed."""
        await api.close()
        if api in self._closing:
            self._closing.remove(api)

    def _restart_informer(self, connection: Connection, scope: Scope) -> None:
        """Cancel an informer's task and mark it as restarted; a new task starts only while we run.

        Its store stays until it has listed again.
        """
        task = self._informer_tasks.pop((connection.cluster, scope), None)
        if task is not None:
            task.cancel()
        connection.informers[scope].restarted = True
        if self._group is not None:
            self._start_informers(connection)

    def stores_of(self, cluster: ClusterId, kind: Kind) -> Sequence[Store[Any]]:
        """The stores that hold a kind of a cluster, one per scope; empty if not watched."""
        return self.stores.get((cluster, kind), ())

    def observe_write(self, cluster: ClusterId, obj: Object) -> None:
        """Store the answer to our own write, as its watch event will, and notify of the change.

        Nothing if a newer version is stored. It is dropped from stores that do not select it. Also
        records that the cluster answered.
        """
        self.record_answer(cluster)
        for informer in self._informers_of(cluster, type(obj)):
            store = informer.store
            changes = store.put(obj) if informer.scope.selects(obj) else store.forget(obj)
            for change in changes:
                self._notify(ObjectChange(cluster, change.before, change.after))

    def observe_absence(self, cluster: ClusterId, obj: Object) -> None:
        """Drop an object that a read did not find from the stores, and notify of that.

        Events and lists of its version, or of older ones, do not bring it back.
        """
        for informer in self._informers_of(cluster, type(obj)):
            for change in informer.store.forget(obj):
                self._notify(ObjectChange(cluster, change.before, change.after))

    def observe_deletion(self, cluster: ClusterId, obj: Object) -> None:
        """Mark an object as deleted by us, which is neither written nor deleted again meanwhile.

        Snapshots have it until its watch event comes. Records, too, that the cluster has answered.
        """
        self.record_answer(cluster)
        for informer in self._informers_of(cluster, type(obj)):
            informer.store.mark_deleting(obj)

    def is_deletion_pending(self, cluster: ClusterId, obj: Object) -> bool:
        """Whether we deleted an object, and its watch event has not come yet."""
        return any(s.is_deleting(obj) for s in self.stores_of(cluster, type(obj).kind))

    def _informers_of(self, cluster: ClusterId, kind: type[Object]) -> Iterable[Informer]:
        """The informers of a kind in a cluster, one per scope; none if it is not connected."""
        connection = self.connections.get(cluster)
        if connection is None:
            return ()
        return [i for i in connection.informers.values() if i.scope.kind is kind]

    def _adjust_informers(self, connection: Connection) -> None:
        """Add and stop informers as the watches of a cluster's roles need.

        Informers that stay get missing indexes; new ones start only while we run.
        """
        wanted = wanted_scopes(self._watches, connection.roles).scopes
        for scope in [s for s in connection.informers if s not in wanted]:
            self._stop_informer(connection, scope)
        for scope, indexes in wanted.items():
            if scope not in connection.informers:
                informer = Informer(scope, indexes)
                connection.informers[scope] = informer
                place = (connection.cluster, scope.kind.kind)
                self.stores.setdefault(place, []).append(informer.store)
            else:
                connection.informers[scope].store.add_indexes(indexes)
        if self._group is not None:
            self._start_informers(connection)

    def _start_informers(self, connection: Connection) -> None:
        """Start the tasks of a cluster that do not run: discovery, health probe, and informers."""
        assert self._group is not None
        cluster = connection.cluster
        if cluster not in self._cluster_tasks:
            probe = run_probe(connection, self._identity.check, self._update_state)
            self._cluster_tasks[cluster] = (
                self._group.create_task(connection.api.discover(), name=f"discover {cluster}"),
                self._group.create_task(probe, name=f"probe {cluster}"),
            )
        for scope, informer in connection.informers.items():
            if (connection.cluster, scope) not in self._informer_tasks:
                name = f"watch {connection.cluster} {scope.kind.kind}"
                self._informer_tasks[connection.cluster, scope] = self._group.create_task(
                    self._run_informer(connection, informer), name=name
                )

    def _stop_informer(self, connection: Connection, scope: Scope) -> None:
        """Remove an informer and its store, cancel its task, and report its objects as unwatched.

        With the last informer of a kind the `KindServed` fact is dropped, without notice. Who waits
        for a list of the informer is woken.
        """
        informer = connection.informers.pop(scope)
        informer.open = False
        self.relists.notify()  # nobody waits for its list any longer
        place = (connection.cluster, scope.kind.kind)
        self.stores[place].remove(informer.store)
        if not self.stores[place]:
            del self.stores[place]
            self.facts.drop(KindServed, place)
        task = self._informer_tasks.pop((connection.cluster, scope), None)
        if task is not None:
            task.cancel()
        if self.change_handler is not None:
            for obj in informer.store.all():
                self.change_handler.on_unwatched(connection.cluster, obj)

    def _stop_cluster(self, connection: Connection) -> None:
        """Cancel a cluster's tasks and stop all its informers; its API stays open.

        The caller removes or replaces the connection.
        """
        for task in self._cluster_tasks.pop(connection.cluster, ()):
            task.cancel()
        for scope in list(connection.informers):
            self._stop_informer(connection, scope)

    async def _run_informer(self, connection: Connection, informer: Informer) -> None:
        """Feed a list-and-watch into its store until cancelled; notice restores, other servers.

        A list of any kind but Lease waits, for a while, until the cluster's Leases are listed.
        After a first sync or an outage the server's identity is checked, before the first Leases,
        too, while its clock is not known.
        """
        scope, relist_leases = informer.scope, self.relists.relist_leases
        if scope.kind is Lease and self.facts.get(ServerClock, connection.cluster) is None:
            await self._identity.check(connection)  # Leases are judged by their age
        stream = connection.api.list_and_watch(
            scope.kind,
            namespace=scope.namespace,
            labels=scope.labels,
            fields=scope.fields,
            before_relist=None if scope.kind is Lease else partial(relist_leases, connection),
        )
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, Listed) and scope.kind is not Lease:
                    await self.relists.wait_for_leases(connection)
                rewinds, awaited = informer.store.rewinds, scope in connection.relists_pending
                recovering = informer.error is not None or not informer.synced
                self._handle_event(connection, informer, event)
                if informer.store.rewinds > rewinds and not awaited:  # else noticed by another
                    self._begin_recovery(connection, scope)
                elif recovering and informer.error is None:
                    await self._identity.check_after_sync(connection)

    def _handle_event(
        self, connection: Connection, informer: Informer, event: WatchEvent[Any]
    ) -> None:
        """Take a watch event into the store, update the state, notify of each object change.

        Every event but an interruption counts as an answer of the cluster; a list or `NotServed`
        also ends a rejection of our credentials. State and `KindServed` stay for objects and
        bookmarks of an informer that is synced and without error. Puts `LeasesRelisted` after a
        list of Leases that is not the first.
        """
        if self.on_watch_event is not None:
            self.on_watch_event(connection.cluster, informer.scope, event)
        if isinstance(event, Listed | NotServed):
            self.record_answer(connection.cluster)
        elif not isinstance(event, Interrupted):  # a watch outlives credentials that are revoked
            self.record_answer(connection.cluster, rejection=connection.rejection)
        recovering = informer.error is not None or not informer.synced
        changes = informer.take(event)
        if isinstance(event, Listed | NotServed) or (recovering and informer.error is None):
            self.relists.notify()
        if recovering or not isinstance(event, Applied | Deleted | Progress):
            self._update_served(connection, informer)
            self._update_state(connection)
        listed = isinstance(event, Listed)
        for change in changes:
            self._notify(
                ObjectChange(connection.cluster, change.before, change.after, change.live),
                listed=listed,
            )
        if listed and informer.scope.kind is Lease and informer.store.lists > 1:
            known = self.facts.get(LeasesRelisted, connection.cluster)
            times = known.times if known is not None else 0
            self.put_fact(LeasesRelisted(connection.cluster, times + 1))

    def _update_served(self, connection: Connection, informer: Informer) -> None:
        """Put `KindServed`, whether the server serves the informer's kind, if that is known."""
        if informer.served is not None:
            kind = informer.scope.kind.kind
            self.put_fact(KindServed(connection.cluster, kind, informer.served))

    def _update_state(self, connection: Connection) -> None:
        """Recompute a cluster's state, and time its recovery by it.

        If it differs, store it and notify, and log a change of phase.
        """
        before, after = connection.state, connection.current_state(self._clock.now())
        if after != before:
            connection.state = after
            if after.phase != before.phase:
                connection.log_phase()
            self._notify(FactChange(before, after), put=after)
        connection.time_recovery(self._end_recovery)

    def record_answer(self, cluster: ClusterId, *, rejection: str = "") -> None:
        """Record that a cluster answers now, and the text with which it rejects our credentials.

        An empty `rejection` ends an earlier one. If it was unresponsive, or the rejection differs,
        its state is updated. Nothing if it is not connected.
        """
        connection = self.connections.get(cluster)
        if connection is not None:
            connection.answered_at = loop_time()
            if connection.unresponsive or connection.rejection != rejection:
                connection.unresponsive, connection.rejection = "", rejection
                self._update_state(connection)

    def _begin_recovery(self, connection: Connection, noticed_by: Scope | None = None) -> None:
        """Mark a cluster as restored, log it, and restart all informers but `noticed_by`.

        That one has listed already. Nothing while the lists after an earlier restore are pending.
        """
        if connection.relists_pending:
            return
        log.warning("cluster was restored", extra={"cluster": connection.cluster})
        connection.mark_restored()
        if noticed_by is not None:
            connection.relists_pending.pop(noticed_by, None)
        self._update_state(connection)
        for scope in list(connection.relists_pending):
            self._restart_informer(connection, scope)

    def _end_recovery(self, connection: Connection) -> None:
        """Clear `recovering`, unless the cluster was disconnected or connected anew since."""
        if self.connections.get(connection.cluster) is connection:
            connection.recovering = False
            self._update_state(connection)

    def _notify(self, change: Change, *, put: Fact | None = None, listed: bool = False) -> None:
        """Store the fact `put`, if any; then call the change handler, if set, with `listed`."""
        if put is not None:
            self.facts.put(put)
        if self.change_handler is not None:
            self.change_handler.on_change(change, listed=listed)
