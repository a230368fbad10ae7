"""The control loop: changes enqueue keys, a key is planned, and the diff to its plan is applied."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from time import perf_counter
from typing import Any

from msgspec import Struct

from hanse.kube.clock import Clock, loop_time
from hanse.kube.errors import Unreachable
from hanse.kube.watch_events import WatchEvent
from hanse.model.clusterset import identity_error, may_tell_identity
from hanse.model.facts import ClusterState, Facts, KindServed
from hanse.model.objects import ClusterId, Object
from hanse.model.plan import Call, EventRequest, Feature, Plan, Read
from hanse.model.snapshot import Change, ObjectChange, Snapshot, Watch
from hanse.runtime.actions import Action, Create, Diff, Update, target_ref
from hanse.runtime.apply import Fence, NoFence, WriteOutcomes, Writer, WriteReport
from hanse.runtime.backoff import BackoffTracker, only_deferrable
from hanse.runtime.concurrency import ConcurrencyLimit, Permit
from hanse.runtime.connection import Scope
from hanse.runtime.declared_writes import (
    managed_objects,
    managed_watches,
    require_declared_writes,
)
from hanse.runtime.diff import diff
from hanse.runtime.enqueue import Enqueuer
from hanse.runtime.event_recorder import EventRecorder
from hanse.runtime.informers import ClusterInformers
from hanse.runtime.lease_tracker import LeaseTracker
from hanse.runtime.mass_deletion import DeletionCounter, MassDeletionGuard
from hanse.runtime.metrics import Metrics
from hanse.runtime.namespace_guard import NamespaceGuard
from hanse.runtime.ownership import OwnershipIndex
from hanse.runtime.pause import (
    PAUSE_WATCHES,
    allowed_mass_deletions,
    brokers_to_read,
    pause_reason,
)
from hanse.runtime.questions import Provider, Questions
from hanse.runtime.workqueue import LIGHT_LOAD, Dequeued, Item, Priority, WorkQueue

log = logging.getLogger(__name__)

SLOW_PLAN = timedelta(milliseconds=20)

REPAIR_INTERVAL = timedelta(seconds=1)
"""How often a repair repeats writes that failed or were forbidden."""

YIELD_INTERVAL = timedelta(milliseconds=5)
"""How long plans without writes may follow each other before other tasks get the loop."""

UNREADABLE_RETRY = timedelta(minutes=1)
"""When a key is planned again that an unreadable object blocks: no event says that it is fixed."""

_PAUSE_KINDS = tuple(watch.kind for watch in PAUSE_WATCHES)


class PlannedWork(Struct, frozen=True):
    """A key's plan, its diff, and the actions of the diff that may be applied now."""

    item: Item
    plan: Plan
    diff: Diff
    actions: list[Action]


class Reconciler:
    """Runs all features of one agent over all connected clusters.

    Informers and facts are kept up to date from the start; plans are made and applied only while
    the reconciler is active, which among an agent's replicas one is.
    """

    def __init__(
        self,
        features: Sequence[Feature],
        local: ClusterId,
        *,
        clock: Clock,
        random: Random,
        system_namespace: str = "hanse-system",
        providers: dict[str, Provider] | None = None,
        extra_watches: Sequence[Watch] = (),
    ) -> None:
        """Build the parts of the loop, not running; `extra_watches` are for other readers.

        Without `providers` no calls are answered; until `set_fence` an agent writes as the only
        replica and leads no member.
        """
        self.features = {feature.name: feature for feature in features}
        self.metrics = Metrics()
        watches = [w for feature in features for w in feature.watches]
        self.informers = ClusterInformers(
            [*watches, *PAUSE_WATCHES, *extra_watches], Facts(), clock, local
        )
        self.informers.change_handler = self
        self.informers.on_watch_event = self._on_watch_event
        self.event_handlers: list[Callable[[Change], None]] = []
        """Subscribers to every change and recorded Event, whether the replica is active or not."""
        self.owned = OwnershipIndex()
        self.active = False
        self.paused = ""  # why writes are paused; empty when they are not
        self.refused = ""
        """Why this agent may write nothing at all, for good; empty if it may."""
        self.on_refused: Callable[[str], None] = lambda _: None
        self.queue = WorkQueue(loop_time)
        self._system_namespace = system_namespace
        self._managed = {feature.name: managed_watches(feature) for feature in features}
        self._backoff = BackoffTracker(loop_time, random, lambda: self.queue.load)
        self.enqueuer = Enqueuer(
            self.features,
            self.informers,
            self.owned,
            self.queue,
            self._backoff,
            self.metrics,
            NamespaceGuard(watches, self.informers, self.queue, loop_time),
        )
        self.mass_deletion = MassDeletionGuard(
            DeletionCounter(loop_time),
            self.informers,
            self.owned,
            self.metrics,
            self.enqueuer.enqueue_all,
        )
        self._questions = Questions(
            self.informers, providers or {}, clock, self.queue.add, self.queue.add_after
        )
        self._recorder = EventRecorder(self.informers, clock, self.event_handlers)
        self._outcomes = WriteOutcomes(self.informers, clock)
        self._concurrency = ConcurrencyLimit()
        self._writer = Writer(self.informers, NoFence(), self._on_write)
        self._paused_items: set[Item] = set()
        self._observers = (
            self._index_owned,
            self._observe_identity,
            self._observe_pause,
            self.enqueuer.retry_refused,
            LeaseTracker(self.informers, clock).on_change,
        )
        self._group: asyncio.TaskGroup | None = None
        self._background_tasks: set[asyncio.Task[None]] = set()

    async def record_event(self, request: EventRequest) -> None:
        """Record an Event about an object, whether or not it was written.

        Nothing if its cluster is not connected or the object is not known.
        """
        await self._recorder.record_one(request)

    def set_fence(self, fence: Fence) -> None:
        """Ask this fence, in place of the one before, before every write from now on."""
        self._writer = Writer(self.informers, fence, self._on_write)

    def snapshot(self) -> Snapshot:
        """Everything as it is known now."""
        return self.informers.snapshot()

    async def answer(self, question: Read | Call) -> Snapshot:
        """Answer a question now, by a live read or a call; returns a snapshot with the answer.

        The answer is a fact, also if it is an error.
        """
        await self._questions.answer(question)
        return self.snapshot()

    @asynccontextmanager
    async def running(self, *, active: bool = True) -> AsyncIterator[None]:
        """Run informers, and plan and apply while active, until the block ends.

        At the end all tasks are cancelled, also writes under way. `active`: whether to activate at
        once.
        """
        async with self.informers.running(), asyncio.TaskGroup() as group:
            self._group = group
            dispatcher = group.create_task(self._dispatch(), name="dispatch")
            if active:
                self.activate()
            try:
                yield
            finally:
                self.deactivate()
                self._group = None
                for task in (dispatcher, *self._background_tasks):
                    task.cancel()

    def start_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Start a task that nobody waits for; it is cancelled when the reconciler stops."""
        assert self._group is not None, "keys are planned while the reconciler runs"
        task = self._group.create_task(work, name=name)
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)

    def activate(self) -> None:
        """Begin to plan and apply, with every key that anything known concerns.

        Guarded namespaces are doubted until they are read.
        """
        self.active = True
        self.enqueuer.namespaces.doubt_everything()
        self.enqueuer.enqueue_everything()

    def deactivate(self) -> None:
        """Stop planning and drop all queued keys; writes that are under way end on their own."""
        self.active = False
        self.queue.clear()

    async def repair(self, cluster: ClusterId, *, relist: bool) -> None:
        """Wait until a cluster is listed, with `relist` once more, and all due keys are applied.

        The local cluster is waited for, too: what it has there is derived from what it has at home.
        Writes there that fail or are forbidden are repeated until none does: a new namespace has
        rights a moment later.
        """
        if relist:
            await self.informers.relists.relist(cluster)
        await self.informers.relists.wait_until_listed(cluster)
        await self.informers.relists.wait_until_listed(self.informers.local)
        await self.queue.wait_for_due()
        while self._outcomes.has_failed_in(cluster):
            await asyncio.sleep(REPAIR_INTERVAL.total_seconds())
            self.enqueuer.enqueue_all(self._backoff.forget_refusals(cluster))
            await self.queue.wait_for_due()

    # -- changes

    def on_change(self, change: Change, *, listed: bool = False) -> None:
        """Observe a change, notify the subscribers, and while active enqueue the keys concerned.

        Keys of a list (`listed`) have priority BACKLOG, others FRESH.
        """
        for observe in self._observers:
            observe(change)
        for handle in self.event_handlers:
            handle(change)
        if self.active:
            self.enqueuer.on_change(change, Priority.BACKLOG if listed else Priority.FRESH)

    def on_unwatched(self, where: ClusterId, obj: Object) -> None:
        """Drop an object of a stopped informer from the ownership index, unless another has it."""
        self._index_owned(ObjectChange(where, obj, None))

    def _index_owned(self, change: Change) -> None:
        """Update the index of owned objects by a change; facts are ignored.

        An object that only left the selector of one store, and is in another, stays in it.
        """
        if isinstance(change, ObjectChange):
            after = change.after if change.after is not None else self._still_visible(change)
            self.owned.update(change.where, change.before, after)

    def _still_visible(self, change: ObjectChange) -> Object | None:
        """The object with the same name and uid in a store of its kind, else None."""
        gone = change.object
        for store in self.informers.stores_of(change.where, type(gone).kind):
            found: Object | None = store.get(gone.metadata.namespace, gone.metadata.name)
            if found is not None and found.metadata.uid == gone.metadata.uid:
                return found
        return None

    def _observe_identity(self, change: Change) -> None:
        """Refuse all further writes for good if another cluster has our id on the broker.

        That is logged, and `on_refused` is called once.
        """
        if not self.refused and may_tell_identity(change, self.informers.local):
            self.refused = identity_error(self.snapshot())
            if self.refused:
                log.error("agent refused", extra={"why": self.refused})
                self.on_refused(self.refused)

    def _observe_pause(self, change: Change) -> None:
        """Set `paused` by a change; if that differs, log it and enqueue the keys that were paused.

        Also releases holds of deletions that a person allows, and sets the metric of reachability.
        Only changes of PAUSE_WATCHES' kinds, and facts of cluster states and served kinds count.
        """
        if isinstance(change, ObjectChange):
            if type(change.object) not in _PAUSE_KINDS:
                return
        elif isinstance(change.fact, ClusterState | KindServed):
            self.metrics.on_cluster_state(change.before, change.after)
        else:
            return
        snapshot = self.snapshot()
        paused = pause_reason(snapshot, self._system_namespace)
        if paused != self.paused:
            self.paused = paused
            log.warning("writes paused" if paused else "writes resumed", extra={"why": paused})
            self.enqueuer.enqueue_all(self._paused_items)
        allowed = allowed_mass_deletions(snapshot, self._system_namespace)
        self.mass_deletion.release_allowed(allowed)

    def _on_watch_event(self, cluster: ClusterId, scope: Scope, event: WatchEvent[Any]) -> None:
        """Count a watch event in the metrics; a list on a broker doubts its namespace."""
        self.metrics.on_watch_event(cluster, scope, event)
        self.enqueuer.namespaces.on_watch_event(cluster, scope, event)

    # -- keys

    async def _dispatch(self) -> None:
        """Plan keys one by one, for ever; apply their writes in tasks, as many as the limit lets.

        A key without writes is done at once. At intervals other tasks get the loop.
        """
        limit, yielded_at = self._concurrency, loop_time()
        async with asyncio.TaskGroup() as group:
            while True:
                await limit.acquire()
                dequeued = await self.queue.take()
                self.metrics.queue_depth(len(self.queue))
                work = self._plan_or_finish(dequeued)
                if work is not None:
                    permit = limit.permit({action.where for action in work.actions})
                    name = f"{dequeued.item[0]} {dequeued.item[1]}"
                    task = group.create_task(self._apply_work(work, permit), name=name)
                    task.add_done_callback(lambda _, p=permit: p.release())  # type: ignore[misc]
                    if len(self.queue) < LIGHT_LOAD:
                        await _let_requests_start()
                    continue
                self.queue.done(dequeued.item)
                limit.free.release()
                if loop_time() - yielded_at > YIELD_INTERVAL.total_seconds():
                    await asyncio.sleep(0)
                    yielded_at = loop_time()

    def _plan_or_finish(self, dequeued: Dequeued) -> PlannedWork | None:
        """Plan a key; returns work that has actions, else None: it is finished or retried.

        An error of the plan is logged and counted, and the key retried after a backoff.
        """
        try:
            work = self._plan(dequeued)
        except Exception as error:  # noqa: BLE001 - the per-key boundary; logged by the next line
            self._on_error(dequeued.item, error)
            return None
        if work is None or work.actions:
            return work
        self._finish(work, [])
        return None

    def _plan(self, dequeued: Dequeued) -> PlannedWork | None:
        """Plan and diff a key, and start to answer its questions; what blocks it enqueues it again.

        None if this replica is inactive or the feature unknown: the key is dropped. None, too,
        while the local cluster is partial or a connecting broker was never read: the key waits for
        that cluster.
        """
        item = (name, key) = dequeued.item
        feature = self.features.get(name)
        if feature is None or not self.active:
            return None
        snapshot = self.snapshot()
        local = snapshot.fact(ClusterState, snapshot.local)
        if local is None or local.is_partial:
            self.enqueuer.wait_for(item, (snapshot.local,))
            return None
        if unread := brokers_to_read(snapshot):
            self.enqueuer.wait_for(item, unread[:1])
            return None
        started = perf_counter()
        plan = feature.plan(key, snapshot)
        owned = managed_objects(self.owned.of(name, key), self._managed[name], snapshot)
        found = diff(name, key, plan, owned, snapshot)
        self.metrics.observe_plan(item, perf_counter() - started, SLOW_PLAN)
        self._backoff.observe_plan(item, plan)
        self.enqueuer.wait_for(item, found.waiting_for | found.blocked_by)
        if plan.questions and self._group is not None:
            self._questions.ask(item, plan.questions, self.start_background)
        if found.unreadable:
            self.queue.add_after(item, UNREADABLE_RETRY)
        return PlannedWork(item, plan, found, self._allowed(dequeued, found))

    def _allowed(self, dequeued: Dequeued, found: Diff) -> list[Action]:
        """The actions to apply now: not paused, backed off, held, or under way already.

        While writes are paused only those of status; none if this agent is refused. Too many
        deletions are held only if no live deletion event enqueued the key. Raises `UndeclaredWrite`
        for an action that the feature's watches do not declare.
        """
        actions = [a for a in found.actions if not self._is_deletion_pending(a)]
        if actions:
            roles = {name: c.roles for name, c in self.informers.connections.items()}
            require_declared_writes(actions, self.features[dequeued.item[0]].watches, roles)
        if self.refused:
            return []
        if self.paused:
            self._paused_items.add(dequeued.item)
            actions = [a for a in actions if isinstance(a, Update) and a.subresource == "status"]
        due = self._backoff.take_due(dequeued.item, actions, self.queue.add_after)
        due = self.enqueuer.namespaces.hold_doubted(dequeued, due, self.start_background)
        self.queue.set_urgent(dequeued.item, bool(due) or not only_deferrable(actions))
        if dequeued.deletion_seen or not due:
            return due
        allowed = allowed_mass_deletions(self.snapshot(), self._system_namespace)
        return self.mass_deletion.hold_excess(dequeued.item, due, allowed, self.start_background)

    def _is_deletion_pending(self, action: Action) -> bool:
        """Whether we deleted the object already, and its watch event has not come yet.

        That event enqueues its owner. False for a create.
        """
        if isinstance(action, Create):
            return False
        return self.informers.is_deletion_pending(action.where, action.base)

    async def _apply_work(self, work: PlannedWork, permit: Permit) -> None:
        """Write a key's actions, record the result and its Events, and mark the key as done.

        An error is logged and the key is retried after a backoff; the key is done in any case.
        """
        try:
            with self.metrics.applying(work.item[0]):
                reports = await self._writer.apply(work.actions, permit.finish_cluster)
            self._finish(work, reports)
            if work.plan.events:
                await self._recorder.record(work.plan.events, reports)
        except Exception as error:  # noqa: BLE001 - the per-key boundary; logged by the next line
            self._on_error(work.item, error)
        finally:
            self.queue.done(work.item)

    def _finish(self, work: PlannedWork, reports: list[WriteReport]) -> None:
        """Record how the writes of a plan ended, and forget earlier errors of its key.

        The key is enqueued again after a backoff, if a write was not done, and after the plan's
        `requeue_after`, if there is one.
        """
        item, tried = work.item, {target_ref(action) for action in work.actions}
        self._outcomes.record(item, work.diff, reports, tried)
        for delay in (self._backoff.record(item, reports), work.plan.requeue_after):
            if delay is not None:
                self.queue.add_after(item, delay)
        self._backoff.forget_errors(item)

    def _on_write(self, report: WriteReport) -> None:
        """Count a write in the metrics, and record that its cluster has answered.

        The latter also after an error, but not if it was fenced, or the cluster was unreachable.
        """
        self.metrics.count_write(report)
        if report.result != "Fenced" and not isinstance(report.error, Unreachable):
            self._concurrency.record_answer(report.action.where)

    def _on_error(self, item: Item, error: Exception) -> None:
        """Log and count a key's error, and enqueue the key again after its backoff."""
        fields = {"feature": item[0], "key": str(item[1])}
        log.error("plan failed", exc_info=error, extra=fields)
        self.metrics.plan_failed(item[0])
        self.queue.add_after(item, self._backoff.delay_after_error(item))


async def _let_requests_start() -> None:
    """Let other tasks run twice: so a new task, and then those it starts, get to their requests."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
