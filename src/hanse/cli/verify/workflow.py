"""Deploy, try, explain, and remove everything, however it ends."""

import asyncio
import secrets
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from datetime import timedelta
from ipaddress import ip_address, ip_network

from msgspec import Struct

from hanse.cli.clusters import ClusterAccess, connect
from hanse.cli.errors import CommandFailed, InputError
from hanse.cli.verify import manifests
from hanse.cli.verify.attempts import (
    Attempt,
    DeployedCluster,
    ImportedService,
    Outcome,
    Topic,
    VerifyResult,
    explain,
    plan_attempts,
)
from hanse.cli.verify.pods import VerifiedCluster, await_server, run_attempts
from hanse.features.services.names import SERVICE_NAME
from hanse.kube.client import Client
from hanse.kube.discovery import refresh
from hanse.kube.requests import resource_path
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.kinds.networking import ServiceCIDR
from hanse.model.naming import AGENT, DNS, SYSTEM_NAMESPACE

SIMULATED = frozenset({"kwok.x-k8s.io/node", "sim.hanse.dev/node"})
"""Annotations of nodes that run no containers."""
MORE_ROUNDS = 3
"""How often a connection is tried that may never end as expected: a network may not enforce
policies, or not route Services."""
_POLL_SECONDS = 0.5


class VerifyRequest(Struct, frozen=True):
    """The clusters between which to try, and what."""

    clusters: tuple[ClusterAccess, ...]
    topics: tuple[Topic, ...]
    image: str
    """Empty: the image of each cluster's agent."""
    timeout: timedelta
    say: Callable[[str], None]
    """Tells what happens, for people."""


async def verify(request: VerifyRequest) -> list[VerifyResult]:
    """Deploy in all clusters, try, and delete the namespaces again, also after errors and signals.

    Returns a result for each attempt, also failed ones. Raises `InputError` where no containers run
    or no image is known, `CommandFailed` if pods do not start, a namespace stays, or after SIGTERM.
    """
    namespace = f"hanse-verify-{secrets.token_hex(3)}"
    async with AsyncExitStack() as stack:
        stack.enter_context(_ending_on_sigterm())
        clusters: list[VerifiedCluster] = []
        for access in request.clusters:
            client = await stack.enter_async_context(connect(access))
            image = request.image or await agent_image(access.name, client)
            await require_containers(access.name, client)
            clusters.append(VerifiedCluster(access.name, client, namespace, image))
        try:
            return await _deploy_and_try(clusters, request, namespace)
        finally:
            await _remove(clusters, request.say)


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """In the block, SIGTERM cancels the current task, as SIGINT does.

    What is in the block can clean up; then `CommandFailed` is raised in place of the cancellation.
    """
    this, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert this is not None, "a command runs in a task"
    ended: list[bool] = []

    def end() -> None:
        """Note that SIGTERM came, and cancel this task."""
        ended.append(True)
        this.cancel()

    loop.add_signal_handler(signal.SIGTERM, end)
    try:
        yield
    except asyncio.CancelledError:
        if ended:
            raise CommandFailed("ended by a signal; what was created is removed") from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


async def _deploy_and_try(
    clusters: Sequence[VerifiedCluster], request: VerifyRequest, namespace: str
) -> list[VerifyResult]:
    """Create the namespace and pods in all clusters, try all attempts, and return their results.

    Deploying, waiting for imports and trying may each take the timeout of the request; imports that
    are late do not end it. Raises `CommandFailed` if pods do not start. The caller deletes the
    namespaces, also after an error.
    """
    seconds = request.timeout.total_seconds()
    request.say(f"creating namespace {namespace} in {', '.join(c.name for c in clusters)}")
    deployed = await asyncio.gather(*(_deploy(c, seconds) for c in clusters))
    imported = await _export_and_await(clusters, request)
    hosts = [await _global_hosts(c) if "hosts" in request.topics else () for c in clusters]
    planned = [
        plan_attempts(c.name, deployed, imported[c.name], several, namespace, request.topics)
        for c, several in zip(clusters, hosts, strict=True)
    ]
    request.say(f"trying {sum(map(len, planned))} connections and names")
    outcomes = await asyncio.gather(
        *(_try_until(c, attempts, seconds) for c, attempts in zip(clusters, planned, strict=True))
    )
    return explain([o for several in outcomes for o in several], imported, deployed)


async def _deploy(cluster: VerifiedCluster, seconds: float) -> DeployedCluster:
    """Create namespace, servers, Service and policy in one cluster; wait for the servers.

    Returns their addresses; raises `CommandFailed` if a server is not ready in time.
    """
    await cluster.create(
        manifests.namespace(cluster.namespace),
        manifests.isolation_policy(),
        manifests.server_pod(manifests.SERVER, cluster.name, cluster.image),
        manifests.server_pod(manifests.GUARDED, cluster.name, cluster.image),
        manifests.service(),
    )
    server = await await_server(cluster, manifests.SERVER, seconds)
    guarded = await await_server(cluster, manifests.GUARDED, seconds)
    service = await _service_address(cluster, cluster.namespace, manifests.SERVICE)
    pod = await cluster.get_pod(manifests.SERVER)
    node = await cluster.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")
    listed = await cluster.get(resource_path(ServiceCIDR.kind))
    services = [cidr for one in (listed or {}).get("items") or () for cidr in one["spec"]["cidrs"]]
    return DeployedCluster(
        cluster.name,
        server,
        guarded,
        service,
        node=pod["status"].get("hostIP", ""),
        pod_range=_range_of(server, (node or {}).get("spec", {}).get("podCIDRs") or ()),
        service_range=_range_of(service, services),
        dns=await _service_address(cluster, SYSTEM_NAMESPACE, DNS),
    )


def _range_of(address: str, cidrs: Sequence[str]) -> str:
    """The first of the CIDR ranges that contains an address; "" if none does."""
    return next((cidr for cidr in cidrs if ip_address(address) in ip_network(cidr)), "")


async def _service_address(cluster: VerifiedCluster, namespace: str, name: str) -> str:
    """The clusterIP of a Service, which may be the text `None`; "" if there is no Service."""
    found = await cluster.get(f"/api/v1/namespaces/{namespace}/services/{name}")
    return str(found["spec"].get("clusterIP", "")) if found is not None else ""


async def _export_and_await(
    clusters: Sequence[VerifiedCluster], request: VerifyRequest
) -> dict[str, ImportedService | None]:
    """Create ServiceExports where Hanse is installed, and wait until all import from all.

    Returns the imports by cluster, as far as they arrived before the request's timeout; None for a
    cluster without Hanse, and for all if no topic needs imports: then nothing is created.
    """
    if not {"names", "services", "routes"} & set(request.topics):
        return dict.fromkeys((c.name for c in clusters), None)
    installed = [c for c in clusters if await c.get(resource_path(ServiceImport.kind)) is not None]
    for cluster in installed:
        await cluster.create(manifests.service_export())
    found: dict[str, ImportedService | None] = dict.fromkeys((c.name for c in clusters), None)
    try:
        async with asyncio.timeout(request.timeout.total_seconds()):
            while True:
                for cluster in installed:
                    found[cluster.name] = await _read_import(cluster, len(installed))
                if not any(one.missing for one in found.values() if one is not None):
                    return found
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        return found


async def _read_import(cluster: VerifiedCluster, exporters: int) -> ImportedService:
    """Read the ServiceImport and its endpoints in one cluster.

    `missing` says that there is none, or that not exactly as many clusters as `exporters` export
    it; else it is empty. Raises `KubeError` if the cluster cannot be read.
    """
    namespace, name = cluster.namespace, manifests.SERVICE
    path = f"{resource_path(ServiceImport.kind, namespace)}/{name}"
    found = await cluster.get(path)
    if found is None:
        return ImportedService(missing="there is no ServiceImport; does its agent run?")
    slices = await cluster.get(
        f"{resource_path(EndpointSlice.kind, namespace)}?labelSelector={SERVICE_NAME}={name}"
    )
    listed = (slices or {}).get("items") or ()
    addresses = [
        a for s in listed for e in s.get("endpoints") or () for a in e.get("addresses") or ()
    ]
    names = [c["cluster"] for c in found.get("status", {}).get("clusters") or ()]
    missing = "" if len(names) == exporters else f"only {', '.join(names) or 'nobody'} exports it"
    ips = found.get("spec", {}).get("ips") or ()
    return ImportedService(tuple(ips), tuple(names), tuple(addresses), missing)


async def _global_hosts(cluster: VerifiedCluster) -> tuple[str, ...]:
    """The first ten, sorted, of the hosts of GlobalServices in a cluster.

    Empty if the kind is not served.
    """
    listed = await cluster.get(resource_path(GlobalService.kind))
    hosts = {one["spec"]["host"] for one in (listed or {}).get("items") or ()}
    return tuple(sorted(hosts))[:10]


async def _try_until(
    cluster: VerifiedCluster, attempts: Sequence[Attempt], seconds: float
) -> list[Outcome]:
    """Run attempts in pods, and repeat those that did not end as expected, for `seconds`.

    Those that are not awaited run `MORE_ROUNDS` times at most. Returns the last outcome of each, in
    order; a round that has begun is finished.
    """
    deadline = asyncio.get_running_loop().time() + seconds
    outcomes: dict[Attempt, Outcome] = {}
    due, number = list(attempts), 0
    while due:
        number += 1
        for outcome in await run_attempts(cluster, due, f"client-{number}"):
            outcomes[outcome.attempt] = outcome
        due = [
            a
            for a in attempts
            if not outcomes[a].is_expected and (a.is_awaited or number < MORE_ROUNDS)
        ]
        if asyncio.get_running_loop().time() > deadline:
            break
    return [outcomes[attempt] for attempt in attempts]


async def agent_image(name: str, client: Client) -> str:
    """Read the image of the first container of the agent's Deployment.

    Raises `InputError` if there is no Deployment.
    """
    path = f"/apis/apps/v1/namespaces/{SYSTEM_NAMESPACE}/deployments/{AGENT}"
    found = await VerifiedCluster(name, client, SYSTEM_NAMESPACE, "").get(path)
    if found is None:
        raise InputError(
            f"{name} has no Deployment {SYSTEM_NAMESPACE}/{AGENT} to take the image from; name "
            "the image of Hanse with --image"
        )
    return str(found["spec"]["template"]["spec"]["containers"][0]["image"])


async def require_containers(name: str, client: Client) -> None:
    """Raise `InputError` if all nodes are simulated, by annotation, or there are none.

    Also discovers the kinds that the API server serves, and keeps them in the client.
    """
    await refresh(client)
    listed = await VerifiedCluster(name, client, "", "").get("/api/v1/nodes")
    nodes = (listed or {}).get("items") or ()
    if all(SIMULATED & (n["metadata"].get("annotations") or {}).keys() for n in nodes):
        raise InputError(
            f"no node of {name} runs containers; choose others with --clusters, or start "
            "`hanse up --engine kubernetes --nodes containers`"
        )


async def _remove(clusters: Sequence[VerifiedCluster], say: Callable[[str], None]) -> None:
    """Delete the namespaces of all clusters, and wait until they are gone.

    Raises `CommandFailed` that names those that stay, also if their cluster does not answer.
    """
    say("removing what was created")
    ended = await asyncio.gather(*(c.remove() for c in clusters), return_exceptions=True)
    left = [c.name for c, gone in zip(clusters, ended, strict=True) if gone is not True]
    if left:
        remove = "; ".join(
            f"kubectl --context {c.name} delete namespace {c.namespace}"
            for c in clusters
            if c.name in left
        )
        raise CommandFailed(f"the namespace in {', '.join(left)} has not ended yet: {remove}")
