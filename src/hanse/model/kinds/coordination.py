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
    def acquired(self) -> datetime | None:
        """`spec.acquireTime`, by the holder's clock; None if it is missing or no timestamp."""
        return parse_time(self.spec.acquire_time)

    def silence(self, now: datetime, grace: timedelta) -> timedelta | None:
        """How long ago it was renewed, if that is longer than its duration and the grace.

        None for one that is renewed in time, that nobody holds, or that has no valid renewTime.
        """
        if not self.spec.holder_identity or self.renewed is None:
            return None
        silence, duration = now - self.renewed, timedelta(seconds=self.spec.lease_duration_seconds)
        return silence if silence > duration + grace else None
