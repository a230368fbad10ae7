"""What Federations say is wrong: members, leaders, and lists of supervisors that differ."""

import re
from collections.abc import Iterator

from msgspec.structs import replace

from hanse.features.federation.members import ABANDONED
from hanse.features.federation.refusals import MEMBERS_WRITTEN
from hanse.features.federation.status import DIFFER, LED, REACHABLE, VALID
from hanse.model.findings import Finding, Remedy, Severity, cluster_ref, link_ref, remedy
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.federation import Federation
from hanse.model.object_view import (
    ConditionRule,
    ObjectRule,
    ObjectsView,
    condition_finding,
    object_finding,
)
from hanse.model.objects import ClusterId

_RULES = {
    VALID: ConditionRule("FederationInvalid"),
    REACHABLE: ConditionRule("MemberUnreachable"),
    LED: ConditionRule("LeaderMissing"),
    DIFFER: ConditionRule("MembersDiffer", Severity.RISK, "True"),
    MEMBERS_WRITTEN: ConditionRule("WriteRefused"),
}


def _join_again(message: str) -> Remedy:
    """The commands in the message of MembersDiffer, by which all supervisors name a member."""
    return remedy(*re.findall(r"hanse join [^,;]+", message), advice="or let it leave")


def _check(
    federation: Federation, where: ClusterId, snapshot: MultiClusterSnapshot
) -> Iterator[Finding]:
    """A finding for each bad condition, and for each member that was given up."""
    lost = [m.cluster_id for m in federation.status.members if not m.reachable]
    away = tuple(cluster_ref(one) for one in lost)
    links = tuple(link_ref(where, one) for one in lost)
    heal = remedy(*(f"hanse local heal {where} {one}" for one in lost)) if snapshot.local else None
    for one in federation.status.conditions:
        rule = _RULES.get(one.type)
        if rule is not None and one.status == rule.bad:
            mend = {REACHABLE: heal, DIFFER: _join_again(one.message)}.get(one.type)
            found = condition_finding(federation, where, one, rule, snapshot, mend)
            causes = {
                REACHABLE: (*away, *links),
                LED: (*away, *links, cluster_ref(where)),
            }.get(one.type, ())
            yield replace(found, caused_by=causes)
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
                advice=f"after `hanse uninstall --context {gone.cluster_id}`, if it still exists",
            ),
        )


OBJECTS = ObjectsView("federation-objects", (ObjectRule(Federation, _check),))
"""Federations, as each cluster has them."""
