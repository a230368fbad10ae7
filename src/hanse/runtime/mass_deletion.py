"""Holds deletions when too many come at once, until a second full list confirms them."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from msgspec import Struct

from hanse.model.facts import DeletionsHeld
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.objects import ClusterId, Object
from hanse.runtime.actions import Action, Delete, is_omission
from hanse.runtime.informers import ClusterInformers
from hanse.runtime.metrics import Metrics
from hanse.runtime.ownership import OwnershipIndex
from hanse.runtime.questions import StartTask
from hanse.runtime.workqueue import Item

log = logging.getLogger(__name__)


class DeletionLimit(Struct, frozen=True):
    """How many keys of a feature may lose what users use in one cluster within a while.

    Deletions are held once they exceed both the number of keys and the share of those in use.
    """

    keys: int = 10
    share: float = 0.1
    within: timedelta = timedelta(minutes=1)


class Hold(Struct, frozen=True):
    """Deletions that are held in one cluster for one feature: since when, and of how many keys."""

    where: ClusterId
    feature: str
    since: float
    deletions: int


def is_in_use(obj: Object) -> bool:
    """Whether users lose something if an object is deleted.

    False for a Service, a ServiceImport and an EndpointSlice of which no endpoint serves: imports
    are worth what is behind them. True for all other objects.
    """
    match obj:
        case EndpointSlice():
            return any(endpoint.serving for endpoint in obj.endpoints or ())
        case Service() | ServiceImport():
            return False
        case _:
            return True


class DeletionCounter:
    """Counts keys that lose something in a sliding window, and holds the excess."""

    def __init__(self, time: Callable[[], float], limit: DeletionLimit | None = None) -> None:
        """Nothing is counted or held yet; `time` gives the seconds of a monotonic clock.

        Without `limit` the defaults of `DeletionLimit` apply.
        """
        self._time = time
        self._limit = limit or DeletionLimit()
        self._recent: dict[tuple[ClusterId, str], deque[float]] = {}
        self._in_use: dict[tuple[ClusterId, str], int] = {}
        """How many keys were in use when the number of deletions of a window exceeded the limit."""
        self._holds: dict[tuple[ClusterId, str], Hold] = {}
        self._released_until: dict[tuple[ClusterId, str], float] = {}

    @property
    def holds(self) -> tuple[Hold, ...]:
        """The holds that last now, at most one for each cluster and feature."""
        return tuple(self._holds.values())

    def admits(self, where: ClusterId, feature: str, in_use: Callable[[], int]) -> bool:
        """Whether one more key of a feature may lose what it has in a cluster; if so, counts it.

        False during a hold, which begins when the keys counted within the window, and this one,
        exceed both `limit.keys` and `limit.share` of the keys in use: `in_use()` and those counted.
        In the window after a release it is True, and nothing is counted.
        """
        place = (where, feature)
        now = self._time()
        if now < self._released_until.get(place, 0.0):
            return True
        if place in self._holds:
            return False
        recent = self._recent.setdefault(place, deque())
        while recent and recent[0] < now - self._limit.within.total_seconds():
            recent.popleft()
        deleted = len(recent)
        if deleted < self._limit.keys:
            self._in_use.pop(place, None)
        else:
            if place not in self._in_use:
                self._in_use[place] = in_use() + deleted
            if deleted + 1 > self._limit.share * self._in_use[place]:
                self._holds[place] = Hold(where, feature, now, deleted + 1)
                return False
        recent.append(now)
        return True

    def is_held(self, where: ClusterId, feature: str) -> bool:
        """Whether deletions of a feature are held in a cluster."""
        return (where, feature) in self._holds

    def release(self, where: ClusterId, feature: str) -> None:
        """End a hold, if there is one, and forget what was counted.

        For one more window every deletion of the feature in the cluster is admitted.
        """
        self._holds.pop((where, feature), None)
        self._recent.pop((where, feature), None)
        within = self._limit.within.total_seconds()
        self._released_until[where, feature] = self._time() + within


class MassDeletionGuard:
    """Keeps back the deletions of keys while too many objects vanish at once.

    A hold ends when every cluster has been listed in full once more, or when a person allows it
    by an annotation; the keys are then planned again, and what is still to be deleted is deleted.
    """

    def __init__(
        self,
        counter: DeletionCounter,
        informers: ClusterInformers,
        owned: OwnershipIndex,
        metrics: Metrics,
        enqueue: Callable[[set[Item]], None],
    ) -> None:
        """Nothing is held yet; `enqueue` gets the keys that were held when a hold ends."""
        self._counter = counter
        self._informers = informers
        self._owned = owned
        self._metrics = metrics
        self._enqueue = enqueue
        self._held: dict[tuple[ClusterId, str], set[Item]] = {}

    @property
    def holds(self) -> tuple[Hold, ...]:
        """The holds that last now, at most one for each cluster and feature."""
        return self._counter.holds

    def hold_excess(
        self, item: Item, actions: list[Action], allowed: frozenset[str], start: StartTask
    ) -> list[Action]:
        """The actions without deletions that are held; features in `allowed` are never held.

        `*` allows all. Only deletions by omission are held: all of the key in one cluster, or none.
        A key counts once per cluster, if users use one of them; during a hold all wait. The key of
        held ones is kept and enqueued at the end of the hold; a new hold logs an error and uses
        `start` to run `confirm`.
        """
        feature = item[0]
        if _is_allowed(feature, allowed):
            return actions
        deletions: dict[ClusterId, list[Action]] = {}
        for action in actions:
            if is_omission(action):
                deletions.setdefault(action.where, []).append(action)
        held: set[int] = set()
        for where, several in deletions.items():
            if not self._admits(where, feature, several):
                self._hold_deletions(where, item, len(several), start)
                held.update(map(id, several))
        return [a for a in actions if id(a) not in held] if held else actions

    def _admits(self, where: ClusterId, feature: str, deletions: Sequence[Action]) -> bool:
        """Whether the deletions of one key in a cluster may go now.

        If users use one of the objects, the counter decides, counts the key or begins a hold; else
        it is False only during a hold.
        """
        if not any(is_in_use(action.base) for action in deletions if isinstance(action, Delete)):
            return not self._counter.is_held(where, feature)
        return self._counter.admits(where, feature, lambda: self._count_in_use(where, feature))

    def _count_in_use(self, where: ClusterId, feature: str) -> int:
        """How many keys of a feature own an object in a cluster for which `is_in_use` holds."""
        return sum(
            any(place == where and is_in_use(obj) for place, _, obj in self._owned.of(*item))
            for item in self._owned.items()
            if item[0] == feature
        )

    def release_allowed(self, allowed: Iterable[str]) -> None:
        """End each hold of a feature in `allowed` (`*`: all), and enqueue its held keys."""
        for where, feature in list(self._held):
            if _is_allowed(feature, allowed):
                self._release(where, feature, "somebody allows them")

    def _hold_deletions(
        self, where: ClusterId, item: Item, deletions: int, start: StartTask
    ) -> None:
        """Count a key's deletions as held, in the metrics, and keep the key until the hold ends.

        The first key of a hold also logs an error, puts `DeletionsHeld`, and starts the task
        `confirm`, which lists everything again and ends the hold.
        """
        self._metrics.count_held_deletions(where, item[0], deletions)
        items = self._held.setdefault((where, item[0]), set())
        if not items:
            self._informers.put_fact(DeletionsHeld(where, item[0]))
            log.error(
                "deletions held: too much vanished at once",
                extra={"cluster": where, "feature": item[0]},
            )
            start(self.confirm(where, item[0]), "second look")
        items.add(item)

    async def confirm(self, where: ClusterId, feature: str) -> None:
        """List all clusters once more, except informers that fail, then end the hold in any case.

        The keys that were held are enqueued then.
        """
        await self._informers.relists.relist_all()
        self._release(where, feature, "a second look agreed")

    def _release(self, where: ClusterId, feature: str, why: str) -> None:
        """End a hold: log why, drop `DeletionsHeld`, and enqueue the keys that were held.

        Nothing if it has ended already.
        """
        if (where, feature) not in self._held:
            return
        self._counter.release(where, feature)
        self._informers.drop_fact(DeletionsHeld, (where, feature))
        log.warning("deletions go on", extra={"cluster": where, "feature": feature, "why": why})
        self._enqueue(self._held.pop((where, feature)))


def _is_allowed(feature: str, allowed: Iterable[str]) -> bool:
    """Whether a person allowed the deletions of a feature, or of all (`*`)."""
    return feature in allowed or "*" in allowed
