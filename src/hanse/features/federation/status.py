"""Status of a Federation: members, whether they are reachable, who leads them, and conditions."""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from hanse.features.federation.claims import read_claims
from hanse.features.federation.local_leader import LED, LocalLeader, local_leader
from hanse.features.federation.members import (
    abandoned_clusters,
    current_federation,
    former_members,
)
from hanse.features.federation.other_supervisors import (
    FEATURE_NAME,
    differing_lists,
    is_dissolved,
    join_command,
)
from hanse.features.federation.ranges import RANGES, own_ranges, ranges_condition
from hanse.features.federation.refusals import (
    MEMBERS_WRITTEN,
    RefusalReport,
    election_message,
    refusal_report,
)
from hanse.features.federation.tokens import stored_token_digest
from hanse.model.agent_report import FORBIDDEN, REJECTED, UNTRUSTED
from hanse.model.conditions import Condition, condition, find_condition, merge_conditions
from hanse.model.facts import (
    ClusterAbandoned,
    ClusterDeparted,
    ClusterState,
    ElectionFailure,
    InvalidConnection,
    Leadership,
    Phase,
    Role,
)
from hanse.model.kinds.federation import (
    SYSTEM,
    AbandonedMember,
    Federation,
    FederationStatus,
    Member,
    MemberState,
)
from hanse.model.naming import holder_cluster
from hanse.model.objects import ClusterId, ClusterObjectRef, object_ref
from hanse.model.plan import EventRequest, Patch, Plan
from hanse.model.snapshot import Snapshot
from hanse.model.status import condition_events

VALID, REACHABLE, DIFFER = "Valid", "MembersReachable", "MembersDiffer"
_OF_SUPERVISORS = (REACHABLE, DIFFER, RANGES, MEMBERS_WRITTEN)
MOST_NAMES = 100
MAX_MESSAGE = 2048


def plan_status(federation: Federation, snapshot: Snapshot) -> Plan:
    """A patch of the Federation's status, and Events of changed conditions and abandoned members.

    Members are listed by a supervisor in its current Federation, and by a former one those that it
    still has; a second Federation gets the condition Valid=False. The key is requeued for when the
    leader or refused writes are to be judged again.
    """
    current = federation.status
    chosen = current_federation(snapshot)
    is_chosen = chosen is None or chosen.metadata.name == federation.metadata.name
    supervises = _supervises(snapshot)
    members = tuple(_member_states(federation, snapshot)) if is_chosen else ()
    own = local_leader(snapshot, federation)
    leaders = sorted({m.leader for m in members if m.leader} | ({own.name} - {""}))
    conditions = list(
        _conditions(federation, members, own, snapshot)
        if is_chosen
        else _second_federation_condition(chosen)
    )
    refusals = refusal_report(federation, snapshot) if is_chosen and supervises else RefusalReport()
    conditions += refusals.conditions
    status = FederationStatus(
        leaders=tuple(leaders),
        members=members,
        retiring=_retiring(federation, snapshot),
        abandoned=tuple(_abandoned_members(federation, snapshot)),
        ranges=own_ranges(federation, snapshot),
        conditions=merge_conditions(
            _lasting(current.conditions, snapshot),
            conditions,
            snapshot.now,
            generation=federation.metadata.generation,
        ),
    )
    ref = ClusterObjectRef(snapshot.local, object_ref(federation))
    events = tuple(condition_events(ref, current.conditions, conditions))
    known = {a.cluster_id for a in current.abandoned}
    events += tuple(_abandoned_event(a, ref) for a in status.abandoned if a.cluster_id not in known)
    patches = (Patch(ref, {"status": _status_fields(status)}, "status"),)
    waits = [wait for wait in (own.recheck_after, refusals.requeue_after) if wait is not None]
    return Plan(patches=patches, events=events, requeue_after=min(waits, default=None))


def _lasting(conditions: tuple[Condition, ...], snapshot: Snapshot) -> Iterable[Condition]:
    """The conditions; without those of supervisors if this cluster is known to be no supervisor."""
    known = read_claims(snapshot, snapshot.local)
    if known is None or known.supervisor:
        return conditions
    return (one for one in conditions if one.type not in _OF_SUPERVISORS)


def _retiring(federation: Federation, snapshot: Snapshot) -> tuple[ClusterId, ...]:
    """The members that a cluster which ceases to supervise is still connected to; else none.

    It ceases if it does not claim to supervise, its claims are not listed, or its Federation has no
    members.
    """
    if _supervises(snapshot) and federation.spec.members:
        return ()
    return tuple(sorted(snapshot.clusters(Role.MEMBER)))


def _abandoned_members(federation: Federation, snapshot: Snapshot) -> Iterator[AbandonedMember]:
    """An entry with the objects that remain for each cluster that is annotated as abandoned.

    It is written from the runtime's fact, which has the objects, and kept from the status
    afterwards; none without either, nor for a cluster that the spec names.
    """
    named = {member.cluster_id for member in federation.spec.members}
    recorded = {a.cluster_id: a for a in federation.status.abandoned}
    for cluster in sorted(set(abandoned_clusters(federation)) - named):
        left = snapshot.fact(ClusterAbandoned, cluster)
        known = recorded.get(cluster)
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


def _abandoned_event(member: AbandonedMember, ref: ClusterObjectRef) -> EventRequest:
    """The Warning `Abandoned`: how many known objects of ours stay behind in a member."""
    text = (
        f"{member.cluster_id} was given up; {member.objects} objects of ours that were known here "
        "stay behind there"
    )
    return EventRequest(ref, "Abandoned", text, "Warning")


def _status_fields(status: FederationStatus) -> dict[str, object]:
    """The status as a merge patch that sets every field.

    Empty `retiring` and `abandoned` are removed.
    """
    return {
        "leaders": list(status.leaders),
        "members": [
            {"leader": "", "reachable": False, **msgspec.to_builtins(m)} for m in status.members
        ],
        "conditions": msgspec.to_builtins(status.conditions),
        "retiring": list(status.retiring) or None,
        "ranges": {"pods": list(status.ranges.pods), "services": list(status.ranges.services)},
        "abandoned": [{"objects": 0, **msgspec.to_builtins(a)} for a in status.abandoned] or None,
    }


def _supervises(snapshot: Snapshot) -> bool:
    """Whether this cluster claims to be a supervisor; False while its claims are not listed."""
    claims = read_claims(snapshot, snapshot.local)
    return claims is not None and claims.supervisor


def _member_states(federation: Federation, snapshot: Snapshot) -> Iterator[MemberState]:
    """The state of each member, and of former members that are not released, if anything is known.

    Of a dissolved Federation those are left out that have departed. A cluster that does not
    supervise has no members but former ones.
    """
    current = {m.cluster_id: m for m in federation.status.members}
    dissolved = is_dissolved(federation)
    for member in federation.spec.members if _supervises(snapshot) else ():
        if dissolved and snapshot.fact(ClusterDeparted, member.cluster_id) is not None:
            continue
        entry = MemberState(
            cluster_id=member.cluster_id,
            server=member.server,
            secret=member.secret,
            leaving=dissolved,
        )
        if known := _member_state(entry, current.get(member.cluster_id), snapshot):
            yield known
    for former in former_members(federation, snapshot):
        entry = replace(former.state, leaving=former.fate == "leaving")
        if former.fate != "released" and (known := _member_state(entry, former.state, snapshot)):
            yield known


def _member_state(
    entry: MemberState, before: MemberState | None, snapshot: Snapshot
) -> MemberState | None:
    """The entry completed with reachability, leader, supervisor claim, message and token digest.

    While reachability is unknown, `before` with the entry's server, Secret and `leaving`, or None
    without it; `since` changes only with reachability or leader. The claim stays as before while it
    is not listed, the digest while the member is unreachable.
    """
    reachable = is_reachable(entry.cluster_id, snapshot)
    if reachable is None:
        kept = before and replace(
            before, leaving=entry.leaving, server=entry.server, secret=entry.secret
        )
        return kept or None
    known = before or entry
    leader = _member_leader(entry.cluster_id, known.leader, reachable=reachable, snapshot=snapshot)
    same = before is not None and (before.reachable, before.leader) == (reachable, leader)
    since = known.since if same else snapshot.now.replace(microsecond=0)
    claims = read_claims(snapshot, entry.cluster_id)
    supervisor = claims.supervisor if claims is not None else known.supervisor
    token = stored_token_digest(entry.secret, snapshot) if reachable else known.token_digest
    return replace(
        entry,
        reachable=reachable,
        leader=leader,
        since=since,
        supervisor=supervisor,
        message=_member_message(entry.cluster_id, reachable=reachable, snapshot=snapshot),
        reason="" if reachable else _refusal(entry.cluster_id, snapshot),
        token_digest=token,
    )


def _member_message(cluster: ClusterId, *, reachable: bool, snapshot: Snapshot) -> str:
    """Why a member is not reachable, else why its election fails; empty if all is well.

    Cut to MAX_MESSAGE.
    """
    failure = snapshot.fact(ElectionFailure, cluster)
    if not reachable:
        return _unreachable_reason(cluster, snapshot)[:MAX_MESSAGE]
    return election_message(failure)[:MAX_MESSAGE] if failure is not None else ""


def is_reachable(cluster: ClusterId, snapshot: Snapshot) -> bool | None:
    """Whether a member's API server answers; None while it is connecting or was never tried.

    False, too, if it has no state because its connection is invalid.
    """
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


def _member_leader(
    cluster: ClusterId, before: str, *, reachable: bool, snapshot: Snapshot
) -> ClusterId:
    """The holder of a member's Lease; the leader `before` while nobody holds it or it is unknown.

    Empty if nobody holds it, `before` is this cluster, and the member is unreachable.
    """
    lead = snapshot.fact(Leadership, cluster)
    if lead is None:
        return before
    if lead.holder:
        return holder_cluster(lead.holder)
    return "" if not reachable and before == snapshot.local else before


def _conditions(
    federation: Federation, members: tuple[MemberState, ...], own: LocalLeader, snapshot: Snapshot
) -> Iterator[Condition]:
    """Valid, Led if known, and of supervisors MembersReachable, MembersDiffer, RangesDistinct.

    A condition about which nothing is known, or that was never needed, is left out.
    """
    faults = list(_faults(federation, snapshot))
    if faults:
        text = "; ".join(f"{f.field}: {f.message}" for f in faults)
        yield condition(VALID, False, faults[0].reason, text)
    else:
        yield condition(VALID, True, "Valid")
    if _supervises(snapshot):
        yield from _reachable_condition(federation.spec.members, members, snapshot)
        yield from _differ_condition(federation, snapshot)
        yield from ranges_condition(federation, snapshot)
    if own.name and own.known:
        yield condition(LED, True, "Led", f"{own.name} leads {snapshot.local}")
    elif own.known:
        text = (
            f"no supervisor renews the Lease {SYSTEM}/{snapshot.local}; what spans clusters rests"
        )
        yield condition(LED, False, "NoLeader", text)


def _differ_condition(federation: Federation, snapshot: Snapshot) -> Iterator[Condition]:
    """MembersDiffer: True while supervisors name different members; False if set before.

    Else none.
    """
    differences = differing_lists(federation, snapshot)
    if differences:
        text = f"{'; '.join(differences)}; what such members gave is kept"
        yield condition(DIFFER, True, "ListsDiffer", text)
    elif find_condition(federation.status.conditions, DIFFER) is not None:
        yield condition(DIFFER, False, "ListsAgree")


def _reachable_condition(
    spec: tuple[Member, ...], members: tuple[MemberState, ...], snapshot: Snapshot
) -> Iterator[Condition]:
    """MembersReachable: True, or False with the unreachable members and why.

    Nothing until the states of all members in the spec are known. The reason says if one of them
    rejects our credentials.
    """
    named = {member.cluster_id for member in spec}
    known = [m for m in members if m.cluster_id in named]
    if len(known) < len(spec):
        return  # some are still being connected: keep the condition
    unreachable = [m.cluster_id for m in known if not m.reachable]
    if not unreachable:
        yield condition(REACHABLE, True, "AllReachable")
        return
    reasons = [f"{c}: {_unreachable_reason(c, snapshot)}" for c in unreachable]
    text = "; ".join(reasons)
    rejected = any(_is_rejected(cluster, snapshot) for cluster in unreachable)
    yield condition(REACHABLE, False, REJECTED if rejected else "MemberUnreachable", text)


def _refusal(cluster: ClusterId, snapshot: Snapshot) -> str:
    """The first reason that holds: REJECTED credentials, UNTRUSTED certificate or FORBIDDEN kinds.

    Empty if none does, or the member has no connection.
    """
    state = snapshot.fact(ClusterState, cluster)
    if state is None:
        return ""
    reasons = {REJECTED: state.rejected, UNTRUSTED: state.untrusted, FORBIDDEN: state.forbidden}
    return next((reason for reason, holds in reasons.items() if holds), "")


def _is_rejected(cluster: ClusterId, snapshot: Snapshot) -> bool:
    """Whether a member answers, and rejects our credentials."""
    state = snapshot.fact(ClusterState, cluster)
    return state is not None and state.rejected


def _unreachable_reason(cluster: ClusterId, snapshot: Snapshot) -> str:
    """Why a member is unreachable: its invalid field, else the reason of its state.

    With the `hanse join` that helps, if it rejects our credentials; never empty.
    """
    bad = snapshot.fact(InvalidConnection, (FEATURE_NAME, cluster))
    if bad is not None:
        return f"{bad.field}: {bad.message}"
    state = snapshot.fact(ClusterState, cluster)
    reason = state.reason if state is not None and state.reason else "it does not answer"
    if not _is_rejected(cluster, snapshot):
        return reason
    return f"{reason}: {join_command(cluster, snapshot)}"


def _faults(federation: Federation, snapshot: Snapshot) -> Iterator[InvalidConnection]:
    """What is wrong in the Federation, its Secrets or the members' claims, each with its field.

    Of a Federation without members, the faults of the connections that are kept nevertheless.
    """
    claims = read_claims(snapshot, snapshot.local)
    wanted = federation.spec.cluster_set
    if claims is not None and wanted and claims.cluster_set not in ("", wanted):
        text = f"{wanted!r}, but ClusterClaim clusterset.k8s.io says {claims.cluster_set!r}"
        yield InvalidConnection(
            FEATURE_NAME, snapshot.local, "spec.clusterSet", "ClusterSetMismatch", text
        )
    if not federation.spec.members:
        kept = snapshot.facts(InvalidConnection)
        yield from sorted((b for b in kept if b.source == FEATURE_NAME), key=lambda b: b.cluster)
    for index, member in enumerate(federation.spec.members):
        bad = snapshot.fact(InvalidConnection, (FEATURE_NAME, member.cluster_id))
        if bad is not None:
            yield bad
            continue
        claimed = read_claims(snapshot, member.cluster_id)
        if claimed is not None and claimed.cluster_id not in ("", member.cluster_id):
            field = f"spec.members[{index}].clusterID"
            text = f"the cluster at {member.server} says that it is {claimed.cluster_id!r}"
            yield InvalidConnection(
                FEATURE_NAME, member.cluster_id, field, "ClusterIDMismatch", text
            )


def _second_federation_condition(chosen: Federation | None) -> Iterator[Condition]:
    """Valid: False, for a Federation beside the chosen one; the message names that one."""
    name = chosen.metadata.name if chosen is not None else ""
    text = f"Federation {name} was there first and counts; a cluster has one: delete this one"
    yield condition(VALID, False, "SecondFederation", text)
