"""NetworkPolicies that isolate the networks of a tenant, where no guard does.

Policies only add up, so what these allow within a network, policies of tenants cannot take away.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from hanse.features.networks.names import (
    APP,
    DEFAULT,
    DNS,
    FEATURE_DOMAIN,
    NAMESPACE_NAME,
    NETWORK,
    SHARED_DNS,
    TENANT,
    NetworkName,
    shorten_name,
)
from hanse.model.kinds.networking import (
    EgressPolicyRule,
    IngressPolicyRule,
    IPBlock,
    LabelRequirement,
    LabelSelector,
    NetworkPolicy,
    NetworkPolicySpec,
    PolicyPeer,
    PolicyPort,
)
from hanse.model.kinds.policynetworking import ClusterNetworkPolicy, ClusterNetworkPolicySpec
from hanse.model.naming import SYSTEM_NAMESPACE
from hanse.model.objects import Meta, Wire

NO_NETWORK_LABEL = LabelRequirement(key=NETWORK, operator="DoesNotExist")
DNS_PORTS = (PolicyPort(protocol="UDP", port=53), PolicyPort(protocol="TCP", port=53))

PolicyType = Literal["Ingress", "Egress"]

_SHARED_SERVERS = PolicyPeer(
    namespace_selector=LabelSelector(match_labels={NAMESPACE_NAME: SYSTEM_NAMESPACE}),
    pod_selector=LabelSelector(match_labels={APP: SHARED_DNS}),
)


class IsolationInputs(Struct, frozen=True):
    """What the policies of a namespace depend on beside the namespace itself."""

    tenant: str
    networks: tuple[str, ...]
    apiservers: tuple[tuple[str, int], ...] = ()
    """Address and port of every API server."""
    peers: tuple[tuple[str, NetworkName], ...] = ()
    """Networks of this tenant, each with a peer that both sides agreed on."""
    shared_dns: bool = False
    """Whether networks ask the shared DNS server, beside servers of their own."""


def isolation_policies(namespace: str, inputs: IsolationInputs) -> Iterator[NetworkPolicy]:
    """The NetworkPolicies of a namespace: deny all, then allow traffic by network.

    Allowed are pods of the network and its peers, its DNS and the API servers; in the DNS namespace
    also what DNS servers need.
    """
    yield _network_policy(namespace, "hanse-deny", LabelSelector(), ("Ingress", "Egress"), {})
    for network in inputs.networks:
        name = NetworkName(inputs.tenant, network)
        labels = {TENANT: inputs.tenant, NETWORK: network}
        for policy_name, pod_selector in _pod_selectors(network):
            ingress, egress = _network_rules(name, inputs)
            yield _network_policy(
                namespace,
                policy_name,
                pod_selector,
                ("Ingress", "Egress"),
                labels,
                ingress=ingress,
                egress=egress,
            )
        if namespace == name.dns_namespace:
            yield _dns_policy(name, inputs, labels)


def _pod_selectors(network: str) -> Iterator[tuple[str, LabelSelector]]:
    """Name and pod selector of a network's policies; unlabelled pods are in the default one.

    Names of networks have no dots, so these names differ from each other.
    """
    yield f"hanse-network.{network}", LabelSelector(match_labels={NETWORK: network})
    if network == DEFAULT:
        yield "hanse-unlabelled", LabelSelector(match_expressions=(NO_NETWORK_LABEL,))


def network_peers(name: NetworkName) -> tuple[PolicyPeer, ...]:
    """The pods of a network as policy peers: namespace and pod selector in one peer."""
    tenants = LabelSelector(match_labels={TENANT: name.tenant})
    return tuple(
        PolicyPeer(namespace_selector=tenants, pod_selector=pod_selector)
        for _, pod_selector in _pod_selectors(name.network)
    )


def _network_rules(
    name: NetworkName, inputs: IsolationInputs
) -> tuple[tuple[IngressPolicyRule, ...], tuple[EgressPolicyRule, ...]]:
    """Traffic within the network and with its peers, and egress to DNS and the API servers."""
    others = [peer for own, peer in inputs.peers if own == name.network]
    peers = tuple(p for one in (name, *others) for p in network_peers(one))
    home = LabelSelector(match_labels={NAMESPACE_NAME: name.dns_namespace, TENANT: name.tenant})
    dns_pods = LabelSelector(match_labels={DNS: name.network})
    servers = [PolicyPeer(namespace_selector=home, pod_selector=dns_pods)]
    if inputs.shared_dns:
        servers.append(_SHARED_SERVERS)
    dns = EgressPolicyRule(to=tuple(servers), ports=DNS_PORTS)
    egress = (EgressPolicyRule(to=peers), dns, *_apiserver_rules(inputs.apiservers))
    return (IngressPolicyRule(from_=peers),), egress


def _apiserver_rules(endpoints: Sequence[tuple[str, int]]) -> Iterator[EgressPolicyRule]:
    """Egress rules to the API servers, grouped by port."""
    ports: dict[int, list[str]] = {}
    for address, port in endpoints:
        ports.setdefault(port, []).append(address)
    for port, addresses in sorted(ports.items()):
        blocks = tuple(
            PolicyPeer(ip_block=IPBlock(cidr=f"{a}/{128 if ':' in a else 32}")) for a in addresses
        )
        yield EgressPolicyRule(to=blocks, ports=(PolicyPort(protocol="TCP", port=port),))


def _dns_policy(
    name: NetworkName, inputs: IsolationInputs, labels: dict[str, str]
) -> NetworkPolicy:
    """The policy of a network's DNS pods: queries in, upstream queries and API reads out."""
    pod_selector = LabelSelector(match_labels={TENANT: name.tenant, DNS: name.network})
    egress = (*_apiserver_rules(inputs.apiservers), EgressPolicyRule(ports=DNS_PORTS))
    ingress = (IngressPolicyRule(from_=network_peers(name), ports=DNS_PORTS),)
    return _network_policy(
        name.dns_namespace,
        f"hanse-dns.{name.network}",
        pod_selector,
        ("Ingress", "Egress"),
        labels,
        ingress=ingress,
        egress=egress,
    )


def _network_policy(
    namespace: str,
    name: str,
    pod_selector: LabelSelector,
    types: tuple[PolicyType, ...],
    labels: dict[str, str],
    *,
    ingress: tuple[IngressPolicyRule, ...] = (),
    egress: tuple[EgressPolicyRule, ...] = (),
) -> NetworkPolicy:
    return NetworkPolicy(
        metadata=Meta(name=name, namespace=namespace, labels=labels),
        spec=NetworkPolicySpec(
            pod_selector=pod_selector, policy_types=types, ingress=ingress, egress=egress
        ),
    )


PRIORITY = 900
"""Priority within the Admin tier; lower numbers come first."""


def cluster_network_policies(
    name: NetworkName, peers: tuple[NetworkName, ...]
) -> Iterator[ClusterNetworkPolicy]:
    """A ClusterNetworkPolicy of a network that denies traffic with all namespaces of tenants.

    Traffic within the network and with its peers is passed on to NetworkPolicies.
    """
    passed = [_network_pods(one) for one in (name, *peers)]
    tenants: Wire = {"namespaces": {"matchExpressions": [{"key": TENANT, "operator": "Exists"}]}}
    yield ClusterNetworkPolicy(
        metadata=Meta(name=shorten_name(f"{FEATURE_DOMAIN}-{name}", 253)),
        spec=ClusterNetworkPolicySpec(
            tier="Admin",
            priority=PRIORITY,
            subject=_network_pods(name),
            ingress=(
                {"name": "within", "action": "Pass", "from": passed},
                {"name": "other-tenants", "action": "Deny", "from": [tenants]},
            ),
            egress=(
                {"name": "within", "action": "Pass", "to": passed},
                {"name": "other-tenants", "action": "Deny", "to": [tenants]},
            ),
        ),
    )


def _network_pods(name: NetworkName) -> Wire:
    """The peer with a network's pods, in all namespaces of its tenant."""
    return {
        "pods": {
            "namespaceSelector": {"matchLabels": {TENANT: name.tenant}},
            "podSelector": {"matchLabels": {NETWORK: name.network}},
        }
    }
