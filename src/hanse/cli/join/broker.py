"""Set up a broker, and join clusters to it."""

import asyncio
from datetime import UTC, datetime, timedelta

import click
from msgspec import Struct
from msgspec.structs import replace

from hanse import app
from hanse.cli.agent.running import check_running_agent
from hanse.cli.apply import apply, apply_definitions, deleted, remove, report_applied
from hanse.cli.clusters import ClusterAccess, connect, open_client
from hanse.cli.errors import CommandFailed, InputError
from hanse.cli.feature_options import features_argument
from hanse.cli.inventory import credentials_expiry
from hanse.cli.join.agent import apply_agent
from hanse.cli.join.claims import check_cluster_id, read_claims
from hanse.cli.join.guard import await_policies_in_force, members_attack
from hanse.cli.join.move import begin_move, connect_brokers, set_moving
from hanse.cli.join.replace import replace_member
from hanse.cli.join.restore import restore_members
from hanse.cli.join.rotation import finish_rotation
from hanse.cli.member_records import MemberPlace, find_record, recorded_rules, set_phase
from hanse.features.services import manifests
from hanse.features.services.manifests import BrokerCredentials
from hanse.features.statefulsets.admission_policies import set_policies
from hanse.kube import credentials
from hanse.kube.bound_tokens import issue_token
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint, StaticCredentials
from hanse.kube.errors import BadCredentials, KubeError, NotFound
from hanse.kube.optional_reads import list_or_empty, read_or_none
from hanse.model.broker_namespace import accounts_namespace
from hanse.model.clusterset import CLUSTER_UID
from hanse.model.feature_names import FEATURES
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace, Node, Secret
from hanse.model.kinds.hanse import ClusterMember, ClusterSet, Profile
from hanse.model.manifests import BINDINGS, Manifest, crd_manifests, create_only
from hanse.model.naming import BROKER_NAMESPACE, BROKER_SECRET, IDENTITY_NAMESPACE, SYSTEM_NAMESPACE
from hanse.model.objects import Meta
from hanse.model.remedies import broker_namespace_option
from hanse.model.tokens import TokenAccount

TERMINATION_TIMEOUT = timedelta(seconds=60)
"""How long a namespace that is being deleted may take to go."""


class BrokerJoin(Struct, frozen=True):
    """A cluster that joins a broker, and how its agent reaches it."""

    cluster: str
    member: ClusterAccess
    broker: ClusterAccess
    namespace: str
    server: str
    lifetime: timedelta
    features: tuple[str, ...] = FEATURES
    replace: bool = False
    """Whether it takes the id of another cluster, which is gone."""
    former: str = ""
    """The broker that its fleet moves from."""
    rotate: bool = False
    """Whether it gets a new token in any case, and its earlier ones are revoked."""

    @property
    def account(self) -> TokenAccount:
        """Its account on the broker."""
        return manifests.member_account(self.broker.name, self.namespace, self.cluster)


async def init_broker(
    cluster: ClusterAccess, namespace: str, profile: Profile | None, *, dry_run: bool
) -> None:
    """Apply CRDs, namespaces, rights, policies and, if there is none, a ClusterSet; print it.

    Also restores members whose records are lost. Raises `InputError` if `profile` is given and a
    ClusterSet has another, `CommandFailed` if a namespace is being deleted and does not go, or
    members' kept rules differ. A dry run only reads.
    """
    async with connect(cluster) as client:
        known = await list_or_empty(client, ClusterSet)
        for one in known:
            if profile is not None and one.spec.profile != profile:
                raise InputError(
                    f"ClusterSet {one.name} on {cluster.name} follows {one.spec.profile}; to "
                    f"change the rules of the fleet: kubectl --context {cluster.name} patch "
                    f"clusterset {one.name} --type merge "
                    f'-p \'{{"spec":{{"profile":"{profile}"}}}}\''
                )
        rules = () if known else (await _new_cluster_set(client, namespace, profile),)
        if not dry_run:
            await _wait_for_namespaces(client, cluster.name, namespace)
        done = await apply_definitions(client, crd_manifests(), dry_run=dry_run)
        access = app.broker_access(app.Options(broker_namespace=namespace))
        objects = manifests.broker(access, namespace)
        policies = await _statefulset_policies(client, namespace)
        done += await apply(client, (*objects, *policies, *rules), dry_run=dry_run)
        done += await restore_members(client, namespace, dry_run=dry_run)
    report_applied(cluster.name, done, dry_run=dry_run)
    if not dry_run:
        click.echo(f"{cluster.name} is a broker; let clusters join it:")
        click.echo(f"  hanse join --broker {cluster.name} --cluster-id ID --context CLUSTER")


async def _new_cluster_set(client: Client, namespace: str, profile: Profile | None) -> Manifest:
    """The manifest of a ClusterSet with the rules that members' records have kept.

    With default rules of `profile`, or of lighthouse, if none are kept, or those kept are of
    another profile than the one given. Nothing is written. Raises `CommandFailed` if no majority of
    records has the same rules.
    """
    kept = await recorded_rules(client, namespace)
    if kept is None or (profile is not None and kept.profile != profile):
        return manifests.cluster_set(profile or "lighthouse")
    return create_only(ClusterSet(metadata=Meta(name="default"), spec=kept))


async def _wait_for_namespaces(client: Client, context: str, namespace: str) -> None:
    """Wait until neither the broker's namespace nor that of accounts is being deleted.

    Raises `CommandFailed` if one is so for longer than `TERMINATION_TIMEOUT`; one that does not
    exist is fine.
    """
    for name in (namespace, accounts_namespace(namespace)):
        try:
            async with asyncio.timeout(TERMINATION_TIMEOUT.total_seconds()):
                while await _is_terminating(client, name):  # noqa: ASYNC110 - polls a server
                    await asyncio.sleep(1)
        except TimeoutError:
            raise CommandFailed(
                f"{context}: namespace {name} is being deleted and does not go; "
                f"kubectl --context {context} get namespace {name} -o yaml says what holds it"
            ) from None


async def _is_terminating(client: Client, name: str) -> bool:
    """Whether a namespace is being deleted; False if it does not exist."""
    found = await read_or_none(client, Namespace, name)
    return found is not None and found.terminating


async def _statefulset_policies(client: Client, namespace: str) -> tuple[Manifest, ...]:
    """The manifests of a broker's admission policies for StatefulSets; reads its Nodes.

    Those about names and autoscalers are left out if it has Nodes, and so may run StatefulSets of
    its own.
    """
    nodes = (await client.list(Node)).objects
    return set_policies(namespace, runs_sets=bool(nodes))


async def join_broker(request: BrokerJoin, *, dry_run: bool) -> None:
    """Join a cluster to a broker: check, write on both, and print what was done and the next steps.

    On the broker account, rights, Lease and record; in the cluster what the agent needs, and a
    Secret with a token unless its present one still holds. Rights of features that are off are
    deleted. With `request.replace` what the former cluster of that id had on the broker is deleted;
    with `request.rotate` earlier tokens are revoked once the new one is used.

    Raises `InputError` if the id is another cluster's, this cluster or its running agent has
    another id, or the broker is not set up. A dry run only reads.
    """
    async with connect(request.member) as member, connect(request.broker) as broker:
        await _check_member(member, request)
        uid = (await member.read(Namespace, IDENTITY_NAMESPACE)).metadata.uid
        await _check_broker(broker, request)
        former = await _former_cluster(broker, request, uid)
        await check_running_agent(member, request.member.name, request.cluster)
        if former:
            place = MemberPlace(request.broker.name, request.namespace, request.cluster)
            await replace_member(broker, place, former, uid, dry_run=dry_run)
        new = bool(former) or await _is_new(broker, request)
        options = app.Options(features=request.features, broker_namespace=request.namespace)
        access = app.broker_access(options)
        objects = manifests.member(access, request.namespace, request.cluster, uid, new=new)
        on_broker = await apply(broker, objects, dry_run=dry_run)
        if not dry_run:
            await _begin_phase(broker, request)
        every = app.broker_access(app.Options(broker_namespace=request.namespace))
        wanted = {(one.kind, one.namespace, one.name) for one in objects}
        revoked = [
            one
            for one in manifests.member(every, request.namespace, request.cluster, uid, new=new)
            if (one.kind, one.namespace, one.name) not in wanted and one.kind in BINDINGS
        ]
        on_broker += deleted(await remove(broker, revoked, dry_run=dry_run))
        on_member = await apply_agent(member, request.cluster, options, dry_run=dry_run)
        token, secret = await _issue_secret(member, broker, request, dry_run=dry_run)
        on_member += await apply(member, secret, dry_run=dry_run)
        report_applied(request.broker.name, on_broker, dry_run=dry_run)
        report_applied(request.member.name, on_member, dry_run=dry_run)
        if request.rotate and not dry_run:
            await _finish_rotation(broker, request, token)
    if not dry_run and not request.rotate:
        click.echo(_next_steps(request))


async def _finish_rotation(broker: Client, request: BrokerJoin, token: str) -> None:
    """Wait until the cluster's agent uses its new token, and revoke the earlier ones.

    Says so on stderr. Raises `CommandFailed` if the agent does not use it in time.
    """

    async def used() -> str:
        """The digest of the token that the agent uses, from the status of the member's record."""
        record = await broker.read(ClusterMember, request.cluster, request.namespace)
        return record.status.agent.token_digest

    click.echo(f"waiting until the agent of {request.cluster} uses its new token", err=True)
    name = request.broker.name
    await finish_rotation(broker, request.account, token, used, request.cluster, name)


async def enter_broker(request: BrokerJoin, former: ClusterAccess | None, *, dry_run: bool) -> None:
    """Join a cluster to a broker; with `former`, first mark that broker's members as moving.

    A dry run only reads and prints. Raises `InputError` if the request does not fit the broker.
    """
    if former is None:
        await join_broker(request, dry_run=dry_run)
        return
    async with connect_brokers(former, request.broker, request.namespace) as brokers:
        await _check_broker(brokers.new.client, request)
        await begin_move(brokers, dry_run=dry_run)
    await join_broker(replace(request, former=former.name), dry_run=dry_run)
    if not dry_run:
        click.echo(
            "once the agents of all clusters run with it: "
            f"hanse broker retire --context {former.name} --successor {request.broker.name}"
        )


async def _check_member(member: Client, request: BrokerJoin) -> None:
    """Raise `InputError` if the cluster has another id in its ClusterClaim or broker Secret."""
    check_cluster_id(await read_claims(member), request.member.name, request.cluster)
    secret = await read_or_none(member, Secret, BROKER_SECRET, SYSTEM_NAMESPACE)
    annotations = secret.metadata.annotations if secret is not None else {}
    known = annotations.get(manifests.CLUSTER_ID, request.cluster)
    if known != request.cluster:
        raise InputError(
            f"{request.member.name} has joined as {known!r}; keep that --cluster-id, or undo the "
            f"first join: kubectl --context {request.member.name} -n {SYSTEM_NAMESPACE} "
            f"delete secret {BROKER_SECRET}"
        )


async def _check_broker(broker: Client, request: BrokerJoin) -> None:
    """Raise `InputError` if a namespace, a ClusterSet or the kind ClusterMember is missing.

    Namespaces are that where clusters share, and that of accounts, which only a broker has.
    """
    name = request.broker.name
    for needed in (request.namespace, accounts_namespace(request.namespace)):
        if await read_or_none(broker, Namespace, needed) is None:
            place = f" --namespace {request.namespace}" * (request.namespace != BROKER_NAMESPACE)
            raise InputError(
                f"{name} has no namespace {needed}; "
                f"run `hanse broker init --context {name}{place}` first"
            )
    if not await list_or_empty(broker, ClusterSet):
        raise InputError(
            f"{name} has no ClusterSet; run `hanse broker init --context {name}` first"
        )
    try:
        await broker.list(ClusterMember, namespace=request.namespace)
    except NotFound:
        raise InputError(
            f"{name} does not serve ClusterMembers yet; "
            f"bring it up to date: `hanse broker init --context {name}`"
        ) from None


async def _check_other_ids(broker: Client, request: BrokerJoin, uid: str) -> None:
    """Raise `InputError` if the cluster, by its uid, is a member under another id.

    A record that has left does not count.
    """
    for record in await list_or_empty(broker, ClusterMember, request.namespace):
        if record.spec.uid == uid and record.name != request.cluster and not record.has_left:
            raise InputError(
                f"{request.member.name} has joined {request.broker.name} as {record.name!r}; keep "
                f"that --cluster-id, or let it leave first: hanse leave --broker "
                f"{request.broker.name} --cluster-id {record.name} --context {request.member.name}"
            )


async def _former_cluster(broker: Client, request: BrokerJoin, uid: str) -> str:
    """The uid of another cluster that has the id on the broker; "" if it is free or this one's own.

    It is known by its ClusterMember, else by its Lease. Raises `InputError` if another cluster has
    the id, unless `request.replace` is set or its record says that it has left; also if this
    cluster is a member under another id.
    """
    place = MemberPlace(request.broker.name, request.namespace, request.cluster)
    record = await find_record(broker, place)
    lease = await read_or_none(broker, Lease, request.cluster, request.namespace)
    annotated = lease.metadata.annotations.get(CLUSTER_UID, uid) if lease is not None else uid
    holder = record.spec.uid if record is not None else annotated
    if holder != uid and not (request.replace or (record is not None and record.has_left)):
        raise InputError(
            f"cluster id {request.cluster!r} is that of another cluster (kube-system uid "
            f"{holder}); choose another --cluster-id, or add --replace if that cluster is gone, or "
            "is this one built anew"
        )
    await _check_other_ids(broker, request, uid)
    return holder if holder != uid else ""


async def _is_new(broker: Client, request: BrokerJoin) -> bool:
    """Whether the broker has no Lease of the cluster's id yet."""
    return await read_or_none(broker, Lease, request.cluster, request.namespace) is None


async def _begin_phase(broker: Client, request: BrokerJoin) -> None:
    """Set the record of a new or former member to the phase Joining; others keep their phase.

    One that had left gets the next epoch. With `request.former`, `status.moving` is set, too.
    """
    record = await broker.read(ClusterMember, request.cluster, request.namespace)
    if record.has_left or record.status.since is None:
        again = record.status.epoch + 1 if record.has_left else record.status.epoch
        await set_phase(broker, record, "Joining", epoch=again)
    if request.former and not record.status.moving:
        await set_moving(broker, record, moving=True)


async def _issue_secret(
    member: Client, broker: Client, request: BrokerJoin, *, dry_run: bool
) -> tuple[str, tuple[Manifest, ...]]:
    """A new token and the Secret for the cluster; ("", ()) if the Secret that it has still holds.

    Requests the token of the broker, and waits until admission policies are in force for it; a dry
    run does neither, and the token is "". The Secret has the URL of `request.server`, else that of
    the context. Raises `CommandFailed` if policies are not in force in time.
    """
    endpoint = (await request.broker.credentials.config()).endpoint
    endpoint = replace(endpoint, url=request.server or endpoint.url, proxy="")
    if not request.rotate and await _is_reusable(member, endpoint, request):
        return "", ()
    token = ""
    if not dry_run:
        token = await issue_token(
            broker, request.account, request.lifetime, separate=request.rotate
        )
        attack = members_attack(request.namespace)
        await await_policies_in_force(request.broker, token, attack)
    connection = BrokerCredentials(
        endpoint.url, token, endpoint.ca, endpoint.server_name, insecure=endpoint.insecure
    )
    uid = (await broker.read(Namespace, IDENTITY_NAMESPACE)).metadata.uid
    secret = manifests.broker_secret(request.cluster, request.namespace, connection, uid)
    return token, (secret,)


async def _is_reusable(member: Client, endpoint: ServerEndpoint, request: BrokerJoin) -> bool:
    """Whether the cluster's broker Secret has this endpoint and namespace, and a valid token.

    The broker must accept the token and, if it expires, half of the requested lifetime must be
    left. False without a usable Secret.
    """
    try:
        secret = await member.read(Secret, BROKER_SECRET, SYSTEM_NAMESPACE)
        text = secret.data.get(manifests.KUBECONFIG, b"")
        access = await credentials.from_secret(text, origin=BROKER_SECRET).config()
    except (NotFound, BadCredentials):
        return False
    if access.endpoint != endpoint or access.namespace != request.namespace:
        return False
    expires = credentials_expiry(access.identity)
    if expires is not None and expires - datetime.now(UTC) < request.lifetime / 2:
        return False
    return await _is_accepted(request, access.identity)


async def _is_accepted(request: BrokerJoin, identity: Identity) -> bool:
    """Whether the broker lets this token read the member's Lease, over the user's own endpoint.

    False after any `KubeError`, also if it does not answer or there is no Lease.
    """
    endpoint = (await request.broker.credentials.config()).endpoint
    async with open_client(StaticCredentials(ClientConfig(endpoint, identity))) as client:
        try:
            await client.read(Lease, request.cluster, request.namespace)
        except KubeError:
            return False
    return True


def _next_steps(request: BrokerJoin) -> str:
    """The text on how to start the agent: commands that save its kubeconfig and run it."""
    name, file = request.member.name, f"{request.cluster}-broker.kubeconfig"
    space = broker_namespace_option(request.namespace)
    return (
        f"{name} has joined {request.broker.name} as {request.cluster}; start its agent, unless it "
        "runs:\n"
        f"  (umask 077; kubectl --context {name} -n {SYSTEM_NAMESPACE} get secret {BROKER_SECRET} "
        f"-o jsonpath='{{.data.{manifests.KUBECONFIG}}}' | base64 -d > {file})\n"
        f"  hanse agent --cluster-id {request.cluster} --context {name} "
        f"--broker-kubeconfig {file}{space}{features_argument(request.features)}"
    )
