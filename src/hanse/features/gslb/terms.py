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
        """`<epoch>/<context>`, the value of the leader annotation."""
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
    """The name of the leader with the lowest epoch, of several leaders by name and epoch.

    Of several with that epoch the last in the mapping. Raises ValueError without leaders.
    """
    earliest = min(leaders.values())
    return [name for name, epoch in leaders.items() if epoch == earliest][-1]
