"""Leases as client-go keeps them: what a record says, and what a candidate does about it; pure."""

from datetime import UTC, datetime, timedelta
from typing import assert_never

from msgspec import Struct

from hanse.model.kinds.coordination import Lease, LeaseSpec
from hanse.model.objects import Meta, Wire


class LeaseTimings(Struct, frozen=True):
    """How long a lease holds, how long its holder trusts an old renewal, and how often it tries."""

    lease: timedelta = timedelta(seconds=15)
    deadline: timedelta = timedelta(seconds=10)
    retry: timedelta = timedelta(seconds=2)
    jitter: float = 1.2


PREFERRED_HOLDER = "hanse.dev/wanted-by"
"""Annotation of a Lease: a candidate that should rather hold it, and asks for it."""

DEFAULT_TIMINGS = LeaseTimings()
"""What client-go takes by default, and everyone who shares a lease with us."""


class ObservedLease(Struct, frozen=True):
    """A lease as it is known, and since when, by our own time, its record is as it is."""

    lease: Lease | None
    since: float

    def after(self, lease: Lease | None, now: float) -> "ObservedLease":
        """What is known once the lease was seen again: only a changed record counts as news."""
        if lease is not None and self.lease is not None and lease.spec == self.lease.spec:
            return ObservedLease(lease, self.since)
        return ObservedLease(lease, now)

    @property
    def expires(self) -> float:
        """When the record lapses unless it changes, by its own duration."""
        if self.lease is None:
            return self.since
        return self.since + self.lease.spec.lease_duration_seconds


class Acquire(Struct, frozen=True):
    """Nobody holds it: take it, with this many changes of holder so far."""

    transitions: int


class Renew(Struct, frozen=True):
    """We hold it: go on doing so."""


class Wait(Struct, frozen=True):
    """Somebody else holds it; look again at that time, unless the record changes before."""

    holder: str
    until: float


class Lost(Struct, frozen=True):
    """We led and may not any more."""

    holder: str


LeaseAction = Acquire | Renew | Wait | Lost


def next_action(
    seen: ObservedLease,
    now: float,
    me: str,
    *,
    renewed_at: float | None = None,
    known_transitions: int = -1,
    deadline: timedelta = DEFAULT_TIMINGS.deadline,
) -> LeaseAction:
    """What a candidate does next; `renewed_at` is when its last good renewal began, if it leads.

    A lease that was deleted goes on from the number of transitions we know of, so that whoever
    compares epochs is not stuck with those of the old one.
    """
    spec = seen.lease.spec if seen.lease is not None else LeaseSpec()
    if renewed_at is not None:
        if spec.holder_identity != me:
            return Lost(spec.holder_identity)
        if now >= renewed_at + deadline.total_seconds():
            return Lost("")
        return Renew()
    if seen.lease is None:
        return Acquire(known_transitions + 1)
    if spec.holder_identity == me:
        return Renew()
    if not spec.holder_identity or now >= seen.expires:
        return Acquire(max(spec.lease_transitions, known_transitions) + 1)
    return Wait(spec.holder_identity, seen.expires)


def next_spec(
    step: Acquire | Renew, held: LeaseSpec, me: str, now: datetime, terms: LeaseTimings
) -> LeaseSpec:
    """The record that a step leads to; a renewal keeps when it was acquired."""
    duration = int(terms.lease.total_seconds())
    match step:
        case Acquire(transitions):
            at = format_micro_time(now)
            return LeaseSpec(
                holder_identity=me,
                lease_duration_seconds=duration,
                acquire_time=at,
                renew_time=at,
                lease_transitions=transitions,
            )
        case Renew():
            return LeaseSpec(
                holder_identity=me,
                lease_duration_seconds=duration,
                acquire_time=held.acquire_time,
                renew_time=format_micro_time(now),
                lease_transitions=held.lease_transitions,
            )
        case _:
            assert_never(step)


def released_spec(held: LeaseSpec, now: datetime) -> LeaseSpec:
    """The record of a lease given back: nobody's, and lapsed within a second in any case."""
    at = format_micro_time(now)
    return LeaseSpec(
        lease_duration_seconds=1,
        acquire_time=at,
        renew_time=at,
        lease_transitions=held.lease_transitions,
    )


def preferred_holder(lease: Lease | None) -> str:
    """The candidate that asks for a lease; empty where none does."""
    return lease.metadata.annotations.get(PREFERRED_HOLDER, "") if lease is not None else ""


def lease_request_patch(lease: Lease, me: str) -> Wire:
    """The merge patch by which a candidate asks for a lease that somebody else holds."""
    return {"metadata": {**_as_seen(lease), "annotations": {PREFERRED_HOLDER: me}}}


def _as_seen(lease: Lease) -> Wire:
    return {"uid": lease.metadata.uid, "resourceVersion": lease.metadata.resource_version}


def lease_patch(lease: Lease, spec: LeaseSpec) -> Wire:
    """The merge patch that makes a lease say so, if it is still the one that we saw.

    With a change of holder nobody wants it any more.
    """
    kept = spec.holder_identity == lease.spec.holder_identity or not preferred_holder(lease)
    wishes: Wire = {} if kept else {"annotations": {PREFERRED_HOLDER: None}}
    return {
        "metadata": {**_as_seen(lease), **wishes},
        "spec": {
            "holderIdentity": spec.holder_identity,
            "leaseDurationSeconds": spec.lease_duration_seconds,
            "acquireTime": spec.acquire_time,
            "renewTime": spec.renew_time,
            "leaseTransitions": spec.lease_transitions,
        },
    }


def new_lease(namespace: str, name: str, spec: LeaseSpec) -> Lease:
    """The lease to create where there is none."""
    return Lease(metadata=Meta(name=name, namespace=namespace), spec=spec)


def format_micro_time(moment: datetime) -> str:
    """A MicroTime: UTC with exactly six digits, as API servers demand."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
