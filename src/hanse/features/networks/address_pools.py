"""Pools that allocate addresses for Services during admission.

An address is free if no IPAddress object has it and it was not reserved within the last 30 seconds.
Each replica allocates from a residue class of its own, so that two replicas rarely reserve the same
address; in the end the API server accepts an address for one Service only.
"""

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from ipaddress import IPv6Address

from msgspec import Struct

from hanse.features.networks.ranges import Range

RESERVATION_TTL = timedelta(seconds=30)
RESCAN_INTERVAL = timedelta(seconds=5)
"""How often an exhausted pool is searched again for released addresses."""


class PoolSlot(Struct, frozen=True):
    """The residue class of a replica: its number, and how many there are."""

    number: int = 0
    count: int = 1


IsUsed = Callable[[str], bool]
"""Tells whether an address is in use."""


class _Cursor:
    """Allocates from one residue class of a range: unvisited addresses, then released ones."""

    def __init__(self, range_: Range, first: int, step: int) -> None:
        """Visits every `step`th address of a range from offset `first`, no IPv4 broadcast one."""
        self._start = int(range_.network_address)
        self._text = _format_ipv4 if range_.version == 4 else _format_ipv6
        self._first = first
        self._step = step
        self._next = first
        self._last = range_.num_addresses - (1 if range_.version == 4 else 0)
        self._released: deque[str] = deque()
        self._searched_at: datetime | None = None

    def release(self, address: str) -> None:
        """Make an address available again, after those that were never visited."""
        self._released.append(address)

    def take(self, is_free: Callable[[str], bool], now: datetime) -> str | None:
        """A free address by `is_free`, or None; each address is visited once before released ones.

        An exhausted range is searched again from the start, at most every `RESCAN_INTERVAL`.
        """
        while self._next < self._last:
            address = self._text(self._start + self._next)
            self._next += self._step
            if is_free(address):
                return address
        while self._released:
            address = self._released.popleft()
            if is_free(address):
                return address
        if self._searched_at is None or now - self._searched_at >= RESCAN_INTERVAL:
            self._searched_at, self._next = now, self._first
            return self.take(is_free, now) if self._first < self._last else None
        return None


def _format_ipv4(address: int) -> str:
    """The text of an IPv4 address."""
    one, two, three, four = address.to_bytes(4, "big")
    return f"{one}.{two}.{three}.{four}"


def _format_ipv6(address: int) -> str:
    """The text of an IPv6 address."""
    return str(IPv6Address(address))


class Pool:
    """The addresses of one network, or of the cluster's own range."""

    def __init__(
        self, ranges: tuple[Range, ...], excluded: frozenset[str], first_offset: int = 1
    ) -> None:
        """Nothing is reserved yet; `excluded` addresses are never given out.

        Addresses before `first_offset` of a range are not given out, either; in a range of at most
        twice as many addresses only the first is left out.
        """
        self.ranges = ranges
        self.excluded = excluded
        self._first_offset = first_offset
        self._reservations: dict[str, tuple[datetime, _Cursor]] = {}
        self._cursors: dict[tuple[int, PoolSlot, int], _Cursor] = {}

    def take(
        self, slot: PoolSlot, version: int, is_used: IsUsed, now: datetime, *, reserve: bool = True
    ) -> str | None:
        """A free address of an IP version, preferably of the agent's own slot; None if exhausted.

        After its own residue class those of other slots are searched. The address is reserved for
        `RESERVATION_TTL`, unless `reserve` is False (dry run). Expired reservations are dropped
        first.
        """
        self._expire(now)

        def is_free(address: str) -> bool:
            """Whether an address is neither reserved, nor excluded, nor in use."""
            return (
                address not in self._reservations
                and address not in self.excluded
                and not is_used(address)
            )

        residues = [(slot.number + more) % slot.count for more in range(slot.count)]
        for residue in residues:
            for at, range_ in enumerate(self.ranges):
                if range_.version != version:
                    continue
                cursor = self._cursor(at, slot, residue)
                address = cursor.take(is_free, now)
                if address is None:
                    continue
                if reserve:
                    self._reservations[address] = (now + RESERVATION_TTL, cursor)
                else:
                    cursor.release(address)
                return address
        return None

    def _cursor(self, at: int, slot: PoolSlot, residue: int) -> _Cursor:
        """The cursor of a range and residue class, made on first use; small ranges start at 1."""
        key = (at, slot, residue)
        if key not in self._cursors:
            first_offset = (
                self._first_offset if self.ranges[at].num_addresses > 2 * self._first_offset else 1
            )
            first = first_offset + (residue - first_offset) % slot.count
            self._cursors[key] = _Cursor(self.ranges[at], first, slot.count)
        return self._cursors[key]

    def _expire(self, now: datetime) -> None:
        """Drop the reservations that have expired by `now`, oldest first.

        Their addresses go to the released ones of their cursors, to be handed out again.
        """
        while self._reservations:
            address, (until, cursor) = next(iter(self._reservations.items()))
            if until > now:
                return
            del self._reservations[address]
            cursor.release(address)
