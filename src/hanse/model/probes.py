"""Probes: what is to be tried over the network, again and again, and what was found out. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from hanse.model.facts import Fact
from hanse.model.plan import Key
from hanse.model.snapshot import Change, Snapshot


class ProbeTarget(Struct, frozen=True, order=True):
    """What is tried: a connection, or over it a request that must succeed."""

    type: Literal["TCP", "HTTP", "HTTPS"]
    address: str
    port: int
    host: str = ""
    path: str = ""

    def __str__(self) -> str:
        where = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.type} {where}:{self.port}{self.path}"


class ProbePolicy(Struct, frozen=True):
    """How often, how long, and how many tries in a row decide."""

    interval: timedelta = timedelta(seconds=10)
    timeout: timedelta = timedelta(seconds=4)
    up: int = 3
    down: int = 3


class Probe(Struct, frozen=True):
    """One target and the rule by which it is judged."""

    target: ProbeTarget
    rule: ProbePolicy = ProbePolicy()


class TargetHealth(Fact, frozen=True):
    """What a probe's rule decided last; there is none before it has decided anything."""

    target: ProbeTarget
    up: bool
    since: datetime
    reason: str = ""

    @property
    def key(self) -> ProbeTarget:
        return self.target


@runtime_checkable
class ProbeSource(Protocol):
    """Who wants probes, in keys as decisions are: a change wakes keys, a key tells its probes."""

    @property
    def name(self) -> str: ...

    def probe_keys(self, snapshot: Snapshot) -> Iterable[Key]:
        """Every key that has probes now."""
        ...

    def probe_keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The keys whose probes a change may have changed."""
        ...

    def probes(self, key: Key, snapshot: Snapshot) -> Sequence[Probe]:
        """All probes of a key."""
        ...

    def forbidden(self, snapshot: Snapshot) -> frozenset[str]:
        """Addresses that must not be tried: those of API servers."""
        ...
