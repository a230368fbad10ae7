"""Terms of leaders, as they are annotated on what a leader writes."""

from collections.abc import Mapping

from msgspec import Struct

from hanse.features.gslb.names import LED_BY
from hanse.model.numbers import parse_number
from hanse.model.objects import Object


class LeaderTerm(Struct, frozen=True, order=True):
    """A leader's term, as it is annotated on copies."""

    epoch: int
    context: str

    def __str__(self) -> str:
        return f"{self.epoch}/{self.context}"


def leader_term(obj: Object | None) -> LeaderTerm | None:
    """The term in an object's leader annotation; None without an object or a valid term."""
    if obj is None:
        return None
    text, slash, context = obj.metadata.annotations.get(LED_BY, "").partition("/")
    epoch = parse_number(text)
    return LeaderTerm(epoch, context) if slash and epoch is not None else None


def parse_epoch(text: str) -> int:
    """The epoch in an annotation's value; 0 if it is empty or no number."""
    return parse_number(text) or 0


def first_to_demote(leaders: Mapping[str, int]) -> str:
    """Of several leaders, by name and epoch, the one with the lowest epoch.

    Of several with that epoch the last in the mapping. What is served now was written in the latest
    term.
    """
    earliest = min(leaders.values())
    return [name for name, epoch in leaders.items() if epoch == earliest][-1]
