"""When to retry: after failures, after refusals, and when another agent is to write first."""

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from hashlib import blake2b
from random import Random

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hanse.kube.errors import Unreachable
from hanse.kube.retry import Backoff, retry_delay
from hanse.model.objects import ClusterId, ClusterObjectRef, object_ref
from hanse.model.plan import Plan
from hanse.runtime.actions import Action, Create, Delete, Update, is_omission, target_ref
from hanse.runtime.apply import WriteReport
from hanse.runtime.workqueue import Item

REFUSED = Backoff(timedelta(seconds=5), timedelta(minutes=1))
"""For a write that a cluster refused: people mend policies, rights and names in use, unseen."""

CONTESTED = Backoff(timedelta(seconds=1), timedelta(minutes=2))
"""For a write that somebody else undoes again and again: neither side wins by being faster."""

ERRORS = Backoff(timedelta(seconds=1), timedelta(minutes=5))
"""For a plan that raised an unexpected error."""

CONTEST_REPEATS = 5
"""How often the very same write may be undone within the window before it is contested."""

OWN_REPEAT = 0.2
"""What a repeated write counts when nobody else changed the object in between."""

CONTEST_WINDOW = 300.0
MAX_TRACKED = 20_000

SHARED_DELAY = 0.3
"""Seconds that a shared object waits for further changes, unless others wait for it."""

SHARED_DELAY_GROWTH = 4.0
"""How many times longer it waits in addition under full load."""

RANK_DELAY_GROWTH = 9.0
"""Seconds more for each agent before us under full load: others have a backlog as we have."""

OTHERS_ACTIVE = 30.0
"""Seconds for which we leave shared objects to the agents before us while these write others."""

ROUNDING = 0.001
"""What a delay may lose when it becomes a timedelta."""


class _Refusal(Struct, frozen=True):
    item: Item
    digest: bytes
    attempt: int
    until: float


class _Repeats(Struct, frozen=True, gc=False):
    """How often one write of an object was sent within the window."""

    digest: bytes
    count: float
    last: float
    until: float
    resource_version: str
    """The version that the write returned."""
    generation: int
    item: Item
    deletes: bool
    superseded: bool = False
    """Whether we planned otherwise since: then nobody has to have undone it."""


class _Pending(Struct, frozen=True, gc=False):
    """Since when a shared object needs a write, and the version that it had then."""

    since: float
    resource_version: str


class BackoffTracker:
    """Remembers what did not work, in memory only: an agent that restarts loses it without harm."""

    def __init__(
        self, time: Callable[[], float], random: Random, load: Callable[[], float] = lambda: 0.0
    ) -> None:
        """Nothing is backed off yet; `time` gives the seconds of a monotonic clock.

        The larger `load()` is, the longer writes of shared objects wait for more changes and for
        others; `random` spreads retries.
        """
        self._time = time
        self._load = load
        self._random = random
        self._attempts: dict[Item, int] = {}
        self._errors: dict[Item, int] = {}
        self._refusals: dict[ClusterObjectRef, _Refusal] = {}
        self._pending: dict[Item, dict[ClusterObjectRef, _Pending]] = {}
        self._others_wrote_at = float("-inf")
        self._repeats: dict[ClusterObjectRef, tuple[_Repeats, ...]] = {}
        self._written: dict[Item, set[ClusterObjectRef]] = {}
        """The objects in `_repeats`, by the keys that wrote them."""

    def observe_plan(self, item: Item, plan: Plan) -> None:
        """Mark the earlier writes of a key that this plan contradicts as superseded.

        That is a deletion of what it desires or patches, or a write of what it does not; none if it
        keeps all. When one is repeated later, it is our own decision, and does not count as
        contested by others.
        """
        if item not in self._written or plan.keep_all:
            return
        wanted = {ClusterObjectRef(d.where, object_ref(d.object)) for d in plan.desired}
        wanted.update(patch.target for patch in plan.patches)
        for place in self._written[item]:
            self._repeats[place] = tuple(
                replace(r, superseded=True) if r.deletes == (place in wanted) else r
                for r in self._repeats[place]
            )

    def take_due(
        self, item: Item, actions: Iterable[Action], retry_after: Callable[[Item, timedelta], None]
    ) -> list[Action]:
        """The actions that may be sent now; `retry_after` is called for each that has to wait.

        One waits after a refusal, while it is contested, and as a shared object for more changes
        and other agents. It also holds back the later steps of its cluster, but no omissions.
        """
        now = self._time()
        several = list(actions)
        self._track_pending(item, several, now)
        due: list[Action] = []
        stopped: dict[ClusterId, int] = {}
        for action in several:
            wait = max(
                self._rank_wait(item, action, now),
                self._refusal_wait(action, now),
                self._contest_wait(action, now),
            )
            if wait > ROUNDING:
                retry_after(item, timedelta(seconds=wait))
                stopped[action.where] = min(action.step, stopped.get(action.where, action.step))
            else:
                due.append(action)
        return [a for a in due if is_omission(a) or a.step <= stopped.get(a.where, a.step)]

    def record(self, item: Item, reports: Iterable[WriteReport]) -> timedelta | None:
        """Record how writes ended; returns the shortest delay to retry the key.

        None if all are done, which resets the key's attempts. A write that is done ends its
        object's refusal and counts as one more repeat; one that was refused, forbidden or foreign
        is not sent again unchanged before a delay of its own.
        """
        delays: list[timedelta] = []
        attempt = self._attempts.get(item, 0)
        for report in reports:
            if report.result == "Done":
                self._refusals.pop(report.target, None)
                self._count_repeat(item, report.action, report.resource_version)
            elif report.result in ("Refused", "Forbidden", "Foreign"):
                delays.append(self._record_refusal(item, report))
            elif report.error is not None and not isinstance(report.error, Unreachable):
                delays.append(
                    retry_delay(report.error, attempt, self._random) or timedelta(seconds=1)
                )
            elif report.result in ("Failed", "Fenced"):  # a late renewal makes no event
                delays.append(retry_delay(Unreachable(), attempt, self._random) or timedelta(0))
        if not delays:
            self._attempts.pop(item, None)
            return None
        self._attempts[item] = attempt + 1
        return min(delays)

    def record_others_write(self) -> None:
        """Postpone our own writes of shared objects: another agent has written one just now.

        Their delay counts from now, by at most OTHERS_ACTIVE longer. Not postponed are awaited
        objects, and those for which we are first in rank.
        """
        self._others_wrote_at = self._time()

    def forget_refusals(self, where: ClusterId, namespace: str | None = None) -> set[Item]:
        """Forget refused writes in a cluster, or in one of its namespaces; returns their keys."""
        if not self._refusals:
            return set()
        forgotten = [
            place
            for place in self._refusals
            if place.where == where and namespace in (None, place.ref.namespace)
        ]
        return {self._refusals.pop(place).item for place in forgotten}

    def delay_after_error(self, item: Item) -> timedelta:
        """Count an unexpected error of a key, and return the delay until its retry, by ERRORS."""
        self._errors[item] = self._errors.get(item, -1) + 1
        return ERRORS.delay(self._errors[item], self._random)

    def forget_errors(self, item: Item) -> None:
        """Reset the count of a key's errors, so that its next one has the shortest delay."""
        self._errors.pop(item, None)

    def _track_pending(self, item: Item, actions: Iterable[Action], now: float) -> None:
        """Keep since when each shared object of a key needs a write, and drop the key's others.

        Except for rank 0, that time restarts when the object has another version than before, since
        another agent wrote it.
        """
        known = self._pending.pop(item, {})
        pending: dict[ClusterObjectRef, _Pending] = {}
        for action in actions:
            if isinstance(action, Delete) or action.rank is None:
                continue
            place = target_ref(action)
            version = action.base.metadata.resource_version if isinstance(action, Update) else ""
            before = known.get(place)
            if before is None or (action.rank and before.resource_version != version):
                before = _Pending(now, version)
            pending[place] = before
        if pending:
            self._pending[item] = pending

    def _rank_wait(self, item: Item, action: Action, now: float) -> float:
        """Seconds until a shared object is written: for more changes, and for agents before us.

        0 or less: none, as for deletions and objects of our own. An awaited object does not wait
        for more changes; the wait grows with the load.
        """
        if isinstance(action, Delete) or action.rank is None:
            return 0.0
        load = self._load()
        others = action.rank * (1 + RANK_DELAY_GROWTH * load)
        since = self._pending[item][target_ref(action)].since
        if action.awaited:
            return since + others - now
        if action.rank:
            since = max(since, min(self._others_wrote_at, since + OTHERS_ACTIVE))
        return since + SHARED_DELAY * (1 + SHARED_DELAY_GROWTH * load) + others - now

    def _refusal_wait(self, action: Action, now: float) -> float:
        """Seconds until the same write as the refused one is sent again, not above 0 if now.

        0 for another write.
        """
        refusal = self._refusals.get(target_ref(action))
        if refusal is None or refusal.digest != _digest(action):
            return 0.0
        return refusal.until - now

    def _contest_wait(self, action: Action, now: float) -> float:
        """Seconds that a write has to wait since it was repeated against others' writes; else 0.

        Another write of the same object does not wait.
        """
        contested = [r for r in self._repeats.get(target_ref(action), ()) if r.until > now]
        if not contested:
            return 0.0  # the usual case: no need to compute the digest
        digest = _digest(action)
        return max((r.until - now for r in contested if r.digest == digest), default=0.0)

    def _count_repeat(self, item: Item, action: Action, resource_version: str) -> None:
        """Count how often the same write of an object was done, a window apart at most.

        Beyond CONTEST_REPEATS the next same write has to wait. One that nobody undid, or that we
        decided otherwise in between, counts OWN_REPEAT, not 1. Of other recent writes of the object
        three are kept.
        """
        place, digest, now = target_ref(action), _digest(action), self._time()
        recent = [r for r in self._repeats.get(place, ()) if now - r.last < CONTEST_WINDOW]
        same = next((r for r in recent if r.digest == digest), None)
        before = same.count if same is not None else 0.0
        superseded = same is not None and same.superseded
        undone = not recent or (not superseded and _was_undone(action, recent[-1]))
        count = before + (1 if undone else OWN_REPEAT)
        until = now
        if count > CONTEST_REPEATS:
            until += CONTESTED.delay(int(count - CONTEST_REPEATS), self._random).total_seconds()
        others = [r for r in recent if r.digest != digest][-3:]
        newest = _Repeats(
            digest,
            count,
            now,
            until,
            resource_version,
            _object_generation(action),
            item,
            isinstance(action, Delete),
        )
        self._forget_repeats(place)  # so that the dictionary stays in order of age
        self._repeats[place] = (*others, newest)
        for repeat in self._repeats[place]:
            self._written.setdefault(repeat.item, set()).add(place)
        self._drop_old_repeats(now)

    def _drop_old_repeats(self, now: float) -> None:
        """Forget objects last written before CONTEST_WINDOW, and the oldest beyond MAX_TRACKED."""
        while True:
            place, repeats = next(iter(self._repeats.items()))
            if now - repeats[-1].last < CONTEST_WINDOW and len(self._repeats) <= MAX_TRACKED:
                return
            self._forget_repeats(place)

    def _forget_repeats(self, place: ClusterObjectRef) -> None:
        """Forget the writes of an object; nothing if there are none."""
        for repeat in self._repeats.pop(place, ()):
            places = self._written.get(repeat.item, set())
            places.discard(place)
            if not places:
                self._written.pop(repeat.item, None)

    def _record_refusal(self, item: Item, report: WriteReport) -> timedelta:
        """Record a refused, forbidden or foreign write; returns the delay until it is retried.

        The delay grows with each refusal of the same write, and is the shortest for another one.
        The oldest refusals beyond MAX_TRACKED are dropped.
        """
        digest = _digest(report.action)
        known = self._refusals.get(report.target)
        attempt = known.attempt + 1 if known is not None and known.digest == digest else 0
        delay = REFUSED.delay(attempt, self._random)
        until = self._time() + delay.total_seconds()
        self._refusals.pop(report.target, None)  # so that the dictionary stays in order of age
        self._refusals[report.target] = _Refusal(item, digest, attempt, until)
        if len(self._refusals) > MAX_TRACKED:
            del self._refusals[next(iter(self._refusals))]
        return delay


def _was_undone(action: Action, last: _Repeats) -> bool:
    """Whether an object is not as our last write left it, so that somebody else changed it.

    That is by its resourceVersion, empty for an absent object. A write of status is not undone by a
    change of the spec.
    """
    of_status = isinstance(action, Update) and action.subresource == "status"
    if of_status and _object_generation(action) != last.generation:
        return False
    observed = "" if isinstance(action, Create) else action.base.metadata.resource_version
    return observed != last.resource_version


def _object_generation(action: Action) -> int:
    """The generation of the object that an action changes; 0 for a new one."""
    return 0 if isinstance(action, Create) else action.base.metadata.generation


def only_deferrable(actions: Sequence[Action]) -> bool:
    """Whether all actions create or patch shared objects that nobody waits for.

    False without actions.
    """
    return bool(actions) and all(
        not isinstance(a, Delete) and a.rank is not None and not a.awaited for a in actions
    )


def _digest(action: Action) -> bytes:
    """A hash of what an action writes, by which the same write is recognized.

    Of a deletion only of the object's name; where, step and leadership do not count.
    """
    match action:
        case Create(_, obj):
            content = msgspec.json.encode(("create", obj))
        case Update(_, base, change, subresource):
            content = msgspec.json.encode(("update", base.metadata.uid, change, subresource))
        case Delete(_, base):
            content = msgspec.json.encode(("delete", base.metadata.name))
    return blake2b(content, digest_size=8).digest()
