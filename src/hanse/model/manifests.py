"""Manifests that set up a cluster: CRDs, namespaces, roles and bindings."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from hanse.model.crds import OWN_KINDS, crds
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.core import Namespace
from hanse.model.objects import Kind, Object, Wire, to_wire
from hanse.model.rbac import RbacRule

PART_OF = "app.kubernetes.io/part-of"
"""Label of all these objects, so that they can be found and removed."""

_RBAC = "rbac.authorization.k8s.io"
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
SECRET = Kind("", "v1", "Secret", "secrets")
ROLE = Kind(_RBAC, "v1", "Role", "roles")
ROLE_BINDING = Kind(_RBAC, "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE = Kind(_RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDING = Kind(
    _RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)

BINDINGS = (ROLE_BINDING, CLUSTER_ROLE_BINDING)


class Manifest(Struct, frozen=True):
    """An object to apply, and what to do if it exists."""

    kind: Kind
    wire: Wire
    create_only: bool = False
    """Whether an existing object is left as it is."""
    optional: bool = False
    """Whether it is skipped where the kind is not served."""

    @property
    def name(self) -> str:
        """`metadata.name` of the object."""
        return str(self.wire["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """`metadata.namespace` of the object; empty if it has none."""
        return str(self.wire["metadata"].get("namespace", ""))

    def __str__(self) -> str:
        """`Kind namespace/name`, without a namespace `Kind name`."""
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind.name} {place}"


class Subject(Struct, frozen=True):
    """The ServiceAccount that roles are bound to."""

    name: str
    namespace: str


def manifest(
    kind: Kind,
    name: str,
    namespace: str = "",
    *,
    body: Wire | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    optional: bool = False,
) -> Manifest:
    """A manifest with label `app.kubernetes.io/part-of: hanse` besides the given labels.

    An empty namespace and empty annotations are omitted; `body` has further top-level fields. An
    `optional` one is skipped where the kind is not served.
    """
    metadata: Wire = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {PART_OF: "hanse", **(labels or {})}
    if annotations:
        metadata["annotations"] = dict(annotations)
    wire = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
    return Manifest(kind, {**wire, **(body or {})}, optional=optional)


def create_only(obj: Object) -> Manifest:
    """A manifest of the object as it is, which is created if missing and never changed."""
    return Manifest(type(obj).kind, to_wire(obj), create_only=True)


def crd_manifests(kinds: Iterable[type[Object]] = OWN_KINDS) -> tuple[Manifest, ...]:
    """The manifests of CRDs of the given kinds, sorted by name; by default of all kinds of Hanse.

    Kinds that Hanse does not define are ignored.
    """
    return tuple(Manifest(CustomResourceDefinition.kind, crd) for crd in crds(kinds))


def namespace(name: str) -> Manifest:
    """A namespace without labels, created if missing and never changed."""
    wire = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    return Manifest(Namespace.kind, wire, create_only=True)


def role_manifests(
    name: str, rules: Iterable[RbacRule], labels: Mapping[str, str] | None = None
) -> tuple[Manifest, ...]:
    """A ClusterRole for the rules without a namespace, and a Role in each namespace of the others.

    All have this name; the ClusterRole, if there is one, comes first, then the Roles by namespace.
    """
    return tuple(
        manifest(
            kind,
            name,
            scope,
            body={"rules": [rule.wire() for rule in namespace_rules]},
            labels=labels,
        )
        for kind, scope, namespace_rules in _by_namespace(rules)
    )


def binding_manifests(
    name: str, role: str, rules: Iterable[RbacRule], subject: Subject, labels: Mapping[str, str]
) -> tuple[Manifest, ...]:
    """The bindings of a ServiceAccount to the roles that `role_manifests(role, rules)` makes.

    There is one for each role, in its namespace if it has one; all are named `name`.
    """
    return tuple(
        _binding(kind, name, role, scope, subject, labels)
        for kind, scope, _ in _by_namespace(rules)
    )


def _binding(
    role_kind: Kind, name: str, role: str, scope: str, subject: Subject, labels: Mapping[str, str]
) -> Manifest:
    """A RoleBinding in namespace `scope`, or a ClusterRoleBinding if that is empty."""
    binding_kind = ROLE_BINDING if scope else CLUSTER_ROLE_BINDING
    body = {
        "roleRef": {"apiGroup": _RBAC, "kind": role_kind.name, "name": role},
        "subjects": [
            {"kind": "ServiceAccount", "name": subject.name, "namespace": subject.namespace}
        ],
    }
    return manifest(binding_kind, name, scope, body=body, labels=labels)


def _by_namespace(rules: Iterable[RbacRule]) -> list[tuple[Kind, str, Sequence[RbacRule]]]:
    """The rules grouped by namespace, sorted by it, with the kind of role for the group.

    That is ClusterRole for the empty namespace, else Role.
    """
    by_namespace: dict[str, list[RbacRule]] = {}
    for rule in rules:
        by_namespace.setdefault(rule.namespace, []).append(rule)
    return [
        (ROLE if scope else CLUSTER_ROLE, scope, namespace_rules)
        for scope, namespace_rules in sorted(by_namespace.items())
    ]
