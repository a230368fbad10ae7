"""The loop: changes wake keys, a key is planned, and what differs from the plan is written."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from typing import Any

from hanse.kube.clock import Clock
from hanse.kube.errors import Unreachable
from hanse.model.facts import ClusterDeparted, ClusterState, Facts, KindServed, Leadership
from hanse.model.kinds.core import Namespace
from hanse.model.objects import ClusterId, ClusterObjectRef, Object, object_ref
from hanse.model.plan import Call, Feature, Read
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot, Watch
from hanse.runtime.apply import Fence, NoFence, Writer, WriteReport
from hanse.runtime.backoff import BackoffTracker, only_deferrable
from hanse.runtime.concurrency import ConcurrencyLimit, Permit
from hanse.runtime.declared_writes import (
    features_by_kind,
    managed_objects,
    managed_watches,
    require_declared_writes,
)
from hanse.runtime.diff import Action, Create, Diff, Update, diff, target_ref
from hanse.runtime.event_recorder import EventRecorder
from hanse.runtime.guard import Guard
from hanse.runtime.informers import ClusterInformers
from hanse.runtime.lease_tracker import LeaseTracker
from hanse.runtime.mass_deletion import Suspicion
from hanse.runtime.metrics import Metrics
from hanse.runtime.outcomes import WriteOutcomes
from hanse.runtime.ownership import SHARED, OwnershipIndex, owner_of
from hanse.runtime.pause import PAUSE_WATCHES, allowed_mass_deletions, brokers_to_read, pause_reason
from hanse.runtime.questions import Provider, Questions
from hanse.runtime.work import BREATH, FACTS, UNREADABLE, PlannedWork, let_begin
from hanse.runtime.workqueue import FEW, Dequeued, Item, Priority, WorkQueue

log = logging.getLogger(__name__)

SLOW_PLAN = timedelta(milliseconds=20)

_BRAKES = tuple(watch.kind for watch in PAUSE_WATCHES)


class Reconciler:
    """All features of one agent over one fleet.

    Stores and facts follow the clusters from the start; plans are made and carried out only while
    the engine is active, which in an agent with replicas one of them is.
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
        guard: Guard | None = None,
        extra_watches: Sequence[Watch] = (),
    ) -> None:
        self.features = {feature.name: feature for feature in features}
        self.metrics = Metrics()
        watches = [w for feature in features for w in feature.watches]
        self.informers = ClusterInformers(
            [*watches, *PAUSE_WATCHES, *extra_watches], Facts(), clock, local
        )
        self.event_handlers: list[Callable[[Change], None]] = []
        """Who else is told of every change and Event: what this replica serves, active or not."""
        self.informers.change_handler = self
        self.informers.on_watch_event = self.metrics.on_watch_event
        self.owned = OwnershipIndex()
        self._watchers = features_by_kind(features)
        self._makes = {feature.name: managed_watches(feature) for feature in features}
        self.active = False
        self.paused = ""
        self.queue = WorkQueue(_loop_time)
        self.guard = guard or Guard(_loop_time)
        self._system_namespace = system_namespace
        self._patience = BackoffTracker(_loop_time, random, lambda: self.queue.load)
        self._questions = Questions(self.informers, providers or {}, clock, self.queue.add)
        self._herald = EventRecorder(self.informers, clock, self.event_handlers)
        self._pulses = LeaseTracker(self.informers, clock)
        self._outcomes = WriteOutcomes(self.informers, clock)
        self._slots = ConcurrencyLimit()
        self._writer = Writer(self.informers, NoFence(), self._sent)
        self._waiting: dict[ClusterId | ClusterObjectRef, set[Item]] = {}
        self._braked: set[Item] = set()
        self._suspicion = Suspicion(
            self.guard, self.informers, self.owned, self.metrics, self._add_all
        )
        self._group: asyncio.TaskGroup | None = None
        self._errands: set[asyncio.Task[None]] = set()

    def fence(self, fence: Fence) -> None:
        """Let every write be allowed by this first."""
        self._writer = Writer(self.informers, fence, self._sent)

    def snapshot(self) -> Snapshot:
        """Everything as it is known now."""
        return self.informers.snapshot()

    async def answer(self, question: Read | Call) -> Snapshot:
        """Ask what no watch tells, at once; gives the snapshot that knows the answer."""
        await self._questions.answer(question)
        return self.snapshot()

    @asynccontextmanager
    async def running(self, *, active: bool = True) -> AsyncIterator[None]:
        """Follow the fleet, and plan and write while active, until the block ends."""
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
                for task in (dispatcher, *self._errands):
                    task.cancel()

    def _start(self, errand: Coroutine[Any, Any, None], name: str) -> None:
        """Run something that nobody waits for; it ends with the engine."""
        assert self._group is not None, "keys are worked on while the engine runs"
        task = self._group.create_task(errand, name=name)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    def activate(self) -> None:
        """Begin to plan and write: everything known is looked at once."""
        self.active = True
        for cluster in list(self.informers.connections):
            self._wake_by_all_of(cluster)
        for type_ in FACTS:
            for fact in list(self.informers.facts.all(type_)):
                self._wake(FactChange(None, fact), Priority.BACKLOG)
        for item in self.owned.items():
            self.queue.add(item, Priority.BACKLOG)

    def deactivate(self) -> None:
        """Stop planning; what is being written ends on its own."""
        self.active = False
        self.queue.forget()

    async def settled(self) -> None:
        """Wait until nothing is due: for tests, and for commands that show a result."""
        while not self.queue.is_settled:  # noqa: ASYNC110 - no one else needs to know
            await asyncio.sleep(0.01)

    def on_change(self, change: Change, *, listed: bool = False) -> None:
        """Wake the keys that a change concerns."""
        if isinstance(change, ObjectChange):
            after = change.after if change.after is not None else self._elsewhere(change)
            self.owned.change(change.where, change.before, after)
            if type(change.object) in _BRAKES:
                self._notice_brakes()
        elif isinstance(change.fact, ClusterState | KindServed):
            self.metrics.on_cluster_state(change.before, change.after)
            self._notice_brakes()
        self._reconsider(change)
        self._pulses.on_change(change)
        for follower in self.event_handlers:
            follower(change)
        if self.active:
            lane = Priority.BACKLOG if listed else Priority.FRESH
            self._wake(change, lane)
            self._wake_owner(change, lane)
            self._wake_waiting(change)
            self._wake_bereaved(change)

    def enqueue_owners_in(self, cluster: ClusterId) -> None:
        """Look again at every key that owns something in a cluster."""
        for name, key in self.owned.items():
            if any(where == cluster for where, _, _ in self.owned.of(name, key)):
                self.queue.add((name, key), Priority.BACKLOG)

    def on_unwatched(self, where: ClusterId, obj: Object) -> None:
        """What is no longer watched is no longer ours to look after."""
        self.owned.change(where, obj, self._elsewhere(ObjectChange(where, obj, None)))

    def _elsewhere(self, change: ObjectChange) -> Object | None:
        """What another selection still shows of an object that left one."""
        gone = change.object
        for store in self.informers.stores_of(change.where, type(gone).kind):
            found: Object | None = store.get(gone.metadata.namespace, gone.metadata.name)
            if found is not None and found.metadata.uid == gone.metadata.uid:
                return found
        return None

    def _wake_by_all_of(self, cluster: ClusterId) -> None:
        """Wake every key that anything known of a cluster concerns."""
        for (where, _), stores in list(self.informers.stores.items()):
            for store in stores if where == cluster else ():
                for obj in list(store.all()):
                    self._wake(ObjectChange(where, None, obj, live=False), Priority.BACKLOG)

    def _wake(self, change: Change, lane: Priority) -> None:
        deletion = isinstance(change, ObjectChange) and change.after is None and change.live
        seen = self.snapshot()
        for feature in self.features_watching(change):
            try:
                keys = tuple(feature.keys_for(change, seen))
            except Exception:  # one feature's mistake about one object must not end the others
                log.exception("wakes failed", extra={"feature": feature.name})
                self.metrics.mapping_failed(feature.name)
                continue
            for key in keys:
                self.queue.add((feature.name, key), lane, deletion_seen=deletion)

    def features_watching(self, change: Change) -> Iterable[Feature]:
        """The features that watch what changed; facts concern everyone."""
        if isinstance(change, FactChange):
            return self.features.values()
        connection = self.informers.connections.get(change.where)
        roles = connection.roles if connection is not None else frozenset()
        watching = self._watchers.get(type(change.object), ())
        return [feature for feature, of in watching if not of.isdisjoint(roles)]

    def _wake_owner(self, change: Change, lane: Priority) -> None:
        """What we own and somebody touched is looked at again by whoever owns it."""
        if not isinstance(change, ObjectChange):
            return
        for obj in (change.before, change.after):
            owner = owner_of(obj) if obj is not None else None
            if owner is not None and owner.feature in self.features:
                item = (owner.feature, owner.key)
                news = lane is Priority.FRESH and not self.queue.is_processing(
                    item
                )  # neither old nor ours
                if owner.serves == SHARED and news:
                    self._patience.record_others_write()
                self.queue.add(item, lane)

    def _wake_waiting(self, change: Change) -> None:
        """A cluster or an object that keys waited for has changed."""
        waited_for: ClusterId | ClusterObjectRef
        if not self._waiting:
            return
        if isinstance(change, ObjectChange):
            waited_for = ClusterObjectRef(change.where, object_ref(change.object))
        elif isinstance(change.fact, ClusterState | KindServed):
            waited_for = change.fact.cluster
        else:
            return
        self._add_all(self._waiting.pop(waited_for, set()))

    def _wake_bereaved(self, change: Change) -> None:
        """A cluster has left for good, or is another thing to us: look at what it concerns."""
        if not isinstance(change, FactChange):
            return
        match change.before, change.after:
            case _, ClusterDeparted():
                for item in self.owned.items():
                    self.queue.add(item, Priority.BACKLOG)
            case _, Leadership(member):
                self.enqueue_owners_in(member)
            case ClusterState(_, before), ClusterState(cluster, after) if before != after:
                self._wake_by_all_of(cluster)
                self.enqueue_owners_in(cluster)
            case _:
                return

    def _reconsider(self, change: Change) -> None:
        """What came back, be it namespace, kind or cluster, makes refused writes worth a try."""
        again: set[Item] = set()
        if isinstance(change, FactChange):
            if isinstance(change.after, ClusterState | KindServed):
                again = self._patience.forget_refusals(change.after.cluster)
        elif isinstance(change.object, Namespace):
            again = self._patience.forget_refusals(change.where, change.object.metadata.name)
        self._add_all(again)

    def _notice_brakes(self) -> None:
        seen = self.snapshot()
        paused = pause_reason(seen, self._system_namespace)
        if paused != self.paused:
            self.paused = paused
            log.warning("writes paused" if paused else "writes resumed", extra={"why": paused})
            self._add_all(self._braked)
        self._suspicion.lift(allowed_mass_deletions(seen, self._system_namespace))

    def _add_all(self, items: set[Item]) -> None:
        again = sorted(items)
        items.clear()
        for item in again:
            self.queue.add(item, Priority.BACKLOG)

    async def _dispatch(self) -> None:
        slots, breath = self._slots, _loop_time()
        async with asyncio.TaskGroup() as group:
            while True:
                await slots.wait()
                turn = await self.queue.take()
                self.metrics.queue_depth(len(self.queue))
                work = self._planned(turn)
                if work is not None:
                    slot = slots.take({action.where for action in work.actions})
                    name = f"{turn.item[0]} {turn.item[1]}"
                    task = group.create_task(self._carry_out(work, slot), name=name)
                    task.add_done_callback(lambda _, s=slot: s.give_back())  # type: ignore[misc]
                    if len(self.queue) < FEW:
                        await let_begin()
                    continue
                self.queue.done(turn.item)
                slots.free.release()
                if _loop_time() - breath > BREATH.total_seconds():
                    await asyncio.sleep(0)
                    breath = _loop_time()

    def _planned(self, turn: Dequeued) -> PlannedWork | None:
        """Plan a key; gives what is left to do where that takes any time: few do."""
        try:
            work = self._plan(turn)
        except Exception as error:  # noqa: BLE001 - the per-key boundary; told by the next line
            self._crashed(turn.item, error)
            return None
        if work is None or work.actions:
            return work
        self._conclude(work, [])
        return None

    async def _carry_out(self, work: PlannedWork, slot: Permit) -> None:
        try:
            with self.metrics.applying(work.item[0]):
                written = await self._writer.carry_out(work.actions, slot.ended)
            self._conclude(work, written)
            if work.plan.events:
                await self._herald.tell(work.plan.events, written)
        except Exception as error:  # noqa: BLE001 - the per-key boundary; told by the next line
            self._crashed(work.item, error)
        finally:
            self.queue.done(work.item)

    def _sent(self, written: WriteReport) -> None:
        self.metrics.written(written)
        if written.result != "Fenced" and not isinstance(written.error, Unreachable):
            self._slots.answered(written.action.where)

    def _crashed(self, item: Item, error: Exception) -> None:
        told = {"feature": item[0], "key": str(item[1])}
        log.error("plan failed", exc_info=error, extra=told)
        self.metrics.plan_failed(item[0])
        self.queue.add_after(item, self._patience.delay_after_error(item))

    def _conclude(self, work: PlannedWork, written: list[WriteReport]) -> None:
        """See to what comes after a plan and its writes."""
        item, plan = work.item, work.plan
        self._outcomes.tell(item, work.wanted, written, {target_ref(a) for a in work.actions})
        retry = self._patience.record(item, written)
        for delay in (retry, plan.requeue_after):
            if delay is not None:
                self.queue.add_after(item, delay)
        self._patience.recovered(item)

    def _plan(self, turn: Dequeued) -> PlannedWork | None:
        """What a key wants, and what of it may be written now; None while too little is known."""
        item = (name, key) = turn.item
        feature = self.features.get(name)
        if feature is None or not self.active:
            return None
        seen = self.snapshot()
        home = seen.fact(ClusterState, seen.local)
        if home is None or not home.listed:
            self._waiting.setdefault(seen.local, set()).add(item)
            return None
        for broker in brokers_to_read(seen):
            self._waiting.setdefault(broker, set()).add(item)
            return None
        with self.metrics.planning(item, SLOW_PLAN):
            plan = feature.plan(key, seen)
            owned = managed_objects(self.owned.of(name, key), self._makes[name], seen)
            wanted = diff(name, key, plan, owned, seen)
        for waited_for in wanted.waiting_for | wanted.blocked_by:
            self._waiting.setdefault(waited_for, set()).add(item)
        if plan.questions and self._group is not None:
            self._questions.ask(item, plan.questions, self._start)
        if wanted.unreadable:
            self.queue.add_after(item, UNREADABLE)
        return PlannedWork(item, plan, wanted, self._allowed(turn, wanted))

    def _is_ending(self, action: Action) -> bool:
        """Whether an action is about what we deleted already: its end wakes who cares."""
        return not isinstance(action, Create) and self.informers.is_deleting(
            action.where, action.base
        )

    def _allowed(self, turn: Dequeued, wanted: Diff) -> list[Action]:
        """What may be written now: not while paused, not too soon, not suspiciously much."""
        actions = [a for a in wanted.actions if not self._is_ending(a)]
        if actions:
            roles = {name: c.roles for name, c in self.informers.connections.items()}
            require_declared_writes(actions, self.features[turn.item[0]].watches, roles)
        if self.paused:
            self._braked.add(turn.item)
            actions = [a for a in actions if isinstance(a, Update) and a.subresource == "status"]
        wished, actions = actions, self._patience.due(turn.item, actions, self.queue.add_after)
        self.queue.set_urgent(turn.item, bool(actions) or not only_deferrable(wished))
        if turn.deletion_seen or not actions:
            return actions
        lifted = allowed_mass_deletions(self.snapshot(), self._system_namespace)
        return self._suspicion.admitted(turn.item, actions, lifted, self._start)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
