"""Permissions in a cluster, asked for by access reviews: ours, and those of its agent."""

import asyncio
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from hanse import app
from hanse.kube.client import Client
from hanse.kube.errors import ApiError
from hanse.kube.transport import Request
from hanse.model.agent_manifests import FEATURE
from hanse.model.facts import Role
from hanse.model.json_input import decode_json
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.rbac import (
    BoundSubject,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    RbacRole,
    RoleBinding,
)
from hanse.model.naming import AGENT, AGENT_USER, SYSTEM_NAMESPACE
from hanse.model.objects import Object

_AGENT_ACCOUNT = BoundSubject(kind="ServiceAccount", name=AGENT, namespace=SYSTEM_NAMESPACE)


class Permission(Struct, frozen=True):
    """A verb on a resource, as a SelfSubjectAccessReview asks for it."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""
    """The only object, if it is one."""


EVERYTHING = Permission("*", "*", "*")
"""What an administrator may do."""
LEASE_RENEWAL = Permission("patch", Lease.kind.plural, Lease.kind.group, SYSTEM_NAMESPACE, AGENT)
"""What an agent needs to show that it is alive."""


def agent_permissions(features: tuple[str, ...]) -> tuple[Permission, ...]:
    """The permissions that an agent with these features needs in its own cluster.

    To watch, but for watches of a single object by name, and to renew its Lease.
    """
    watches = app.watches(app.Options(features=features))
    local = [watch for watch in watches if watch.role is Role.LOCAL and not watch.name]
    kinds = dict.fromkeys((watch.kind.kind, watch.namespace) for watch in local)
    watched = (Permission("watch", kind.plural, kind.group, space) for kind, space in kinds)
    return (*watched, LEASE_RENEWAL)


async def denied_permissions(
    client: Client, permissions: tuple[Permission, ...]
) -> tuple[Permission, ...]:
    """Ask the API server by access reviews, and return those of ours that are denied.

    Who may do everything is asked nothing else. A review that fails counts as denied.
    """
    if not permissions or await _is_allowed(client, EVERYTHING):
        return ()
    allowed = await asyncio.gather(*(_is_allowed(client, one) for one in permissions))
    return tuple(one for one, may in zip(permissions, allowed, strict=True) if not may)


async def denied_to_agent(
    client: Client, permissions: tuple[Permission, ...]
) -> tuple[Permission, ...]:
    """Which permissions the agent of a cluster does not have, as far as we may ask.

    What roles of its features allow needs no review: with RBAC nothing denies what a role allows.
    A review that fails counts as allowed, since that is not known.
    """
    if not permissions:
        return ()
    granted = await _granted_to_agent(client, namespaced=any(one.namespace for one in permissions))
    doubtful = [one for one in permissions if not _is_granted(one, granted)]
    allowed = await asyncio.gather(*(_is_allowed(client, one, AGENT_USER) for one in doubtful))
    return tuple(one for one, may in zip(doubtful, allowed, strict=True) if not may)


class _Granted(Struct, frozen=True):
    """A rule that is bound to the agent, in one namespace or (empty) in all."""

    namespace: str
    rule: PolicyRule


async def _granted_to_agent(client: Client, *, namespaced: bool) -> tuple[_Granted, ...]:
    """The rules of the agent's roles that are bound to its account; none where we may not list.

    Without `namespaced` only those that count in the whole cluster.
    """
    kinds = (ClusterRole, ClusterRoleBinding, *((RbacRole, RoleBinding) if namespaced else ()))
    listed = await asyncio.gather(*(_of_features(client, kind) for kind in kinds))
    found = [obj for several in listed for obj in several]
    rules = {
        (type(one).kind.name, one.namespace, one.name): one.rules or ()
        for one in found
        if isinstance(one, RbacRole)
    }
    return tuple(
        _Granted(binding.namespace, rule)
        for binding in found
        if isinstance(binding, RoleBinding) and _AGENT_ACCOUNT in (binding.subjects or ())
        for rule in rules.get(_role_key(binding), ())
    )


def _role_key(binding: RoleBinding) -> tuple[str, str, str]:
    """Kind, namespace and name of the role that is bound."""
    ref = binding.role_ref
    return (ref.kind, binding.namespace if ref.kind == RbacRole.kind.name else "", ref.name)


async def _of_features(client: Client, kind: type[Object]) -> Iterable[Object]:
    """The objects with the label of agents' rights; none if the API server answers an error."""
    try:
        return (await client.list(kind, labels=FEATURE)).objects
    except ApiError:
        return ()


def _is_granted(permission: Permission, granted: Iterable[_Granted]) -> bool:
    """Whether a rule that is bound in the permission's namespace, or in all, allows it."""
    return any(
        one.namespace in ("", permission.namespace) and _allows(one.rule, permission)
        for one in granted
    )


def _allows(rule: PolicyRule, permission: Permission) -> bool:
    """Whether a rule allows a permission; one with resourceNames only on an object so named."""
    asked = (
        (permission.verb, rule.verbs),
        (permission.group, rule.api_groups),
        (permission.resource, rule.resources),
    )
    named_object = not rule.resource_names or permission.name in rule.resource_names
    return named_object and all(w in named or "*" in named for w, named in asked)


async def _is_allowed(client: Client, permission: Permission, user: str = "") -> bool:
    """Whether an access review allows us, or a user, a permission.

    If the review itself fails: False for ours, True for a user's, since that is not known.
    """
    attributes = {name: v for name, v in msgspec.structs.asdict(permission).items() if v}
    kind = "SubjectAccessReview" if user else "SelfSubjectAccessReview"
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": kind,
        "spec": {"resourceAttributes": attributes, **({"user": user} if user else {})},
    }
    path = f"/apis/authorization.k8s.io/v1/{kind.lower()}s"
    body = msgspec.json.encode(review)
    try:
        response = await client.send(Request("POST", path, body=body))
    except ApiError:
        return bool(user)
    return bool(decode_json(response.body).get("status", {}).get("allowed"))
