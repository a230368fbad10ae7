"""ServiceAccounts with RBAC rules and tokens, for agents and other clients in tests."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
from msgspec import Struct

from hanse.kube.client_config import ClientConfig, Identity
from hanse.kube.errors import error_from_response
from hanse.kube.transport import Request, Response, Transport

Rule = dict[str, Any]
"""A PolicyRule of RBAC."""

_RBAC = "rbac.authorization.k8s.io"


class Account(Struct, frozen=True):
    """A ServiceAccount and its RBAC rules."""

    name: str
    namespace: str
    everywhere: tuple[Rule, ...] = ()
    inside: dict[str, tuple[Rule, ...]] = {}
    """Namespaced rules, by namespace."""

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{self.name}"


async def grant(
    transport: Transport,
    admin: ClientConfig,
    account: Account,
    lifetime: timedelta = timedelta(hours=1),
) -> ClientConfig:
    """Create the account with its rights, and give back credentials that bear a fresh token.

    `transport` speaks as an administrator of the cluster that `admin` reaches. What exists already
    is brought to what the account says; roles of an earlier call that it no longer names stay.
    """
    for namespace in {account.namespace, *account.inside}:
        await _ensure(transport, "/api/v1/namespaces", _object("v1", "Namespace", namespace))
    await _ensure(
        transport,
        f"/api/v1/namespaces/{account.namespace}/serviceaccounts",
        _object("v1", "ServiceAccount", account.name, account.namespace),
    )
    for path, granted in _rights(account):
        await _ensure(transport, path, granted)
    issued = await token(transport, account, lifetime)
    return ClientConfig(admin.endpoint, Identity(token=issued), namespace=account.namespace)


async def token(transport: Transport, account: Account, lifetime: timedelta) -> str:
    """Request a token for the account that expires after its lifetime."""
    path = f"/api/v1/namespaces/{account.namespace}/serviceaccounts/{account.name}/token"
    wanted = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": int(lifetime.total_seconds())},
    }
    answer = await transport.send(Request("POST", path, body=msgspec.json.encode(wanted)))
    issued: str = msgspec.json.decode(_successful(answer).body)["status"]["token"]
    return issued


def _rights(account: Account) -> list[tuple[str, Rule]]:
    """The paths and bodies of roles and bindings; each binding follows its role."""
    name, home = account.name, account.namespace
    prefix = f"/apis/{_RBAC}/v1"
    cluster_wide = f"{home}:{name}"
    rights: list[tuple[str, Rule]] = []
    if account.everywhere:
        role = _role("ClusterRole", cluster_wide, account.everywhere)
        rights.append((f"{prefix}/clusterroles", role))
        binding = _binding("ClusterRoleBinding", cluster_wide, role, account)
        rights.append((f"{prefix}/clusterrolebindings", binding))
    for namespace, rules in account.inside.items():
        role = _role("Role", cluster_wide, rules, namespace)
        rights.append((f"{prefix}/namespaces/{namespace}/roles", role))
        binding = _binding("RoleBinding", cluster_wide, role, account, namespace)
        rights.append((f"{prefix}/namespaces/{namespace}/rolebindings", binding))
    return rights


def _object(api_version: str, kind: str, name: str, namespace: str = "") -> Rule:
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **place}}


def _role(kind: str, name: str, rules: Sequence[Rule], namespace: str = "") -> Rule:
    return {**_object(f"{_RBAC}/v1", kind, name, namespace), "rules": list(rules)}


def _binding(kind: str, name: str, role: Rule, account: Account, namespace: str = "") -> Rule:
    return {
        **_object(f"{_RBAC}/v1", kind, name, namespace),
        "roleRef": {"apiGroup": _RBAC, "kind": role["kind"], "name": name},
        "subjects": [
            {"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}
        ],
    }


async def _ensure(transport: Transport, path: str, wanted: Rule) -> None:
    body = msgspec.json.encode(wanted)
    answer = await transport.send(Request("POST", path, body=body))
    if answer.status == 409 and "rules" in wanted:
        place = f"{path}/{wanted['metadata']['name']}"
        answer = await transport.send(Request("PUT", place, body=body))
    if answer.status != 409:
        _successful(answer)


def _successful(answer: Response) -> Response:
    if not 200 <= answer.status < 300:
        raise error_from_response(answer)
    return answer
