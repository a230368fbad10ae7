"""The names of a simulated cluster, as a worker of its DNS server has them."""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from random import Random

import dns.message
import dns.rcode
from msgspec import Struct

from hanse.dns.compiler import Compiler
from hanse.dns.messages import Delta
from hanse.dns.responder import respond
from hanse.dns.table import Table
from hanse.model.dns.zones import View, ZoneSource
from hanse.model.objects import ClusterId

GLOBAL_ZONE = "global.test"


class Answer(Struct, frozen=True):
    """The answer of a cluster's name server."""

    code: str
    records: frozenset[str]


class NameServer:
    """The names of a cluster as a worker of its DNS server has them, without sockets."""

    def __init__(
        self,
        cluster: ClusterId,
        changed: Callable[[], None],
        sources: Callable[[View], Sequence[ZoneSource]],
    ) -> None:
        self._changed = changed
        self.view = View(cluster, cluster, global_zones=(GLOBAL_ZONE,))
        self.compiler = Compiler(self.view, sources(self.view))
        self._table = Table(cluster, Random(1))
        self._table.apply(self.compiler.full_delta())
        self._answers: dict[tuple[str, str], Answer] = {}

    def update(self, delta: Delta) -> None:
        """Take up a change, as a worker does."""
        self._table.apply(delta)
        self._answers.clear()
        self._changed()

    async def wait_applied(self) -> None:
        """Return: changes are applied at once."""

    def ask(self, name: str, rtype: str = "A") -> Answer:
        """One answer; the same until a name changes."""
        if (name, rtype) not in self._answers:
            self._answers[name, rtype] = self.query(name, rtype)
        return self._answers[name, rtype]

    def query(self, name: str, rtype: str = "A") -> Answer:
        """The answer to one packet, in rotation."""
        packet = respond(_query(name, rtype), self._table, stream=False, client="203.0.113.1")
        assert packet is not None, "every query has an answer"
        return _read_answer(packet)


@cache
def _query(name: str, rtype: str) -> bytes:
    return dns.message.make_query(name, rtype, id=1).to_wire()


@lru_cache(10_000)
def _read_answer(packet: bytes) -> Answer:
    message = dns.message.from_wire(packet)
    records = frozenset(record.to_text() for rrset in message.answer for record in rrset)
    return Answer(dns.rcode.to_text(message.rcode()), records)
