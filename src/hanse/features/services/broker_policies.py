"""ValidatingAdmissionPolicies of a broker: each member writes only its own objects.

RBAC cannot express this, since it does not see labels.
"""

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
"""Annotation of a member's Lease: the kube-system uid of the cluster that joined with this id."""

_TOKENS = Kind("", "v1", "TokenRequest", f"{SERVICE_ACCOUNT.plural}/token")

_LEGACY_SOURCE = "lighthouse.submariner.io/sourceCluster"
"""Label of the import that an older agent publishes for its cluster alone."""


class _Validation(Struct, frozen=True):
    """A CEL expression that must hold, and the CEL of its message; `variables.me` is the member."""

    expression: str
    message: str


class _Policy(Struct, frozen=True):
    """The restrictions of members' requests for one kind."""

    name: str
    kind: Kind
    validations: tuple[_Validation, ...]
    status: bool = False
    """Whether it applies to the status subresource, too."""
    anywhere: bool = False
    """Whether it applies in every namespace: users submit sets and Services in their own."""
    uses_clusterset: bool = False
    """Whether it reads the ClusterSet as `params`."""


def policies(broker_namespace: str) -> tuple[Manifest, ...]:
    """The policies of a broker namespace and their bindings; they bind members' accounts only."""
    return tuple(
        made
        for policy in _POLICIES
        for made in (_policy(policy, broker_namespace), _binding(policy, broker_namespace))
    )


def _label_value(obj: str, label: str, default: str) -> str:
    """CEL for the value of a label of `obj`."""
    return f"{obj}.metadata.?labels[?'{label}'].orValue({default})"


def _before_and_after(condition: str) -> str:
    """CEL for a condition on `it` that both the old and the new object must satisfy."""
    before = condition.replace("it.", "oldObject.")
    after = condition.replace("it.", "object.")
    return (
        f"(request.operation == 'CREATE' || {before}) && (request.operation == 'DELETE' || {after})"
    )


_UID = f"metadata.?annotations[?'{CLUSTER_UID}'].orValue('')"

_OWN_SLICE = _Validation(
    _before_and_after(f"{_label_value('it', SOURCE_CLUSTER, repr(''))} == variables.me"),
    f"'label {SOURCE_CLUSTER} must be ' + variables.me + ': a member writes its own slices only'",
)
_OWN_IMPORT = _Validation(
    _before_and_after(f"{_label_value('it', _LEGACY_SOURCE, 'variables.me')} == variables.me"),
    f"'label {_LEGACY_SOURCE} must be ' + variables.me + "
    "': a member writes aggregates and its own imports only'",
)
_OWN_LEASE = _Validation(
    _before_and_after("it.metadata.name == variables.me"),
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
_OWNED = _before_and_after(
    "it.metadata.?annotations[?'hanse.dev/owner-key'].orValue('')"
    ".contains('\"for\":\"' + variables.me + '\"')"
)
"""CEL: the owner key says that a member's agent made the object for that member."""

_OWN_PART = _Validation(
    _before_and_after("it.spec.cluster == variables.me"),
    "'spec.cluster must be ' + variables.me + ': a member reports its own part only'",
)
_OWN_SERVICE = _Validation(
    f"({_OWNED}) || (request.operation == 'UPDATE' && request.?subResource.orValue('') == '' && "
    "object.spec == oldObject.spec)",
    "'the Service was not made for ' + variables.me + ': a member annotates those of others only'",
)
_OWN_SET = _Validation(
    _OWNED,
    "'the set was not passed on by ' + variables.me + ': a member writes those it hosts only'",
)
_OWN_EVENT = _Validation(
    _before_and_after("it.?reportingComponent.orValue('') == 'hanse'"),
    "'reportingComponent must be hanse: ' + variables.me + ' tells nobody else\\'s Events'",
)
_POLICIES = (
    _Policy("slices", EndpointSlice.kind, (_OWN_SLICE,)),
    _Policy("imports", ServiceImport.kind, (_OWN_IMPORT,), status=True),
    _Policy("ranges", EndpointSlice.kind, (_WITHIN_RANGES,), uses_clusterset=True),
    _Policy("leases", Lease.kind, (_OWN_LEASE, _LASTING_UID)),
    _Policy("tokens", _TOKENS, (_OWN_TOKEN,)),
    _Policy("parts", StatefulSetPart.kind, (_OWN_PART,)),
    _Policy("services", Service.kind, (_OWN_SERVICE,), status=True, anywhere=True),
    _Policy("sets", FederatedStatefulSet.kind, (_OWN_SET,), anywhere=True),
    _Policy("events", Event.kind, (_OWN_EVENT,), anywhere=True),
)


def _policy(policy: _Policy, broker_namespace: str) -> Manifest:
    """The ValidatingAdmissionPolicy of requests by members."""
    resources = [policy.kind.plural, *([f"{policy.kind.plural}/status"] if policy.status else [])]
    spec: Wire = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [policy.kind.group],
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
            for v in policy.validations
        ],
    }
    if policy.uses_clusterset:
        spec["paramKind"] = {"apiVersion": ClusterSet.kind.api_version, "kind": "ClusterSet"}
    return manifest(
        ValidatingAdmissionPolicy.kind,
        f"{broker_namespace}-{policy.name}",
        body={"spec": spec},
        optional=True,
    )


def _binding(policy: _Policy, broker_namespace: str) -> Manifest:
    """The binding of a policy: to the broker namespace, unless it applies anywhere."""
    name = f"{broker_namespace}-{policy.name}"
    spec: Wire = {"policyName": name, "validationActions": ["Deny"]}
    if not policy.anywhere:
        selector = {"matchLabels": {"kubernetes.io/metadata.name": broker_namespace}}
        spec["matchResources"] = {"namespaceSelector": selector}
    if policy.uses_clusterset:
        spec["paramRef"] = {"selector": {}, "parameterNotFoundAction": "Allow"}
    return manifest(ValidatingAdmissionPolicyBinding.kind, name, body={"spec": spec}, optional=True)
