"""The inventory of a cluster: what `status`, `doctor`, `plan` and `version` read of it first."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from msgspec import Struct

from hanse.cli.clusters import (
    READ_TIMEOUT,
    REQUEST_TIMEOUT,
    ClusterAccess,
    ReadFailure,
    read_clusters,
)
from hanse.cli.errors import CommandFailed
from hanse.cli.permissions import AGENT_USER, Permission, agent_permissions, denied_permissions
from hanse.features.federation.claims import SUPERVISOR_MARK
from hanse.kube.client import Client
from hanse.kube.client_config import Identity
from hanse.kube.discovery import refresh
from hanse.kube.errors import ApiError, BadCredentials, NotFound, Unreachable
from hanse.kube.requests import resource_path
from hanse.kube.transport import Request, Response
from hanse.model.agent_manifests import granted_features
from hanse.model.conditions import Condition, find_condition
from hanse.model.feature_names import FEATURES
from hanse.model.json_input import decode_json
from hanse.model.kinds.federation import ClusterClaim, Federation, spelled_value
from hanse.model.kinds.hanse import ClusterMember, ClusterSet
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.manifests import SERVICE_ACCOUNT
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE
from hanse.model.objects import Wire
from hanse.model.tokens import parse_claims

_PATHS = (
    "/api/v1/nodes",
    f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{AGENT}",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    resource_path(ClusterSet.kind),
    resource_path(ClusterMember.kind),
    resource_path(Federation.kind),
    resource_path(ClusterClaim.kind),
    resource_path(SERVICE_ACCOUNT, SYSTEM_NAMESPACE, AGENT),
)


_FAILURES = {
    "Valid": ("False",),
    "Conflict": ("True",),
    "Ready": ("False", "Unknown"),
    "SettingsValid": ("False",),
    "AddressesAllowed": ("False",),
    "ImportedHere": ("False",),
}
"""Types of conditions of an export, those that explain others first, and when they have failed."""


class AgentLease(Struct, frozen=True):
    """An agent's Lease: its holder, and the time since its last renewal."""

    holder: str
    silent: timedelta
    duration: timedelta

    @property
    def alive(self) -> bool:
        """Whether the Lease has a holder and was renewed within its duration."""
        return bool(self.holder) and self.silent <= self.duration


class NodeCounts(Struct, frozen=True):
    """How many nodes there are, and how many of them are ready."""

    all: int
    ready: int


class ExportState(Struct, frozen=True):
    """A ServiceExport: whether it is Ready, and the message of its failed condition."""

    namespace: str
    name: str
    ready: bool
    trouble: str = ""


class ServiceInventory(Struct, frozen=True):
    """What one cluster exports and imports."""

    exports: tuple[ExportState, ...] = ()
    imports: int = 0

    @property
    def ready(self) -> int:
        """How many exports are ready."""
        return sum(export.ready for export in self.exports)


class ListedMember(Struct, frozen=True):
    """A member of a Federation, from a supervisor's status."""

    cluster: str
    reachable: bool
    leader: str
    since: str


class MembershipState(Struct, frozen=True):
    """A cluster's Federation: its role in it, and its status."""

    name: str
    supervises: bool
    leaders: tuple[str, ...]
    members: tuple[ListedMember, ...]
    troubles: tuple[str, ...]


class UnreadCluster(Struct, frozen=True):
    """A cluster that could not be read: no answer, a refusal, or unusable credentials."""

    name: str
    why: str
    fault: Literal["silence", "refusal", "credentials"]


class ClusterInventory(Struct, frozen=True):
    """What was read of a cluster; None where it did not allow or does not serve it."""

    name: str
    server: str
    version: str
    skew: timedelta
    """How far its clock is ahead of ours, as far as a Date header in whole seconds can tell."""
    nodes: NodeCounts | None = None
    agent: AgentLease | None = None
    definitions: dict[str, dict[str, Any]] | None = None
    services: ServiceInventory | None = None
    membership: MembershipState | None = None
    is_broker: bool = False
    expires: datetime | None = None
    """When the credentials that we used expire, if they say so."""
    denied: tuple[Permission, ...] = ()
    agent_denied: tuple[Permission, ...] = ()
    """What the account of its agent may not do, as far as we may ask."""
    features: tuple[str, ...] = FEATURES
    """What the agent has rights for; all where its account does not say."""


InventoryResult = ClusterInventory | UnreadCluster


async def read_inventories(
    clusters: Iterable[ClusterAccess], permissions: Iterable[Permission] = ()
) -> list[InventoryResult]:
    """Read all but `services` of every cluster, and ask for permissions, if any are given.

    A cluster that fails is an `UnreadCluster`.
    """
    checked = tuple(permissions)

    async def read(cluster: ClusterAccess, client: Client) -> ClusterInventory:
        return await read_inventory(cluster, client, checked, await read_version(client))

    results = await read_clusters(clusters, read, limit=None)
    return [unread_cluster(one) if isinstance(one, ReadFailure) else one for one in results]


def unread_cluster(failure: ReadFailure) -> UnreadCluster:
    """The failure with its fault: credentials, silence if unreachable, else refusal."""
    fault: Literal["silence", "refusal", "credentials"] = "refusal"
    if isinstance(failure.error, BadCredentials):
        fault = "credentials"
    elif isinstance(failure.error, Unreachable):
        fault = "silence"
    return UnreadCluster(failure.cluster, str(failure.error), fault)


async def read_inventory(
    cluster: ClusterAccess,
    client: Client,
    permissions: tuple[Permission, ...],
    answer: "VersionAnswer",
) -> ClusterInventory:
    """Read all but `services` of one cluster; `answer` to the version request gives its clock.

    What the API server refuses is None. With `permissions`, the agent's are checked, too.
    """
    access = await cluster.credentials.config()
    now = answer.sent + (answer.received - answer.sent) / 2
    documents = asyncio.gather(*(_get_or_none(client, path) for path in _PATHS))
    denied, read = await asyncio.gather(denied_permissions(client, permissions), documents)
    nodes, agent, definitions, sets, records, federations, claims, account = read
    features = granted_features(account or {})
    needed = agent_permissions(features) if permissions and account is not None else ()
    clock = server_clock(answer.response, now)
    return ClusterInventory(
        name=cluster.name,
        server=access.endpoint.url,
        version=answer.version,
        skew=clock - now,
        nodes=_count_nodes(nodes),
        agent=parse_agent_lease(agent, clock),
        definitions=_by_name(definitions),
        membership=parse_membership(federations, claims),
        is_broker=any(listed and listed.get("items") for listed in (sets, records)),
        expires=credentials_expiry(access.identity),
        denied=denied,
        agent_denied=await denied_permissions(client, needed, AGENT_USER),
        features=features,
    )


async def find_broker(clusters: Sequence[ClusterAccess]) -> ClusterAccess:
    """The first cluster with a ClusterSet or ClusterMember; `CommandFailed` if none has one."""
    results = list(zip(clusters, await read_clusters(clusters, _is_broker), strict=True))
    for cluster, result in results:
        if result is True:
            return cluster
    on_timeout = f"nothing within {READ_TIMEOUT.total_seconds():.0f} s"
    failed = [
        f"{cluster.name} does not answer ({result.message(on_timeout)})"
        for cluster, result in results
        if isinstance(result, ReadFailure)
    ]
    if failed:
        raise CommandFailed(
            f"no broker was found: {', '.join(failed)}; start it, see `hanse doctor`"
        )
    listed = ", ".join(cluster.name for cluster in clusters)
    raise CommandFailed(f"none of {listed} is a broker; name its context with --context")


async def _is_broker(_: ClusterAccess, client: Client) -> bool:
    """Whether the cluster has a ClusterSet, or records of members; not if neither is served."""
    for kind in (ClusterSet, ClusterMember):
        try:
            if (await client.list(kind)).objects:
                return True
        except NotFound:
            continue
    return False


# -- requests


async def discover_kinds(client: Client) -> None:
    """Ask the API server which kinds it serves, and keep that in the client; raises `KubeError`."""
    await client.send(_get_request("/version"))
    await refresh(client)


class VersionAnswer(Struct, frozen=True):
    """A server's version, with the response and its times, by which its clock is measured."""

    version: str
    response: Response
    sent: datetime
    received: datetime


async def read_version(client: Client) -> VersionAnswer:
    """Read /version twice: the second answer, on an open connection, also measures the clock."""
    with suppress(ApiError):  # connects, so that the next one measures the clock
        await client.send(_get_request("/version"))
    sent = datetime.now(UTC)
    response = await client.send(_get_request("/version"))
    version = str(decode_json(response.body).get("gitVersion", ""))
    return VersionAnswer(version, response, sent, datetime.now(UTC))


def _get_request(path: str) -> Request:
    return Request("GET", path, timeout=REQUEST_TIMEOUT)


async def _get_or_none(client: Client, path: str) -> dict[str, Any] | None:
    """GET a path and decode it; None for every error answer but a 401, which is raised."""
    try:
        response = await client.send(Request("GET", path))  # it has answered before
    except ApiError:
        return None
    found: dict[str, Any] = decode_json(response.body)
    return found


# -- parsing


def server_clock(response: Response, now: datetime) -> datetime:
    """The server's time nearest to `now` by the Date header in whole seconds; `now` without one."""
    try:
        date = parsedate_to_datetime(response.headers.get("date", ""))
    except ValueError:
        return now
    earliest = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    return min(max(now, earliest), earliest + timedelta(seconds=1))


def _count_nodes(listed: dict[str, Any] | None) -> NodeCounts | None:
    """How many nodes a list has, and how many are Ready; None for a missing list."""
    if listed is None:
        return None
    nodes = listed.get("items") or []
    return NodeCounts(len(nodes), sum(_is_ready(node) for node in nodes))


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def parse_agent_lease(lease: Wire | None, now: datetime) -> AgentLease | None:
    """The agent's Lease as of a time; None without one. An unreadable renewTime is long ago."""
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
    """The objects of a list by name; None for a missing list."""
    if listed is None:
        return None
    return {one["metadata"]["name"]: one for one in listed.get("items") or ()}


def service_inventory(exports: Iterable[ServiceExport], imports: int) -> ServiceInventory:
    """What a cluster exports, and how many services it imports."""
    return ServiceInventory(tuple(_export_state(one) for one in exports), imports)


def _export_state(export: ServiceExport) -> ExportState:
    """A ServiceExport's condition Ready, and the message of the condition that needs a person."""
    conditions = export.status.conditions
    ready = find_condition(conditions, "Ready")
    is_ready = ready is not None and ready.status == "True"
    return ExportState(export.namespace, export.name, is_ready, _failure_message(conditions))


def _failure_message(conditions: Sequence[Condition]) -> str:
    """The message of the first condition that needs a person, "" without one; Pending does not."""
    for type_, statuses in _FAILURES.items():
        found = find_condition(conditions, type_)
        is_pending = type_ == "Ready" and found is not None and found.reason == "Pending"
        if found is not None and found.status in statuses and not is_pending:
            return found.message or found.reason
    return ""


def parse_membership(
    federations: dict[str, Any] | None, claims: dict[str, Any] | None
) -> MembershipState | None:
    """The state of the oldest Federation of a list, None without one; a claim marks supervisors."""
    found = (federations or {}).get("items") or []
    if not found:
        return None
    oldest = min(found, key=lambda one: str(one["metadata"].get("creationTimestamp")))
    status = oldest.get("status") or {}
    values = {
        str(one.get("name") or one["metadata"]["name"]).lower(): str(one.get("value"))
        for one in (claims or {}).get("items") or ()
    }
    return MembershipState(
        name=oldest["metadata"]["name"],
        supervises=spelled_value(values, SUPERVISOR_MARK) not in (None, "false"),
        leaders=tuple(status.get("leaders") or ()),
        members=tuple(
            ListedMember(m["clusterID"], bool(m.get("reachable")), m.get("leader", ""), m["since"])
            for m in status.get("members") or ()
        ),
        troubles=tuple(
            f"{one['reason']}: {one.get('message', '')}"
            for one in status.get("conditions") or ()
            if one.get("status") == "False"
        ),
    )


def credentials_expiry(identity: Identity) -> datetime | None:
    """When credentials expire, by certificate or token claims; None if neither says."""
    if identity.certificate:
        from cryptography import x509

        try:
            return x509.load_pem_x509_certificate(identity.certificate).not_valid_after_utc
        except ValueError:
            return None
    claims = parse_claims(identity.token)
    return claims.expires if claims is not None else None
