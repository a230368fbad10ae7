"""Permissions in a cluster, asked for by access reviews: ours, and those of its agent."""

import asyncio

import msgspec
from msgspec import Struct

from hanse import app
from hanse.kube.client import Client
from hanse.kube.errors import ApiError
from hanse.kube.transport import Request
from hanse.model.facts import Role
from hanse.model.json_input import decode_json
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE

AGENT_USER = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{AGENT}"


class Permission(Struct, frozen=True):
    """A verb on a resource, as a SelfSubjectAccessReview asks for it."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""


def agent_permissions(features: tuple[str, ...]) -> tuple[Permission, ...]:
    """The permissions to watch that an agent with these features needs in its own cluster.

    Watches of a single object by name are left out.
    """
    watches = app.watches(app.Options(features=features))
    local = [watch for watch in watches if watch.role is Role.LOCAL and not watch.name]
    kinds = dict.fromkeys((watch.kind.kind, watch.namespace) for watch in local)
    return tuple(Permission("watch", kind.plural, kind.group, space) for kind, space in kinds)


async def denied_permissions(
    client: Client, permissions: tuple[Permission, ...], user: str = ""
) -> tuple[Permission, ...]:
    """Ask the API server by access reviews, and return the permissions that are denied.

    They are ours, or a user's. A review of ours that fails counts as denied, one of a user's not.
    """
    allowed = await asyncio.gather(*(_is_allowed(client, one, user) for one in permissions))
    return tuple(one for one, may in zip(permissions, allowed, strict=True) if not may)


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
