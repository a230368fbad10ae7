"""Whether the parties that renew Leases are alive, by our own observation; pure."""

from enum import StrEnum

from msgspec import Struct

from hanse.kube.lease import ObservedLease
from hanse.model.kinds.coordination import Lease

Name = tuple[str, str]


class HolderLiveness(StrEnum):
    """What we know of a party; unknown until its record changes or lapses before our eyes."""

    UNKNOWN = "Unknown"
    ALIVE = "Alive"
    EXPIRED = "Expired"


class LeaseRecord(Struct, frozen=True):
    """One lease as it stands."""

    seen: ObservedLease
    pulse: HolderLiveness


class LeaseObserver:
    """The leases of one cluster; times are the event loop's.

    While the cluster cannot be seen nothing lapses, and afterwards everybody has a full duration
    again: silence is only held against those we could have heard.
    """

    def __init__(self) -> None:
        self._beats: dict[Name, LeaseRecord] = {}
        self._blind = False

    def observe(self, lease: Lease, now: float) -> None:
        """Take in a lease; a changed record is a sign of life, unless nobody holds it."""
        name = (lease.metadata.namespace, lease.metadata.name)
        known = self._beats.get(name)
        if known is None:
            self._beats[name] = LeaseRecord(ObservedLease(lease, now), HolderLiveness.UNKNOWN)
            return
        seen = known.seen.after(lease, now)
        changed = seen.since != known.seen.since
        alive = changed and bool(lease.spec.holder_identity)
        self._beats[name] = LeaseRecord(seen, HolderLiveness.ALIVE if alive else known.pulse)

    def forget(self, namespace: str, name: str) -> None:
        """A lease is gone: nothing is known of its party any more."""
        self._beats.pop((namespace, name), None)

    def mark_unreachable(self) -> None:
        """The cluster cannot be seen."""
        self._blind = True

    def mark_reachable(self, now: float) -> None:
        """The cluster can be seen again."""
        if not self._blind:
            return
        self._blind = False
        for name, beat in self._beats.items():
            self._beats[name] = LeaseRecord(ObservedLease(beat.seen.lease, now), beat.pulse)

    def expire(self, now: float) -> tuple[Name, ...]:
        """Note what has lapsed by now, and say whose leases those are."""
        if self._blind:
            return ()
        lapsed = tuple(
            name
            for name, beat in self._beats.items()
            if beat.pulse is not HolderLiveness.EXPIRED and now >= beat.seen.expires
        )
        for name in lapsed:
            self._beats[name] = LeaseRecord(self._beats[name].seen, HolderLiveness.EXPIRED)
        return lapsed

    @property
    def next_expiry(self) -> float | None:
        """When to look again, if nothing is heard before; None where nothing can lapse."""
        if self._blind:
            return None
        return min(
            (b.seen.expires for b in self._beats.values() if b.pulse is not HolderLiveness.EXPIRED),
            default=None,
        )

    def liveness(self, namespace: str, name: str) -> HolderLiveness:
        beat = self._beats.get((namespace, name))
        return beat.pulse if beat is not None else HolderLiveness.UNKNOWN

    def holder(self, namespace: str, name: str) -> str:
        beat = self._beats.get((namespace, name))
        return beat.seen.lease.spec.holder_identity if beat and beat.seen.lease else ""
