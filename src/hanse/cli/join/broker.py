"""The workflows of forming a fleet: a broker is set up, and clusters join it."""

from datetime import UTC, datetime, timedelta

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hanse import app
from hanse.cli.apply import apply, apply_definitions, report_applied
from hanse.cli.clusters import ClusterAccess
from hanse.cli.errors import CommandFailed, InputError
from hanse.cli.inventory import credentials_expiry
from hanse.cli.join.claims import check_cluster_id, read_claims
from hanse.cli.reaching import reached
from hanse.features.services import manifests
from hanse.features.services.broker_policies import CLUSTER_UID
from hanse.features.services.feature import BROKER_NAMESPACE
from hanse.features.services.manifests import BrokerCredentials
from hanse.features.statefulsets.admission_policies import annotation_policy, name_policy
from hanse.kube import credentials
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint, StaticCredentials
from hanse.kube.errors import BadCredentials, KubeError, NotFound
from hanse.kube.http_transport import HttpTransport
from hanse.kube.requests import resource_path
from hanse.kube.transport import Request
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace, Node, Secret
from hanse.model.kinds.hanse import ClusterSet, Profile
from hanse.model.manifests import SERVICE_ACCOUNT, Manifest, crd_manifests
from hanse.model.naming import SYSTEM_NAMESPACE


class BrokerJoin(Struct, frozen=True):
    """Who joins whom, and on what terms."""

    cluster: str
    member: ClusterAccess
    broker: ClusterAccess
    home: str
    server: str
    lifetime: timedelta


async def init_broker(
    way: ClusterAccess, home: str, profile: Profile | None, *, dry_run: bool
) -> None:
    """Make an API server a broker, and tell what was done."""
    async with reached(way) as client:
        known = await _cluster_sets(client)
        for one in known:
            if profile is not None and one.spec.profile != profile:
                raise InputError(
                    f"ClusterSet {one.name} on {way.name} follows {one.spec.profile}; to change "
                    f"the rules of the fleet: kubectl --context {way.name} patch clusterset "
                    f'{one.name} --type merge -p \'{{"spec":{{"profile":"{profile}"}}}}\''
                )
        rules = () if known else (manifests.cluster_set(profile or "lighthouse"),)
        done = await apply_definitions(client, crd_manifests(), dry_run=dry_run)
        made = manifests.broker(app.watches(app.Options(broker_namespace=home)), home)
        door = await _statefulset_policies(client, home)
        done += await apply(client, (*made, *door, *rules), dry_run=dry_run)
    report_applied(way.name, done, dry_run=dry_run)
    if not dry_run:
        click.echo(f"{way.name} is a broker; let clusters join it:")
        click.echo(f"  hanse join --broker {way.name} --cluster-id ID --context CLUSTER")


async def _statefulset_policies(client: Client, home: str) -> tuple[Manifest, ...]:
    """What is refused of StatefulSets; where nodes are, names are the cluster's own affair."""
    nodes = (await client.list(Node)).objects
    return (*annotation_policy(home), *(() if nodes else name_policy(home)))


async def join(request: BrokerJoin, *, dry_run: bool) -> None:
    """Let a cluster join, and tell what was done and how its agent is started."""
    async with reached(request.member) as member, reached(request.broker) as broker:
        await _check_member(member, request)
        uid = (await member.read(Namespace, "kube-system")).metadata.uid
        new = await _is_new(broker, request, uid)
        watches = app.watches(app.Options(broker_namespace=request.home))
        made = manifests.member(watches, request.home, request.cluster, uid, new=new)
        on_broker = await apply(broker, made, dry_run=dry_run)
        agent_manifests = await apply_definitions(member, crd_manifests(), dry_run=dry_run)
        agent_manifests += await apply(
            member, manifests.agent_manifests(watches, request.cluster), dry_run=dry_run
        )
        secret = await _secret(member, broker, request, dry_run=dry_run)
        agent_manifests += await apply(member, secret, dry_run=dry_run)
    report_applied(request.broker.name, on_broker, dry_run=dry_run)
    report_applied(request.member.name, agent_manifests, dry_run=dry_run)
    if not dry_run:
        click.echo(_what_next(request))


async def _cluster_sets(client: Client) -> tuple[ClusterSet, ...]:
    try:
        return (await client.list(ClusterSet)).objects
    except NotFound:
        return ()  # the kind itself is not there


async def _check_member(member: Client, request: BrokerJoin) -> None:
    """Refuse a cluster that goes by another id: two ids for one cluster never end well."""
    check_cluster_id(await read_claims(member), request.member.name, request.cluster)
    try:
        secret = await member.read(Secret, manifests.BROKER_SECRET, SYSTEM_NAMESPACE)
    except NotFound:
        return
    known = secret.metadata.annotations.get(manifests.CLUSTER_ID, request.cluster)
    if known != request.cluster:
        raise InputError(
            f"{request.member.name} has joined as {known!r}; keep that --cluster-id, or undo the "
            f"first join: kubectl --context {request.member.name} -n {SYSTEM_NAMESPACE} "
            f"delete secret {manifests.BROKER_SECRET}"
        )


async def _is_new(broker: Client, request: BrokerJoin, uid: str) -> bool:
    """Whether the id is free; refuses a server that is no broker, and an id of another cluster."""
    name = request.broker.name
    try:
        await broker.read(Namespace, request.home)
    except NotFound:
        raise InputError(
            f"{name} has no namespace {request.home}; run `hanse broker init --context {name}` first"
        ) from None
    if not await _cluster_sets(broker):
        raise InputError(
            f"{name} has no ClusterSet; run `hanse broker init --context {name}` first"
        )
    try:
        lease = await broker.read(Lease, request.cluster, request.home)
    except NotFound:
        return True
    holder = lease.metadata.annotations.get(CLUSTER_UID, uid)
    if holder != uid:
        raise InputError(
            f"cluster id {request.cluster!r} is that of another cluster (kube-system uid {holder}); "
            f"choose another --cluster-id, or if that cluster is gone: kubectl --context {name} "
            f"-n {request.home} delete lease {request.cluster}"
        )
    return False


async def _secret(
    member: Client, broker: Client, request: BrokerJoin, *, dry_run: bool
) -> tuple[Manifest, ...]:
    """The Secret to write: none where the one that stands will do for long enough."""
    endpoint = (await request.broker.credentials.config()).endpoint
    endpoint = replace(endpoint, url=request.server or endpoint.url, proxy="")
    if await _still_good(member, endpoint, request):
        return ()
    token = "" if dry_run else await _token(broker, request)
    way = BrokerCredentials(
        endpoint.url, token, endpoint.ca, endpoint.server_name, insecure=endpoint.insecure
    )
    return (manifests.broker_secret(request.cluster, request.home, way),)


async def _still_good(member: Client, endpoint: ServerEndpoint, request: BrokerJoin) -> bool:
    """Whether the agent's way leads to this broker, and its token holds for half its life yet."""
    try:
        secret = await member.read(Secret, manifests.BROKER_SECRET, SYSTEM_NAMESPACE)
        text = secret.data.get(manifests.KUBECONFIG, b"")
        access = await credentials.from_secret(text, origin=manifests.BROKER_SECRET).config()
    except (NotFound, BadCredentials):
        return False
    if access.endpoint != endpoint or access.namespace != request.home:
        return False
    expires = credentials_expiry(access.identity)
    if expires is not None and expires - datetime.now(UTC) < request.lifetime / 2:
        return False
    return await _admits(request, access.identity)


async def _admits(request: BrokerJoin, identity: Identity) -> bool:
    """Whether the broker still knows a token; asked by our own way, as the agent's may differ."""
    endpoint = (await request.broker.credentials.config()).endpoint
    client = Client(HttpTransport(StaticCredentials(ClientConfig(endpoint, identity))))
    try:
        await client.read(Lease, request.cluster, request.home)
    except KubeError:
        return False
    finally:
        await client.close()
    return True


async def _token(broker: Client, request: BrokerJoin) -> str:
    path = resource_path(SERVICE_ACCOUNT, request.home, request.cluster, "token")
    wanted = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": int(request.lifetime.total_seconds())},
    }
    answer = await broker.send(Request("POST", path, body=msgspec.json.encode(wanted)))
    told = msgspec.json.decode(answer.body)["status"]
    if not told.get("token"):
        raise CommandFailed(f"{request.broker.name} issued no token for {request.cluster}")
    return str(told["token"])


def _what_next(request: BrokerJoin) -> str:
    name, file = request.member.name, f"{request.cluster}-broker.kubeconfig"
    system, secret = SYSTEM_NAMESPACE, manifests.BROKER_SECRET
    space = f" --broker-namespace {request.home}" if request.home != BROKER_NAMESPACE else ""
    return (
        f"{name} has joined {request.broker.name} as {request.cluster}; start its agent:\n"
        f"  kubectl --context {name} -n {system} get secret {secret} "
        f"-o jsonpath='{{.data.{manifests.KUBECONFIG}}}' | base64 -d > {file}\n"
        f"  hanse agent --cluster-id {request.cluster} --context {name} "
        f"--broker-kubeconfig {file}{space}"
    )
