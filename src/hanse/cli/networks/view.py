"""Tenant networks and their reachability, read from one cluster."""

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct

from hanse.cli.clusters import ClusterAccess, connect
from hanse.cli.errors import CommandFailed
from hanse.cli.inventory import read_clock
from hanse.features.networks.admin_reachability import unevaluated_ports
from hanse.features.networks.antrea_reachability import AntreaPolicy, antrea_rules, unevaluated
from hanse.features.networks.guarded_nodes import unguarded_nodes
from hanse.features.networks.names import DNS, NETWORK, TENANT, is_managed, parse_network_name
from hanse.features.networks.reachability import ReachabilityMatrix, reachability_matrix
from hanse.kube.client import Client
from hanse.kube.errors import NotFound
from hanse.kube.optional_reads import list_or_empty
from hanse.model.kinds.antrea import AntreaClusterNetworkPolicy, AntreaNetworkPolicy, Tier
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace, Node, Pod, Service
from hanse.model.kinds.networking import NetworkPolicy
from hanse.model.kinds.networks import Network, NetworkPeering
from hanse.model.kinds.policynetworking import ClusterNetworkPolicy
from hanse.model.naming import GUARDS_NAMESPACE
from hanse.model.objects import Object


class ReachabilityView(Struct, frozen=True):
    """The reachability matrix, and the pairs in it that are not peered."""

    matrix: ReachabilityMatrix
    leaks: tuple[tuple[str, str], ...]
    """What policies allow between networks that are not peered."""
    guards: "GuardedNodes"
    peered: frozenset[tuple[str, str]] = frozenset()
    unevaluated: tuple[str, ...] = ()
    """What of policies is not evaluated."""


class GuardedNodes(Struct, frozen=True):
    """How many nodes should have a guard, and how many have one that is ready."""

    wanted: int = 0
    ready: int = 0

    @property
    def complete(self) -> bool:
        """Whether all nodes that should have a guard have a ready one; False if none should."""
        return 0 < self.wanted <= self.ready


class NetworkSummary(Struct, frozen=True):
    """One row of `hanse networks list`."""

    name: str
    type: str
    phase: str
    dns: str
    pods: int
    services: int
    message: str


async def read_networks(cluster: ClusterAccess) -> list[NetworkSummary]:
    """Read a cluster's Networks with the number of their pods and Services, sorted by name.

    Those of networks' own DNS, and objects that Hanse manages, are not counted; a Network without a
    phase is New. Empty without Networks; raises `CommandFailed` if the kind is not served.
    """
    async with connect(cluster) as client:
        networks = await _list_networks(client, cluster.name)
        pods = Counter(_networks_of((await client.list(Pod, labels=NETWORK)).objects))
        services = Counter(_networks_of((await client.list(Service, labels=NETWORK)).objects))
    return [
        NetworkSummary(
            n.metadata.name,
            n.spec.type,
            n.status.phase or "New",
            n.status.dns_service_ip,
            pods[n.metadata.name],
            services[n.metadata.name],
            n.status.message,
        )
        for n in sorted(networks, key=lambda n: n.metadata.name)
    ]


async def _list_networks(client: Client, cluster: str) -> tuple[Network, ...]:
    """The networks of a cluster; raises `CommandFailed` if it does not have the kind."""
    try:
        return tuple((await client.list(Network)).objects)
    except NotFound:
        raise CommandFailed(f"{cluster} has no tenant networks; see `hanse crds`") from None


def _networks_of(members: Iterable[Object]) -> Iterator[str]:
    """TENANT.NETWORK of each object, by its labels.

    Objects of the network's own DNS, and those that the networks feature owns, are left out.
    """
    for one in members:
        labels = one.metadata.labels
        if DNS not in labels and not is_managed(labels):
            yield f"{labels.get(TENANT, '')}.{labels[NETWORK]}"


async def read_reachability(cluster: ClusterAccess) -> ReachabilityView:
    """Read pods, peerings and policies from a cluster, and compute which networks reach which.

    Leaks are pairs that policies allow and that no NetworkPeering with the phase Ready joins, in
    either direction. Raises `CommandFailed` if the kind Network is not served.
    """
    async with connect(cluster) as client:
        networks = await _list_networks(client, cluster.name)
        spaces = (await client.list(Namespace)).objects
        pods = (await client.list(Pod)).objects
        policies = (await client.list(NetworkPolicy)).objects
        peerings = (await client.list(NetworkPeering)).objects
        guards = await _read_guards(client)
        admin = await list_or_empty(client, ClusterNetworkPolicy)
        antrea: list[AntreaPolicy] = [
            *await list_or_empty(client, AntreaNetworkPolicy),
            *await list_or_empty(client, AntreaClusterNetworkPolicy),
        ]
        tiers = await list_or_empty(client, Tier) if antrea else ()
    names = [parse_network_name(n.metadata.name) for n in networks]
    rules = antrea_rules(antrea, tiers)
    whole = reachability_matrix(spaces, pods, policies, names, admin, rules)
    tenants = {s.metadata.name: s.metadata.labels.get(TENANT, "") for s in spaces}
    agreed = {
        (f"{tenants.get(p.metadata.namespace)}.{p.spec.network}", p.spec.peer)
        for p in peerings
        if p.status.phase == "Ready"
    }
    both = agreed | {(other, one) for one, other in agreed}
    leaks = tuple(pair for pair in whole.leaks() if pair not in both)
    untried = (*unevaluated_ports(admin), *unevaluated(antrea))
    return ReachabilityView(whole, leaks, guards, frozenset(both), untried)


async def _read_guards(client: Client) -> GuardedNodes:
    """How many nodes the cluster has, and how many of them have a guard, by the guards' Leases.

    Both are 0 if there is no such Lease at all.
    """
    leases = await list_or_empty(client, Lease, GUARDS_NAMESPACE)
    if not leases:
        return GuardedNodes()
    nodes = await list_or_empty(client, Node)
    missing = unguarded_nodes(nodes, leases, await read_clock(client))
    return GuardedNodes(len(nodes), len(nodes) - len(missing))
