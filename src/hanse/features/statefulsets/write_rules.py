"""What a member may write on the broker for federated StatefulSets."""

from hanse.features.statefulsets.names import CLUSTER, LB_NEEDED, REMOTE_LB_CLASS, REPLICAS
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import PROXY, Event, Service
from hanse.model.kinds.hanse import ClusterMember, FederatedStatefulSet
from hanse.model.kinds.stateful import SCHEMA, StatefulSetPart, StatefulSetShares
from hanse.model.write_rules import (
    HOME,
    IN_USER_NAMESPACE,
    OUTSIDE_KUBE,
    OWN_EVENT,
    Requirement,
    Writer,
    WriteRule,
    annotation_cel,
    before_and_after_cel,
    owned_by_cel,
    unchanged_cel,
)

_OWNED = before_and_after_cel(owned_by_cel("variables.me"))
_SHARED = before_and_after_cel(owned_by_cel("''"))
_DELETES = "request.operation == 'DELETE' || "
_FREE = ("labels", "annotations")
_OBJECTS = ("create", "patch", "delete")

_OWN_PART = Requirement(
    "spec.cluster is the writer's id, before and after",
    before_and_after_cel("it.spec.cluster == variables.me"),
    "'spec.cluster must be ' + variables.me + ': a member reports its own part only'",
)
_PART_NAME = Requirement(
    "its name ends with the writer's id and a hash, so that nobody takes another's names",
    "request.operation != 'CREATE' || "
    "object.metadata.name.matches('-' + variables.me + '-[0-9a-f]+$')",
)
_NO_NAME_OF_OTHERS = Requirement(
    "its name is not that of a report of another member whose id ends with the writer's",
    "request.operation != 'CREATE' || !params.metadata.name.endsWith('-' + variables.me) || "
    "!object.metadata.name.matches('-' + params.metadata.name + '-[0-9a-f]+$')",
    "'the name is that of a report of ' + params.metadata.name",
)

_OWN_SET = Requirement(
    "the owner key names the writer, before and after: a set that it hosts",
    _OWNED,
    "'the set was not passed on by ' + variables.me + ': a member writes those it hosts only'",
)
_POD = "object.spec.template.spec.template.spec"
_HOST_FIELDS = ("hostPID", "hostIPC", "hostNetwork")
_NO_HOST = Requirement(
    f"its pods do not use the host: no {', '.join(_HOST_FIELDS)}, hostPath or privileged container",
    f"{_DELETES}!has({_POD}) || ("
    + " && ".join(f"!(has({_POD}.{field}) && {_POD}.{field})" for field in _HOST_FIELDS)
    + f" && (!has({_POD}.volumes) || {_POD}.volumes.all(v, !has(v.hostPath)))"
    + "".join(
        f" && (!has({_POD}.{containers}) || {_POD}.{containers}.all(c, "
        "!(has(c.securityContext) && has(c.securityContext.privileged) && "
        "c.securityContext.privileged)))"
        for containers in ("containers", "initContainers")
    )
    + ")",
)

_BOTH = (
    "(has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {})",
    "(has(object.metadata.annotations) ? object.metadata.annotations : {})",
)


def _annotations_kept(before: str, after: str) -> str:
    """A CEL expression: `after` has every annotation of `before`, but for the two of replicas."""
    return (
        f"{before}.all(k, k in ['{LB_NEEDED}', '{REPLICAS}'] || "
        f"(k in {after} && {after}[k] == {before}[k]))"
    )


_ONLY_REPLICA_LIST = (
    "request.operation == 'UPDATE' && "
    + " && ".join(unchanged_cel(f) for f in ("spec", "metadata.labels"))
    + f" && {_annotations_kept(*_BOTH)} && {_annotations_kept(*reversed(_BOTH))}"
)
_OWN_SERVICE = Requirement(
    "the owner key names the writer, before and after; of others' it sets only the two annotations "
    "with the list of replicas",
    f"({_OWNED}) || ({_ONLY_REPLICA_LIST})",
    "'the Service was not made for ' + variables.me + "
    f"': of others a member sets only {LB_NEEDED} and {REPLICAS}'",
)
_OWN_SERVICE_STATUS = Requirement(
    "the owner key names the writer",
    owned_by_cel("variables.me").replace("it.", "object."),
    "'the Service was not made for ' + variables.me + ': a member writes the status of its own'",
)
_REPLICA = (
    f"object.spec.type == 'LoadBalancer' && has(object.spec.loadBalancerClass) && "
    f"object.spec.loadBalancerClass == '{REMOTE_LB_CLASS}' && "
    f"{annotation_cel('object', CLUSTER)} == variables.me && "
    "object.metadata.name.matches('-' + variables.me + '-[0-9]+$')"
)
_HARMLESS_SERVICE = Requirement(
    "it is headless, or the load balancer of a replica of the writer's cluster, without "
    "externalIPs and ExternalDNS annotations",
    f"{_DELETES}!({owned_by_cel('variables.me').replace('it.', 'object.')}) || ("
    "((has(object.spec.clusterIP) && object.spec.clusterIP == 'None' && "
    f"object.spec.type == 'ClusterIP') || ({_REPLICA})) && "
    "(!has(object.spec.externalIPs) || object.spec.externalIPs.size() == 0) && "
    "(!has(object.metadata.annotations) || "
    "object.metadata.annotations.all(k, !k.startsWith('external-dns.'))))",
)

_NO_REPLICA_OF_OTHERS = Requirement(
    "its name is not that of a replica of another member",
    "request.operation != 'CREATE' || params.metadata.name == variables.me || "
    "!object.metadata.name.matches('-' + params.metadata.name + '-[0-9]+$') || "
    "(variables.me.endsWith('-' + params.metadata.name) && "
    "object.metadata.name.matches('-' + variables.me + '-[0-9]+$'))",
    "'the name is that of a replica of ' + params.metadata.name",
)

_PROXIED = Requirement(
    "ipMode of an address is Proxy, so that no node here takes packets for it",
    "!has(object.status) || !has(object.status.loadBalancer) || "
    "!has(object.status.loadBalancer.ingress) || object.status.loadBalancer.ingress.all(i, "
    f"!has(i.ip) || (has(i.ipMode) && i.ipMode == '{PROXY}'))",
)

_RECORD = Requirement(
    "the owner key names nobody, before and after: a record that agents compute alike",
    _SHARED,
    "'only the record that agents compute alike can be written, not by hand as ' + variables.me",
)
_RECORD_OWNER = Requirement(
    "its only owner reference is the set of its name, and is set once",
    _DELETES + "(request.operation == 'UPDATE' && has(oldObject.metadata.ownerReferences) && "
    "oldObject.metadata.ownerReferences.size() > 0 ? "
    + unchanged_cel("metadata.ownerReferences")
    + " : (has(object.metadata.ownerReferences) ? object.metadata.ownerReferences.size() == 1 && "
    "object.metadata.ownerReferences.all(o, o.name == object.metadata.name && "
    "o.kind in ['StatefulSet', 'FederatedStatefulSet']) : request.operation == 'UPDATE'))",
)
_NO_LIVE_RECORD_DELETED = Requirement(
    "it is deleted only without an owner: otherwise it goes with its set",
    "request.operation != 'DELETE' || !has(oldObject.metadata.ownerReferences) || "
    "oldObject.metadata.ownerReferences.size() == 0",
)


def _permits(obj: str) -> str:
    """A CEL expression for the list of permits in a StatefulSetShares variable."""
    return f"(has({obj}.spec) && has({obj}.spec.permits) ? {obj}.spec.permits : [])"


_NEW_PERMITS = _permits("object")
_OLD_PERMITS = f"(request.operation == 'UPDATE' ? {_permits('oldObject')} : [])"
_OF_OTHERS = "filter(p, p.name != variables.me)"
_OWN_PERMIT = Requirement(
    "spec.permits of other clusters stay as they are: a member takes and returns its own",
    f"{_DELETES}{_NEW_PERMITS}.{_OF_OTHERS} == {_OLD_PERMITS}.{_OF_OTHERS}",
    "'spec.permits: only that of ' + variables.me + ' may change'",
)
_OLD_OWN = f"{_OLD_PERMITS}.filter(o, o.name == variables.me)"
_NEW_OWN = f"{_NEW_PERMITS}.filter(n, n.name == variables.me)"


def _has_received(taker: str, giver: str, number: str) -> str:
    """A CEL expression: whether permit entry `taker` has received what `giver` handed on.

    By the number that it has received from it, which is `number` or higher.
    """
    return (
        f"(has({taker}.received) && "
        f"{taker}.received.exists(r, r.name == {giver} && r.number >= {number}))"
    )


_HELD = (
    f"({_OLD_OWN}.exists(o, has(o.pods) && o.pods > 0) || {_OLD_PERMITS}.exists(p, p.name != "
    "variables.me && has(p.handedOn) && p.handedOn.to == variables.me && "
    f"!{_OLD_OWN}.exists(o, {_has_received('o', 'p.name', 'p.handedOn.number')})))"
)
"""CEL: whether the writer had a permit, of its own or handed on to it."""

_HANDED_ON_ONCE = Requirement(
    "a permit that is handed on was held, and is for another cluster",
    f"{_DELETES}{_NEW_OWN}.all(n, !has(n.handedOn) || "
    f"{_OLD_OWN}.exists(o, has(o.handedOn) && o.handedOn == n.handedOn) || "
    f"(n.handedOn.to != variables.me && {_HELD}))",
)
_HANDED_ON_FOR_GOOD = Requirement(
    "a permit that was handed on stands until it is received: whoever has it may use it",
    f"{_DELETES}{_OLD_OWN}.all(o, !has(o.handedOn) || !has(o.setUID) || "
    "!has(oldObject.metadata.ownerReferences) || "
    "!oldObject.metadata.ownerReferences.exists(w, w.uid == o.setUID) || "
    f"{_OLD_PERMITS}.exists(p, p.name == o.handedOn.to && "
    f"{_has_received('p', 'variables.me', 'o.handedOn.number')}) || "
    f"{_NEW_OWN}.exists(n, has(n.handedOn) && n.handedOn == o.handedOn && "
    "has(n.setUID) && n.setUID == o.setUID))",
)
_KNOWN_SCHEMA = Requirement(
    f"spec.schema is at most {SCHEMA}: agents leave a newer one alone",
    f"{_DELETES}!has(object.spec.schema) || object.spec.schema <= {SCHEMA}",
)

MEMBER_RULES = (
    WriteRule(
        "parts",
        Writer.MEMBER,
        StatefulSetPart.kind,
        _OBJECTS,
        "its own report, by spec.cluster",
        (_OWN_PART, _PART_NAME),
        namespace=HOME,
        sets=_FREE,
    ),
    WriteRule(
        "part-names",
        Writer.MEMBER,
        StatefulSetPart.kind,
        (),
        "under no name of another member",
        (_NO_NAME_OF_OTHERS,),
        namespace=HOME,
        sets=_FREE,
        params=ClusterMember.kind,
        params_in=HOME,
    ),
    WriteRule(
        "sets",
        Writer.MEMBER,
        FederatedStatefulSet.kind,
        _OBJECTS,
        "sets that its own cluster hosts",
        (_OWN_SET, IN_USER_NAMESPACE, _NO_HOST),
        sets=_FREE,
    ),
    WriteRule(
        "sets-status",
        Writer.MEMBER,
        FederatedStatefulSet.kind,
        ("patch",),
        "the report of any set, which no cluster acts on",
        (IN_USER_NAMESPACE,),
        subresource="status",
    ),
    WriteRule(
        "statefulsets-status",
        Writer.MEMBER,
        StatefulSet.kind,
        ("patch",),
        "the report of any set, which no cluster acts on",
        (IN_USER_NAMESPACE,),
        subresource="status",
    ),
    WriteRule(
        "shares",
        Writer.MEMBER,
        StatefulSetShares.kind,
        _OBJECTS,
        "any record of shares, which a cluster follows only where set and reports explain it",
        (
            IN_USER_NAMESPACE,
            _RECORD,
            _RECORD_OWNER,
            _NO_LIVE_RECORD_DELETED,
            _OWN_PERMIT,
            _HANDED_ON_ONCE,
            _HANDED_ON_FOR_GOOD,
            _KNOWN_SCHEMA,
        ),
        sets=("labels", "annotations", "ownerReferences"),
    ),
    WriteRule(
        "services",
        Writer.MEMBER,
        Service.kind,
        _OBJECTS,
        "its own: headless Services of sets it hosts, and its replicas' load balancers",
        (_OWN_SERVICE, IN_USER_NAMESPACE, _HARMLESS_SERVICE),
        sets=_FREE,
    ),
    WriteRule(
        "service-names",
        Writer.MEMBER,
        Service.kind,
        (),
        "under no name of another member's replica, as far as the server knows the members",
        (_NO_REPLICA_OF_OTHERS,),
        sets=_FREE,
        params=ClusterMember.kind,
        params_in=HOME,
        ignores_failures=True,
    ),
    WriteRule(
        "services-status",
        Writer.MEMBER,
        Service.kind,
        ("patch",),
        "its own replicas' load balancers",
        (_OWN_SERVICE_STATUS, _PROXIED, IN_USER_NAMESPACE),
        subresource="status",
    ),
    WriteRule(
        "events",
        Writer.MEMBER,
        Event.kind,
        ("create", "get", "patch"),
        "its own",
        (OWN_EVENT, OUTSIDE_KUBE),
    ),
)
