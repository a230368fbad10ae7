"""Host names that plans need the addresses of: what is asked, and what is known."""

from datetime import timedelta
from typing import Any

from msgspec import Struct

from hanse.model.facts import Answer
from hanse.model.plan import Call, Question
from hanse.model.snapshot import Snapshot

LEAST_TTL = timedelta(seconds=5)
MOST_TTL = timedelta(hours=1)
PROVIDER = "resolve"


class HostLookup(Struct, frozen=True):
    """What is known of a host name, and the question that keeps it so."""

    question: Question
    addresses: tuple[str, ...] | None
    """None: it is not known now; empty: nobody has that name."""
    error: str = ""

    @property
    def requeue_after(self) -> timedelta:
        """When the question is to be asked once more."""
        return self.question.max_age


def host_lookup(host: str, snapshot: Snapshot) -> HostLookup:
    """The addresses of a host, as far as they are known, for as long as its records hold."""
    call = Call(PROVIDER, (("host", host),))
    answer = snapshot.fact(Answer, call.id)
    if answer is None or answer.value is None:
        error = answer.error if answer is not None else ""
        return HostLookup(Question(call, LEAST_TTL), None, error)
    value: dict[str, Any] = answer.value
    ttl = min(max(timedelta(seconds=value.get("ttl", 0)), LEAST_TTL), MOST_TTL)
    return HostLookup(Question(call, ttl), tuple(value.get("addresses", ())))
