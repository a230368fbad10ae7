"""Who leads this cluster, as the status of its Federation says."""

from datetime import datetime, timedelta

from msgspec import Struct

from hanse.model.conditions import find_condition
from hanse.model.facts import HolderState, LeaseLiveness, age
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.federation import SYSTEM, Federation
from hanse.model.naming import holder_cluster
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Snapshot

LED = "Led"
LEADER_CHANGE_GRACE = timedelta(seconds=10)
"""How long a cluster may be without a leader before the condition Led turns False."""


class LocalLeader(Struct, frozen=True):
    """The leader of this cluster; an empty name where it has none."""

    name: ClusterId = ""
    known: bool = True
    """False keeps the condition: it is too early to say."""
    recheck_after: timedelta | None = None


def local_leader(snapshot: Snapshot, federation: Federation) -> LocalLeader:
    """The cluster that leads this one, by the Lease that its leader renews here.

    It is not `known` while Leases are not synced, until the Lease was observed for long enough, and
    in the grace period after its holder is lost, or without a Lease after the Federation was
    created; the name is then the holder's or last leader's, or empty if the status is not Led.
    """
    current = federation.status
    led = find_condition(current.conditions, LED)
    was_led = led is not None and led.status == "True"
    last = current.leaders[0] if was_led and len(current.leaders) == 1 else ""
    lease = snapshot.get(snapshot.local, Lease, snapshot.local, SYSTEM)
    if lease is None:
        created = federation.metadata.creation_timestamp or snapshot.now
        known = snapshot.synced(snapshot.local, Lease)
        return _no_leader(created, last, snapshot) if known else LocalLeader(last, known=False)
    liveness = snapshot.fact(LeaseLiveness, (snapshot.local, SYSTEM, snapshot.local))
    holder = holder_cluster(lease.spec.holder_identity)
    if liveness is None or liveness.state is HolderState.UNKNOWN:  # it was not observed for long
        return LocalLeader(holder if was_led else "", known=False)
    return (
        LocalLeader(holder)
        if liveness.state is HolderState.READY and holder
        else _no_leader(liveness.since, last, snapshot)
    )


def _no_leader(since: datetime, last: str, snapshot: Snapshot) -> LocalLeader:
    """No leader; within the grace period that starts at `since`, `last`, which is not `known`.

    It is then to be rechecked at the end of the period.
    """
    rest = LEADER_CHANGE_GRACE - age(since, snapshot.now)
    if rest <= timedelta(0):
        return LocalLeader()
    return LocalLeader(last, known=False, recheck_after=rest)
