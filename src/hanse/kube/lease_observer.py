"""Whether the holders of Leases are alive, judged by observed renewals; pure."""

from enum import StrEnum

from msgspec import Struct

from hanse.kube.lease import ObservedLease
from hanse.model.kinds.coordination import Lease

Name = tuple[str, str]


class HolderLiveness(StrEnum):
    """The liveness of a holder; unknown until its record is seen to change or to expire."""

    UNKNOWN = "Unknown"
    ALIVE = "Alive"
    EXPIRED = "Expired"


class LeaseRecord(Struct, frozen=True):
    """One observed lease and the liveness of its holder."""

    observed: ObservedLease
    liveness: HolderLiveness


class LeaseObserver:
    """The leases of one cluster; times are the event loop's.

    While the cluster is unreachable nothing expires, and afterwards every holder has a full lease
    duration again: renewals may have been missed.
    """

    def __init__(self) -> None:
        self._records: dict[Name, LeaseRecord] = {}
        self._unreachable = False

    def observe(self, lease: Lease, now: float) -> None:
        """Record a lease; a changed record with a holder proves that the holder is alive."""
        name = (lease.metadata.namespace, lease.metadata.name)
        known = self._records.get(name)
        if known is None:
            self._records[name] = LeaseRecord(ObservedLease(lease, now), HolderLiveness.UNKNOWN)
            return
        observed = known.observed.after(lease, now)
        changed = observed.since != known.observed.since
        alive = changed and bool(lease.spec.holder_identity)
        self._records[name] = LeaseRecord(
            observed, HolderLiveness.ALIVE if alive else known.liveness
        )

    def forget(self, namespace: str, name: str) -> None:
        """Forget a deleted lease."""
        self._records.pop((namespace, name), None)

    def mark_unreachable(self) -> None:
        """Stop expiring leases: renewals cannot be observed."""
        self._unreachable = True

    def mark_reachable(self, now: float) -> None:
        """Expire leases again, each after a full duration from now."""
        if not self._unreachable:
            return
        self._unreachable = False
        for name, record in self._records.items():
            self._records[name] = LeaseRecord(
                ObservedLease(record.observed.lease, now), record.liveness
            )

    def expire(self, now: float) -> tuple[Name, ...]:
        """Mark the newly expired leases and return their names; none while unreachable."""
        if self._unreachable:
            return ()
        expired = tuple(
            name
            for name, record in self._records.items()
            if record.liveness is not HolderLiveness.EXPIRED and now >= record.observed.expires
        )
        for name in expired:
            self._records[name] = LeaseRecord(self._records[name].observed, HolderLiveness.EXPIRED)
        return expired

    @property
    def next_expiry(self) -> float | None:
        """When the next lease expires unless it is renewed; None if none can expire."""
        if self._unreachable:
            return None
        return min(
            (
                b.observed.expires
                for b in self._records.values()
                if b.liveness is not HolderLiveness.EXPIRED
            ),
            default=None,
        )

    def liveness(self, namespace: str, name: str) -> HolderLiveness:
        record = self._records.get((namespace, name))
        return record.liveness if record is not None else HolderLiveness.UNKNOWN

    def holder(self, namespace: str, name: str) -> str:
        """Who holds a Lease; empty if it is not known or has no holder."""
        record = self._records.get((namespace, name))
        return (
            record.observed.lease.spec.holder_identity if record and record.observed.lease else ""
        )
