"""The group `coordination.k8s.io`: Leases."""

from typing import ClassVar

from hanse.model.objects import Kind, Object, Value


class LeaseSpec(Value, frozen=True, kw_only=True):
    """The holder and times of a lease. Times are MicroTime texts, whose six digits must be kept."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class Lease(Object, frozen=True, kw_only=True):
    """A lease that expires unless its holder renews it."""

    kind: ClassVar[Kind] = Kind("coordination.k8s.io", "v1", "Lease", "leases")

    spec: LeaseSpec = LeaseSpec()
