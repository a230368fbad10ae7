"""Mass disappearance is suspect: many deletions at once wait until a second look agrees."""

from collections import deque
from collections.abc import Callable
from datetime import timedelta

from msgspec import Struct

from hanse.model.objects import ClusterId


class Tolerance(Struct, frozen=True):
    """How much may vanish unasked in one cluster, for one feature, within a while."""

    objects: int = 50
    share: float = 0.3
    within: timedelta = timedelta(minutes=1)


class Hold(Struct, frozen=True):
    """Deletions are held in one cluster for one feature: since when, and how many were wished."""

    where: ClusterId
    feature: str
    since: float
    wished: int


class Guard:
    """Counts deletions by omission and holds them when too many come together.

    A hold ends when every cluster that the decision rests on has been listed in full once more, or
    by a person's word; what is still to be deleted then is deleted.
    """

    def __init__(self, time: Callable[[], float], tolerance: Tolerance | None = None) -> None:
        self._time = time
        self._tolerance = tolerance or Tolerance()
        self._recent: dict[tuple[ClusterId, str], deque[tuple[float, int]]] = {}
        self._holds: dict[tuple[ClusterId, str], Hold] = {}
        self._released_until: dict[tuple[ClusterId, str], float] = {}

    @property
    def holds(self) -> tuple[Hold, ...]:
        """What is held now."""
        return tuple(self._holds.values())

    def admits(self, where: ClusterId, feature: str, deletions: int, owned: int) -> bool:
        """Whether so many more may go, of all that the feature owned there."""
        place = (where, feature)
        now = self._time()
        if now < self._released_until.get(place, 0.0):
            return True
        if place in self._holds:
            return False
        recent = self._recent.setdefault(place, deque())
        while recent and recent[0][0] < now - self._tolerance.within.total_seconds():
            recent.popleft()
        gone = sum(n for _, n in recent)
        total = gone + deletions
        limit = max(self._tolerance.objects, self._tolerance.share * (owned + gone))
        if total > limit:
            self._holds[place] = Hold(where, feature, now, total)
            return False
        recent.append((now, deletions))
        return True

    def release(self, where: ClusterId, feature: str) -> None:
        """Let what was held go on, and a while longer."""
        self._holds.pop((where, feature), None)
        self._recent.pop((where, feature), None)
        within = self._tolerance.within.total_seconds()
        self._released_until[where, feature] = self._time() + within
