"""What isolates the networks of a tenant: its policies, where no guards do, and what is said of it.

Policies stay until every node has a guard, and are there before the rules of a guard go.
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_address, ip_network

from hanse.features.networks.guard.facts import (
    NOWHERE,
    concerns_rules,
    network_accesses,
    node_addresses,
    pod_addresses,
    pod_ranges,
)
from hanse.features.networks.guarded_nodes import (
    Isolation,
    concerns_guards,
    isolated_by,
    runs_on_never_ready_node,
)
from hanse.features.networks.isolation import (
    DENY,
    IsolationInputs,
    cluster_policy_names,
    isolation_policies,
    namespace_cluster_policy,
    namespace_policy_name,
    policy_name,
)
from hanse.features.networks.lookups import (
    GUARDS_MISSING,
    ISOLATED,
    PODS_BY_NETWORK,
    apiserver_endpoints,
    is_drained,
    is_in_tenant,
    namespace_tenant,
    tenant_namespaces,
    tenant_networks,
)
from hanse.features.networks.names import (
    NETWORK,
    TENANT,
    NetworkName,
    is_managed,
    parse_network_name,
)
from hanse.features.networks.options import NetworksOptions
from hanse.features.networks.peering import agreed_peers
from hanse.model.conditions import Condition, condition, find_condition
from hanse.model.facts import LeaseLiveness
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace, Node, Pod
from hanse.model.kinds.networking import NetworkPolicy
from hanse.model.kinds.networks import Network, NetworkAccess
from hanse.model.kinds.policynetworking import ClusterNetworkPolicy
from hanse.model.naming import GUARDS_NAMESPACE
from hanse.model.objects import ClusterObjectRef, object_ref
from hanse.model.plan import Desired, Key, Plan
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot


def plan_isolation(key: Key, snapshot: Snapshot, options: NetworksOptions) -> Plan:
    """The NetworkPolicies or ClusterNetworkPolicy of a tenant's namespace, whichever isolates.

    Empty where guards do, without tenant, and while terminating. All is kept while it is undecided
    what isolates, and NetworkPolicies until the tenant's ClusterNetworkPolicies are there.
    """
    tenant = namespace_tenant(key.name, snapshot)
    namespace = snapshot.get(snapshot.local, Namespace, key.name)
    if not tenant or namespace is None or namespace.terminating:
        return Plan()
    match isolated_by(snapshot, options):
        case Isolation.POLICIES:
            policies = isolation_policies(key.name, _inputs(tenant, snapshot, options))
            return Plan(tuple(Desired(policy, snapshot.local) for policy in policies))
        case Isolation.UNDECIDED:
            return Plan(keep_all=True)
        case Isolation.ADMIN_POLICIES:
            denied = Desired(namespace_cluster_policy(key.name, tenant), snapshot.local)
            return Plan((denied,), kept=tuple(_needed_policies(key.name, tenant, snapshot)))
        case Isolation.GUARDS:
            return Plan()


def _needed_policies(namespace: str, tenant: str, snapshot: Snapshot) -> Iterator[ClusterObjectRef]:
    """Our NetworkPolicies in a namespace, while a ClusterNetworkPolicy of its tenant is missing.

    None once all are there, those of drained networks aside.
    """
    networks = (n for n in tenant_networks(tenant, snapshot) if not is_drained(n))
    names = [parse_network_name(n.metadata.name) for n in networks]
    if _has_cluster_policies(tenant, names, snapshot):
        return
    for policy in snapshot.in_namespace(snapshot.local, NetworkPolicy, namespace):
        if is_managed(policy.metadata.labels):
            yield ClusterObjectRef(snapshot.local, object_ref(policy))


def isolated_condition(
    network: Network, snapshot: Snapshot, options: NetworksOptions
) -> tuple[Condition, ...]:
    """The condition Isolated, with what isolates the network; empty while that is undecided.

    False while its policies are missing, but a new network has no condition until they exist. Where
    not all nodes have the guard that the options want, it is True with reason GuardsMissing.
    """
    by = isolated_by(snapshot, options)
    if by is Isolation.UNDECIDED:
        return ()
    if by is not Isolation.GUARDS and not _is_isolated_by_policies(network, by, snapshot):
        if find_condition(network.status.conditions, ISOLATED) is None:
            return ()
        return (condition(ISOLATED, False, "Pending", f"its {by.value} are not written yet"),)
    if by is not Isolation.POLICIES or not options.guard:
        return (condition(ISOLATED, True, by.value),)
    message = (
        "not every node has a guard, so that NetworkPolicies isolate networks, and those of "
        "tenants do not narrow"
    )
    return (condition(ISOLATED, True, GUARDS_MISSING, message),)


def keys_for_isolation(
    change: Change, snapshot: Snapshot, options: NetworksOptions
) -> Iterator[Key]:
    """Keys of namespaces and networks for a change of what isolation depends on.

    That is: nodes and their guards (if the options want guards), nodes' addresses and ranges (if
    there are NetworkAccesses), NetworkAccesses, policies that appear or go, and pods on nodes that
    were never ready or with addresses outside of their node's ranges.
    """
    if isinstance(change, FactChange):
        fact = change.fact
        if isinstance(fact, LeaseLiveness) and fact.namespace == GUARDS_NAMESPACE and options.guard:
            yield from all_isolation_keys(snapshot)
        return
    before, after = change.before, change.after
    match change.object:
        case Node() | Lease() if options.guard and concerns_guards(before, after):
            yield from all_isolation_keys(snapshot)
        case Node() if concerns_rules(before, after) and _has_accesses(snapshot):
            yield from all_isolation_keys(snapshot)
        case NetworkAccess():
            yield from all_isolation_keys(snapshot)
        case NetworkPolicy() as policy if before is None or after is None:
            yield from _keys_for_policy(policy, snapshot)
        case ClusterNetworkPolicy() as policy if before is None or after is None:
            yield from _keys_for_cluster_policy(policy, snapshot)
        case Pod():
            yield from _keys_for_pod(change, snapshot, options)
        case _:
            return


def _has_accesses(snapshot: Snapshot) -> bool:
    """Whether there is any NetworkAccess in the local cluster."""
    return any(snapshot.all(snapshot.local, NetworkAccess))


def all_isolation_keys(snapshot: Snapshot) -> Iterator[Key]:
    """The keys of all networks, and isolation keys of all namespaces with a tenant label."""
    for network in snapshot.all(snapshot.local, Network):
        yield Key("network", network.metadata.name)
    for namespace in snapshot.all(snapshot.local, Namespace):
        if TENANT in namespace.metadata.labels:
            yield Key("isolation", namespace.metadata.name)


def _inputs(tenant: str, snapshot: Snapshot, options: NetworksOptions) -> IsolationInputs:
    """All that the policies of a tenant's namespaces are built from: networks, peers, accesses.

    Drained networks are left out, as are accesses with a range while the addresses of their network
    are not all known.
    """
    networks = [
        parse_network_name(n.metadata.name)
        for n in tenant_networks(tenant, snapshot)
        if not is_drained(n)
    ]
    given = list(snapshot.all(snapshot.local, NetworkAccess))
    accesses = [(name, one) for name in networks for one in network_accesses(name, given)]
    unknown = {
        name for name, one in accesses if one.range and not _has_known_addresses(name, snapshot)
    }
    nodes = list(snapshot.all(snapshot.local, Node)) if accesses else []
    addresses = sorted({a for node in nodes for a in node_addresses(node)})
    ranges = [*NOWHERE, *addresses, *(r for node in nodes for r in pod_ranges(node))]
    return IsolationInputs(
        tenant=tenant,
        networks=tuple(name.network for name in networks),
        apiservers=tuple(apiserver_endpoints(snapshot)),
        peers=tuple(agreed_peers(tenant, snapshot)),
        shared_dns=options.dns_workload == "shared",
        accesses=tuple(
            (name.network, one) for name, one in accesses if not (one.range and name in unknown)
        ),
        nodes=tuple(addresses),
        inside=_merged(ranges) if any(one.range for _, one in accesses) else (),
    )


def _merged(ranges: list[str]) -> tuple[str, ...]:
    """Ranges and addresses, merged into as few ranges as possible, IPv4 first."""
    parsed = [ip_network(one) for one in ranges]
    four = collapse_addresses(one for one in parsed if isinstance(one, IPv4Network))
    six = collapse_addresses(one for one in parsed if isinstance(one, IPv6Network))
    return (*map(str, four), *map(str, six))


def _has_known_addresses(name: NetworkName, snapshot: Snapshot) -> bool:
    """Whether all addresses of a network's pods are in their nodes' pod ranges.

    True without pods; pods without addresses do not count.
    """
    pods = snapshot.by(snapshot.local, PODS_BY_NETWORK, str(name))
    return not any(
        is_in_tenant(pod, name, snapshot) and _is_outside_node_ranges(pod, snapshot) for pod in pods
    )


def _is_outside_node_ranges(pod: Pod, snapshot: Snapshot) -> bool:
    """Whether an address of a pod is in none of its node's pod ranges; True if these are unknown.

    False for a pod without addresses.
    """
    if not (addresses := pod_addresses(pod)):
        return False
    node = snapshot.get(snapshot.local, Node, pod.spec.node_name)
    ranges = [ip_network(one) for one in pod_ranges(node)] if node is not None else []
    return not all(any(ip_address(a) in one for one in ranges) for a in addresses)


def _is_isolated_by_policies(network: Network, by: Isolation, snapshot: Snapshot) -> bool:
    """Whether the policies that isolate a network are there.

    ClusterNetworkPolicies if `by` says so, else NetworkPolicies.
    """
    name = parse_network_name(network.metadata.name)
    if by is Isolation.ADMIN_POLICIES:
        return _has_cluster_policies(name.tenant, [name], snapshot)
    return _has_policies(name, snapshot)


def _has_cluster_policies(tenant: str, networks: Iterable[NetworkName], snapshot: Snapshot) -> bool:
    """Whether all ClusterNetworkPolicies of these networks and of all namespaces of a tenant exist.

    Only their names are compared.
    """
    names = [policy for network in networks for policy in cluster_policy_names(network)]
    spaces = tenant_namespaces(tenant, snapshot)
    names += [namespace_policy_name(namespace.metadata.name) for namespace in spaces]
    return all(snapshot.get(snapshot.local, ClusterNetworkPolicy, n) is not None for n in names)


def _has_policies(name: NetworkName, snapshot: Snapshot) -> bool:
    """Whether all namespaces of a network's tenant have its NetworkPolicy, and the one that denies.

    Only their names are compared; True without namespaces.
    """
    return all(
        snapshot.get(snapshot.local, NetworkPolicy, policy, namespace.metadata.name) is not None
        for namespace in tenant_namespaces(name.tenant, snapshot)
        for policy in (DENY, policy_name(name.network))
    )


def _keys_for_policy(policy: NetworkPolicy, snapshot: Snapshot) -> Iterator[Key]:
    """The networks whose condition Isolated depends on a policy, by its name and label.

    All of the tenant for the policy `DENY`; none for other policies, and outside of tenants.
    """
    meta = policy.metadata
    tenant = namespace_tenant(meta.namespace, snapshot)
    if tenant and meta.name == DENY:
        for network in tenant_networks(tenant, snapshot):
            yield Key("network", network.metadata.name)
    elif tenant and meta.name == policy_name(meta.labels.get(NETWORK, "")):
        yield Key("network", str(NetworkName(tenant, meta.labels[NETWORK])))


def _keys_for_cluster_policy(policy: ClusterNetworkPolicy, snapshot: Snapshot) -> Iterator[Key]:
    """The keys of all networks and namespaces of the tenant in a ClusterNetworkPolicy's label.

    None without the label.
    """
    tenant = policy.metadata.labels.get(TENANT, "")
    for network in tenant_networks(tenant, snapshot):
        yield Key("network", network.metadata.name)
    for namespace in tenant_namespaces(tenant, snapshot):
        yield Key("isolation", namespace.metadata.name)


def _keys_for_pod(
    change: ObjectChange, snapshot: Snapshot, options: NetworksOptions
) -> Iterator[Key]:
    """All isolation keys for a pod on a node that was never ready, if guards are wanted.

    If the pod has an address outside of its node's ranges, and there are NetworkAccesses, those of
    its tenant's namespaces. None for a pod whose node and addresses are unchanged.
    """
    before = change.before if isinstance(change.before, Pod) else None
    after = change.after if isinstance(change.after, Pod) else None
    pods = [pod for pod in (before, after) if pod is not None]
    if len({(pod.spec.node_name, *sorted(pod_addresses(pod))) for pod in pods}) < len(pods):
        return  # it is where it was
    if options.guard and runs_on_never_ready_node(pods, snapshot):
        yield from all_isolation_keys(snapshot)
    if not _has_accesses(snapshot) or not any(
        _is_outside_node_ranges(pod, snapshot) for pod in pods
    ):
        return
    for tenant in sorted({pod.metadata.labels.get(TENANT, "") for pod in pods}):
        for namespace in tenant_namespaces(tenant, snapshot):
            yield Key("isolation", namespace.metadata.name)
