"""What a Federation tells about its members: who is reached, who leads, what is wrong."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hanse.features.federation.claims import read_claims
from hanse.features.federation.members import (
    FEATURE_NAME,
    abandoned_clusters,
    current_federation,
    leaving_members,
)
from hanse.features.federation.refusals import RefusalReport, refusal_report
from hanse.model.conditions import Condition, condition, find, merged
from hanse.model.facts import (
    ClusterAbandoned,
    ClusterState,
    InvalidConnection,
    Leadership,
    LeaseLiveness,
    Phase,
    age,
)
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.federation import (
    SYSTEM,
    AbandonedMember,
    Federation,
    FederationStatus,
    Member,
    MemberState,
)
from hanse.model.naming import cluster_of
from hanse.model.objects import ClusterId, ClusterObjectRef, object_ref
from hanse.model.plan import EventRequest, Patch, Plan
from hanse.model.snapshot import Snapshot

VALID, REACHABLE, LED = "Valid", "MembersReachable", "Led"
SUCCESSION = timedelta(seconds=10)
"""How long a cluster may be between two leaders before it counts as led by nobody."""
_LONGEST_MESSAGE = 32000
MOST_NAMES = 100


def plan_status(federation: Federation, snapshot: Snapshot) -> Plan:
    """The status as a patch, and an Event for each condition that turned bad."""
    standing = federation.status
    chosen = current_federation(snapshot)
    first = chosen is None or chosen.metadata.name == federation.metadata.name
    supervises = _supervises(snapshot)
    members = tuple(_member_states(federation, snapshot)) if first and supervises else ()
    own = local_leader(snapshot, federation)
    leaders = sorted({m.leader for m in members if m.leader} | ({own.name} - {""}))
    wanted = list(_conditions(federation, members, own, snapshot) if first else _second(chosen))
    refused = refusal_report(federation, snapshot) if first and supervises else RefusalReport()
    wanted += refused.told
    told = FederationStatus(
        leaders=tuple(leaders),
        members=members,
        abandoned=tuple(_abandoned(federation, snapshot)),
        conditions=merged(
            standing.conditions, wanted, snapshot.now, generation=federation.metadata.generation
        ),
    )
    place = ClusterObjectRef(snapshot.local, object_ref(federation))
    change = {"status": _wire(told)}
    events = tuple(
        EventRequest(place, c.reason, c.message, "Warning" if c.status == "False" else "Normal")
        for c in wanted
        if _turned(c, find(standing.conditions, c.type))
    )
    given_up = {a.cluster_id for a in standing.abandoned}
    events += tuple(_farewell(a, place) for a in told.abandoned if a.cluster_id not in given_up)
    patches = (Patch(place, change, "status"),)
    waits = [wait for wait in (own.patience, refused.requeue_after) if wait is not None]
    return Plan(patches=patches, events=events, requeue_after=min(waits, default=None))


def _abandoned(federation: Federation, snapshot: Snapshot) -> Iterator[AbandonedMember]:
    """What stayed behind in clusters that were given up; it is written down once, and stays."""
    named = {member.cluster_id for member in federation.spec.members}
    standing = {a.cluster_id: a for a in federation.status.abandoned}
    for cluster in sorted(set(abandoned_clusters(federation)) - named):
        left = snapshot.fact(ClusterAbandoned, cluster)
        known = standing.get(cluster)
        if left is not None:
            names = tuple(str(place.ref) for place in left.objects[:MOST_NAMES])
            yield AbandonedMember(
                cluster_id=cluster,
                since=left.since.replace(microsecond=0),
                objects=len(left.objects),
                names=names,
            )
        elif known is not None:
            yield known


def _farewell(gone: AbandonedMember, place: ClusterObjectRef) -> EventRequest:
    text = (
        f"{gone.cluster_id} was given up; {gone.objects} objects of ours that were known here stay "
        "behind there"
    )
    return EventRequest(place, "Abandoned", text, "Warning")


def _wire(status: FederationStatus) -> dict[str, object]:
    """All fields, also where they are empty: a merge patch takes nothing back by itself."""
    return {
        "leaders": list(status.leaders),
        "members": [
            {"leader": "", "reachable": False, **msgspec.to_builtins(m)} for m in status.members
        ],
        "conditions": msgspec.to_builtins(status.conditions),
        "abandoned": [{"objects": 0, **msgspec.to_builtins(a)} for a in status.abandoned] or None,
    }


def _supervises(snapshot: Snapshot) -> bool:
    claims = read_claims(snapshot, snapshot.local)
    return claims is not None and claims.supervisor


def _member_states(federation: Federation, snapshot: Snapshot) -> Iterator[MemberState]:
    """One entry for each member that anything is known of; what is unknown stays as it stands."""
    standing = {m.cluster_id: m for m in federation.status.members}
    for member in federation.spec.members:
        entry = MemberState(
            cluster_id=member.cluster_id, server=member.server, secret=member.secret
        )
        if told := _state(entry, standing.get(member.cluster_id), snapshot):
            yield told
    for state in leaving_members(federation, snapshot):
        if told := _state(replace(state, leaving=True), state, snapshot):
            yield told


def _state(
    entry: MemberState, before: MemberState | None, snapshot: Snapshot
) -> MemberState | None:
    """An entry with what is known of its member now, and since when that is so."""
    answers = reachable(entry.cluster_id, snapshot)
    if answers is None:
        kept = before and replace(
            before, leaving=entry.leaving, server=entry.server, secret=entry.secret
        )
        return kept or None
    known = before or entry
    leader = _leader(entry.cluster_id, known.leader, answers, snapshot)
    same = before is not None and (before.reachable, before.leader) == (answers, leader)
    since = known.since if same else snapshot.now.replace(microsecond=0)
    return replace(entry, reachable=answers, leader=leader, since=since)


def reachable(cluster: ClusterId, snapshot: Snapshot) -> bool | None:
    """Whether a member answers; None while nobody knows."""
    state = snapshot.fact(ClusterState, cluster)
    if state is None:
        return (
            False if snapshot.fact(InvalidConnection, (FEATURE_NAME, cluster)) is not None else None
        )
    match state.phase:
        case Phase.CONNECTING:
            return None
        case Phase.UNREACHABLE:
            return False
        case Phase.SYNCED | Phase.RESTORED | Phase.LEAVING:
            return True


def _leader(cluster: ClusterId, before: str, reachable: bool, snapshot: Snapshot) -> ClusterId:
    """Who leads a member: of one that we cannot ask, whoever led it last, but not us."""
    lead = snapshot.fact(Leadership, cluster)
    if lead is None:
        return before
    if lead.holder:
        return cluster_of(lead.holder)
    return "" if not reachable and before == snapshot.local else before


class LocalLeader(Struct, frozen=True):
    """Who leads this cluster, or that nobody does, or that it is too early to say."""

    name: ClusterId = ""
    known: bool = True
    patience: timedelta | None = None
    """When to look again."""


def local_leader(snapshot: Snapshot, federation: Federation) -> LocalLeader:
    """Who leads this cluster, by the Lease that its leader renews here.

    Leaders follow each other, and the first one comes, within seconds: what is told stands for as
    long.
    """
    standing = federation.status
    led = find(standing.conditions, LED)
    was_led = led is not None and led.status == "True"
    last = standing.leaders[0] if was_led and len(standing.leaders) == 1 else ""
    lease = snapshot.get(snapshot.local, Lease, snapshot.local, SYSTEM)
    if lease is None:
        born = federation.metadata.creation_timestamp or snapshot.now
        known = snapshot.synced(snapshot.local, Lease)
        return _nobody(born, last, snapshot) if known else LocalLeader(last, known=False)
    pulse = snapshot.fact(LeaseLiveness, (snapshot.local, SYSTEM, snapshot.local))
    holder = cluster_of(lease.spec.holder_identity)
    if pulse is None:  # just started: nobody has been watched for long enough
        return LocalLeader(holder if was_led else "", known=False)
    return LocalLeader(holder) if pulse.alive and holder else _nobody(pulse.since, last, snapshot)


def _nobody(since: datetime, last: str, snapshot: Snapshot) -> LocalLeader:
    """Nobody leads, if that has been so for long enough."""
    rest = SUCCESSION - age(since, snapshot.now)
    if rest <= timedelta(0):
        return LocalLeader()
    return LocalLeader(last, known=False, patience=rest)


def _conditions(
    federation: Federation, members: tuple[MemberState, ...], own: LocalLeader, snapshot: Snapshot
) -> Iterator[Condition]:
    faults = list(_faults(federation, snapshot))
    if faults:
        text = "; ".join(f"{f.field}: {f.message}" for f in faults)[:_LONGEST_MESSAGE]
        yield condition(VALID, False, faults[0].reason, text)
    else:
        yield condition(VALID, True, "Valid")
    if _supervises(snapshot):
        yield from _reach(federation.spec.members, members, snapshot)
    if own.name and own.known:
        yield condition(LED, True, "Led", f"{own.name} leads {snapshot.local}")
    elif own.known:
        text = (
            f"no supervisor renews the Lease {SYSTEM}/{snapshot.local}; what spans clusters rests"
        )
        yield condition(LED, False, "NoLeader", text)


def _reach(
    spec: tuple[Member, ...], members: tuple[MemberState, ...], snapshot: Snapshot
) -> Iterator[Condition]:
    named = {member.cluster_id for member in spec}
    told = [m for m in members if m.cluster_id in named]
    if len(told) < len(spec):
        return  # some are still being connected: what stands, stands
    away = [m.cluster_id for m in told if not m.reachable]
    if not away:
        yield condition(REACHABLE, True, "AllReachable")
        return
    reasons = [f"{c}: {_why_away(c, snapshot)}" for c in away]
    text = "; ".join(reasons)[:_LONGEST_MESSAGE]
    yield condition(REACHABLE, False, "MemberUnreachable", text)


def _why_away(cluster: ClusterId, snapshot: Snapshot) -> str:
    bad = snapshot.fact(InvalidConnection, (FEATURE_NAME, cluster))
    if bad is not None:
        return f"{bad.field}: {bad.message}"
    state = snapshot.fact(ClusterState, cluster)
    return state.reason if state is not None and state.reason else "it does not answer"


def _faults(federation: Federation, snapshot: Snapshot) -> Iterator[InvalidConnection]:
    """What is wrong with what people wrote, each with its field."""
    claims = read_claims(snapshot, snapshot.local)
    wanted = federation.spec.cluster_set
    if claims is not None and wanted and claims.cluster_set not in ("", wanted):
        text = f"{wanted!r}, but ClusterClaim clusterset.k8s.io says {claims.cluster_set!r}"
        yield InvalidConnection(
            FEATURE_NAME, snapshot.local, "spec.clusterSet", "ClusterSetMismatch", text
        )
    for index, member in enumerate(federation.spec.members):
        bad = snapshot.fact(InvalidConnection, (FEATURE_NAME, member.cluster_id))
        if bad is not None:
            yield bad
            continue
        said = read_claims(snapshot, member.cluster_id)
        if said is not None and said.cluster_id not in ("", member.cluster_id):
            field = f"spec.members[{index}].clusterID"
            text = f"the cluster at {member.server} says that it is {said.cluster_id!r}"
            yield InvalidConnection(
                FEATURE_NAME, member.cluster_id, field, "ClusterIDMismatch", text
            )


def _second(chosen: Federation | None) -> Iterator[Condition]:
    name = chosen.metadata.name if chosen is not None else ""
    text = f"Federation {name} was there first and counts; a cluster has one: delete this one"
    yield condition(VALID, False, "SecondFederation", text)


def _turned(now: Condition, before: Condition | None) -> bool:
    """Whether a condition says something bad, or something good again, that it did not say."""
    if before is None:
        return now.status == "False"
    return before.status != now.status
