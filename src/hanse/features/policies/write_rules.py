"""What a supervisor may write in a member for replicated policies."""

from hanse.features.policies.content import FEDERATED, LEDGER_PREFIX
from hanse.model.kinds.antrea import AntreaClusterNetworkPolicy, AntreaNetworkPolicy
from hanse.model.kinds.federation import label_spellings
from hanse.model.write_rules import (
    OUTSIDE_KUBE,
    Requirement,
    Writer,
    WriteRule,
    annotation_cel,
    unchanged_cel,
)


def _federated(of: str) -> str:
    """A CEL expression: whether the federation annotation of a policy variable is `true`."""
    names = label_spellings("federated.anp")
    return " || ".join(f"{annotation_cel(of, name)} == 'true'" for name in names)


_BEFORE, _AFTER = (
    f"(has({of}.metadata.annotations) ? {of}.metadata.annotations : {{}})"
    for of in ("oldObject", "object")
)
_ONLY_LEDGER_REMOVED = (
    "request.operation == 'UPDATE' && "
    + " && ".join(unchanged_cel(field) for field in ("spec", "status", "metadata.labels"))
    + f" && {_AFTER}.all(k, k in {_BEFORE} && {_BEFORE}[k] == {_AFTER}[k])"
    + f" && {_BEFORE}.all(k, k.startsWith('{LEDGER_PREFIX}') || k in {_AFTER})"
)
"""CEL for an update that removes annotations of the ledger, and changes nothing else."""
_BY_USERS = Requirement(
    f"annotation {FEDERATED} is true: not a policy that users keep for this cluster; from one that "
    f"left the federation only annotations {LEDGER_PREFIX}* are removed",
    f"request.operation == 'CREATE' ? ({_federated('object')}) : "
    f"({_federated('oldObject')} || ({_ONLY_LEDGER_REMOVED}))",
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
