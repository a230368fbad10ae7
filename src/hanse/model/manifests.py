"""Objects that are put into a cluster once, to prepare it, as an administrator would write them."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from hanse.model.crds import crds
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.core import Namespace
from hanse.model.objects import Kind, Object, Wire, to_wire
from hanse.model.rbac import RbacRule

PART_OF = "app.kubernetes.io/part-of"
"""Label of everything that is set up here, so that it can be found and removed as one."""

_RBAC = "rbac.authorization.k8s.io"
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
SECRET = Kind("", "v1", "Secret", "secrets")
ROLE = Kind(_RBAC, "v1", "Role", "roles")
ROLE_BINDING = Kind(_RBAC, "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE = Kind(_RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDING = Kind(
    _RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)


class Manifest(Struct, frozen=True):
    """An object to set up, and what is done where one of its name stands already."""

    kind: Kind
    wire: Wire
    settled: bool = False
    """What stands there is a person's to change, and is left as it is."""
    optional: bool = False
    """A server that does not serve the kind does without."""

    @property
    def name(self) -> str:
        return str(self.wire["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.wire["metadata"].get("namespace", ""))

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind.name} {place}"


class Subject(Struct, frozen=True):
    """The ServiceAccount that rights are given to."""

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
    """An object of ours by its parts."""
    metadata: Wire = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {PART_OF: "hanse", **(labels or {})}
    if annotations:
        metadata["annotations"] = dict(annotations)
    wire = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
    return Manifest(kind, {**wire, **(body or {})}, optional=optional)


def settled(obj: Object) -> Manifest:
    """An object that is created where there is none, and else left as people have it."""
    return Manifest(type(obj).kind, to_wire(obj), settled=True)


def crd_manifests() -> tuple[Manifest, ...]:
    """Our kinds."""
    return tuple(Manifest(CustomResourceDefinition.kind, crd) for crd in crds())


def namespace(name: str) -> Manifest:
    """A namespace, whoever made it."""
    wire = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    return Manifest(Namespace.kind, wire, settled=True)


def role_manifests(name: str, rules: Iterable[RbacRule]) -> tuple[Manifest, ...]:
    """One ClusterRole for what holds everywhere, one Role for each namespace."""
    return tuple(
        manifest(kind, name, space, body={"rules": [rule.wire() for rule in held]})
        for kind, space, held in _by_place(rules)
    )


def binding_manifests(
    name: str, role: str, rules: Iterable[RbacRule], subject: Subject, labels: Mapping[str, str]
) -> tuple[Manifest, ...]:
    """What gives an account the roles that `role_manifests` makes of the same rules."""
    return tuple(
        _binding(kind, name, role, space, subject, labels) for kind, space, _ in _by_place(rules)
    )


def _binding(
    kind: Kind, name: str, role: str, space: str, subject: Subject, labels: Mapping[str, str]
) -> Manifest:
    bound = ROLE_BINDING if space else CLUSTER_ROLE_BINDING
    body = {
        "roleRef": {"apiGroup": _RBAC, "kind": kind.name, "name": role},
        "subjects": [
            {"kind": "ServiceAccount", "name": subject.name, "namespace": subject.namespace}
        ],
    }
    return manifest(bound, name, space, body=body, labels=labels)


def _by_place(rules: Iterable[RbacRule]) -> list[tuple[Kind, str, Sequence[RbacRule]]]:
    places: dict[str, list[RbacRule]] = {}
    for rule in rules:
        places.setdefault(rule.namespace, []).append(rule)
    return [
        (ROLE if space else CLUSTER_ROLE, space, held) for space, held in sorted(places.items())
    ]
