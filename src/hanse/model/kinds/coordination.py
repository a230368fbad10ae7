"""The group `coordination.k8s.io`: Leases."""

from datetime import datetime, timedelta
from typing import ClassVar

from hanse.model.objects import Kind, Meta, Object, Value, parse_time


class LeaseSpec(Value, frozen=True, kw_only=True):
    """The holder and times of a lease. Times are MicroTime texts, whose six digits must be kept."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class ManagedFieldsEntry(Value, frozen=True, kw_only=True):
    """When a manager last wrote an object, by the API server's clock."""

    time: datetime | None = None


class LeaseMeta(Meta, frozen=True, kw_only=True):
    """The metadata of a Lease, with the times of its writes."""

    managed_fields: tuple[ManagedFieldsEntry, ...] = ()


class Lease(Object, frozen=True, kw_only=True):
    """A lease that expires unless its holder renews it."""

    kind: ClassVar[Kind] = Kind("coordination.k8s.io", "v1", "Lease", "leases")

    metadata: LeaseMeta
    spec: LeaseSpec = LeaseSpec()

    @property
    def written_at(self) -> datetime | None:
        """The latest time in managedFields, by the API server's clock; None without any."""
        times = [e.time for e in self.metadata.managed_fields if e.time is not None]
        return max(times, default=None)

    @property
    def renewed(self) -> datetime | None:
        """`spec.renewTime`, by the holder's clock; None if it is missing or no timestamp."""
        return parse_time(self.spec.renew_time)

    @property
    def last_renewal(self) -> datetime | None:
        """When it was last written, by the API server's clock; `renewed` without managedFields.

        None if neither is known.
        """
        return self.written_at or self.renewed

    @property
    def clock_skew(self) -> timedelta:
        """How far the clock of its holder is ahead of the API server's; zero if that is not known.

        With a precision of a second, less the time that the renewal took to arrive.
        """
        if self.renewed is None or self.written_at is None:
            return timedelta(0)
        return self.renewed - self.written_at

    @property
    def acquired(self) -> datetime | None:
        """`spec.acquireTime`, by the holder's clock; None if it is missing or no timestamp."""
        return parse_time(self.spec.acquire_time)

    def silence(self, now: datetime, grace: timedelta) -> timedelta | None:
        """How long ago it was renewed, if that is longer than its duration and the grace.

        `now` is the API server's time, by whose clock it is judged: that of its holder may be
        wrong. None for one that is renewed in time, that nobody holds, or without any valid time.
        """
        if not self.spec.holder_identity or self.last_renewal is None:
            return None
        silence = now - self.last_renewal
        duration = timedelta(seconds=self.spec.lease_duration_seconds)
        return silence if silence > duration + grace else None
