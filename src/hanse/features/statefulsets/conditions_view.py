"""Findings of conditions that sets have, wherever they were submitted."""

from collections.abc import Iterator

from msgspec.structs import replace

from hanse.features.statefulsets.names import ON_LEAVE
from hanse.features.statefulsets.status import SHARE_DISPUTED
from hanse.model.findings import Finding, Ref, Severity, remedy
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.hanse import FederatedStatefulSet
from hanse.model.object_view import ConditionRule, ObjectRule, ObjectsView, check_conditions
from hanse.model.objects import ClusterId
from hanse.model.pauses import fleet_pauses
from hanse.model.remedies import resource_of

_RULES = {
    "Valid": ConditionRule("SetInvalid"),
    "Placed": ConditionRule("SetNotPlaced"),
    "Published": ConditionRule("NotPublished"),
    SHARE_DISPUTED: ConditionRule("ShareDisputed", Severity.RISK, "True"),
}


def _check(
    obj: StatefulSet | FederatedStatefulSet, where: ClusterId, snapshot: MultiClusterSnapshot
) -> Iterator[Finding]:
    """The findings of a set's bad conditions: Valid, Placed, Published and ShareDisputed.

    SetNotPlaced and ShareDisputed get their causes and remedies here.
    """
    for found in check_conditions(_RULES)(obj, where, snapshot):
        match found.code:
            case "SetNotPlaced":
                refusals = (
                    Ref("StatefulSet", obj.name, obj.namespace, c)
                    for c in sorted(snapshot.clusters)  # each presentation has its own order
                )
                share = f"{ON_LEAVE}=redistribute"
                annotate = f"annotate {resource_of(obj)} {obj.name} {share}"
                command = snapshot.kubectl(where, annotate, obj.namespace)
                advice = f"let the cluster join again, or give its share to others: `{command}`"
                mend = remedy(advice=advice) if share in found.summary else found.remedy
                yield replace(found, remedy=mend, caused_by=tuple(refusals))
            case "ShareDisputed":
                mend = remedy(advice="agents compute it anew; if it returns, end what writes it")
                yield replace(found, remedy=mend, caused_by=fleet_pauses(snapshot))
            case _:
                yield found


OBJECTS = ObjectsView(
    "statefulset-objects",
    (ObjectRule(StatefulSet, _check), ObjectRule(FederatedStatefulSet, _check)),
)
"""Sets whose conditions say that they are not spread as they stand."""
