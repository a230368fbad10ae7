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

    Verb `watch` for each kind that it watches there, without watches of a single object by name;
    last `patch` for its own Lease.
    """
    watches = app.watches(app.Options(features=features))
    local = [watch for watch in watches if watch.role is Role.LOCAL and not watch.name]
    kinds = dict.fromkeys((watch.kind.kind, watch.namespace) for watch in local)
    watched = (Permission("watch", kind.plural, kind.group, space) for kind, space in kinds)
    return (*watched, LEASE_RENEWAL)


async def denied_permissions(
    client: Client, permissions: tuple[Permission, ...]
) -> tuple[Permission, ...]:
    """Ask the API server by access reviews, and return those permissions that we are denied.

    Nothing is asked if none are given; who may do everything is asked only about that. A review
    that the API server answers with an error counts as denied.
    """
    if not permissions or await _is_allowed(client, EVERYTHING):
        return ()
    allowed = await asyncio.gather(*(_is_allowed(client, one) for one in permissions))
    return tuple(one for one, may in zip(permissions, allowed, strict=True) if not may)


async def denied_to_agent(
    client: Client, permissions: tuple[Permission, ...]
) -> tuple[Permission, ...]:
    """Return those permissions that the account of a cluster's agent is denied, if that is known.

    No review is sent for what the roles of its features, bound to it, allow: with RBAC nothing
    denies that. A review that the API server answers with an error counts as allowed.
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
    """The rules of roles that are bound to the agent's account, with the namespace of the binding.

    Only roles and bindings with the label of agents' rights; what we may not list counts as none.
    Without `namespaced` only ClusterRoles and ClusterRoleBindings are read.
    """
    kinds = (ClusterRole, ClusterRoleBinding, *((RbacRole, RoleBinding) if namespaced else ()))
    listed = await asyncio.gather(*(_list_agent_rights(client, kind) for kind in kinds))
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
    """Kind, namespace ("" for a ClusterRole) and name of the role that a binding names."""
    ref = binding.role_ref
    return (ref.kind, binding.namespace if ref.kind == RbacRole.kind.name else "", ref.name)


async def _list_agent_rights(client: Client, kind: type[Object]) -> Iterable[Object]:
    """List objects with the label of agents' rights; none if the API server returns an error."""
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
    """Whether a rule allows a permission: its verb, group and resource are in the rule, or `*` is.

    A rule with resourceNames allows it only for an object so named.
    """
    asked = (
        (permission.verb, rule.verbs),
        (permission.group, rule.api_groups),
        (permission.resource, rule.resources),
    )
    named_object = not rule.resource_names or permission.name in rule.resource_names
    return named_object and all(w in named or "*" in named for w, named in asked)


async def _is_allowed(client: Client, permission: Permission, user: str = "") -> bool:
    """Whether an access review says that we, or the given user, have a permission.

    If the API server answers the review with an error: False for ours, True for a user's, since
    that is not known.
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
