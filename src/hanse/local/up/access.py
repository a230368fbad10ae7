"""The accounts of agents: the rights that `hanse join` would write for them, and their tokens."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.services.manifests import member_account
from hanse.kube.bound_tokens import issue_token
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint
from hanse.kube.errors import KubeError, NotFound
from hanse.kube.token_requests import issued_token, token_request
from hanse.kube.transport import Transport
from hanse.local.kubeconfig import Context
from hanse.local.up.bootstrap import (
    ForEachCluster,
    base_objects,
    cluster_uid,
    create_objects,
    create_or_patch,
    raise_for_status,
)
from hanse.local.up.topology import BROKER, LocalMember
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.manifests import Manifest
from hanse.model.naming import AGENT, BROKER_NAMESPACE, SYSTEM_NAMESPACE
from hanse.model.rbac import RbacRule
from hanse.model.tokens import TokenAccount

TOKEN_LIFETIME = timedelta(days=30)
"""Every start requests new tokens."""

RENEW_TIMEOUT = timedelta(seconds=5)
"""How long the start of an agent waits for a token of its cluster."""

GSLB_LEADER = "gslb-leader"
"""The ServiceAccount that the GSLB leader uses in the other clusters."""


class AgentAccess(Struct, frozen=True):
    """The generated rights of agents, as manifests."""

    broker: tuple[Manifest, ...]
    """What makes the broker one: roles and admission policies."""
    member: Callable[[str, str], Sequence[Manifest]]
    """On the broker, for a cluster and its uid: account, rights and Lease."""
    agent: Callable[[str], Sequence[Manifest]]
    """In a cluster: account and rights of its own agent, and the policies of its supervisors."""
    supervisor: Callable[[str, str], tuple[RbacRule, ...]]
    """In a cluster: the rules of one of its supervisors."""
    gslb_leader: Callable[[str], Sequence[Manifest]]
    """In a cluster: an account of that name for the GSLB leader."""


class AgentCredentials(Struct, frozen=True):
    """How each agent connects to its own cluster and to the broker, and the GSLB leader to all."""

    own: Mapping[str, ClientConfig]
    broker: Mapping[str, ClientConfig]
    gslb_leader: Sequence[Context]

    def of(self, member: LocalMember) -> dict[str, ClientConfig]:
        """The credentials of a member's agent by cluster: for its own, and for the broker."""
        return {member.name: self.own[member.name], BROKER: self.broker[member.name]}

    async def renewed(
        self, member: LocalMember, own: Transport, broker: Transport, access: AgentAccess
    ) -> dict[str, ClientConfig]:
        """As `of`, by cluster, with new tokens for its own and the broker; closes both transports.

        These are an administrator's. If the agent's account in its own cluster is gone, it is
        created again with its rights and the system namespaces. Where no token is issued within
        RENEW_TIMEOUT, as by a cluster that does not run, the known one stays.
        """

        async def own_token() -> str:
            """A new token of the agent's account in its own cluster; raises `KubeError`.

            If the account is gone it is created first, with its rights and the system namespaces.
            """
            try:
                return await request_token(own, SYSTEM_NAMESPACE, AGENT)
            except NotFound:
                await create_objects(own, base_objects(member))
                await create_or_patch(own, access.agent(member.name))
                return await request_token(own, SYSTEM_NAMESPACE, AGENT)

        account = member_account(BROKER, BROKER_NAMESPACE, member.name)
        requests = {member.name: own_token(), BROKER: bound_token(broker, account)}
        try:
            tokens = await asyncio.gather(*(_issued_in_time(one) for one in requests.values()))
        finally:
            await asyncio.gather(own.close(), broker.close())
        known = self.of(member)
        new = {name: token for name, token in zip(requests, tokens, strict=True) if token}
        renewed = {n: replace(known[n], identity=Identity(token=new[n])) for n in new}
        return {**known, **renewed}


async def _issued_in_time(token: Awaitable[str]) -> str:
    """Await a token; empty if that raises `KubeError`, or takes longer than RENEW_TIMEOUT."""
    try:
        async with asyncio.timeout(RENEW_TIMEOUT.total_seconds()):
            return await token
    except (KubeError, TimeoutError):
        return ""


async def create_accounts(
    access: AgentAccess,
    members: Iterable[LocalMember],
    endpoints: Mapping[str, ServerEndpoint],
    for_each_cluster: ForEachCluster,
) -> AgentCredentials:
    """Create the accounts of all agents with their rights, and return credentials with new tokens.

    In each member the accounts of its agent and of the GSLB leader, on the broker its roles and an
    account for each member; existing objects are patched. Raises `KubeError`.
    """
    names = [member.name for member in members if member.runs_workloads]
    uids: dict[str, str] = {}
    tokens: dict[tuple[str, str], str] = {}
    leaders: dict[str, str] = {}

    async def in_cluster(member: LocalMember, transport: Transport) -> None:
        """In a member: the accounts of its agent and of the GSLB leader; keeps new tokens.

        Also keeps its uid. In the broker: its roles and admission policies. Raises `KubeError`.
        """
        if not member.runs_workloads:
            await create_or_patch(transport, access.broker)
            return
        uids[member.name] = await cluster_uid(transport)
        manifests = (*access.agent(member.name), *access.gslb_leader(GSLB_LEADER))
        await create_or_patch(transport, manifests)
        own = await request_token(transport, SYSTEM_NAMESPACE, AGENT)
        tokens[member.name, member.name] = own
        leaders[member.name] = await request_token(transport, NAMESPACE, GSLB_LEADER)

    async def on_broker(member: LocalMember, transport: Transport) -> None:
        """On the broker, create the accounts of all members; nothing in a member."""
        if not member.runs_workloads:
            await asyncio.gather(*(join(transport, name) for name in names))

    async def join(transport: Transport, name: str) -> None:
        """Create the account, rights and Lease of a member on the broker, and keep a new token."""
        await create_or_patch(transport, access.member(name, uids[name]))
        account = member_account(BROKER, BROKER_NAMESPACE, name)
        tokens[name, BROKER] = await bound_token(transport, account)

    def credentials(cluster: str, token: str) -> ClientConfig:
        return ClientConfig(endpoints[cluster], Identity(token=token))

    await for_each_cluster(in_cluster)
    await for_each_cluster(on_broker)
    return AgentCredentials(
        {name: credentials(name, tokens[name, name]) for name in names},
        {name: credentials(BROKER, tokens[name, BROKER]) for name in names},
        [Context(name, credentials(name, leaders[name]), GSLB_LEADER) for name in names],
    )


async def bound_token(transport: Transport, account: TokenAccount) -> str:
    """Request a token of an account for another cluster, bound to a Secret of that account.

    It lasts TOKEN_LIFETIME, as far as the server allows. `hanse join` issues such tokens; raises
    `KubeError` if none is issued.
    """
    return await issue_token(Client(transport), account, TOKEN_LIFETIME, separate=False)


async def request_token(transport: Transport, namespace: str, account: str) -> str:
    """A new token of a ServiceAccount, for TOKEN_LIFETIME; raises `KubeError` if none is issued."""
    request = token_request(namespace, account, int(TOKEN_LIFETIME.total_seconds()))
    if not (token := issued_token(raise_for_status(await transport.send(request)))):
        raise KubeError(f"no token was issued for {namespace}/{account}")
    return token
