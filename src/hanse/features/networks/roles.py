"""The roles of tenants, and what a new tenant with its administrators is made of."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from hanse.features.networks.admission_policies import POD_SECURITY
from hanse.features.networks.names import GROUP, TENANT, namespace_name
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.networks import Tenant, TenantAdmin
from hanse.model.manifests import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    ROLE_BINDING,
    Manifest,
    create_only,
    manifest,
)
from hanse.model.objects import Meta, Wire

RBAC = "rbac.authorization.k8s.io"
TENANT_ROLE = "hanse-tenant"
_READ = ("get", "list", "watch")
_WRITE = ("create", "update", "patch", "delete")
_LEVELS = {"view": _READ, "edit": _READ, "admin": (*_READ, *_WRITE)}
"""What the roles may do with NetworkPeerings: only administrators of a namespace agree to peer."""


def role_manifests() -> Iterator[Manifest]:
    """ClusterRoles that add rights on NetworkPeerings to the cluster's view, edit and admin.

    view and edit may read them, only admin may write them.
    """
    for level, verbs in _LEVELS.items():
        yield _cluster_role(
            f"{TENANT_ROLE}-{level}",
            [("networkpeerings", verbs, ())],
            {f"{RBAC}/aggregate-to-{level}": "true"},
        )


def tenant_manifests(
    name: str, admins: Sequence[TenantAdmin], namespaces: Iterable[str]
) -> Iterator[Manifest]:
    """Manifests of the common roles, a tenant, its namespaces, and its administrators' rights.

    `namespaces` are short names, and `default`; they are only created if missing. Administrators
    are `admin` in each, and may write Networks (admission: those of their tenant only). Without
    `admins` there are no such roles and bindings.
    """
    spaces = sorted({*namespaces, "default"})
    yield from role_manifests()
    spec: Wire = {"namespaces": spaces, "admins": msgspec.to_builtins(list(admins))}
    yield manifest(Tenant.kind, name, body={"spec": spec})
    role = f"{TENANT_ROLE}-{name}"
    rules = [("networks", (*_READ, *_WRITE), ()), ("tenants", ("get",), (name,))]
    if admins:
        yield _cluster_role(role, rules, {})
        yield _binding(role, role, admins)
    for short in spaces:
        space = namespace_name(name, short)
        labels = {TENANT: name, POD_SECURITY: "baseline"}
        yield create_only(Namespace(metadata=Meta(name=space, labels=labels)))
        if admins:
            yield _binding(f"{TENANT_ROLE}-admin", "admin", admins, space)


def _cluster_role(
    name: str, rules: Sequence[tuple[str, Sequence[str], Sequence[str]]], labels: dict[str, str]
) -> Manifest:
    """A ClusterRole for resources of the group `arktos.futurewei.com`.

    A rule is (resource, verbs, names of objects); without names it is for all objects.
    """
    body = [
        {
            "apiGroups": [GROUP],
            "resources": [resource],
            "verbs": list(verbs),
            **({"resourceNames": list(names)} if names else {}),
        }
        for resource, verbs, names in rules
    ]
    return manifest(CLUSTER_ROLE, name, body={"rules": body}, labels=labels)


def _binding(name: str, role: str, admins: Sequence[TenantAdmin], space: str = "") -> Manifest:
    """A RoleBinding to a ClusterRole in a namespace; without one a ClusterRoleBinding."""
    body = {
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [_subject(one) for one in admins],
    }
    return manifest(ROLE_BINDING if space else CLUSTER_ROLE_BINDING, name, space, body=body)


def _subject(admin: TenantAdmin) -> Wire:
    """The RBAC subject of a tenant's administrator; only a ServiceAccount has a namespace."""
    if admin.kind == "ServiceAccount":
        return {"kind": admin.kind, "name": admin.name, "namespace": admin.namespace}
    return {"apiGroup": RBAC, "kind": admin.kind, "name": admin.name}
