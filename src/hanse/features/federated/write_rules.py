"""What a supervisor may write in a member for federated Services."""

from hanse.features.federated.names import DOMAIN, FEDERATED, JOIN
from hanse.model.kinds.antrea import ClusterGroup, Group
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import KUBE_SERVICE, MANAGED_BY, EndpointSlice
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.kinds.federation import SYSTEM, NativeService
from hanse.model.objects import Kind
from hanse.model.ownership import OWNER
from hanse.model.write_rules import (
    OUTSIDE_KUBE,
    SYSTEM_NAMESPACES,
    Requirement,
    Writer,
    WriteRule,
    annotation_cel,
    before_and_after_cel,
    label_cel,
    user_namespace,
)

_OBJECTS = ("create", "patch", "delete")
_FREE = ("labels", "annotations")
_IN_USER_NAMESPACE = user_namespace(*(n for n in SYSTEM_NAMESPACES if n != SYSTEM))
"""Federated Services of a global name are in the namespace of the federation itself."""

_GENERATED = Requirement(
    f"label {OWNER} says that this feature made it, before and after",
    before_and_after_cel(f"{label_cel('it', OWNER)}.startsWith('federated-')"),
)
_FEDERATED_SERVICE = Requirement(
    f"annotation {FEDERATED} is true, before and after: not a Service of users",
    before_and_after_cel(f"{annotation_cel('it', FEDERATED)} == 'true'"),
)
_PLAIN_SERVICE = Requirement(
    "it has no selector, no externalIPs, and type ClusterIP",
    "request.operation == 'DELETE' || "
    "((!has(object.spec.selector) || object.spec.selector.size() == 0) && "
    "(!has(object.spec.externalIPs) || object.spec.externalIPs.size() == 0) && "
    "object.spec.type == 'ClusterIP')",
)


def _balancer(of: str) -> str:
    """A CEL expression for `status.loadBalancer` of a Service variable; `{}` if it has none."""
    field = f"{of}.status.loadBalancer"
    return f"(has({of}.status) && has({field}) ? {field} : {{}})"


_ONLY_CONDITIONS = Requirement(
    "of a status only conditions change, not the load balancer",
    f"{_balancer('object')} == {_balancer('oldObject')}",
)
_GENERATED_SLICE = Requirement(
    f"label {MANAGED_BY} is {DOMAIN}, before and after",
    before_and_after_cel(f"{label_cel('it', MANAGED_BY)} == '{DOMAIN}'"),
)
_OF_A_FEDERATED_SERVICE = Requirement(
    f"label {KUBE_SERVICE} names no Service of users: they get no endpoints from elsewhere unless "
    f"their annotation {JOIN} is true",
    f"request.operation == 'DELETE' || "
    f"{label_cel('object', KUBE_SERVICE)} != params.metadata.name || "
    f"{annotation_cel('params', FEDERATED)} == 'true' || "
    f"{annotation_cel('params', JOIN)} == 'true'",
)


def _generated(name: str, kind: Kind, *requirements: Requirement) -> WriteRule:
    """The rule that lets supervisors write a kind if its objects meet these requirements."""
    return WriteRule(
        name,
        Writer.SUPERVISOR,
        kind,
        _OBJECTS,
        "those of federated Services",
        (_GENERATED, *requirements),
        sets=_FREE,
    )


SUPERVISOR_RULES = (
    WriteRule(
        "services",
        Writer.SUPERVISOR,
        Service.kind,
        _OBJECTS,
        "federated Services",
        (_FEDERATED_SERVICE, _GENERATED, _IN_USER_NAMESPACE, _PLAIN_SERVICE),
        sets=_FREE,
    ),
    WriteRule(
        "services-status",
        Writer.SUPERVISOR,
        Service.kind,
        ("patch",),
        "conditions of any Service outside kube-*",
        (_ONLY_CONDITIONS, OUTSIDE_KUBE),
        subresource="status",
    ),
    WriteRule(
        "slices",
        Writer.SUPERVISOR,
        EndpointSlice.kind,
        _OBJECTS,
        "those of federated Services",
        (_GENERATED_SLICE, _IN_USER_NAMESPACE),
        sets=_FREE,
    ),
    WriteRule(
        "slices-of-services",
        Writer.SUPERVISOR,
        EndpointSlice.kind,
        (),
        "none of a Service of users",
        (_OF_A_FEDERATED_SERVICE,),
        sets=_FREE,
        params=Service.kind,
    ),
    WriteRule(
        "native-status",
        Writer.SUPERVISOR,
        NativeService.kind,
        ("patch",),
        "the status of any",
        (OUTSIDE_KUBE,),
        subresource="status",
    ),
    _generated("clustergroups", ClusterGroup.kind),
    _generated("groups", Group.kind, _IN_USER_NAMESPACE),
    _generated("dnsendpoints", DNSEndpoint.kind, _IN_USER_NAMESPACE),
)
