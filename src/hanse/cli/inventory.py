"""One look at a cluster from outside: everything that status and doctor tell about it."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct

from hanse.cli import membership_seen
from hanse.cli.clusters import ClusterAccess, at_each
from hanse.cli.membership_seen import MembershipState, parse_membership
from hanse.cli.services_seen import ServiceInventory, services_in
from hanse.kube.client_config import Identity
from hanse.kube.errors import BadCredentials, KubeError, Unreachable, error_from_response
from hanse.kube.http_transport import HttpTransport
from hanse.kube.requests import resource_path
from hanse.kube.transport import Request, Response, Transport
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE
from hanse.model.objects import Wire
from hanse.model.tokens import parse_claims

PATIENCE = timedelta(seconds=5)


_PATHS = (
    "/api/v1/nodes",
    f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{AGENT}",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    resource_path(ClusterSet.kind),
    resource_path(ServiceExport.kind),
    resource_path(ServiceImport.kind),
    *membership_seen.PATHS,
)


class Permission(Struct, frozen=True):
    """Something that may be allowed or not."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""


class AgentLease(Struct, frozen=True):
    """An agent's lease: whose it is, and for how long it has not been renewed."""

    holder: str
    silent: timedelta
    duration: timedelta

    @property
    def alive(self) -> bool:
        return bool(self.holder) and self.silent <= self.duration


class NodeCounts(Struct, frozen=True):
    """How many nodes there are, and how many of them are ready."""

    all: int
    ready: int


class UnreadCluster(Struct, frozen=True):
    """The cluster did not let us look: no answer, a refusal, or credentials that are at fault."""

    name: str
    why: str
    fault: Literal["silence", "refusal", "credentials"]


class ClusterInventory(Struct, frozen=True):
    """What was seen; None where the cluster would not tell."""

    name: str
    server: str
    version: str
    skew: timedelta
    """How far its clock is from ours, as far as a header in whole seconds can tell."""
    nodes: NodeCounts | None = None
    agent: AgentLease | None = None
    definitions: dict[str, dict[str, Any]] | None = None
    services: ServiceInventory | None = None
    membership: MembershipState | None = None
    is_broker: bool = False
    expires: datetime | None = None
    """When the credentials by which we looked end, if they say so."""
    denied: tuple[Permission, ...] = ()


InventoryResult = ClusterInventory | UnreadCluster


async def read_inventories(
    ways: Iterable[ClusterAccess], rights: Iterable[Permission] = ()
) -> list[InventoryResult]:
    """Look at every cluster; one that does not answer hides no other."""
    asked = tuple(rights)
    return await at_each(ways, lambda way: _look(way, asked))


async def _look(way: ClusterAccess, rights: tuple[Permission, ...]) -> InventoryResult:
    transport = HttpTransport(way.credentials)
    try:
        access = await way.credentials.config()
        version, answered, began = await _version(transport)
        now = began + (datetime.now(UTC) - began) / 2
        documents = [_read(transport, path) for path in _PATHS]
        denied, read = await asyncio.gather(_denied(transport, rights), asyncio.gather(*documents))
        nodes, agent, definitions, sets, exports, imports, *membership = read
        clock = _clock_of(answered, now)
        return ClusterInventory(
            name=way.name,
            server=access.endpoint.url,
            version=version,
            skew=clock - now,
            nodes=_nodes(nodes),
            agent=parse_agent_lease(agent, clock),
            definitions=_by_name(definitions),
            services=services_in(exports, imports),
            membership=parse_membership(*membership),
            is_broker=bool(sets and sets.get("items")),
            expires=credentials_expiry(access.identity),
            denied=denied,
        )
    except BadCredentials as error:
        return UnreadCluster(way.name, str(error), "credentials")
    except Unreachable as error:
        return UnreadCluster(way.name, str(error), "silence")
    except KubeError as error:
        return UnreadCluster(way.name, str(error), "refusal")
    finally:
        await transport.close()


async def _version(transport: Transport) -> tuple[str, Response, datetime]:
    await transport.send(_get("/version"))  # connects, so that the next one tells the time
    began = datetime.now(UTC)
    answer = await transport.send(_get("/version"))
    if answer.status != 200:
        raise error_from_response(answer)
    return str(msgspec.json.decode(answer.body).get("gitVersion", "")), answer, began


def _get(path: str) -> Request:
    return Request("GET", path, timeout=PATIENCE)


async def _read(transport: Transport, path: str) -> dict[str, Any] | None:
    """A document, or nothing where it is absent or not for us."""
    answer = await transport.send(_get(path))
    if answer.status == 401:
        raise error_from_response(answer)
    found: dict[str, Any] | None = (
        msgspec.json.decode(answer.body) if answer.status == 200 else None
    )
    return found


async def _denied(transport: Transport, rights: tuple[Permission, ...]) -> tuple[Permission, ...]:
    allowed = await asyncio.gather(*(_allowed(transport, right) for right in rights))
    return tuple(right for right, may in zip(rights, allowed, strict=True) if not may)


async def _allowed(transport: Transport, right: Permission) -> bool:
    """Whether we may do something; what the cluster would not tell does not count as allowed."""
    attributes = {name: value for name, value in msgspec.structs.asdict(right).items() if value}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    body = msgspec.json.encode(review)
    answer = await transport.send(Request("POST", path, body=body, timeout=PATIENCE))
    if answer.status != 201:
        return False
    return bool(msgspec.json.decode(answer.body).get("status", {}).get("allowed"))


def _clock_of(answer: Response, now: datetime) -> datetime:
    """The server's time by its Date header, read in our favour: it leaves out the fraction."""
    try:
        told = parsedate_to_datetime(answer.headers.get("date", ""))
    except ValueError:
        return now
    earliest = told if told.tzinfo is not None else told.replace(tzinfo=UTC)
    return min(max(now, earliest), earliest + timedelta(seconds=1))


def _nodes(listed: dict[str, Any] | None) -> NodeCounts | None:
    if listed is None:
        return None
    nodes = listed.get("items") or []
    return NodeCounts(len(nodes), sum(_is_ready(node) for node in nodes))


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def parse_agent_lease(lease: Wire | None, now: datetime) -> AgentLease | None:
    """An agent's lease, judged by a clock; None where there is none."""
    if lease is None:
        return None
    spec = lease.get("spec") or {}
    try:
        renewed = datetime.fromisoformat(spec.get("renewTime") or "")
    except ValueError:
        renewed = datetime.min.replace(tzinfo=UTC)
    duration = timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
    silent = max(now - renewed, timedelta(0))
    return AgentLease(spec.get("holderIdentity") or "", silent, duration)


def _by_name(listed: dict[str, Any] | None) -> dict[str, dict[str, Any]] | None:
    if listed is None:
        return None
    return {one["metadata"]["name"]: one for one in listed.get("items") or ()}


def credentials_expiry(identity: Identity) -> datetime | None:
    """When credentials end: a certificate's last day, or what a token says of itself."""
    if identity.certificate:
        from cryptography import x509

        try:
            return x509.load_pem_x509_certificate(identity.certificate).not_valid_after_utc
        except ValueError:
            return None
    claims = parse_claims(identity.token)
    return claims.expires if claims is not None else None
