"""Deletions that came too many at once wait here until a second look agrees with the first."""

import logging
from collections.abc import Callable, Iterable

from hanse.model.objects import ClusterId
from hanse.runtime.diff import Action, is_omission
from hanse.runtime.guard import Guard
from hanse.runtime.informers import ClusterInformers
from hanse.runtime.metrics import Metrics
from hanse.runtime.ownership import OwnershipIndex
from hanse.runtime.questions import Start
from hanse.runtime.workqueue import Item

log = logging.getLogger(__name__)


class Suspicion:
    """The keys whose deletions a guard holds, and the second look at their clusters."""

    def __init__(
        self,
        guard: Guard,
        informers: ClusterInformers,
        owned: OwnershipIndex,
        metrics: Metrics,
        again: Callable[[set[Item]], None],
    ) -> None:
        self.guard = guard
        self._informers = informers
        self._owned = owned
        self._metrics = metrics
        self._again = again
        self._held: dict[tuple[ClusterId, str], set[Item]] = {}

    def admitted(
        self, item: Item, actions: list[Action], lifted: frozenset[str], start: Start
    ) -> list[Action]:
        """The actions without deletions that are suspicious; what a person lifted is not."""
        omitted: dict[ClusterId, list[Action]] = {}
        for action in actions:
            if is_omission(action):
                omitted.setdefault(action.where, []).append(action)
        held: set[int] = set()
        for where, several in omitted.items():
            owned = self._owned.count(where, item[0])
            if _is_lifted(item[0], lifted):
                continue
            if not self.guard.admits(where, item[0], len(several), owned):
                self._hold(where, item, len(several), start)
                held.update(map(id, several))
        return [a for a in actions if id(a) not in held] if held else actions

    def lift(self, lifted: Iterable[str]) -> None:
        """Release what a person allows."""
        for where, feature in list(self._held):
            if _is_lifted(feature, lifted):
                self._release(where, feature, "somebody allows them")

    def _hold(self, where: ClusterId, item: Item, deletions: int, start: Start) -> None:
        self._metrics.held(where, item[0], deletions)
        items = self._held.setdefault((where, item[0]), set())
        if not items:
            log.error(
                "deletions held: too much vanished at once",
                extra={"cluster": where, "feature": item[0]},
            )
            start(self._look_again(where, item[0]), "second look")
        items.add(item)

    async def _look_again(self, where: ClusterId, feature: str) -> None:
        await self._informers.relist()
        self._release(where, feature, "a second look agreed")

    def _release(self, where: ClusterId, feature: str, why: str) -> None:
        """End a hold, once: whichever of a person and a second look comes first."""
        if (where, feature) not in self._held:
            return
        self.guard.release(where, feature)
        log.warning("deletions go on", extra={"cluster": where, "feature": feature, "why": why})
        self._again(self._held.pop((where, feature)))


def _is_lifted(feature: str, lifted: Iterable[str]) -> bool:
    return feature in lifted or "*" in lifted
