"""Lease records as in client-go leader election, and the next action of a candidate; pure."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import assert_never

from msgspec import Struct

from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec
from hanse.model.objects import Wire


class LeaseTimings(Struct, frozen=True):
    """Lease duration, renew deadline, retry period and jitter factor, as in client-go."""

    lease_duration: timedelta = timedelta(seconds=15)
    renew_deadline: timedelta = timedelta(seconds=10)
    retry_period: timedelta = timedelta(seconds=2)
    jitter_factor: float = 1.2


PREFERRED_HOLDER = "hanse.dev/wanted-by"
"""Annotation of a Lease: the preferred candidate that requests it."""

DEFAULT_TIMINGS = LeaseTimings()
"""The defaults of client-go, which peers that share a lease use too."""


class ObservedLease(Struct, frozen=True):
    """A lease as last observed, and since when, on the local clock, its record is unchanged."""

    lease: Lease | None
    since: float

    def after(self, lease: Lease | None, now: float) -> "ObservedLease":
        """The observation after the lease was read again, at `now`; None means that it is absent.

        An unchanged spec keeps the time of the earlier observation.
        """
        if lease is not None and self.lease is not None and lease.spec == self.lease.spec:
            return ObservedLease(lease, self.since)
        return ObservedLease(lease, now)

    @property
    def expires(self) -> float:
        """The loop's time when the record expires by its own duration unless it is renewed.

        Without a lease it is when that was observed.
        """
        if self.lease is None:
            return self.since
        return self.since + self.lease.spec.lease_duration_seconds


class Acquire(Struct, frozen=True):
    """The lease is free: acquire it, with this number of transitions."""

    transitions: int


class Renew(Struct, frozen=True):
    """This candidate holds the lease: renew it."""


class Wait(Struct, frozen=True):
    """Another candidate holds the lease: check again when it expires, or when it changes."""

    holder: str
    until: float


class Lost(Struct, frozen=True):
    """This candidate was the leader and no longer is."""

    holder: str


LeaseAction = Acquire | Renew | Wait | Lost


def next_action(
    observed: ObservedLease,
    now: float,
    identity: str,
    *,
    renewed_at: float | None = None,
    known_transitions: int = -1,
    deadline: timedelta = DEFAULT_TIMINGS.renew_deadline,
) -> LeaseAction:
    """The next action of a candidate: renew its own lease, acquire a free or expired one, or wait.

    `renewed_at` is when a leader's last renewal began: it has Lost the lease to another holder, or
    after the deadline (with an empty holder). An acquisition has one transition more than the lease
    and `known_transitions`, whichever is higher, also after the lease was deleted, so that epochs
    that were derived from it never decrease.
    """
    spec = observed.lease.spec if observed.lease is not None else LeaseSpec()
    if renewed_at is not None:
        if spec.holder_identity != identity:
            return Lost(spec.holder_identity)
        if now >= renewed_at + deadline.total_seconds():
            return Lost("")
        return Renew()
    if observed.lease is None:
        return Acquire(known_transitions + 1)
    if spec.holder_identity == identity:
        return Renew()
    if not spec.holder_identity or now >= observed.expires:
        return Acquire(max(spec.lease_transitions, known_transitions) + 1)
    return Wait(spec.holder_identity, observed.expires)


def next_spec(
    action: Acquire | Renew, held: LeaseSpec, identity: str, now: datetime, timings: LeaseTimings
) -> LeaseSpec:
    """The spec to write for an action, renewed `now` and held by `identity`.

    An acquisition begins now, with its number of transitions; a renewal keeps acquire time and
    transitions of the `held` spec.
    """
    duration = int(timings.lease_duration.total_seconds())
    match action:
        case Acquire(transitions):
            at = format_micro_time(now)
            return LeaseSpec(
                holder_identity=identity,
                lease_duration_seconds=duration,
                acquire_time=at,
                renew_time=at,
                lease_transitions=transitions,
            )
        case Renew():
            return LeaseSpec(
                holder_identity=identity,
                lease_duration_seconds=duration,
                acquire_time=held.acquire_time,
                renew_time=format_micro_time(now),
                lease_transitions=held.lease_transitions,
            )
        case _:
            assert_never(action)


def released_spec(held: LeaseSpec, now: datetime) -> LeaseSpec:
    """The spec of a released lease: without holder, expiring within a second.

    It keeps the transitions; acquire and renew time are `now`.
    """
    at = format_micro_time(now)
    return LeaseSpec(
        lease_duration_seconds=1,
        acquire_time=at,
        renew_time=at,
        lease_transitions=held.lease_transitions,
    )


def preferred_holder(lease: Lease | None) -> str:
    """The candidate that requests the lease by an annotation; empty where none does."""
    return lease.metadata.annotations.get(PREFERRED_HOLDER, "") if lease is not None else ""


def lease_request_patch(lease: Lease, identity: str) -> Wire:
    """The merge patch of the annotation by which `identity` requests a held lease.

    The observed uid and resourceVersion are preconditions.
    """
    return {"metadata": {**_preconditions(lease), "annotations": {PREFERRED_HOLDER: identity}}}


def _preconditions(lease: Lease) -> Wire:
    """The observed uid and resourceVersion, as metadata of a merge patch."""
    return {"uid": lease.metadata.uid, "resourceVersion": lease.metadata.resource_version}


def lease_patch(lease: Lease, spec: LeaseSpec, annotations: Mapping[str, str] = {}) -> Wire:
    """The merge patch to a spec, with the observed uid and resourceVersion as preconditions.

    A change of holder removes the request of a preferred candidate. `annotations` that differ are
    set, and removed if they are empty.
    """
    known = lease.metadata.annotations
    changed = {n: v or None for n, v in annotations.items() if v != known.get(n, "")}
    if spec.holder_identity != lease.spec.holder_identity and preferred_holder(lease):
        changed[PREFERRED_HOLDER] = None
    return {
        "metadata": {**_preconditions(lease), **({"annotations": changed} if changed else {})},
        "spec": {
            "holderIdentity": spec.holder_identity,
            "leaseDurationSeconds": spec.lease_duration_seconds,
            "acquireTime": spec.acquire_time,
            "renewTime": spec.renew_time,
            "leaseTransitions": spec.lease_transitions,
        },
    }


def new_lease(namespace: str, name: str, spec: LeaseSpec) -> Lease:
    """A Lease object with this spec, to be created where there is none."""
    return Lease(metadata=LeaseMeta(name=name, namespace=namespace), spec=spec)


def format_micro_time(moment: datetime) -> str:
    """A MicroTime: UTC with exactly six digits, as API servers demand."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
