"""Reconciles the connected clusters with the connections that features read from local objects."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random

from hanse.kube.client import Client
from hanse.kube.client_config import UpdatableCredentials
from hanse.kube.errors import KubeError
from hanse.kube.rest_mapper import Notifier
from hanse.model.connections import ClusterConnection, ConnectionSource
from hanse.model.facts import (
    ClusterDeparted,
    ClusterState,
    InvalidConnection,
    Leadership,
    Phase,
    Role,
)
from hanse.model.objects import ClusterId, ClusterObjectRef
from hanse.model.snapshot import Change, FactChange, ObjectChange
from hanse.runtime.api import ClusterClient
from hanse.runtime.desired_connections import (
    DesiredConnections,
    client_config,
    evaluate,
    merge_connections,
)
from hanse.runtime.handover import disconnect_released, wait_for_successors
from hanse.runtime.leader_election import LeaderElections
from hanse.runtime.leaving import force_leave, leave, owned_refs
from hanse.runtime.managed_connection import (
    ManagedConnection,
    TransportFactory,
    http_transport,
)
from hanse.runtime.reconciler import Reconciler

log = logging.getLogger(__name__)

EMPTY_GRACE_PERIOD = timedelta(seconds=5)
"""How long a source must name no cluster, after several, before they are left."""


class ConnectionReconciler:
    """Connects and leaves clusters, rotates credentials and contends for leadership as desired.

    A source is evaluated only when all kinds that it reads are listed; a cluster whose desired
    connection becomes invalid keeps the connection that it has.
    """

    def __init__(
        self,
        reconciler: Reconciler,
        elections: LeaderElections,
        local_client: Client,
        sources: Sequence[ConnectionSource],
        *,
        new_transport: TransportFactory = http_transport,
        random: Random,
    ) -> None:
        """Nothing is connected; `sources` say which clusters to connect to.

        `local_client` reads the local cluster; `new_transport` makes the transport to a cluster
        from its credentials.
        """
        self._reconciler = reconciler
        self._informers = reconciler.informers
        self._elections = elections
        self._local_client = local_client
        self._sources = tuple(sources)
        self._new_transport = new_transport
        self._random = random
        self._kinds = frozenset(kind for source in sources for kind in source.source_kinds)
        self._desired: dict[str, DesiredConnections] = {}
        """By the name of the source."""
        self.managed: dict[ClusterId, ManagedConnection] = {}
        self._leave_tasks: dict[ClusterId, asyncio.Task[None]] = {}
        self._handover: tuple[frozenset[ClusterId], asyncio.Task[None]] | None = None
        """The clusters that are handed over to other supervisors together."""
        self._last_owned: dict[ClusterId, tuple[ClusterObjectRef, ...]] = {}
        """Our objects in a member when we ceased to lead it: from then on we do not watch them."""
        self._empty_since: dict[str, float] = {}
        """Since when a source names no cluster, after it named several."""
        self._changed = Notifier()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Reconcile connections until the block ends; nothing without sources.

        At the end leaves and handovers are cancelled; connections stay, and elections are not
        ended.
        """
        if not self._sources:
            yield
            return
        self._reconciler.event_handlers.append(self._on_change)
        async with asyncio.TaskGroup() as group:
            loop = group.create_task(self._run(group), name="reconcile connections")
            try:
                yield
            finally:
                self._reconciler.event_handlers.remove(self._on_change)
                loop.cancel()
                for task in self._background_tasks():
                    task.cancel()

    def enqueue(self) -> None:
        """Wake the loop to reconcile soon, as when this replica became active or inactive.

        Several calls before the next run make one run.
        """
        self._changed.notify()

    def _on_change(self, change: Change) -> None:
        """Enqueue a run after a change of a source's kinds, a cluster's state or a leadership.

        When we cease to lead a member, or its epoch changes, also store what we own there as its
        last owned objects.
        """
        match change:
            case ObjectChange():
                if type(change.object) in self._kinds:
                    self.enqueue()
            case FactChange(Leadership(member, ours=True), _):
                self._last_owned[member] = tuple(owned_refs(self._reconciler, member))
                self.enqueue()
            case FactChange():
                if isinstance(change.fact, ClusterState | Leadership):
                    self.enqueue()

    async def _run(self, group: asyncio.TaskGroup) -> None:
        """Reconcile at once and after every change, for ever; several changes may make one run.

        While this replica is inactive it resigns from all members instead.
        """
        while True:
            seen = self._changed.notified
            if self._reconciler.active:
                await self._reconcile(group)
            else:
                for member in self._elections.members:
                    await self._elections.resign(member)
            await self._changed.wait_for_change(seen)
            await asyncio.sleep(0)  # so that changes that come together are handled once

    async def _reconcile(self, group: asyncio.TaskGroup) -> None:
        """Evaluate the sources whose kinds are listed, then connect, hand over and leave clusters.

        Nothing until they are listed again after this replica became active. A source that raises
        is logged and keeps its last result. Publishes invalid connections, and departed clusters
        only once every source has a result.
        """
        local = self._informers.connections[self._informers.local]
        if any(scope.kind in self._kinds for scope in local.outdated):
            return  # the state of the local cluster changes once all is listed
        snapshot = self._reconciler.snapshot()
        for source in self._sources:
            if all(
                snapshot.listed_or_unserved(snapshot.local, kind) for kind in source.source_kinds
            ):
                before = self._desired.get(source.name, DesiredConnections())
                try:
                    desired = evaluate(source, snapshot, before, self._is_taken, self._ending())
                    self._desired[source.name] = await self._confirm_empty(source, desired, before)
                except Exception:  # one source's mistake must not end the agent: nothing changes
                    log.exception("connection source failed", extra={"source": source.name})
        self._publish_invalid()
        desired_connections = merge_connections(self._desired.values())
        for cluster, connection in self._unfinished_leaves(desired_connections):
            await self._connect(cluster, connection)
        unwanted = self.managed.keys() - desired_connections.keys()
        released = self._released(unwanted)
        await self._hand_over(released, group)
        for cluster in sorted(unwanted - released):
            await self._leave_or_abandon(cluster, group)
        for cluster, connection in sorted(desired_connections.items()):
            await self._connect(cluster, connection)
        if len(self._desired) == len(self._sources):
            self._publish_departed(desired_connections)

    def _is_taken(self, cluster: ClusterId) -> bool:
        """Whether an id is in use by a connection that no source has made, as the broker's.

        False for the local cluster.
        """
        ours = cluster in self.managed or cluster == self._informers.local
        return cluster in self._informers.connections and not ours

    async def _confirm_empty(
        self, source: ConnectionSource, desired: DesiredConnections, before: DesiredConnections
    ) -> DesiredConnections:
        """What is desired now; `before`, for a while, if all of two or more connections vanish.

        They count as gone after EMPTY_GRACE_PERIOD, once live lists show that the kinds of the
        source are served: uninstalling a CRD deletes its objects first, which must not leave every
        cluster. Until then another run is scheduled.
        """
        if desired.connections or desired.invalid or len(before.connections) < 2:
            self._empty_since.pop(source.name, None)
            return desired
        loop = asyncio.get_running_loop()
        wait = self._empty_since.setdefault(source.name, loop.time()) - loop.time()
        if wait + EMPTY_GRACE_PERIOD.total_seconds() <= 0:
            if await self._are_kinds_served(source):
                del self._empty_since[source.name]
                return desired
            self._empty_since[source.name], wait = loop.time(), 0.0
        loop.call_later(wait + EMPTY_GRACE_PERIOD.total_seconds(), self.enqueue)
        return before

    async def _are_kinds_served(self, source: ConnectionSource) -> bool:
        """Whether a live list of each local kind that a source reads succeeds; any error: False."""
        try:
            for watch in source.watches:
                if watch.role is Role.LOCAL and watch.kind in source.source_kinds:
                    await self._local_client.current_resource_version(
                        watch.kind, namespace=watch.namespace
                    )
        except KubeError:
            return False
        return True

    def _publish_invalid(self) -> None:
        """Put `InvalidConnection` for each connection that cannot be made, and drop all others."""
        invalid = {
            error.key: error
            for desired in self._desired.values()
            for error in desired.invalid.values()
        }
        for known in list(self._informers.facts.all(InvalidConnection)):
            if known.key not in invalid:
                self._informers.drop_fact(InvalidConnection, known.key)
        for error in invalid.values():
            self._informers.put_fact(error)

    def _unfinished_leaves(
        self, desired_connections: dict[ClusterId, ClusterConnection]
    ) -> list[tuple[ClusterId, ClusterConnection]]:
        """The clusters that an earlier agent began to leave, with their connections.

        Without those that are desired or managed now.
        """
        return [
            (cluster, connection)
            for desired in self._desired.values()
            for cluster, connection in desired.leaving.items()
            if cluster not in desired_connections and cluster not in self.managed
        ]

    async def _connect(self, cluster: ClusterId, desired: ClusterConnection) -> None:
        """Connect a cluster, or update its credentials and roles; cancels a leave under way.

        Also contends in its election, or resigns if it is to run none. Roles LED and LOCAL that the
        cluster has stay.
        """
        await self._cancel_leave(cluster)
        managed = self.managed.get(cluster)
        if managed is None or cluster not in self._informers.connections:  # it was just left
            managed = self.managed[cluster] = self._new_connection(cluster, desired)
        else:
            self._rotate_credentials(managed, desired)
        known = self._informers.connections[cluster]
        led = {Role.LED} & known.roles
        local = {Role.LOCAL} if cluster == self._informers.local else set()
        if known.roles != desired.roles | led | local:
            self._informers.set_roles(cluster, desired.roles | led | local)
        if desired.runs_election:
            self._contend(cluster, managed)
        elif cluster in self._elections.members:
            await self._elections.resign(cluster)

    def _contend(self, cluster: ClusterId, managed: ManagedConnection) -> None:
        """Contend for the leadership of a connected member, unless we do already."""
        self._elections.contend(cluster, managed.client, lambda: managed.desired.preferred_leaders)

    def _new_connection(self, cluster: ClusterId, desired: ClusterConnection) -> ManagedConnection:
        """Build a cluster's connection and join it to the informers.

        The local one is connected already: it keeps its client, and no longer counts as departed.
        Raises `BadCredentials` if the credentials are unusable.
        """
        config = client_config(desired.credentials)
        if cluster == self._informers.local:
            self._informers.drop_fact(ClusterDeparted, cluster)
            return ManagedConnection(desired, config, self._local_client, None)
        credentials = UpdatableCredentials(config)
        client = ClusterClient(self._new_transport(cluster, credentials), self._random)
        self._informers.join(cluster, desired.roles, client)
        log.info("cluster joined", extra={"cluster": cluster, "server": config.endpoint.url})
        return ManagedConnection(desired, config, client, credentials)

    def _rotate_credentials(self, managed: ManagedConnection, desired: ClusterConnection) -> None:
        """Record what is desired, and use its credentials if they changed; the local client stays.

        Informers restart if the credentials changed and the endpoint is another or the cluster is
        not synced.
        """
        cluster, config = desired.cluster, client_config(desired.credentials)
        before, managed.desired, managed.config = managed.config, desired, config
        if managed.credentials is None or config == before:
            return
        managed.credentials.update(config)
        state = self._informers.facts.get(ClusterState, cluster)
        moved = config.endpoint != before.endpoint
        if moved or state is None or state.phase is not Phase.SYNCED:
            self._informers.restart_informers(cluster)
        fields = {"cluster": cluster, "server": config.endpoint.url}
        log.info("connection changed", extra=fields)

    async def _cancel_leave(self, cluster: ClusterId) -> None:
        """If a task leaves a cluster, cancel it, await its end, and unmark the cluster."""
        task = self._leave_tasks.pop(cluster, None)
        if task is None or task.done():
            return
        task.cancel()
        await asyncio.wait({task})
        if cluster in self._informers.connections:
            self._informers.set_leaving(cluster, False)

    async def _leave_or_abandon(self, cluster: ClusterId, group: asyncio.TaskGroup) -> None:
        """Leave a cluster that is no longer desired in a task, or abandon it if a source says so.

        The local cluster is never abandoned; a leave under way goes on unless the cluster is
        abandoned. If an election is run for it, we contend until it is left, also after a handover
        has resigned: without a leader nobody deletes our objects.
        """
        abandoned = any(cluster in desired.abandoned for desired in self._desired.values())
        if abandoned and cluster != self._informers.local:  # the local cluster is never abandoned
            await self._abandon(cluster)
            return
        managed = self.managed[cluster]
        if managed.desired.runs_election and cluster in self._informers.connections:
            self._contend(cluster, managed)
        if cluster not in self._leave_tasks:
            log.info("leaving cluster", extra={"cluster": cluster})
            self._leave_tasks[cluster] = group.create_task(
                self._leave(cluster), name=f"leave {cluster}"
            )

    async def _leave(self, cluster: ClusterId) -> None:
        """Delete our objects from a cluster, however long that takes, resign and disconnect."""
        await leave(self._reconciler, cluster, lambda: self._elections.resign(cluster))
        self.managed.pop(cluster, None)
        self._leave_tasks.pop(cluster, None)
        log.info("cluster left", extra={"cluster": cluster})

    async def _abandon(self, cluster: ClusterId) -> None:
        """Resign, disconnect a cluster at once, and record our objects in it as abandoned.

        They are not deleted; a leave under way is cancelled.
        """
        await self._cancel_leave(cluster)
        await self._elections.resign(cluster)
        if cluster in self._informers.connections:  # else it was just left
            await force_leave(self._reconciler, cluster, self._last_owned.pop(cluster, ()))
        self.managed.pop(cluster, None)

    def _released(self, unwanted: Iterable[ClusterId]) -> frozenset[ClusterId]:
        """Those of the unwanted clusters that a source releases to other supervisors.

        Without abandoned ones; the local cluster never counts as abandoned.
        """
        desired = self._desired.values()
        abandoned = {c for d in desired for c in d.abandoned} - {self._informers.local}
        return frozenset(unwanted) & {c for d in desired for c in d.released} - abandoned

    async def _hand_over(self, clusters: frozenset[ClusterId], group: asyncio.TaskGroup) -> None:
        """Start a task that hands these clusters over, if any, and cancel their leaves.

        A handover of the same clusters that is under way goes on; any other is cancelled, also if
        there are no clusters.
        """
        if self._handover is not None:
            if self._handover[0] == clusters and not self._handover[1].done():
                return
            self._handover[1].cancel()
            await asyncio.wait({self._handover[1]})
            self._handover = None
        if not clusters:
            return
        for cluster in sorted(clusters):
            await self._cancel_leave(cluster)
        task = group.create_task(self._run_handover(clusters), name="hand over clusters")
        self._handover = (clusters, task)

    async def _run_handover(self, clusters: frozenset[ClusterId]) -> None:
        """Wait until other supervisors lead all these clusters, then disconnect them at once.

        They are no longer managed then.
        """
        members = {c: self.managed[c].client for c in sorted(clusters)}
        await wait_for_successors(self._informers, self._elections, members)
        self._handover = None
        for cluster in sorted(clusters):
            self.managed.pop(cluster, None)
        disconnect_released(self._informers, sorted(clusters))

    def _ending(self) -> set[ClusterId]:
        """The clusters that are being left or handed over."""
        return {*self._leave_tasks, *(self._handover[0] if self._handover is not None else ())}

    def _background_tasks(self) -> list[asyncio.Task[None]]:
        """The tasks that leave clusters or hand them over."""
        handover = [self._handover[1]] if self._handover is not None else []
        return [*self._leave_tasks.values(), *handover]

    def _publish_departed(self, desired_connections: dict[ClusterId, ClusterConnection]) -> None:
        """Put `ClusterDeparted` for clusters that no source names, but led objects derive from.

        Not for connected ones, and only if all sources know all their clusters. Drops the fact of
        released clusters in any case.
        """
        desired = self._desired.values()
        released = {c for d in desired for c in d.released}
        for cluster in sorted(released):
            self._informers.drop_fact(ClusterDeparted, cluster)
        if not all(d.complete for d in desired):
            return
        named = {c for d in desired for c in (*d.connections, *d.invalid)} | released
        known = self._informers.connections.keys() | desired_connections.keys() | named
        led = {c.cluster for c in self._informers.connections.values() if Role.LED in c.roles}
        for cluster in sorted(self._reconciler.owned.led_sources(led) - known):
            if self._informers.facts.get(ClusterDeparted, cluster) is None:
                now = self._reconciler.snapshot().now
                self._informers.put_fact(ClusterDeparted(cluster, now))
