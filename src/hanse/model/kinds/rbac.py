"""The group `rbac.authorization.k8s.io`: who may do what in a namespace."""

from typing import ClassVar

from hanse.model.objects import Kind, Object, Value

GROUP = "rbac.authorization.k8s.io"


class PolicyRule(Value, frozen=True, kw_only=True):
    """Verbs on resources."""

    verbs: tuple[str, ...]
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()


class Role(Object, frozen=True, kw_only=True):
    """Rights in one namespace."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1", "Role", "roles")

    rules: tuple[PolicyRule, ...] | None = ()


class RoleRef(Value, frozen=True, kw_only=True):
    """The rights that are given."""

    kind: str
    name: str
    api_group: str = GROUP


class BoundSubject(Value, frozen=True, kw_only=True):
    """Who is given rights."""

    kind: str
    name: str
    namespace: str = ""
    api_group: str = ""


class RoleBinding(Object, frozen=True, kw_only=True):
    """Rights of somebody in one namespace."""

    kind: ClassVar[Kind] = Kind(GROUP, "v1", "RoleBinding", "rolebindings")

    role_ref: RoleRef
    subjects: tuple[BoundSubject, ...] = ()
