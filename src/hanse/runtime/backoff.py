"""When to try again: after failures, after refusals, and when another agent was to write first."""

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from hashlib import blake2b
from random import Random

import msgspec
from msgspec import Struct

from hanse.kube.errors import Unreachable
from hanse.kube.retry import Backoff, retry_delay
from hanse.model.objects import ClusterId, ClusterObjectRef
from hanse.runtime.apply import WriteReport
from hanse.runtime.diff import Action, Create, Delete, Update, is_omission, target_ref
from hanse.runtime.workqueue import Item

REFUSED = Backoff(timedelta(seconds=5), timedelta(minutes=10))
"""What a cluster refuses is not sent again as it is, but now and then: its rules may change."""

HINDERED = Backoff(timedelta(seconds=5), timedelta(minutes=1))
"""Missing rights and names taken by others are mended by people, whom no watch tells of."""

CONTESTED = Backoff(timedelta(seconds=1), timedelta(minutes=2))
"""Somebody undoes what we write, again and again: neither side wins by being faster."""

REPEATS = 5
"""How often somebody may undo the very same write within a while before it counts as contested."""

OWN = 0.2
"""What a repetition counts that nobody else is behind: we decided otherwise, or a person did."""

WHILE = 300.0
MOST_PLACES = 20_000
SETTLE = 0.3
"""Seconds that a shared object waits for what else is about to change it, where nobody waits."""

UNSETTLED = 4.0
"""How many times longer it waits where keys crowd: what else is about to change it comes later."""

CROWDED = 9.0
"""Seconds more for each who is before us where keys crowd: others have a backlog as we have."""

AT_WORK = 30.0
"""Seconds for which nobody steps in where shared objects are being written, if not this one."""

ROUNDING = 0.001
"""What a delay may lose on its way through a timedelta."""

CRASHED = Backoff(timedelta(seconds=1), timedelta(minutes=5))


class _Refusal(Struct, frozen=True):
    item: Item
    digest: bytes
    attempt: int
    until: float


class _Repeats(Struct, frozen=True, gc=False):
    digest: bytes
    count: float
    last: float
    until: float
    left: str
    """The version after it."""
    generation: int


class _Need(Struct, frozen=True, gc=False):
    """Since when a shared object needs a write, and the version that it had then."""

    since: float
    version: str


class BackoffTracker:
    """The engine's memory of what did not work, lost without harm when the agent ends."""

    def __init__(
        self, time: Callable[[], float], random: Random, load: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._time = time
        self._crowd = load
        self._random = random
        self._attempts: dict[Item, int] = {}
        self._crashes: dict[Item, int] = {}
        self._refusals: dict[ClusterObjectRef, _Refusal] = {}
        self._noticed: dict[Item, dict[ClusterObjectRef, _Need]] = {}
        self._others_wrote_at = float("-inf")
        self._repeats: dict[ClusterObjectRef, tuple[_Repeats, ...]] = {}

    def due(
        self, item: Item, actions: Iterable[Action], later: Callable[[Item, timedelta], None]
    ) -> list[Action]:
        """The actions whose time has come; for the others `later` is asked to come back."""
        now = self._time()
        several = list(actions)
        self._notice(item, several, now)
        due: list[Action] = []
        stopped: dict[ClusterId, int] = {}
        for action in several:
            wait = max(
                self._out_of_turn(item, action, now),
                self._refused(action, now),
                self._contested(action, now),
            )
            if wait > ROUNDING:
                later(item, timedelta(seconds=wait))
                stopped[action.where] = min(action.step, stopped.get(action.where, action.step))
            else:
                due.append(action)
        return [a for a in due if is_omission(a) or a.step <= stopped.get(a.where, a.step)]

    def record(self, item: Item, written: Iterable[WriteReport]) -> timedelta | None:
        """Take in how writes ended; gives when to try the key again, if anything failed."""
        delays: list[timedelta] = []
        attempt = self._attempts.get(item, 0)
        for one in written:
            if one.result == "Done":
                self._refusals.pop(one.place, None)
                self._count_repeat(one.action, one.left)
            elif one.result in ("Refused", "Forbidden", "Foreign"):
                delays.append(self._remember_refusal(item, one))
            elif one.error is not None and not isinstance(one.error, Unreachable):
                delays.append(retry_delay(one.error, attempt, self._random) or timedelta(seconds=1))
            elif one.result == "Failed":
                delays.append(retry_delay(Unreachable(), attempt, self._random) or timedelta(0))
        if not delays:
            self._attempts.pop(item, None)
            return None
        self._attempts[item] = attempt + 1
        return min(delays)

    def record_others_write(self) -> None:
        """Take in that another agent wrote something shared: they are at work, one by one."""
        self._others_wrote_at = self._time()

    def forget_refusals(self, where: ClusterId, namespace: str | None = None) -> set[Item]:
        """Forget what a cluster refused, there or in one of its namespaces; gives who wished it."""
        if not self._refusals:
            return set()
        forgotten = [
            place
            for place in self._refusals
            if place.where == where and namespace in (None, place.ref.namespace)
        ]
        return {self._refusals.pop(place).item for place in forgotten}

    def delay_after_error(self, item: Item) -> timedelta:
        """When to try a key again whose plan raised an error that nobody expected."""
        self._crashes[item] = self._crashes.get(item, -1) + 1
        return CRASHED.delay(self._crashes[item], self._random)

    def recovered(self, item: Item) -> None:
        """A plan of the key went through."""
        self._crashes.pop(item, None)

    def _notice(self, item: Item, actions: Iterable[Action], now: float) -> None:
        """Remember since when a key's shared objects need a write, and no longer than they do.

        For all but the first in the order that begins anew when somebody writes: he is at work.
        """
        known = self._noticed.pop(item, {})
        needed: dict[ClusterObjectRef, _Need] = {}
        for action in actions:
            if isinstance(action, Delete) or action.rank is None:
                continue
            place = target_ref(action)
            version = action.base.metadata.resource_version if isinstance(action, Update) else ""
            before = known.get(place)
            if before is None or (action.rank and before.version != version):
                before = _Need(now, version)
            needed[place] = before
        if needed:
            self._noticed[item] = needed

    def _out_of_turn(self, item: Item, action: Action, now: float) -> float:
        """Seconds to leave a shared object to those before us in the order."""
        if isinstance(action, Delete) or action.rank is None:
            return 0.0
        load = self._crowd()
        others = action.rank * (1 + CROWDED * load)
        since = self._noticed[item][target_ref(action)].since
        if action.awaited:
            return since + others - now
        if action.rank:
            since = max(since, min(self._others_wrote_at, since + AT_WORK))
        return since + SETTLE * (1 + UNSETTLED * load) + others - now

    def _refused(self, action: Action, now: float) -> float:
        refusal = self._refusals.get(target_ref(action))
        if refusal is None or refusal.digest != _digest(action):
            return 0.0
        return refusal.until - now

    def _contested(self, action: Action, now: float) -> float:
        known = [r for r in self._repeats.get(target_ref(action), ()) if r.until > now]
        if not known:
            return 0.0  # few are: what an action says is read only where it matters
        digest = _digest(action)
        return max((r.until - now for r in known if r.digest == digest), default=0.0)

    def _count_repeat(self, action: Action, left: str) -> None:
        """Count the same write of the same object; the few last different ones are remembered."""
        place, digest, now = target_ref(action), _digest(action), self._time()
        young = [r for r in self._repeats.get(place, ()) if now - r.last < WHILE]
        same = next((r for r in young if r.digest == digest), None)
        before = same.count if same is not None else 0.0
        count = before + (1 if not young or _is_undone(action, young[-1]) else OWN)
        until = now
        if count > REPEATS:
            until += CONTESTED.delay(int(count - REPEATS), self._random).total_seconds()
        others = [r for r in young if r.digest != digest][-3:]
        newest = _Repeats(digest, count, now, until, left, _generation(action))
        self._repeats.pop(place, None)  # so that the oldest stand first
        self._repeats[place] = (*others, newest)
        self._forget_repeats(now)

    def _forget_repeats(self, now: float) -> None:
        """Drop what is too old to count, and the oldest of what is too much."""
        while True:
            place, repeats = next(iter(self._repeats.items()))
            if now - repeats[-1].last < WHILE and len(self._repeats) <= MOST_PLACES:
                return
            del self._repeats[place]

    def _remember_refusal(self, item: Item, written: WriteReport) -> timedelta:
        digest = _digest(written.action)
        known = self._refusals.get(written.place)
        attempt = known.attempt + 1 if known is not None and known.digest == digest else 0
        backoff = REFUSED if written.result == "Refused" else HINDERED
        delay = backoff.delay(attempt, self._random)
        until = self._time() + delay.total_seconds()
        self._refusals[written.place] = _Refusal(item, digest, attempt, until)
        return delay


def _is_undone(action: Action, last: _Repeats) -> bool:
    """Whether somebody else changed what our last write of an object left.

    What a person changed in its spec is no contest about its status.
    """
    about_status = isinstance(action, Update) and action.subresource == "status"
    if about_status and _generation(action) != last.generation:
        return False
    found = "" if isinstance(action, Create) else action.base.metadata.resource_version
    return found != last.left


def _generation(action: Action) -> int:
    return 0 if isinstance(action, Create) else action.base.metadata.generation


def only_deferrable(actions: Sequence[Action]) -> bool:
    """Whether a plan wishes nothing but what is shared, and nobody waits for."""
    return bool(actions) and all(
        not isinstance(a, Delete) and a.rank is not None and not a.awaited for a in actions
    )


def _digest(action: Action) -> bytes:
    match action:
        case Create(_, obj):
            told = msgspec.json.encode(("create", obj))
        case Update(_, base, change, subresource):
            told = msgspec.json.encode(("update", base.metadata.uid, change, subresource))
        case Delete(_, base):
            told = msgspec.json.encode(("delete", base.metadata.name))
    return blake2b(told, digest_size=8).digest()
