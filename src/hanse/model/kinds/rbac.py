"""The group `rbac.authorization.k8s.io`: roles and their bindings."""

from typing import ClassVar

from hanse.model.objects import Kind, Object, Value

GROUP = "rbac.authorization.k8s.io"


class PolicyRule(Value, frozen=True, kw_only=True):
    """Verbs that are allowed on resources."""

    verbs: tuple[str, ...]
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()


class RbacRole(Object, frozen=True, kw_only=True):
    """The rules of a role in one namespace."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1", "Role", "roles")

    rules: tuple[PolicyRule, ...] | None = ()


class RoleRef(Value, frozen=True, kw_only=True):
    """The role that is bound."""

    kind: str
    name: str
    api_group: str = GROUP


class BoundSubject(Value, frozen=True, kw_only=True):
    """The subject that a role is bound to."""

    kind: str
    name: str
    namespace: str = ""
    api_group: str = ""


class RoleBinding(Object, frozen=True, kw_only=True):
    """A binding of a role to subjects in one namespace."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1", "RoleBinding", "rolebindings")

    role_ref: RoleRef
    subjects: tuple[BoundSubject, ...] | None = ()


class ClusterRole(RbacRole, frozen=True, kw_only=True):
    """The rules of a role in the whole cluster, or wherever it is bound."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1", "ClusterRole", "clusterroles", namespaced=False)


class ClusterRoleBinding(RoleBinding, frozen=True, kw_only=True):
    """A binding of a ClusterRole to subjects in the whole cluster."""

    kind: ClassVar[Kind] = Kind(
        GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
    )
