"""What holds members of a broker apart where RBAC cannot: admission policies over labels."""

from msgspec import Struct

from hanse.features.services.names import SOURCE_CLUSTER
from hanse.model.kinds.admission import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Event, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import ClusterSet, FederatedStatefulSet
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.kinds.stateful import StatefulSetPart
from hanse.model.manifests import SERVICE_ACCOUNT, Manifest, manifest
from hanse.model.objects import Kind, Wire

CLUSTER_UID = "hanse.dev/cluster-uid"
"""Annotation of a member's Lease: the kube-system uid of the cluster that joined by this id."""

_TOKENS = Kind("", "v1", "TokenRequest", f"{SERVICE_ACCOUNT.plural}/token")

_OLD_SOURCE = "lighthouse.submariner.io/sourceCluster"
"""Label of an import that agents before the aggregate publish for one cluster alone."""


class _Validation(Struct, frozen=True):
    """What must hold, and the message where it does not; both in CEL over `variables.me`."""

    expression: str
    message: str


class _Law(Struct, frozen=True):
    """What members may do with one kind."""

    name: str
    kind: Kind
    validations: tuple[_Validation, ...]
    status: bool = False
    anywhere: bool = False
    """Whether it holds in every namespace: users' own are where sets and Services are submitted."""
    by_rules: bool = False
    """Whether it reads the fleet's rules, the ClusterSet, as `params`."""


def policies(broker_namespace: str) -> tuple[Manifest, ...]:
    """The policies of a broker namespace and their bindings; people and others are not touched."""
    return tuple(
        made
        for law in _LAWS
        for made in (_policy(law, broker_namespace), _bound(law, broker_namespace))
    )


def _marked(which: str, label: str, otherwise: str) -> str:
    return f"{which}.metadata.?labels[?'{label}'].orValue({otherwise})"


def _on_both(condition: str) -> str:
    """A condition on `it` that holds of the object before and after."""
    before = condition.replace("it.", "oldObject.")
    after = condition.replace("it.", "object.")
    return (
        f"(request.operation == 'CREATE' || {before}) && (request.operation == 'DELETE' || {after})"
    )


_UID = f"metadata.?annotations[?'{CLUSTER_UID}'].orValue('')"

_OWN_SLICE = _Validation(
    _on_both(f"{_marked('it', SOURCE_CLUSTER, repr(''))} == variables.me"),
    f"'label {SOURCE_CLUSTER} must be ' + variables.me + ': a member writes its own slices only'",
)
_OWN_IMPORT = _Validation(
    _on_both(f"{_marked('it', _OLD_SOURCE, 'variables.me')} == variables.me"),
    f"'label {_OLD_SOURCE} must be ' + variables.me + "
    "': a member writes aggregates and its own imports only'",
)
_OWN_LEASE = _Validation(
    _on_both("it.metadata.name == variables.me"),
    "'the Lease must be ' + variables.me + ': a member renews its own only'",
)
_LASTING_UID = _Validation(
    f"request.operation != 'UPDATE' || object.{_UID} == oldObject.{_UID}",
    f"'annotation {CLUSTER_UID} says whose the id is and cannot be changed'",
)
_OWN_TOKEN = _Validation(
    "request.name == variables.me",
    "'the token must be for ' + variables.me + ': a member speaks for itself only'",
)
_WITHIN_RANGES = _Validation(
    "request.operation == 'DELETE' || params.?spec.?clusters.orValue([]).all(c, "
    "c.id != variables.me || c.?ranges.orValue([]).size() == 0 || "
    "object.?endpoints.orValue([]).all(e, e.addresses.all(a, "
    "isIP(a) && c.ranges.exists(r, isCIDR(r) && cidr(r).containsIP(a)))))",
    "'ClusterSet ' + params.metadata.name + ' does not let ' + variables.me + "
    "' publish addresses outside of its ranges'",
)
_MINE = _on_both(
    "it.metadata.?annotations[?'hanse.dev/owner-key'].orValue('')"
    ".contains('\"for\":\"' + variables.me + '\"')"
)
"""What a member's own agent made and marked as made for that member."""

_OWN_PART = _Validation(
    _on_both("it.spec.cluster == variables.me"),
    "'spec.cluster must be ' + variables.me + ': a member reports its own part only'",
)
_OWN_SERVICE = _Validation(
    f"({_MINE}) || (request.operation == 'UPDATE' && request.?subResource.orValue('') == '' && "
    "object.spec == oldObject.spec)",
    "'the Service was not made for ' + variables.me + ': a member annotates those of others only'",
)
_OWN_SET = _Validation(
    _MINE,
    "'the set was not passed on by ' + variables.me + ': a member writes those it hosts only'",
)
_OWN_EVENT = _Validation(
    _on_both("it.?reportingComponent.orValue('') == 'hanse'"),
    "'reportingComponent must be hanse: ' + variables.me + ' tells nobody else\\'s Events'",
)
_LAWS = (
    _Law("slices", EndpointSlice.kind, (_OWN_SLICE,)),
    _Law("imports", ServiceImport.kind, (_OWN_IMPORT,), status=True),
    _Law("ranges", EndpointSlice.kind, (_WITHIN_RANGES,), by_rules=True),
    _Law("leases", Lease.kind, (_OWN_LEASE, _LASTING_UID)),
    _Law("tokens", _TOKENS, (_OWN_TOKEN,)),
    _Law("parts", StatefulSetPart.kind, (_OWN_PART,)),
    _Law("services", Service.kind, (_OWN_SERVICE,), status=True, anywhere=True),
    _Law("sets", FederatedStatefulSet.kind, (_OWN_SET,), anywhere=True),
    _Law("events", Event.kind, (_OWN_EVENT,), anywhere=True),
)


def _policy(law: _Law, broker_namespace: str) -> Manifest:
    resources = [law.kind.plural, *([f"{law.kind.plural}/status"] if law.status else [])]
    spec: Wire = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [law.kind.group],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                    "resources": resources,
                }
            ]
        },
        "matchConditions": [
            {
                "name": "by-a-member",
                "expression": "request.userInfo.username"
                f".startsWith('system:serviceaccount:{broker_namespace}:')",
            }
        ],
        "variables": [{"name": "me", "expression": "request.userInfo.username.split(':')[3]"}],
        "validations": [
            {"expression": v.expression, "messageExpression": v.message, "reason": "Forbidden"}
            for v in law.validations
        ],
    }
    if law.by_rules:
        spec["paramKind"] = {"apiVersion": ClusterSet.kind.api_version, "kind": "ClusterSet"}
    return manifest(
        ValidatingAdmissionPolicy.kind,
        f"{broker_namespace}-{law.name}",
        body={"spec": spec},
        optional=True,
    )


def _bound(law: _Law, broker_namespace: str) -> Manifest:
    name = f"{broker_namespace}-{law.name}"
    spec: Wire = {"policyName": name, "validationActions": ["Deny"]}
    if not law.anywhere:
        inside = {"matchLabels": {"kubernetes.io/metadata.name": broker_namespace}}
        spec["matchResources"] = {"namespaceSelector": inside}
    if law.by_rules:
        spec["paramRef"] = {"selector": {}, "parameterNotFoundAction": "Allow"}
    return manifest(ValidatingAdmissionPolicyBinding.kind, name, body={"spec": spec}, optional=True)
