"""What is wrong with the membership of single clusters: half left, or without their Federation."""

from collections.abc import Iterator
from shlex import quote

from hanse.features.federation.claims import read_claims
from hanse.features.federation.other_supervisors import LEAVING
from hanse.model.findings import (
    Finding,
    Ref,
    Remedy,
    Severity,
    cluster_ref,
    link_ref,
    remedy,
    subject_of,
)
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.federation import CLUSTER_SET, SYSTEM, ClusterClaim, Federation
from hanse.model.naming import holder_cluster
from hanse.model.objects import ClusterId, parse_time
from hanse.model.remedies import LEAVING_AFTER, join_federation_command


def unfinished_leave(
    federation: Federation, where: ClusterId, snapshot: MultiClusterSnapshot
) -> Iterator[Finding]:
    """Finding MemberLeaving, if a `hanse leave` of a cluster began long ago and has not ended.

    That is by annotation `hanse.dev/leaving` of its Federation, older than LEAVING_AFTER.
    """
    began = parse_time(federation.metadata.annotations.get(LEAVING))
    if began is not None and snapshot.now - began > LEAVING_AFTER:
        yield Finding(
            code="MemberLeaving",
            severity=Severity.RISK,
            subject=subject_of(federation, where),
            summary=f"{where} is leaving Federation {federation.name}, and has not finished: "
            "`hanse leave` was interrupted, so that accounts and objects remain",
            remedy=remedy(
                _leave_command(federation.name, where, snapshot),
                advice="if it is to stay: `hanse join --federation` with the same names",
            ),
            since=began,
        )


def missing_federation(
    claim: ClusterClaim, where: ClusterId, snapshot: MultiClusterSnapshot
) -> Iterator[Finding]:
    """Finding FederationMissing, if a cluster claims a cluster set and has no Federation.

    Nothing for claims about anything else, and while its Federations are not synced.
    """
    if claim.about != CLUSTER_SET or not claim.value:
        return
    own = snapshot.for_cluster(where)
    if own is None or not own.synced(where, Federation):
        return
    if next(snapshot.all(where, Federation), None) is None:
        yield Finding(
            code="FederationMissing",
            severity=Severity.RISK,
            subject=Ref("Federation", claim.value, cluster=where),
            summary=f"{where} is of Federation {claim.value} by its ClusterClaim {claim.name}, and "
            "its Federation is gone: it leads no member, and does not show who leads it",
            remedy=_remedy(claim.value, where, snapshot),
        )


def lost_members(
    federation: Federation, where: ClusterId, snapshot: MultiClusterSnapshot
) -> Iterator[Finding]:
    """Finding FederationMissing for members that have neither a Federation nor a cluster set claim.

    Nothing unless `where` supervises. One with a claim is reported by `missing_federation`. Nothing
    while what a member has is not known.
    """
    if not _supervises(where, snapshot):
        return
    for member in (one.cluster_id for one in federation.spec.members):
        own = snapshot.for_cluster(member) if member != where else None
        if own is None or not own.synced(member, Federation):
            continue
        claims = read_claims(own, member)
        claimed = claims is None or claims.cluster_set
        if not claimed and next(snapshot.all(member, Federation), None) is None:
            yield Finding(
                code="FederationMissing",
                severity=Severity.RISK,
                subject=Ref("Federation", federation.name, cluster=member),
                summary=f"{where} names {member} as a member of Federation {federation.name}, and "
                f"{member} has neither that Federation nor a ClusterClaim of its cluster set",
                remedy=remedy(
                    join_federation_command(federation.name, member, where, snapshot)
                    + " --supervises" * _supervises(member, snapshot),
                    advice="or let it leave: "
                    f"`{_leave_command(federation.name, member, snapshot)}`",
                ),
            )


def leaderless_causes(
    federation: str, where: ClusterId, snapshot: MultiClusterSnapshot
) -> Iterator[Ref]:
    """Subjects that may explain why nobody leads a member: links to possible leaders, then these.

    They are the last holder of its Lease, the other supervisors that name it, and lost clusters
    that may supervise: those that supervisors name, or any if there is neither such a holder nor a
    supervisor that names it.
    """
    lease = snapshot.get(where, Lease, where, SYSTEM)
    last = holder_cluster(lease.spec.holder_identity) if lease is not None else ""
    supervisors = _other_supervisors(federation, where, snapshot)
    naming = [one for one, members in supervisors.items() if where in members]
    named = {one for members in supervisors.values() for one in members}
    possible = named if naming or last else snapshot.lost_members
    lost = sorted(o for o in possible if snapshot.fault_of(o) and _may_supervise(o, snapshot))
    leading = tuple(dict.fromkeys(one for one in (last, *naming, *lost) if one and one != where))
    yield from (link_ref(one, where) for one in leading)
    yield from map(cluster_ref, leading)


def leaderless_remedy(federation: str, where: ClusterId, snapshot: MultiClusterSnapshot) -> Remedy:
    """How a member gets a leader again: advice to run a supervisor, with a `hanse join` to repeat.

    It asks the administrator of the first other supervisor of the Federation, by id; without one,
    of the member itself, and the command has the placeholder CONTEXT.
    """
    naming = sorted(_other_supervisors(federation, where, snapshot))
    supervisor = naming[0] if naming else "CONTEXT"
    again = join_federation_command(federation, where, supervisor, snapshot)
    return Remedy(
        f"a supervisor that names {where} has to run and to reach it; let it join again: `{again}`",
        ask=f"the administrator of {naming[0] if naming else where}",
    )


def _may_supervise(where: ClusterId, snapshot: MultiClusterSnapshot) -> bool:
    """Whether a cluster claims to be a supervisor, or its claims are not known."""
    own = snapshot.for_cluster(where)
    claims = read_claims(own, where) if own is not None else None
    return claims is None or claims.supervisor


def _remedy(federation: str, where: ClusterId, snapshot: MultiClusterSnapshot) -> Remedy:
    """How a cluster without Federation gets one: `hanse join`, if others name it or it supervises.

    If there are supervisors and none names it, `hanse leave`; if none is known, only advice.
    """
    supervisors = _other_supervisors(federation, where, snapshot)
    naming = [one for one, members in supervisors.items() if where in members]
    role = " --supervises" if _supervises(where, snapshot) else ""
    context = snapshot.context_argument(where)
    alone = f"hanse join --federation {quote(federation)} --cluster-id {where} --context {context}"
    if naming:
        return remedy(join_federation_command(federation, where, naming[0], snapshot) + role)
    if role:
        return remedy(alone + role)
    if supervisors:
        again = join_federation_command(federation, where, min(supervisors), snapshot)
        return remedy(
            _leave_command(federation, where, snapshot),
            advice="nobody names it as a member: a `hanse leave` or a `hanse join` of it did not "
            f"end; if it is to join: `{again}`",
        )
    return Remedy(f"let it join again, by one of its supervisors: `{alone} --supervisor CONTEXT`")


def _leave_command(federation: str, where: ClusterId, snapshot: MultiClusterSnapshot) -> str:
    """The `hanse leave` that resumes a cluster's leave; it names a supervisor, if one is known.

    That is the first other supervisor of the Federation by id.
    """
    others = _other_supervisors(federation, where, snapshot)
    asked = f" --supervisor {snapshot.context_argument(min(others))}" if others else ""
    place = f"--cluster-id {where} --context {snapshot.context_argument(where)}"
    return f"hanse leave --federation {quote(federation)} {place}{asked}"


def _other_supervisors(
    federation: str, where: ClusterId, snapshot: MultiClusterSnapshot
) -> dict[ClusterId, frozenset[ClusterId]]:
    """The other clusters that supervise the Federation of this name, by id, and whom each names."""
    return {
        other: frozenset(member.cluster_id for member in one.spec.members)
        for other, one in sorted(snapshot.everywhere(Federation), key=lambda found: found[0])
        if other != where and one.name == federation and _supervises(other, snapshot)
    }


def _supervises(where: ClusterId, snapshot: MultiClusterSnapshot) -> bool:
    """Whether a cluster claims to be a supervisor; False while its claims are not known."""
    own = snapshot.for_cluster(where)
    claims = read_claims(own, where) if own is not None else None
    return claims is not None and claims.supervisor
