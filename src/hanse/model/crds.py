"""CustomResourceDefinitions of our kinds, and placeholders for kinds of others."""

from collections.abc import Iterable, Mapping
from copy import deepcopy

from hanse import __version__
from hanse.model.kinds.about import ClusterProperty
from hanse.model.kinds.acceptance import AcceptancePolicy
from hanse.model.kinds.ako import AkoHostRule
from hanse.model.kinds.antrea import (
    AntreaClusterNetworkPolicy,
    AntreaNetworkPolicy,
    ClusterGroup,
    ExternalEntity,
    Group,
    Tier,
)
from hanse.model.kinds.clusterprofile import ClusterProfile
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.kinds.federation import (
    ClusterClaim,
    Federation,
    NativeService,
    NetworkInterface,
    VirtualMachine,
)
from hanse.model.kinds.gateways import GATEWAY_ROUTES, Gateway, Route
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import AMKOCluster, GlobalDeploymentPolicy, GSLBConfig, GSLBHostRule
from hanse.model.kinds.hanse import ClusterMember, ClusterSet, FederatedStatefulSet
from hanse.model.kinds.kubeovn import OvnSubnet, SwitchLBRule, Vpc
from hanse.model.kinds.machines import CloudMachine, VirtualMachineInstance
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.kinds.networks import (
    Network,
    NetworkAccess,
    NetworkPeering,
    NetworkPort,
    Tenant,
)
from hanse.model.kinds.policynetworking import ClusterNetworkPolicy
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetShares
from hanse.model.objects import Kind, Object, Wire
from hanse.model.schema import (
    Column,
    Crd,
    constraints,
    object_schema,
    struct_description,
    validations,
)

OWN_KINDS: tuple[type[Object], ...] = (
    AcceptancePolicy,
    AMKOCluster,
    ClusterClaim,
    ClusterMember,
    ClusterSet,
    FederatedStatefulSet,
    Federation,
    GlobalDeploymentPolicy,
    GlobalService,
    GSLBConfig,
    GSLBHostRule,
    NativeService,
    Network,
    NetworkAccess,
    NetworkInterface,
    NetworkPeering,
    NetworkPort,
    ServiceExport,
    ServiceImport,
    StatefulSetPart,
    StatefulSetShares,
    Tenant,
    VirtualMachine,
)
"""The kinds that we define."""

FOREIGN_KINDS: tuple[type[Object], ...] = (
    ClusterNetworkPolicy,
    AkoHostRule,
    AntreaNetworkPolicy,
    CloudMachine,
    ClusterGroup,
    AntreaClusterNetworkPolicy,
    ClusterProfile,
    ClusterProperty,
    DNSEndpoint,
    ExternalEntity,
    Gateway,
    Group,
    *GATEWAY_ROUTES,
    OvnSubnet,
    Route,
    SwitchLBRule,
    Tier,
    VirtualMachineInstance,
    Vpc,
)
"""The kinds of others that we use where a cluster serves them."""

CUSTOM_RESOURCES = frozenset((*OWN_KINDS, *FOREIGN_KINDS))
"""All kinds that only clusters with their definitions serve."""

RELEASE = "hanse.dev/release"
"""Annotation of our CRDs: the release that wrote them; an older one leaves them as they are."""

STAND_IN = "hanse.dev/stand-in"
"""The label of a placeholder CRD."""

_AGE = Column("Age", ".metadata.creationTimestamp", "date")
_ANY_OBJECT: Wire = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def crds(kinds: Iterable[type[Object]] = OWN_KINDS) -> tuple[Wire, ...]:
    """The CRDs of our kinds, or of those among the given kinds, sorted by name.

    Kinds that are not ours are ignored.
    """
    wanted = set(kinds)
    return _sorted_by_name(crd_of(kind) for kind in OWN_KINDS if kind in wanted)


def placeholder_crds() -> tuple[Wire, ...]:
    """Placeholder CRDs of FOREIGN_KINDS, sorted by name, for clusters without their controllers."""
    return _sorted_by_name(placeholder_crd(kind) for kind in FOREIGN_KINDS)


def crd_of(kind: type[Object]) -> Wire:
    """The CRD of one of our kinds, annotated with this release.

    Raises TypeError for kinds of others.
    """
    declared = getattr(kind, "crd", None)
    if not isinstance(declared, Crd):
        raise TypeError(f"{kind.__name__} is not a kind that we define")
    metadata: Wire = {"annotations": {RELEASE: __version__}}
    return _crd(kind, declared, _schema(kind, declared), metadata)


def is_of_newer_release(annotations: Mapping[str, str]) -> bool:
    """Whether a CRD with these annotations was written by a newer release than this one.

    False if its release, or ours, is not of the form 1.2.3.
    """
    theirs, ours = _release(annotations.get(RELEASE, "")), _release(__version__)
    return theirs is not None and ours is not None and theirs > ours


def _release(version: str) -> tuple[int, ...] | None:
    """The numbers of a dotted version such as 1.2.3, however many; None if a part is no number."""
    parts = version.split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else None


def placeholder_crd(kind: type[Object]) -> Wire:
    """A labelled placeholder CRD that accepts any object of a kind of others.

    In groups of Kubernetes it gets the annotation that API servers require.
    """
    schema = {"description": struct_description(kind), **_ANY_OBJECT}
    metadata: Wire = {"labels": {STAND_IN: "true"}}
    if kind.kind.group.endswith((".k8s.io", ".kubernetes.io")):
        # an API server refuses CRDs in these groups without this annotation
        metadata["annotations"] = {"api-approved.kubernetes.io": "unapproved, a stand-in"}
    short_names: tuple[str, ...] = getattr(kind, "short_names", ())
    return _crd(kind, Crd(categories=(), short_names=short_names), schema, metadata)


def _crd(kind: type[Object], crd: Crd, schema: Wire, metadata: Wire) -> Wire:
    """A CRD that serves the kind's version and its fallback versions; only the first is stored."""
    served = kind.kind
    versions = (served.version, *kind.fallback_versions)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": served.definition, **metadata},
        "spec": {
            "group": served.group,
            "names": _names(served, crd),
            "scope": "Namespaced" if served.namespaced else "Cluster",
            "versions": [_version(name, name == served.version, crd, schema) for name in versions],
        },
    }


def _names(kind: Kind, crd: Crd) -> Wire:
    """The names of a CRD; short names and categories only where there are any."""
    return {
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.name.lower(),
        **({"shortNames": list(crd.short_names)} if crd.short_names else {}),
        **({"categories": list(crd.categories)} if crd.categories else {}),
    }


def _version(name: str, stored: bool, crd: Crd, schema: Wire) -> Wire:
    """One served version of a CRD, with its own copy of the schema; `stored` is the `storage` flag.

    It has the declared printer columns, then Age, and the declared subresources.
    """
    return {
        "name": name,
        "served": True,
        "storage": stored,
        "additionalPrinterColumns": [_column(column) for column in (*crd.columns, _AGE)],
        **_subresources(crd),
        "schema": {"openAPIV3Schema": deepcopy(schema)},
    }


def _column(column: Column) -> Wire:
    """A printer column as `additionalPrinterColumns` has it.

    An empty description and priority 0 are omitted.
    """
    return {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.path,
        **({"description": column.description} if column.description else {}),
        **({"priority": column.priority} if column.priority else {}),
    }


def _subresources(crd: Crd) -> Wire:
    """The field `subresources` with status and scale as declared; empty where there are none."""
    subresources: Wire = {"status": {}} if crd.status else {}
    if crd.scale is not None:
        subresources["scale"] = {
            "specReplicasPath": crd.scale.wanted,
            "statusReplicasPath": crd.scale.observed,
            "labelSelectorPath": crd.scale.selector,
        }
    return {"subresources": subresources} if subresources else {}


def _schema(kind: type[Object], crd: Crd) -> Wire:
    """The schema of a kind with its description, common fields, name constraint and CEL rules."""
    body = object_schema(kind)
    metadata: Wire = {"type": "object"}
    if crd.name is not None:
        metadata["properties"] = {"name": {"type": "string", **constraints(crd.name)}}
    common = {
        "apiVersion": {"description": "The API group and version of the object.", "type": "string"},
        "kind": {"description": "The kind of the object.", "type": "string"},
        "metadata": metadata,
    }
    return {
        "description": struct_description(kind),
        **body,
        "properties": {**common, **body["properties"]},
        **validations(crd.rules),
    }


def _sorted_by_name(built: Iterable[Wire]) -> tuple[Wire, ...]:
    """The CRDs sorted by `metadata.name`."""
    return tuple(sorted(built, key=lambda crd: str(crd["metadata"]["name"])))
