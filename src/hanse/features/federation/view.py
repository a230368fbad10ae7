"""What Federations say is wrong: members, leaders, and lists of supervisors that differ."""

import json
import re
from collections.abc import Iterator, Sequence
from shlex import quote

from msgspec.structs import replace

from hanse.features.federation.findings import (
    leaderless_causes,
    leaderless_remedy,
    lost_members,
    missing_federation,
    unfinished_leave,
)
from hanse.features.federation.local_leader import LED
from hanse.features.federation.members import ABANDONED
from hanse.features.federation.ranges import RANGES
from hanse.features.federation.refusals import MEMBERS_WRITTEN
from hanse.features.federation.status import DIFFER, REACHABLE, VALID
from hanse.model.conditions import Condition
from hanse.model.facts import Role
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
from hanse.model.kinds.federation import ClusterClaim, Federation
from hanse.model.object_view import (
    ConditionRule,
    ObjectRule,
    ObjectsView,
    condition_finding,
    object_finding,
)
from hanse.model.objects import ClusterId
from hanse.model.refused_writes import write_causes
from hanse.model.remedies import join_federation_command
from hanse.model.snapshot import Watch

_RULES = {
    VALID: ConditionRule("FederationInvalid"),
    REACHABLE: ConditionRule("MemberUnreachable"),
    LED: ConditionRule("LeaderMissing"),
    DIFFER: ConditionRule("MembersDiffer", Severity.RISK, "True"),
    MEMBERS_WRITTEN: ConditionRule("WriteRefused"),
    RANGES: ConditionRule("RangesOverlap"),
}

_MISNAMED = re.compile(r"spec\.members\[(\d+)\]\.clusterID: .* says that it is '([^']+)'")
_JOIN = re.compile(r"hanse join(?: [\w./:=@-]+)+")
"""A command in a condition; nothing more, whatever its cluster wrote there."""
_CONTEXT = re.compile(r"(?<=--context )\S+|(?<=--supervisor )\S+")
_SECRET_FIELD = re.compile(r"spec\.members\[(\d+)\]\.secret: ")


def _subject(federation: Federation, where: ClusterId, condition: str) -> Ref:
    """The Federation of one cluster.

    Without a cluster for MembersDiffer, which every supervisor reports.
    """
    return subject_of(federation, "" if condition == DIFFER else where)


def _condition_remedy(
    federation: Federation,
    where: ClusterId,
    bad: Condition,
    lost: Sequence[ClusterId],
    snapshot: MultiClusterSnapshot,
) -> Remedy | None:
    """What ends a bad condition of a Federation; None where no command and no advice is known.

    MembersReachable has commands, one for each of `lost`, only in a fleet that `hanse up` runs.
    Others: the remedy of a missing leader, the joins in the message, whom to ask about refused
    writes, a patch of a wrong member id, and joins for members with a bad Secret.
    """
    if bad.type == REACHABLE and snapshot.local:
        return remedy(*(f"hanse local heal {where} {one}" for one in lost))
    if bad.type == LED:
        return leaderless_remedy(federation.name, where, snapshot)
    if bad.type == DIFFER:
        joins = (_with_contexts(one, snapshot) for one in _JOIN.findall(bad.message))
        return remedy(*joins, advice="or let it leave")
    if bad.type == MEMBERS_WRITTEN:
        advice = "mend what the message names; it is written again by itself"
        return Remedy(advice, ask=f"the administrator of {bad.message.partition(':')[0]}")
    if bad.type == VALID and (renamed := _MISNAMED.search(bad.message)) is not None:
        path = f"/spec/members/{renamed[1]}/clusterID"
        patch = json.dumps([{"op": "replace", "path": path, "value": renamed[2]}])
        return remedy(
            snapshot.kubectl(
                where, f"patch federation {federation.name} --type json -p {quote(patch)}"
            )
        )
    numbers = [int(number) for number in _SECRET_FIELD.findall(bad.message)]
    if bad.type == VALID and numbers:
        members = [member.cluster_id for member in federation.spec.members]
        again = (members[number] for number in numbers if number < len(members))
        return remedy(
            *(join_federation_command(federation.name, one, where, snapshot) for one in again)
        )
    return None


def _with_contexts(command: str, snapshot: MultiClusterSnapshot) -> str:
    """A `hanse join` from a condition, with kubeconfig contexts in place of cluster ids.

    That is in options `--context` and `--supervisor`: agents know no kubeconfig.
    """
    return _CONTEXT.sub(lambda found: snapshot.context_argument(found[0]), command)


def _check(
    federation: Federation, where: ClusterId, snapshot: MultiClusterSnapshot
) -> Iterator[Finding]:
    """A finding for each bad condition, and those about single members.

    These are an unfinished leave, members without Federation, and those that were given up.
    """
    yield from unfinished_leave(federation, where, snapshot)
    yield from lost_members(federation, where, snapshot)
    lost = [m.cluster_id for m in federation.status.members if not m.reachable]
    away = tuple(cluster_ref(one) for one in lost)
    links = tuple(link_ref(where, one) for one in lost)
    for one in federation.status.conditions:
        rule = _RULES.get(one.type)
        if rule is not None and one.status == rule.bad:
            mend = _condition_remedy(federation, where, one, lost, snapshot)
            found = condition_finding(federation, where, one, rule, snapshot, mend)
            refusing = one.message.partition(":")[0]
            causes = {
                REACHABLE: (*away, *links),
                MEMBERS_WRITTEN: write_causes(refusing, one.message, snapshot),
                LED: (
                    *away,
                    *links,
                    *leaderless_causes(federation.name, where, snapshot),
                    cluster_ref(where),
                ),
                DIFFER: tuple(subject_of(federation, one) for one in sorted(snapshot.clusters)),
            }.get(one.type, ())
            yield replace(found, caused_by=causes, subject=_subject(federation, where, one.type))
    for gone in federation.status.abandoned:
        forget = f"annotate federation {federation.name} {ABANDONED}-"
        yield object_finding(
            federation,
            where,
            "MemberAbandoned",
            f"{gone.cluster_id} was given up; {gone.objects} objects of ours that were known here "
            "may stand there",
            snapshot,
            severity=Severity.NOTE,
            mend=remedy(
                snapshot.kubectl(where, forget),
                advice="after `hanse uninstall --context "
                f"{snapshot.context_argument(gone.cluster_id)}`, if it still exists",
            ),
        )


OBJECTS = ObjectsView(
    "federation-objects", (ObjectRule(Federation, _check),), (Watch(Role.LOCAL, ClusterClaim),)
)
"""Federations, as each cluster has them."""
CLAIMS = ObjectsView(
    "federation-claims",
    (ObjectRule(ClusterClaim, missing_federation),),
    (Watch(Role.LOCAL, Federation),),
)
"""Claims of clusters about themselves, which may lack what they claim."""
