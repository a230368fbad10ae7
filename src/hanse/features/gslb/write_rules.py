"""What a GSLB leader may write in a site: the copies of its own configuration."""

from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import ConfigMap, Event
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import (
    NAMESPACE,
    AMKOCluster,
    GlobalDeploymentPolicy,
    GSLBConfig,
    GSLBHostRule,
)
from hanse.model.objects import Kind
from hanse.model.ownership import OWNER
from hanse.model.write_rules import (
    MAX_TOKEN_SECONDS,
    OUTSIDE_KUBE,
    OWN_TOKEN,
    SHORT_TOKEN,
    TOKENS,
    Requirement,
    Writer,
    WriteRule,
    before_and_after_cel,
    label_cel,
    unchanged_cel,
)

ACCOUNT = "{account}"
"""In a requirement: the name of the leader's account in the site."""

_FREE = ("labels", "annotations")
_OBJECTS = ("create", "patch", "delete")

_COPIED = Requirement(
    f"label {OWNER} says that this feature made it, before and after",
    before_and_after_cel(f"{label_cel('it', OWNER)}.startsWith('gslb-')"),
)
_SAME_CLUSTER = Requirement(
    "spec cannot be changed: who leads is decided in each cluster",
    f"request.operation != 'UPDATE' || {unchanged_cel('spec')}",
)
_OUR_EVENT = Requirement(
    "reportingComponent is hanse, before and after",
    before_and_after_cel("has(it.reportingComponent) && it.reportingComponent == 'hanse'"),
)
_LEADERS_TOKEN = Requirement(
    f"a token of the leader's account lives for at most {MAX_TOKEN_SECONDS // 86400} days",
    f"request.name != '{ACCOUNT}' || ({SHORT_TOKEN.expression})",
)
_TOLD = ("involvedObject", "reason", "message", "type", "source", "firstTimestamp")
_COUNTED = Requirement(
    f"of an Event that exists only the count and its time change, not {', '.join(_TOLD)}, "
    "reportingInstance, action or related",
    "request.operation != 'UPDATE' || ("
    + " && ".join(map(unchanged_cel, (*_TOLD, "reportingInstance", "action", "related")))
    + ")",
)


def _copy_rule(name: str, kind: Kind, *requirements: Requirement) -> WriteRule:
    """The rule that lets a leader create, patch and delete copies of a kind in a site.

    Only in the GSLB namespace and if all requirements hold; of metadata it may set labels and
    annotations.
    """
    return WriteRule(
        name,
        Writer.LEADER,
        kind,
        _OBJECTS,
        f"copies of the leader's, in {NAMESPACE}",
        requirements,
        namespace=NAMESPACE,
        sets=_FREE,
    )


LEADER_RULES = (
    WriteRule(
        "amkoclusters",
        Writer.LEADER,
        AMKOCluster.kind,
        ("patch",),
        f"annotations of those in {NAMESPACE}",
        (_SAME_CLUSTER,),
        namespace=NAMESPACE,
        sets=("annotations",),
    ),
    _copy_rule("gslbconfigs", GSLBConfig.kind),
    _copy_rule("deploymentpolicies", GlobalDeploymentPolicy.kind),
    _copy_rule("hostrules", GSLBHostRule.kind),
    _copy_rule("globalservices", GlobalService.kind),
    _copy_rule("configmaps", ConfigMap.kind, _COPIED),
    _copy_rule("leases", Lease.kind, _COPIED),
    WriteRule(
        "globalservices-status",
        Writer.LEADER,
        GlobalService.kind,
        ("patch",),
        f"those in {NAMESPACE}",
        subresource="status",
        namespace=NAMESPACE,
    ),
    WriteRule(
        "tokens",
        Writer.LEADER,
        TOKENS,
        ("create",),
        "its own account's",
        (OWN_TOKEN,),
        subresource="token",
        namespace=NAMESPACE,
        own_name=True,
    ),
    WriteRule(
        "token-lifetimes",
        Writer.LEADER,
        TOKENS,
        (),
        "tokens of the leader's account, whoever requests them",
        (_LEADERS_TOKEN,),
        subresource="token",
        namespace=NAMESPACE,
        anybody=True,
    ),
    WriteRule(
        "events",
        Writer.LEADER,
        Event.kind,
        ("create", "get", "patch"),
        "those of Hanse",
        (_OUR_EVENT, _COUNTED, OUTSIDE_KUBE),
    ),
)
