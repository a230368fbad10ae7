"""The state of the holders of Leases, judged by observed renewals and the server's clock; pure."""

from datetime import datetime, timedelta
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from hanse.kube.lease import ObservedLease
from hanse.kube.retry import DEFAULT_BACKOFF
from hanse.kube.store import object_version
from hanse.model.facts import HolderState
from hanse.model.kinds.coordination import Lease

Name = tuple[str, str]

RECONNECT_TIME = DEFAULT_BACKOFF.most.total_seconds()
"""Seconds that a live holder may need to reconnect to a server that was away."""

CLOCK_PRECISION = 1.0
"""Seconds by which two times of an API server may be rounded against each other."""

CONFIRMING_RENEWALS = 2
"""How many renewals show that a holder has repaired its objects on a server that was restored."""

NEW_SHARE = 2 / 3
"""Of its duration, for which a Lease is new after it was acquired: two renewals."""

MISSED_SHARE = 1 / 2
"""Of its duration, by which a Lease is older than our own if its holder had missed a renewal."""


class LeaseRecord(Struct, frozen=True):
    """One observed lease and the state of its holder."""

    observed: ObservedLease
    state: HolderState
    renewals: int = 0
    """How many renewals were seen in a row; until the first the age of the lease decides."""
    changed: bool = False
    """Whether the lease was ever seen to change, also back to an earlier renewal."""
    outdated_since: datetime | None = None
    """When it was written, if it was too old on the server's clock when it was first seen."""
    unconfirmed: int = 0
    """How many renewals are awaited since the cluster was listed again, or the lease made anew."""
    longest: float = inf
    """Its longest duration in seconds: while nobody holds it, that of its last holder."""
    acquired_version: int = 0
    """With which resourceVersion we first saw that its holder acquired it; 0 once it is not new."""

    @property
    def expires(self) -> float:
        """The loop's time when its holder counts as silent unless the lease is renewed.

        That is after the lease's duration, at most `longest`. An unknown holder that was never seen
        to renew it has RECONNECT_TIME more.
        """
        is_waited_for = self.state is HolderState.UNKNOWN and not self.renewals
        wait = RECONNECT_TIME if is_waited_for else 0.0
        return min(self.observed.expires, self.observed.since + self.longest) + wait


class LeaseObserver:
    """The leases of one cluster; times are the event loop's, ages the API server's.

    While the cluster is unreachable nothing expires, and afterwards every holder has a full lease
    duration again: renewals may have been missed.
    """

    def __init__(self, own: str = "") -> None:
        """Observe leases; `own` names the one that stands for this cluster, if there is one."""
        self._own = own
        self._own_first: dict[str, Lease] = {}
        """By namespace: our own lease as we first saw it."""
        self._records: dict[Name, LeaseRecord] = {}
        self._changed: set[Name] = set()
        """Leases that were ever seen to change, also those that were deleted since."""
        self._deleted: set[Name] = set()
        """Leases that were seen to be deleted, also those that were made anew since."""
        self._unreachable = False

    def observe(self, lease: Lease, now: float, server_time: datetime | None = None) -> None:
        """Record a lease and judge its holder; one with a new uid replaces the former of its name.

        At first it is READY if it was renewed within its duration by `server_time`, else (or
        without a `server_time`) UNKNOWN, or SILENT if it was deleted as that. A later renewal makes
        it READY, for a holder in doubt only the second one; an unchanged spec changes no state. A
        renewal that is older than the one before comes from a restored backup: UNKNOWN, or SILENT
        as before.
        """
        name = (lease.metadata.namespace, lease.metadata.name)
        if lease.metadata.name == self._own and lease.written_at is not None:
            self._own_first.setdefault(lease.metadata.namespace, lease)
        self._forget_former(lease, now)
        known = self._records.get(name)
        before = known.observed.lease if known is not None else None
        if known is None or before is None:
            silent = known is not None and known.state is HolderState.SILENT
            record = _first_record(lease, now, server_time)
            if silent and record.state is not HolderState.READY:
                record = LeaseRecord(record.observed, HolderState.SILENT)
            if name in self._deleted:  # its server may have lost its objects with it
                record = replace(record, unconfirmed=CONFIRMING_RENEWALS)
        elif lease.spec == before.spec:
            record = replace(known, observed=ObservedLease(lease, known.observed.since))
        elif _is_earlier(lease, before):
            silent = known.state is HolderState.SILENT
            state = HolderState.SILENT if silent else HolderState.UNKNOWN
            old = known.outdated_since  # what was too old before is not younger in a backup
            observed = ObservedLease(lease, now)
            record = LeaseRecord(observed, state, changed=old is None, outdated_since=old)
        else:
            state, renewals = _state_after(lease, known), known.renewals + 1
            awaited = max(known.unconfirmed - 1, 0)
            record = LeaseRecord(
                ObservedLease(lease, now),
                state,
                renewals,
                changed=True,
                unconfirmed=awaited,
                longest=_longest_duration(lease, known),
            )
        self._records[name] = replace(record, acquired_version=_acquired_version(lease, known))
        if record.changed:
            self._changed.add(name)

    def judge_ages(self, now: float, server_time: datetime) -> tuple[Name, ...]:
        """Judge unknown leases that were never seen to change by their age.

        Returns the names of those that were renewed in time, whose holders are ready now, and of
        those that are found too old only now.
        """
        judged_now = []
        for name, record in self._records.items():
            lease = record.observed.lease
            if lease is None or record.changed or record.state is not HolderState.UNKNOWN:
                continue
            judged = _first_record(lease, now, server_time)
            if judged.state is HolderState.READY:
                self._records[name] = replace(
                    judged,
                    unconfirmed=record.unconfirmed,
                    acquired_version=record.acquired_version,
                )
                judged_now.append(name)
            elif judged.outdated_since != record.outdated_since:
                self._records[name] = replace(record, outdated_since=judged.outdated_since)
                judged_now.append(name)
        return tuple(judged_now)

    def forget(self, namespace: str, name: str, now: float) -> None:
        """Forget a deleted lease: its holder is unknown, unless it was silent, which it stays.

        If the lease is made anew, `is_confirmed` waits for two renewals.
        """
        record = self._records.pop((namespace, name), None)
        self._deleted.add((namespace, name))
        if record is not None and record.state is HolderState.SILENT:
            self._records[namespace, name] = LeaseRecord(
                ObservedLease(None, now), HolderState.SILENT
            )

    def _forget_former(self, lease: Lease, now: float) -> None:
        """Forget a lease of the same name and another uid, whose deletion was not reported.

        Nothing if there is none.
        """
        name = (lease.metadata.namespace, lease.metadata.name)
        known = self._records.get(name)
        former = known.observed.lease if known is not None else None
        if former is not None and former.metadata.uid != lease.metadata.uid:
            self.forget(*name, now)

    def mark_relisted(self) -> None:
        """Take no known lease as confirmed until its second renewal from now.

        The server may have been restored to a state since the last renewal, and a holder may renew
        its lease once before it has repaired its objects there.
        """
        for name, record in self._records.items():
            self._records[name] = replace(record, unconfirmed=CONFIRMING_RENEWALS)

    def mark_unreachable(self) -> None:
        """Expire no lease until `mark_reachable`: renewals cannot be observed."""
        self._unreachable = True

    def mark_reachable(self, now: float) -> None:
        """Expire leases again, each after a full duration from now.

        Nothing unless it was marked as unreachable.
        """
        if not self._unreachable:
            return
        self._unreachable = False
        for name, record in self._records.items():
            observed = ObservedLease(record.observed.lease, now)
            self._records[name] = replace(record, observed=observed)

    def expire(self, now: float, unchanged_since: float | None = None) -> tuple[Name, ...]:
        """Mark the holders of newly expired leases as silent; returns the names of these leases.

        None expires while unreachable. With `unchanged_since`, only leases whose duration began at
        that time, as `mark_reachable` sets it.
        """
        if self._unreachable:
            return ()
        expired = tuple(
            name
            for name, record in self._records.items()
            if record.state is not HolderState.SILENT
            and now >= record.expires
            and unchanged_since in (None, record.observed.since)
        )
        for name in expired:
            record = self._records[name]
            self._records[name] = replace(record, state=HolderState.SILENT)
        return expired

    @property
    def next_expiry(self) -> float | None:
        """The loop's time when the next lease expires; None if none can, as while unreachable."""
        if self._unreachable:
            return None
        return min(
            (b.expires for b in self._records.values() if b.state is not HolderState.SILENT),
            default=None,
        )

    @property
    def names(self) -> tuple[Name, ...]:
        """The leases that are known, also deleted ones of silent holders."""
        return tuple(self._records)

    def state(self, namespace: str, name: str) -> HolderState:
        """The state of a lease's holder; UNKNOWN for a lease that does not exist.

        SILENT for one that was deleted while its holder was silent.
        """
        record = self._records.get((namespace, name))
        return record.state if record is not None else HolderState.UNKNOWN

    def is_confirmed(self, namespace: str, name: str) -> bool:
        """Whether a lease's holder needs no further renewal to be relied on.

        False only for a ready holder that has not renewed twice since the cluster was listed again,
        or since the lease was made anew after it was deleted; True for an unknown lease.
        """
        record = self._records.get((namespace, name))
        return record is None or record.state is not HolderState.READY or not record.unconfirmed

    def acquired_version(self, namespace: str, name: str) -> int:
        """The resourceVersion with which the acquisition of a new lease was first seen; else 0.

        A lease is new until its holder has renewed it for NEW_SHARE of its duration.
        """
        record = self._records.get((namespace, name))
        return record.acquired_version if record is not None else 0

    def is_outdated(self, namespace: str, name: str) -> bool | None:
        """Whether a lease was too old when it was first seen, and was never seen to change.

        None if it does not exist and never changed. Where there is an `own` lease, it is too old
        only if, when ours was first seen, it was older than ours by at least MISSED_SHARE of its
        duration; otherwise we were away as long as its holder, or the server was restored. It is
        not too old if ours had been acquired just before, as it is anew after a restore, nor if its
        resourceVersion is after that of ours. While ours is missing there is nothing to compare
        with: False.
        """
        if (namespace, name) in self._changed:
            return False
        record = self._records.get((namespace, name))
        if record is None or record.outdated_since is None:
            return None if record is None else False
        own, lease = self._own_first.get(namespace), record.observed.lease
        if own is None or own.written_at is None or lease is None:
            return not self._own
        missed = timedelta(seconds=lease.spec.lease_duration_seconds * MISSED_SHARE)
        is_older = own.written_at - record.outdated_since >= missed
        is_new = own.renewed and own.acquired and own.renewed - own.acquired < missed
        return is_older and not is_new and object_version(lease) <= object_version(own)

    def holder(self, namespace: str, name: str) -> str:
        """The holder of a lease; empty for a lease that is released or does not exist."""
        record = self._records.get((namespace, name))
        return (
            record.observed.lease.spec.holder_identity if record and record.observed.lease else ""
        )


def _first_record(lease: Lease, now: float, server_time: datetime | None) -> LeaseRecord:
    """The record of a lease that was never seen to change: READY if it was renewed in time.

    It has a holder then, and expires by its age. One that is too old, or has no holder, is UNKNOWN
    and outdated since it was written. One whose age is not known is only UNKNOWN; so is one written
    by more than its duration after `server_time`, since the server's clock was set back.
    """
    written, duration = lease.written_at, lease.spec.lease_duration_seconds
    age = None
    if lease.spec.holder_identity and written is not None and server_time is not None:
        age = (server_time - written).total_seconds() - CLOCK_PRECISION
        if abs(age) < duration:
            return LeaseRecord(ObservedLease(lease, now - max(age, 0.0)), HolderState.READY)
    is_from_later = age is not None and age < 0
    since = written if server_time is not None and not is_from_later else None
    return LeaseRecord(ObservedLease(lease, now), HolderState.UNKNOWN, outdated_since=since)


def _state_after(lease: Lease, known: LeaseRecord) -> HolderState:
    """The state of a holder after a renewal: READY; one in doubt only after its second renewal.

    In doubt is one that was unknown, or whose Lease was restored from a backup: its repaired
    objects may arrive after its first renewal. A Lease that had no holder before is READY at once;
    one that has none now keeps its state.
    """
    before = known.observed.lease
    if not lease.spec.holder_identity:
        return known.state
    was_held = before is not None and bool(before.spec.holder_identity)
    is_doubted = known.changed or known.state is HolderState.UNKNOWN
    if was_held and is_doubted and not known.renewals:
        return known.state
    return HolderState.READY


def _acquired_version(lease: Lease, known: LeaseRecord | None) -> int:
    """The version with which the acquisition of a lease was first seen; 0 if it is not new.

    It is new until it was renewed for NEW_SHARE of its duration, by its holder's clock; never
    without a holder.
    """
    acquired, renewed = lease.acquired, lease.renewed
    if not lease.spec.holder_identity or acquired is None or renewed is None:
        return 0
    settled = timedelta(seconds=lease.spec.lease_duration_seconds * NEW_SHARE)
    if not timedelta(0) <= renewed - acquired < settled:
        return 0
    before = known.observed.lease if known is not None else None
    if known is not None and before is not None:
        is_same = before.spec.acquire_time == lease.spec.acquire_time
        if is_same and known.acquired_version:
            return known.acquired_version
    return object_version(lease)


def _longest_duration(lease: Lease, known: LeaseRecord) -> float:
    """How many seconds a lease may last: infinite with a holder, else the duration of its last one.

    A restored server may have it as it was before its holder joined, with a long duration.
    """
    before = known.observed.lease
    if lease.spec.holder_identity or before is None:
        return inf
    return before.spec.lease_duration_seconds if before.spec.holder_identity else known.longest


def _is_earlier(lease: Lease, known: Lease) -> bool:
    """Whether a lease shows an earlier renewal of the same holder than the known one.

    False if either has no renewal time, and if the API server wrote it later than the known one:
    then the clock of its holder was set back.
    """
    before, after = known.spec.renew_time, lease.spec.renew_time
    same = lease.spec.holder_identity == known.spec.holder_identity
    if not same or before is None or after is None or after >= before:
        return False
    written, written_before = lease.written_at, known.written_at
    return written is None or written_before is None or written <= written_before
