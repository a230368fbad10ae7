"""The accounts of agents: the rights that `hanse join` would write for them, and their tokens."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta

from msgspec import Struct

from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint
from hanse.kube.errors import KubeError
from hanse.kube.token_requests import issued_token, token_request
from hanse.kube.transport import Transport
from hanse.local.kubeconfig import Context
from hanse.local.up.bootstrap import ForEachCluster, check, cluster_uid, create_or_patch
from hanse.local.up.topology import BROKER, LocalMember
from hanse.model.broker_namespace import accounts_namespace
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.manifests import Manifest
from hanse.model.naming import AGENT, BROKER_NAMESPACE, SYSTEM_NAMESPACE
from hanse.model.rbac import RbacRule

TOKEN_LIFETIME = timedelta(days=30)
"""Every start requests new tokens."""

GSLB_LEADER = "gslb-leader"
"""The ServiceAccount that the GSLB leader uses in the other clusters."""


class AgentAccess(Struct, frozen=True):
    """The generated rights of agents, as manifests."""

    broker: tuple[Manifest, ...]
    """What makes the broker one: roles and admission policies."""
    member: Callable[[str, str], Sequence[Manifest]]
    """On the broker, for a cluster and its uid: account, rights and Lease."""
    agent: Callable[[str], Sequence[Manifest]]
    """In a cluster: account and rights of its own agent."""
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


async def create_accounts(
    access: AgentAccess,
    members: Iterable[LocalMember],
    endpoints: Mapping[str, ServerEndpoint],
    for_each_cluster: ForEachCluster,
) -> AgentCredentials:
    """Create the accounts of all agents with their rights, and request their tokens."""
    names = [member.name for member in members if member.runs_workloads]
    uids: dict[str, str] = {}
    tokens: dict[tuple[str, str], str] = {}
    leaders: dict[str, str] = {}

    async def in_members(member: LocalMember, transport: Transport) -> None:
        """In a member: the accounts of its agent and of the GSLB leader."""
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
        """On the broker: the accounts of all members."""
        if not member.runs_workloads:
            await asyncio.gather(*(join(transport, name) for name in names))

    async def join(transport: Transport, name: str) -> None:
        await create_or_patch(transport, access.member(name, uids[name]))
        accounts = accounts_namespace(BROKER_NAMESPACE)
        tokens[name, BROKER] = await request_token(transport, accounts, name)

    def credentials(cluster: str, token: str) -> ClientConfig:
        return ClientConfig(endpoints[cluster], Identity(token=token))

    await for_each_cluster(in_members)
    await for_each_cluster(on_broker)
    return AgentCredentials(
        {name: credentials(name, tokens[name, name]) for name in names},
        {name: credentials(BROKER, tokens[name, BROKER]) for name in names},
        [Context(name, credentials(name, leaders[name]), GSLB_LEADER) for name in names],
    )


async def request_token(transport: Transport, namespace: str, account: str) -> str:
    """A new token of a ServiceAccount; raises unless one is issued."""
    request = token_request(namespace, account, int(TOKEN_LIFETIME.total_seconds()))
    if not (token := issued_token(check(await transport.send(request)))):
        raise KubeError(f"no token was issued for {namespace}/{account}")
    return token
