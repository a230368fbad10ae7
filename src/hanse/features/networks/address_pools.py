"""Addresses given out while Services are admitted: each at once, and never one twice.

An address is free where no IPAddress object has it and nobody was promised it within the last
half minute. Replicas keep to residues of their own, so that they seldom promise the same one; what
really decides is the API server, which takes an address for one Service only.
"""

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from ipaddress import IPv6Address

from msgspec import Struct

from hanse.features.networks.ranges import Range
from hanse.model.naming import SLOT_LEASES

RESERVATION_TTL = timedelta(seconds=30)
RESCAN_INTERVAL = timedelta(seconds=5)
"""How often an exhausted pool is searched from its beginning for what was given back."""

SLOTS = len(SLOT_LEASES)
"""Residues of a pool; more replicas than that share them."""


class PoolSlot(Struct, frozen=True):
    """Which residue of every pool is this replica's own, among how many."""

    number: int = 0
    of: int = 1


IsUsed = Callable[[str], bool]
"""Whether an address is known to be in use."""


class _Cursor:
    """What is left of one residue of a range: what was never looked at, and what came back."""

    def __init__(self, range_: Range, first: int, step: int) -> None:
        self._start = int(range_.network_address)
        self._text = _v4 if range_.version == 4 else _v6
        self._first = first
        self._step = step
        self._next = first
        self._last = range_.num_addresses - (1 if range_.version == 4 else 0)
        self._back: deque[str] = deque()
        self._searched: datetime | None = None

    def give_back(self, address: str) -> None:
        self._back.append(address)

    def take(self, is_free: Callable[[str], bool], now: datetime) -> str | None:
        """A free address; looks at each place once, and then at what came back."""
        while self._next < self._last:
            address = self._text(self._start + self._next)
            self._next += self._step
            if is_free(address):
                return address
        while self._back:
            address = self._back.popleft()
            if is_free(address):
                return address
        if self._searched is None or now - self._searched >= RESCAN_INTERVAL:
            self._searched, self._next = now, self._first
            return self.take(is_free, now) if self._first < self._last else None
        return None


def _v4(address: int) -> str:
    """As `ipaddress` writes it, but not for much longer than it takes to look at it."""
    one, two, three, four = address.to_bytes(4, "big")
    return f"{one}.{two}.{three}.{four}"


def _v6(address: int) -> str:
    return str(IPv6Address(address))


class Pool:
    """The addresses of one network, or of the cluster's own range."""

    def __init__(self, ranges: tuple[Range, ...], kept: frozenset[str], lowest: int = 1) -> None:
        self.ranges = ranges
        self.kept = kept
        self._lowest = lowest
        self._promised: dict[str, tuple[datetime, _Cursor | None]] = {}
        self._cursors: dict[tuple[int, PoolSlot, int], _Cursor] = {}

    @property
    def reserved(self) -> frozenset[str]:
        """What is promised and not known to be used yet."""
        return frozenset(self._promised)

    def take(
        self, slot: PoolSlot, version: int, is_used: IsUsed, now: datetime, *, reserve: bool = True
    ) -> str | None:
        """A free address of a family, from our own residue if it has one; None where all are used.

        Without a promise (a dry run) the same address may be given again.
        """
        self._expire(now)

        def is_free(address: str) -> bool:
            return (
                address not in self._promised and address not in self.kept and not is_used(address)
            )

        residues = [(slot.number + more) % slot.of for more in range(slot.of)]
        for residue in residues:
            for at, range_ in enumerate(self.ranges):
                if range_.version != version:
                    continue
                cursor = self._cursor(at, slot, residue)
                address = cursor.take(is_free, now)
                if address is None:
                    continue
                if reserve:
                    self._promised[address] = (now + RESERVATION_TTL, cursor)
                else:
                    cursor.give_back(address)
                return address
        return None

    def reserve(self, address: str, now: datetime) -> bool:
        """Promise an address that somebody asks for by itself; whether it was free to promise."""
        self._expire(now)
        if address in self._promised:
            return False
        self._promised[address] = (now + RESERVATION_TTL, None)
        return True

    def _cursor(self, at: int, slot: PoolSlot, residue: int) -> _Cursor:
        key = (at, slot, residue)
        if key not in self._cursors:
            lowest = self._lowest if self.ranges[at].num_addresses > 2 * self._lowest else 1
            first = lowest + (residue - lowest) % slot.of
            self._cursors[key] = _Cursor(self.ranges[at], first, slot.of)
        return self._cursors[key]

    def _expire(self, now: datetime) -> None:
        """Forget promises that are too old; the oldest stand first."""
        while self._promised:
            address, (until, cursor) = next(iter(self._promised.items()))
            if until > now:
                return
            del self._promised[address]
            if cursor is not None:
                cursor.give_back(address)
