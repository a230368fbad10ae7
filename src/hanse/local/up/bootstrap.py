"""The initial objects of a local federation, and creating them; existing objects are kept."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import timedelta

import msgspec
from msgspec import Struct

from hanse.features.admission.configuration import NAME as WEBHOOKS
from hanse.features.federation import manifests
from hanse.kube.client_config import ServerEndpoint
from hanse.kube.errors import error_from_response
from hanse.kube.requests import resource_path
from hanse.kube.transport import MERGE_PATCH, Request, Response, Transport
from hanse.local.up.topology import LocalMember
from hanse.model.acceptance import BROKER_ORIGIN
from hanse.model.crds import crds, placeholder_crds
from hanse.model.kinds.acceptance import (
    ACCEPT,
    DEFAULT_POLICY,
    AcceptancePolicy,
    AcceptancePolicySpec,
    WorkloadAcceptance,
)
from hanse.model.kinds.federation import SYSTEM, Member
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.manifests import Manifest
from hanse.model.naming import BROKER_NAMESPACE, SYSTEM_NAMESPACE
from hanse.model.objects import Meta, Wire, to_wire
from hanse.model.rbac import RbacRule
from hanse.model.tokens import TokenAccount

NAME = "local"
"""The name of the Federation and of its ClusterSet."""

SYSTEM_NAMESPACES = (SYSTEM_NAMESPACE, SYSTEM, NAMESPACE)

STALE_WEBHOOK_CONFIGURATIONS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}/{WEBHOOKS}"
    for kind in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
)
"""The paths of configurations whose webhook servers ended with an earlier run."""

READY_TIMEOUT = timedelta(seconds=30)
_POLL_INTERVAL = timedelta(milliseconds=20)
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_HEARTBEAT_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{BROKER_NAMESPACE}/leases"
_KUBE_SYSTEM = "/api/v1/namespaces/kube-system"
"""The namespace whose uid identifies a cluster."""

ForEachCluster = Callable[[Callable[[LocalMember, Transport], Awaitable[None]]], Awaitable[None]]
"""Does something in all clusters concurrently."""


class BootstrapObject(Struct, frozen=True):
    """An object to create, and the path of its collection."""

    collection: str
    object: Wire

    @property
    def path(self) -> str:
        """The path of the object itself: that of its collection, and its name."""
        return f"{self.collection}/{self.object['metadata']['name']}"


CLUSTER_SET = BootstrapObject(
    "/apis/hanse.dev/v1alpha1/clustersets",
    {"apiVersion": "hanse.dev/v1alpha1", "kind": "ClusterSet", "metadata": {"name": "local"}},
)
"""The ClusterSet with default settings."""


def crd_objects() -> tuple[BootstrapObject, ...]:
    """The CRDs of Hanse, and minimal ones for kinds of other projects that it uses."""
    return tuple(
        BootstrapObject(_CRDS, definition) for definition in (*crds(), *placeholder_crds())
    )


def base_objects(member: LocalMember) -> tuple[BootstrapObject, ...]:
    """The system namespaces, and for the broker also its own namespace and the ClusterSet."""
    namespaces = tuple(namespace_object(name) for name in SYSTEM_NAMESPACES)
    if member.runs_workloads:
        return namespaces
    broker_namespace = namespace_object(BROKER_NAMESPACE)
    return (*namespaces, broker_namespace, CLUSTER_SET)


def acceptance_policy(members: Sequence[LocalMember]) -> BootstrapObject:
    """The AcceptancePolicy for each member: it accepts workloads of the broker and all members."""
    hosts = (member.name for member in members if member.runs_workloads)
    workloads = WorkloadAcceptance(origins=(BROKER_ORIGIN, *hosts))
    policy = AcceptancePolicy(
        metadata=Meta(name=DEFAULT_POLICY), spec=AcceptancePolicySpec(workloads=workloads)
    )
    return BootstrapObject(resource_path(AcceptancePolicy.kind), to_wire(policy))


def namespace_object(name: str, *, takes_workloads: bool = False) -> BootstrapObject:
    """A namespace; one that takes workloads has the label that accepts them."""
    metadata: Wire = {"name": name}
    if takes_workloads:
        metadata["labels"] = {ACCEPT: "true"}
    namespace: Wire = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    return BootstrapObject("/api/v1/namespaces", namespace)


def is_ready(obj: Wire) -> bool:
    """Whether a Deployment has all its replicas available, or a ServiceExport is Ready.

    Objects of other kinds always are.
    """
    status = obj.get("status") or {}
    match obj["kind"]:
        case "Deployment":
            return bool(status.get("availableReplicas", 0) >= obj["spec"].get("replicas", 1))
        case "ServiceExport":
            conditions = status.get("conditions") or ()
            return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        case _:
            return True


async def install_crds(transport: Transport, crds: Sequence[BootstrapObject]) -> None:
    """Create CRDs or update their spec, and wait, without limit, until they are established.

    Raises for an error response.
    """
    await asyncio.gather(*(_create_or_update_crd(transport, crd) for crd in crds))
    names = {crd.object["metadata"]["name"] for crd in crds}
    while not names <= await _established_crds(transport):  # noqa: ASYNC110 - polls a server
        await asyncio.sleep(_POLL_INTERVAL.total_seconds())


async def create_objects(transport: Transport, objects: Iterable[BootstrapObject]) -> None:
    """Create objects in order; existing ones stay, since a person may have changed them.

    Raises for another error response than a conflict.
    """
    for one in objects:
        await create_if_absent(transport, one)


async def create_sample(transport: Transport, objects: Sequence[BootstrapObject]) -> bool:
    """Create a sample unless its first object exists: what a person kept stays as it is.

    Returns whether it was created.
    """
    if not objects or not await create_if_absent(transport, objects[0]):
        return False
    await create_objects(transport, objects[1:])
    return True


async def create_if_absent(transport: Transport, desired: BootstrapObject) -> bool:
    """Create an object; returns False, and changes nothing, if it exists.

    Raises for another error response than a conflict.
    """
    response = await _create(transport, desired)
    if response.status == 409:
        return False
    raise_for_status(response)
    return True


async def update_data(transport: Transport, desired: BootstrapObject) -> None:
    """Patch the data of a Secret, as credentials are new at every start; it is not created.

    No effect if it does not exist; another error response is raised.
    """
    response = await _patch(transport, desired.path, {"data": desired.object["data"]})
    if response.status != 404:
        raise_for_status(response)


async def create_or_patch(transport: Transport, manifests: Iterable[Manifest]) -> None:
    """Create objects in order; existing ones are patched, but those that are `create_only` stay.

    Raises for an error response.
    """
    for one in manifests:
        wanted = _bootstrap_object(one)
        if await create_if_absent(transport, wanted) or one.create_only:
            continue
        raise_for_status(await _patch(transport, wanted.path, one.wire))


async def cluster_uid(transport: Transport) -> str:
    """The uid of kube-system, awaited while a new API server has not created it yet.

    Waits without limit; raises for another error response than 404.
    """
    while (response := await transport.send(Request("GET", _KUBE_SYSTEM))).status == 404:  # noqa: ASYNC110 - polls a server
        await asyncio.sleep(_POLL_INTERVAL.total_seconds())
    return str(msgspec.json.decode(raise_for_status(response).body)["metadata"]["uid"])


async def set_profile(transport: Transport, profile: str) -> None:
    """Patch the profile of the existing ClusterSet; raises for an error response."""
    raise_for_status(await _patch(transport, CLUSTER_SET.path, {"spec": {"profile": profile}}))


async def await_ready(transport: Transport, expected: BootstrapObject) -> bool:
    """Poll an object until it is ready, as `is_ready` has it; returns False after READY_TIMEOUT.

    An error response is raised, also 404.
    """
    try:
        async with asyncio.timeout(READY_TIMEOUT.total_seconds()):
            while not await _reads_ready(transport, expected):  # noqa: ASYNC110 - polls a server
                await asyncio.sleep(_POLL_INTERVAL.total_seconds())
    except TimeoutError:
        return False
    return True


async def await_heartbeats(transport: Transport, clusters: AbstractSet[str]) -> None:
    """Wait until every cluster's agent holds its Lease on the broker, at most READY_TIMEOUT.

    Returns in both cases; an error response is raised.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(READY_TIMEOUT.total_seconds()):
            while not clusters <= await _clusters_with_heartbeat(transport):  # noqa: ASYNC110 - polls a server
                await asyncio.sleep(_POLL_INTERVAL.total_seconds())


async def create_federation(
    members: Sequence[LocalMember],
    endpoints: Mapping[str, ServerEndpoint],
    rules_for: Callable[[str, str], tuple[RbacRule, ...]],
    bound_token: Callable[[Transport, TokenAccount], Awaitable[str]],
    for_each_cluster: ForEachCluster,
) -> None:
    """Create the Federation in all members, after ClusterClaims and an account for each supervisor.

    Supervisors also get a Secret with their token for each member. Existing objects stay as they
    are, but for the Secrets' data and the members' servers in a Federation. Nothing in the broker.
    """
    tokens: dict[tuple[str, str], str] = {}
    workload_members = [member for member in members if member.runs_workloads]
    supervisors = [member.name for member in workload_members if member.role == "supervisor"]

    async def create_claims_and_account(member: LocalMember, transport: Transport) -> None:
        """Give a member its ClusterClaims and an account for each supervisor; keeps new tokens.

        Nothing in the broker.
        """
        if not member.runs_workloads:
            return
        is_supervisor = member.role == "supervisor"
        claims = manifests.claim_manifests(member.name, NAME, supervisor=is_supervisor)
        accounts = [
            one
            for supervisor in supervisors
            for one in manifests.account_manifests(rules_for(member.name, supervisor), supervisor)
        ]
        await create_objects(transport, [_bootstrap_object(one) for one in (*claims, *accounts)])
        for supervisor in supervisors:
            account = manifests.token_account(member.name, supervisor)
            tokens[member.name, supervisor] = await bound_token(transport, account)

    async def create_secrets_and_federation(member: LocalMember, transport: Transport) -> None:
        """Give a member its Federation, and a supervisor before that its token for every member.

        Of those that exist the tokens and the members' servers are replaced. Nothing in the broker.
        """
        if not member.runs_workloads:
            return
        servers = {}
        if member.role == "supervisor":
            servers = {other.name: endpoints[other.name].url for other in workload_members}
            for other in workload_members:
                ca = endpoints[other.name].ca
                token = tokens[other.name, member.name]
                secret = manifests.member_secret(other.name, token, ca)
                await _create_or_update_data(transport, secret)
        await _create_or_update_federation(transport, manifests.federation(NAME, NAME, servers))

    await for_each_cluster(create_claims_and_account)
    await for_each_cluster(create_secrets_and_federation)


async def _create_or_update_federation(transport: Transport, desired: Manifest) -> None:
    """Create the Federation; in an existing one, set the members' servers to this run's URLs.

    No member is added or removed; one that `desired` does not have keeps its server. Raises for an
    error response.
    """
    if await create_if_absent(transport, _bootstrap_object(desired)):
        return
    path = resource_path(desired.kind, "", desired.name)
    response = raise_for_status(await transport.send(Request("GET", path)))
    members = msgspec.json.decode(response.body).get("spec", {}).get("members") or []
    urls = {one["clusterID"]: one["server"] for one in desired.wire["spec"].get("members", ())}
    ids = [msgspec.convert(one, Member).cluster_id for one in members]
    updated = [
        {**one, "server": urls.get(cluster, one["server"])}
        for cluster, one in zip(ids, members, strict=True)
    ]
    if updated != members:
        raise_for_status(await _patch(transport, path, {"spec": {"members": updated}}))


async def _create_or_update_data(transport: Transport, desired: Manifest) -> None:
    """Create the object, or patch only its `data` if it exists; raises for an error response."""
    if await create_if_absent(transport, _bootstrap_object(desired)):
        return
    path = resource_path(desired.kind, desired.namespace, desired.name)
    raise_for_status(await _patch(transport, path, {"data": desired.wire["data"]}))


async def _create_or_update_crd(transport: Transport, crd: BootstrapObject) -> None:
    """Create the CRD, or patch its spec if it exists; raises for an error response."""
    response = await _create(transport, crd)
    if response.status == 409:
        response = await _patch(transport, crd.path, {"spec": crd.object["spec"]})
    raise_for_status(response)


async def _clusters_with_heartbeat(transport: Transport) -> set[str]:
    """The names of the clusters whose heartbeat Lease on the broker has a holder.

    Raises for an error response.
    """
    response = raise_for_status(await transport.send(Request("GET", _HEARTBEAT_LEASES)))
    leases = msgspec.json.decode(response.body)["items"]
    return {one["metadata"]["name"] for one in leases if one["spec"].get("holderIdentity")}


async def _reads_ready(transport: Transport, expected: BootstrapObject) -> bool:
    """Read the object, and say whether it is ready; raises for an error response."""
    response = raise_for_status(await transport.send(Request("GET", expected.path)))
    return is_ready(msgspec.json.decode(response.body))


async def _established_crds(transport: Transport) -> set[str]:
    """The names of all CRDs whose condition Established is True; raises for an error response."""
    response = raise_for_status(await transport.send(Request("GET", _CRDS)))
    return {
        one["metadata"]["name"]
        for one in msgspec.json.decode(response.body)["items"]
        if any(
            condition["type"] == "Established" and condition["status"] == "True"
            for condition in one.get("status", {}).get("conditions") or ()
        )
    }


async def _create(transport: Transport, desired: BootstrapObject) -> Response:
    """Send the POST, and return the response, also an error."""
    body = msgspec.json.encode(desired.object)
    return await transport.send(Request("POST", desired.collection, body=body))


async def _patch(transport: Transport, path: str, changes: Wire) -> Response:
    """Send the merge patch, and return the response, also an error."""
    body = msgspec.json.encode(changes)
    return await transport.send(Request("PATCH", path, body=body, content_type=MERGE_PATCH))


def raise_for_status(response: Response) -> Response:
    """The response if its status is 2xx; raises the client's error for it otherwise."""
    if not 200 <= response.status < 300:
        raise error_from_response(response)
    return response


def _bootstrap_object(manifest: Manifest) -> BootstrapObject:
    return BootstrapObject(resource_path(manifest.kind, manifest.namespace), manifest.wire)
