"""What a supervisor may write in a member for replicated policies."""

from hanse.features.policies.content import FEDERATED
from hanse.model.kinds.antrea import AntreaClusterNetworkPolicy, AntreaNetworkPolicy
from hanse.model.kinds.federation import label_spellings
from hanse.model.write_rules import OUTSIDE_KUBE, Requirement, Writer, WriteRule, annotation


def _federated(of: str) -> str:
    """CEL for a policy that its users made a federated one, in any spelling of the annotation."""
    names = label_spellings("federated.anp")
    return " || ".join(f"{annotation(of, name)} == 'true'" for name in names)


_BY_USERS = Requirement(
    f"annotation {FEDERATED} is true: not a policy that users keep for this cluster",
    f"request.operation == 'CREATE' ? ({_federated('object')}) : ({_federated('oldObject')})",
)
_OBJECTS = ("create", "patch", "delete")
_FREE = ("labels", "annotations")

SUPERVISOR_RULES = (
    WriteRule(
        "clusternetworkpolicies",
        Writer.SUPERVISOR,
        AntreaClusterNetworkPolicy.kind,
        _OBJECTS,
        "federated policies",
        (_BY_USERS,),
        sets=_FREE,
    ),
    WriteRule(
        "networkpolicies",
        Writer.SUPERVISOR,
        AntreaNetworkPolicy.kind,
        _OBJECTS,
        "federated policies",
        (_BY_USERS, OUTSIDE_KUBE),
        sets=_FREE,
    ),
)
