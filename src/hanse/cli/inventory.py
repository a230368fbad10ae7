"""The inventory of a cluster: what `status`, `doctor`, `plan` and `version` read of it first."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import ClassVar

from msgspec import Raw, Struct

from hanse.cli.clusters import (
    READ_TIMEOUT,
    REQUEST_TIMEOUT,
    ClusterAccess,
    ReadFailure,
    read_clusters,
)
from hanse.cli.errors import CommandFailed
from hanse.cli.fleet import ACCOUNT, ClusterRead, unread
from hanse.cli.fleet_lists import read_watches
from hanse.cli.permissions import (
    LEASE_RENEWAL,
    Permission,
    agent_permissions,
    denied_permissions,
    denied_to_agent,
)
from hanse.features.federation.claims import SUPERVISOR_MARK
from hanse.features.services.exported import bad_conditions
from hanse.kube.client import Client
from hanse.kube.client_config import Identity
from hanse.kube.discovery import refresh
from hanse.kube.errors import BadCredentials
from hanse.kube.optional_reads import list_or_empty
from hanse.kube.transport import Request, Response, Validity
from hanse.model.agent_manifests import granted_features
from hanse.model.crds import is_of_newer_release
from hanse.model.facts import SLOW_ANSWER, Role
from hanse.model.feature_names import FEATURES
from hanse.model.json_input import decode_json
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Node
from hanse.model.kinds.federation import ClusterClaim, Federation, spelled_value
from hanse.model.kinds.hanse import ClusterMember, ClusterSet
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE
from hanse.model.objects import Kind, Object
from hanse.model.snapshot import Watch
from hanse.model.tokens import parse_claims


class Definition(Object, frozen=True, kw_only=True):
    """A CustomResourceDefinition with all of its spec, as JSON: few of many are looked at."""

    kind: ClassVar[Kind] = CustomResourceDefinition.kind

    spec: Raw


DEFINITIONS = Watch(Role.LOCAL, Definition, optional=True)
BESIDE_OBJECTS = (DEFINITIONS, ACCOUNT)
"""What the inventory needs beside `fleet.read_objects`."""

_INVENTORY = (
    Watch(Role.LOCAL, Node, optional=True),
    Watch(Role.LOCAL, Lease, SYSTEM_NAMESPACE, name=AGENT, optional=True),
    *(
        Watch(Role.LOCAL, kind, optional=True)
        for kind in (ClusterSet, ClusterMember, Federation, ClusterClaim)
    ),
    *BESIDE_OBJECTS,
)


class AgentLease(Struct, frozen=True):
    """An agent's Lease: its holder, and the time since its last renewal."""

    holder: str
    silent: timedelta
    duration: timedelta

    @property
    def alive(self) -> bool:
        """Whether the Lease has a holder and was renewed no longer ago than its duration."""
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
    """What one cluster exports and imports; None where it could not be read."""

    exports: tuple[ExportState, ...] | None = ()
    imports: int | None = 0

    @property
    def ready(self) -> int:
        """How many exports are ready; 0 where exports could not be read."""
        return sum(export.ready for export in self.exports or ())


class ListedMember(Struct, frozen=True):
    """A member of a Federation, from a supervisor's status."""

    cluster: str
    reachable: bool
    leader: str
    since: datetime | None


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


class ClusterInventory(Struct, frozen=True):
    """What was read of a cluster; None where it did not allow or does not serve it."""

    name: str
    server: str
    version: str
    skew: timedelta
    """How far its clock is at least ahead of ours, or behind, by a Date header in whole seconds."""
    nodes: NodeCounts | None = None
    agent: AgentLease | None = None
    definitions: dict[str, Raw] | None = None
    """The specs of CustomResourceDefinitions by name."""
    newer_definitions: frozenset[str] = frozenset()
    """The names of those that a newer release than this program has written."""
    services: ServiceInventory | None = None
    membership: MembershipState | None = None
    is_broker: bool = False
    expires: datetime | None = None
    """When the credentials that we used expire, if they say so and no plugin renews them."""
    certificate: Validity | None = None
    """Of its API server; None if it was not verified."""
    denied: tuple[Permission, ...] = ()
    features: tuple[str, ...] = FEATURES
    """What the agent has rights for; all where its account does not say."""


InventoryResult = ClusterInventory | UnreadCluster


async def read_inventories(
    clusters: Iterable[ClusterAccess], permissions: Iterable[Permission] = ()
) -> list[InventoryResult]:
    """Read all but `services` of every cluster, several at a time, in the clusters' order.

    `denied` of each has those of `permissions` that access reviews refuse us; nothing is asked if
    none are given. A cluster with a `KubeError`, or a request that times out, is an
    `UnreadCluster`; only single requests have a time limit.
    """
    checked = tuple(permissions)

    async def read(cluster: ClusterAccess, client: Client) -> ClusterInventory:
        """Read version, objects and access of one cluster, and describe them; errors are raised."""
        answer = await read_version(client)
        found = await read_watches(cluster.name, client, _INVENTORY)
        return describe_cluster(found, await read_access(cluster, client, checked, answer, found))

    results = await read_clusters(clusters, read, limit=None)
    return [unread_cluster(one) if isinstance(one, ReadFailure) else one for one in results]


def unread_cluster(failure: ReadFailure) -> UnreadCluster:
    """The `UnreadCluster` of a failure: the error's text, or `no answer in time` at a time-out."""
    return UnreadCluster(failure.cluster, failure.message("no answer in time"))


class AccessAnswer(Struct, frozen=True):
    """What an API server says about credentials, ours and its agent's, its version and clock."""

    server: str
    version: "VersionAnswer"
    expires: datetime | None
    denied: tuple[Permission, ...] = ()
    agent_denied: tuple[Permission, ...] = ()
    features: tuple[str, ...] = FEATURES


async def read_access(
    cluster: ClusterAccess,
    client: Client,
    permissions: tuple[Permission, ...],
    answer: "VersionAnswer",
    read: ClusterRead,
) -> AccessAnswer:
    """Ask which `permissions` we are denied and, if some are given, what the agent is denied.

    The agent is asked about only if its ServiceAccount was read, and not about renewing its Lease
    if that is renewed in time. Also returns when our credentials expire, None if a plugin renews
    them or that is not known, and the features by the account's annotation, all without one. Raises
    `KubeError`.
    """
    access = await cluster.credentials.config()
    account = next(iter(read.listed(ACCOUNT)), None)
    features = granted_features(account.metadata.annotations if account is not None else {})
    needed = agent_permissions(features) if permissions and account is not None else ()
    if read.has_live_agent(datetime.now(UTC)):  # it evidently may renew its Lease
        needed = tuple(one for one in needed if one != LEASE_RENEWAL)
    denied, agent_denied = await asyncio.gather(
        denied_permissions(client, permissions), denied_to_agent(client, needed)
    )
    expires = credentials_expiry(access.identity) if access.expires is None else None
    return AccessAnswer(access.endpoint.url, answer, expires, denied, agent_denied, features)


def describe_cluster(read: ClusterRead, access: AccessAnswer) -> ClusterInventory:
    """The inventory of one cluster, all but `services`, from what was read; nothing is asked here.

    `nodes` and `definitions` are None where they were not listed, `agent` without its Lease,
    `membership` without a Federation. The Lease's age is by the API server's clock.
    """
    answer = access.version
    nodes = read.objects(Node)
    listed = any(watch.kind is Node for watch in read.lists)
    definitions = read.listed(DEFINITIONS)
    return ClusterInventory(
        name=read.context,
        server=access.server,
        version=answer.version,
        skew=answer.skew,
        nodes=NodeCounts(len(nodes), sum(one.ready for one in nodes)) if listed else None,
        agent=agent_lease_at(read.agent_lease, answer.received + answer.skew),
        definitions={one.name: one.spec for one in definitions}
        if DEFINITIONS in read.lists
        else None,
        newer_definitions=frozenset(
            one.name for one in definitions if is_of_newer_release(one.metadata.annotations)
        ),
        membership=membership(read.objects(Federation), read.objects(ClusterClaim)),
        is_broker=read.is_broker,
        expires=access.expires,
        certificate=answer.response.certificate,
        denied=access.denied,
        features=access.features,
    )


async def find_broker(clusters: Sequence[ClusterAccess]) -> ClusterAccess:
    """Read all clusters, and return the first with a ClusterSet or ClusterMember.

    Raises `CommandFailed` if none has one; its text names those that could not be read, if any.
    Beside a broker that is found, such clusters do not matter.
    """
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
    return bool(
        await list_or_empty(client, ClusterSet) or await list_or_empty(client, ClusterMember)
    )


# -- requests


async def discover_kinds(client: Client) -> None:
    """Ask the API server which kinds it serves, and keep that in the client; raises `KubeError`.

    /version is read first, with a short time limit, so that it fails soon where nobody answers.
    """
    await read_version(client)  # which ends soon where nobody answers
    await refresh(client)


class VersionAnswer(Struct, frozen=True):
    """A server's version, with the response and its times, by which its clock is measured."""

    version: str
    response: Response
    sent: datetime
    received: datetime

    @property
    def is_slow(self) -> bool:
        """Whether the answer took `SLOW_ANSWER` (2 s) or longer."""
        return self.received - self.sent >= SLOW_ANSWER

    @property
    def skew(self) -> timedelta:
        """How far the server's clock is at least ahead of ours; negative if it is behind.

        Zero where the difference is less than half the time that the request took, which is in
        doubt, and without a Date header.
        """
        doubt = (self.received - self.sent) / 2
        now = self.sent + doubt
        skew = server_clock(self.response, now) - now
        return max(abs(skew) - doubt, timedelta(0)) * (1 if skew > timedelta(0) else -1)


async def read_version(client: Client) -> VersionAnswer:
    """Read /version within `REQUEST_TIMEOUT`, and note our times, which tell its clock and delay.

    If the answer is slow, it is asked once more and the second one is returned: the first includes
    the connection. Raises `KubeError`.
    """
    answer = await _ask_version(client)
    return await _ask_version(client) if answer.is_slow else answer


async def _ask_version(client: Client) -> VersionAnswer:
    """Read /version once, noting our time before and after; the version is "" if it is missing."""
    sent = datetime.now(UTC)
    response = await client.send(_get_request("/version"))
    version = str(decode_json(response.body).get("gitVersion", ""))
    return VersionAnswer(version, response, sent, datetime.now(UTC))


def _get_request(path: str) -> Request:
    """A GET request with the time limit REQUEST_TIMEOUT."""
    return Request("GET", path, timeout=REQUEST_TIMEOUT)


# -- parsing


def server_clock(response: Response, now: datetime) -> datetime:
    """The server's time: `now`, moved into the second that the response's Date header names.

    `now` itself if it is within that second, or the header is missing or no date. A date without a
    time zone is UTC.
    """
    try:
        date = parsedate_to_datetime(response.headers.get("date", ""))
    except ValueError:
        return now
    earliest = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    return min(max(now, earliest), earliest + timedelta(seconds=1))


async def read_clock(client: Client) -> datetime:
    """The API server's time now, by the Date header of its answer to /version; raises `KubeError`.

    Our own time if the answer has no such header.
    """
    return server_clock(await client.send(_get_request("/version")), datetime.now(UTC))


def agent_lease_at(lease: Lease | None, now: datetime) -> AgentLease | None:
    """Holder, duration and age of an agent's Lease at `now`, the API server's time; None if none.

    The age is never negative; a Lease without a valid time of renewal is very old.
    """
    if lease is None:
        return None
    renewed = lease.last_renewal or datetime.min.replace(tzinfo=UTC)
    duration = timedelta(seconds=lease.spec.lease_duration_seconds)
    return AgentLease(lease.spec.holder_identity, max(now - renewed, timedelta(0)), duration)


def service_inventory(
    exports: Iterable[ServiceExport] | None, imports: int | None
) -> ServiceInventory:
    """What a cluster exports, and how many services it imports; None for what was not read."""
    states = None if exports is None else tuple(_export_state(one) for one in exports)
    return ServiceInventory(states, imports)


def _export_state(export: ServiceExport) -> ExportState:
    """Whether a ServiceExport's condition Ready is True, and what is wrong with it.

    That is the message, else the reason, of its first bad condition whose reason is not Pending; ""
    without one.
    """
    ready = any(c.type == "Ready" and c.status == "True" for c in export.status.conditions)
    bad = (c.message or c.reason for c in bad_conditions(export) if c.reason != "Pending")
    return ExportState(export.namespace, export.name, ready, next(bad, ""))


def membership(
    federations: Sequence[Federation], claims: Iterable[ClusterClaim]
) -> MembershipState | None:
    """The state of the oldest Federation of a list, None without one.

    It supervises if a claim marks supervisors with another value than `false`; its troubles are
    `reason: message` of the Federation's conditions that are False.
    """
    if not federations:
        return None
    unborn = datetime.max.replace(tzinfo=UTC)
    oldest = min(federations, key=lambda one: one.metadata.creation_timestamp or unborn)
    values = {one.about.lower(): one.value for one in claims}
    return MembershipState(
        name=oldest.name,
        supervises=spelled_value(values, SUPERVISOR_MARK) not in (None, "false"),
        leaders=oldest.status.leaders,
        members=tuple(
            ListedMember(m.cluster_id, m.reachable, m.leader, m.since)
            for m in oldest.status.members
        ),
        troubles=tuple(
            f"{one.reason}: {one.message}"
            for one in oldest.status.conditions
            if one.status == "False"
        ),
    )


async def explain_failure(cluster: ClusterAccess, failure: ReadFailure) -> ClusterRead:
    """The `ClusterRead` of a cluster that could not be read, with the error as its `failure`.

    If the cluster refused us, and our credentials have expired, the text also says when.
    """
    read = unread(failure)
    return unread(failure, await _expired_at(cluster)) if read.refused else read


async def _expired_at(cluster: ClusterAccess) -> datetime | None:
    """When the credentials of a cluster expired; None if they have not, or that cannot be told."""
    try:
        config = await cluster.credentials.config()
    except BadCredentials:
        return None
    expires = credentials_expiry(config.identity)
    return expires if expires is not None and expires <= datetime.now(UTC) else None


def credentials_expiry(identity: Identity) -> datetime | None:
    """When the client certificate expires or, if there is none, the token by its claims.

    None if the certificate cannot be parsed, or the token is no JWT or has no expiry.
    """
    if identity.certificate:
        from cryptography import x509

        try:
            return x509.load_pem_x509_certificate(identity.certificate).not_valid_after_utc
        except ValueError:
            return None
    claims = parse_claims(identity.token)
    return claims.expires if claims is not None else None
