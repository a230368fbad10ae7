"""What a member may write on the broker for multi-cluster services, and its Lease and token."""

from hanse.features.services.legacy import LEGACY_CLUSTER, LEGACY_NAME, LEGACY_NAMESPACE
from hanse.features.services.names import (
    EXPORTED_AT,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    SOURCE_CLUSTER,
)
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Event
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.hanse import MAX_LEASE_SECONDS, ClusterSet
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.write_rules import (
    ACCOUNTS,
    BOUND_TOKEN,
    HOME,
    OWN_DOTTED_NAME,
    OWN_EVENT,
    OWN_TOKEN,
    SHORT_TOKEN,
    TOKENS,
    Requirement,
    Writer,
    WriteRule,
    annotation_cel,
    before_and_after_cel,
    label_cel,
    unless_updated_cel,
)

_OWN_SLICE = Requirement(
    f"label {SOURCE_CLUSTER} is the writer's id, before and after",
    before_and_after_cel(f"{label_cel('it', SOURCE_CLUSTER)} == variables.me"),
    f"'label {SOURCE_CLUSTER} must be ' + variables.me + ': a member writes its own slices only'",
)
_NO_SERVICE = Requirement(
    f"label {KUBE_SERVICE} is not set: it is no endpoint of a Service here",
    before_and_after_cel(f"{label_cel('it', KUBE_SERVICE)} == ''"),
)
_SAME_SERVICE = Requirement(
    "the labels that name the service never change: by the creation of a slice others know how old "
    "the export of its service is",
    unless_updated_cel(
        f"{label_cel('object', SERVICE_NAMESPACE)} == {label_cel('oldObject', SERVICE_NAMESPACE)}",
        f"{label_cel('object', LEGACY_NAMESPACE)} == {label_cel('oldObject', LEGACY_NAMESPACE)}",
        # the first versions of Lighthouse have the name of the import here
        f"({label_cel('oldObject', SERVICE_NAME)} == {label_cel('object', SERVICE_NAME)} || "
        f"{label_cel('oldObject', SERVICE_NAME)} == {label_cel('object', SERVICE_NAME)} + '-' + "
        f"{label_cel('object', LEGACY_NAMESPACE)} + '-' + variables.me)",
    ),
    "'a slice stays with the service that it was created for'",
)
_STATED_ONCE = Requirement(
    f"annotation {EXPORTED_AT} is set at the creation alone: nobody makes an export older later",
    unless_updated_cel(
        f"({annotation_cel('object', EXPORTED_AT)} == '' || "
        f"{annotation_cel('object', EXPORTED_AT)} == {annotation_cel('oldObject', EXPORTED_AT)})"
    ),
    f"'annotation {EXPORTED_AT} is set when a slice is created, and never changed'",
)
_SAME_IMPORT = Requirement(
    "the labels that name the service of an older agent's import never change",
    unless_updated_cel(
        f"{label_cel('object', LEGACY_NAMESPACE)} == {label_cel('oldObject', LEGACY_NAMESPACE)}",
        f"{label_cel('object', LEGACY_NAME)} == {label_cel('oldObject', LEGACY_NAME)}",
    ),
)
_WITHIN_RANGES = Requirement(
    "addresses are within the ranges that the ClusterSet gives the writer",
    "request.operation == 'DELETE' || !has(params.spec) || !has(params.spec.clusters) || "
    "params.spec.clusters.all(c, c.id != variables.me || !has(c.ranges) || "
    "c.ranges.size() == 0 || !has(object.endpoints) || object.endpoints == null || "
    "object.endpoints.all(e, e.addresses.all(a, "
    "isIP(a) && c.ranges.exists(r, isCIDR(r) && cidr(r).containsIP(a)))))",
    "'ClusterSet ' + params.metadata.name + ' does not let ' + variables.me + "
    "' publish addresses outside of its ranges'",
)
_WITHIN_NAMESPACES = Requirement(
    "services are of the namespaces that the ClusterSet gives the writer",
    "request.operation == 'DELETE' || !has(params.spec) || !has(params.spec.clusters) || "
    "params.spec.clusters.all(c, c.id != variables.me || !has(c.namespaces) || "
    f"c.namespaces.size() == 0 || {label_cel('object', SERVICE_NAMESPACE)} in c.namespaces)",
    "'ClusterSet ' + params.metadata.name + ' does not let ' + variables.me + "
    f"' publish services of namespace ' + {label_cel('object', SERVICE_NAMESPACE)}",
)
_OWN_IMPORT = Requirement(
    f"label {LEGACY_CLUSTER} is not set, or is the writer's id, before and after",
    before_and_after_cel(f"{label_cel('it', LEGACY_CLUSTER)} in ['', variables.me]"),
    f"'label {LEGACY_CLUSTER} must be ' + variables.me + "
    "': a member writes aggregates and its own imports only'",
)
_OWN_LEASE = Requirement(
    "the Lease has the writer's id as its name",
    "request.name == variables.me",
    "'the Lease must be ' + variables.me + ': a member renews its own only'",
)
_SHORT_LEASE = Requirement(
    f"spec.leaseDurationSeconds is at most {MAX_LEASE_SECONDS}: a member that is gone is not alive",
    "request.operation == 'DELETE' || !has(object.spec) || "
    "!has(object.spec.leaseDurationSeconds) || "
    f"object.spec.leaseDurationSeconds <= {MAX_LEASE_SECONDS}",
)
_OBJECTS = ("create", "patch", "delete")
_FREE = ("labels", "annotations")

MEMBER_RULES = (
    WriteRule(
        "slices",
        Writer.MEMBER,
        EndpointSlice.kind,
        _OBJECTS,
        "its own, by the label of the source cluster",
        (_OWN_SLICE, OWN_DOTTED_NAME, _NO_SERVICE, _SAME_SERVICE, _STATED_ONCE),
        namespace=HOME,
        sets=_FREE,
    ),
    WriteRule(
        "ranges",
        Writer.MEMBER,
        EndpointSlice.kind,
        (),
        "of its own namespaces, with addresses of its own ranges",
        (_WITHIN_NAMESPACES, _WITHIN_RANGES),
        namespace=HOME,
        sets=_FREE,
        params=ClusterSet.kind,
    ),
    WriteRule(
        "imports",
        Writer.MEMBER,
        ServiceImport.kind,
        _OBJECTS,
        "aggregates, which no cluster acts on, and its own of an older agent",
        (_OWN_IMPORT, _SAME_IMPORT),
        namespace=HOME,
        sets=_FREE,
    ),
    WriteRule(
        "imports-status",
        Writer.MEMBER,
        ServiceImport.kind,
        ("patch",),
        "aggregates, which no cluster acts on",
        (_OWN_IMPORT,),
        subresource="status",
        namespace=HOME,
    ),
    WriteRule(
        "leases",
        Writer.MEMBER,
        Lease.kind,
        ("patch",),
        "its own, by name",
        (_OWN_LEASE, _SHORT_LEASE),
        namespace=HOME,
        own_name=True,
    ),
    WriteRule(
        "tokens",
        Writer.MEMBER,
        TOKENS,
        ("create",),
        "its own account's, by name",
        (OWN_TOKEN, BOUND_TOKEN),
        subresource="token",
        namespace=ACCOUNTS,
        own_name=True,
    ),
    WriteRule(
        "token-lifetimes",
        Writer.MEMBER,
        TOKENS,
        (),
        "tokens of members' accounts, whoever requests them",
        (SHORT_TOKEN,),
        subresource="token",
        namespace=ACCOUNTS,
        anybody=True,
    ),
    WriteRule(
        "home-events",
        Writer.MEMBER,
        Event.kind,
        ("create", "get", "patch"),
        "its own",
        (OWN_EVENT,),
        namespace=HOME,
    ),
)
"""The rules of every member; a services-only member has no others."""
