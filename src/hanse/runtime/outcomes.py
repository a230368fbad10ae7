"""What became of each write, as facts that plans can tell people about."""

from collections.abc import Iterable

from hanse.kube.clock import Clock
from hanse.kube.errors import AlreadyExists, Conflict
from hanse.model.facts import Outcome, WriteResult
from hanse.model.objects import Place
from hanse.runtime.apply import Written
from hanse.runtime.diff import Todo, place_of
from hanse.runtime.fleet import Fleet
from hanse.runtime.workqueue import Item


class Outcomes:
    """Keeps one fact per object that could not be written; it goes when the object can."""

    def __init__(self, fleet: Fleet, clock: Clock) -> None:
        self._fleet = fleet
        self._clock = clock
        self._told: dict[Item, set[Place]] = {}

    def tell(self, item: Item, wanted: Todo, written: Iterable[Written], tried: set[Place]) -> None:
        """Follow one pass over a key; `tried` is what was sent, the rest of its plan waits."""
        trouble: dict[Place, tuple[WriteResult, str]] = {
            o.place: (o.result, o.message) for o in wanted.obstacles
        }
        for one in written:
            if one.result != "Done" and not isinstance(one.error, Conflict | AlreadyExists):
                trouble[one.place] = (one.result, one.message)
        before = self._told.pop(item, set())
        waiting = {p for p in self._pending(wanted) if p in before and p not in tried}
        for place in before - trouble.keys() - waiting:
            self._fleet.drop_fact(Outcome, place)
        for place, (result, message) in trouble.items():
            self._put(place, result, message)
        if told := trouble.keys() | waiting:
            self._told[item] = set(told)

    def _pending(self, wanted: Todo) -> set[Place]:
        return {place_of(action) for action in wanted.actions}

    def _put(self, place: Place, result: WriteResult, message: str) -> None:
        known = self._fleet.facts.get(Outcome, place)
        if known is not None and known.result == result == "Failed":
            return  # what a failing server says may differ each time: no reason to wake anybody
        if known is None or (known.result, known.message) != (result, message):
            self._fleet.put_fact(Outcome(place, result, message, self._clock.now()))
