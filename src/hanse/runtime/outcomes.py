"""What became of each write, as facts that plans can tell people about."""

from collections.abc import Iterable

from hanse.kube.clock import Clock
from hanse.kube.errors import AlreadyExists, Conflict
from hanse.model.facts import WriteOutcome, WriteResult
from hanse.model.objects import ClusterObjectRef
from hanse.runtime.apply import WriteReport
from hanse.runtime.diff import Diff, target_ref
from hanse.runtime.informers import ClusterInformers
from hanse.runtime.workqueue import Item


class WriteOutcomes:
    """Keeps one fact per object that could not be written; it goes when the object can."""

    def __init__(self, informers: ClusterInformers, clock: Clock) -> None:
        self._informers = informers
        self._clock = clock
        self._told: dict[Item, set[ClusterObjectRef]] = {}

    def tell(
        self, item: Item, wanted: Diff, written: Iterable[WriteReport], tried: set[ClusterObjectRef]
    ) -> None:
        """Follow one pass over a key; `tried` is what was sent, the rest of its plan waits."""
        trouble: dict[ClusterObjectRef, tuple[WriteResult, str]] = {
            o.place: (o.result, o.message) for o in wanted.obstacles
        }
        for one in written:
            if one.result != "Done" and not isinstance(one.error, Conflict | AlreadyExists):
                trouble[one.place] = (one.result, one.message)
        before = self._told.pop(item, set())
        waiting = {p for p in self._pending(wanted) if p in before and p not in tried}
        for place in before - trouble.keys() - waiting:
            self._informers.drop_fact(WriteOutcome, place)
        for place, (result, message) in trouble.items():
            self._put(place, result, message)
        if told := trouble.keys() | waiting:
            self._told[item] = set(told)

    def _pending(self, wanted: Diff) -> set[ClusterObjectRef]:
        return {target_ref(action) for action in wanted.actions}

    def _put(self, place: ClusterObjectRef, result: WriteResult, message: str) -> None:
        known = self._informers.facts.get(WriteOutcome, place)
        if known is not None and known.result == result == "Failed":
            return  # what a failing server says may differ each time: no reason to wake anybody
        if known is None or (known.result, known.message) != (result, message):
            self._informers.put_fact(WriteOutcome(place, result, message, self._clock.now()))
