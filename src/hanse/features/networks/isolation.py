"""NetworkPolicies that isolate the networks of a tenant, where no guard does.

Policies only add up, so what these allow within a network, policies of tenants cannot take away.
"""

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_network
from typing import Literal

import msgspec
from msgspec import Struct

from hanse.features.networks.guard.facts import Access
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
from hanse.features.networks.ranges import overlaps
from hanse.model.json_input import decode_json
from hanse.model.kinds.core import Protocol
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

DENY = "hanse-deny"
"""The policy of a namespace that denies what no other allows."""
NO_NETWORK_LABEL = LabelRequirement(key=NETWORK, operator="DoesNotExist")
NO_TENANT_LABEL = LabelRequirement(key=TENANT, operator="DoesNotExist")
PROTOCOLS: dict[str, Protocol] = {"tcp": "TCP", "udp": "UDP", "sctp": "SCTP"}
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
    accesses: tuple[tuple[str, Access], ...] = ()
    """Networks of this tenant, each with something that the platform allows it."""
    nodes: tuple[str, ...] = ()
    """Addresses of all nodes."""
    inside: tuple[str, ...] = ()
    """Ranges of the cluster, which no range of an access means: of pods, and nodes."""


def isolation_policies(namespace: str, inputs: IsolationInputs) -> Iterator[NetworkPolicy]:
    """The NetworkPolicies of a namespace: one denies all, the others allow traffic by network.

    Allowed are pods of the network and its peers, its DNS, the API servers and what the platform
    allows; in a network's DNS namespace also what its DNS servers need.
    """
    yield _network_policy(namespace, DENY, LabelSelector(), ("Ingress", "Egress"), {})
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


def policy_name(network: str) -> str:
    """The name of a network's policy in each namespace of its tenant: `hanse-network.NETWORK`."""
    return f"hanse-network.{network}"


def _pod_selectors(network: str) -> Iterator[tuple[str, LabelSelector]]:
    """Name and pod selector of a network's policies; unlabelled pods are in the default one.

    Names of networks have no dots, so these names differ from each other.
    """
    yield policy_name(network), LabelSelector(match_labels={NETWORK: network})
    if network == DEFAULT:
        yield "hanse-unlabelled", LabelSelector(match_expressions=(NO_NETWORK_LABEL,))


def network_peers(name: NetworkName) -> tuple[PolicyPeer, ...]:
    """The pods of a network as policy peers: namespace and pod selector in one peer.

    For the default network a second peer has the pods without a network label.
    """
    tenants = LabelSelector(match_labels={TENANT: name.tenant})
    return tuple(
        PolicyPeer(namespace_selector=tenants, pod_selector=pod_selector)
        for _, pod_selector in _pod_selectors(name.network)
    )


def _network_rules(
    name: NetworkName, inputs: IsolationInputs
) -> tuple[tuple[IngressPolicyRule, ...], tuple[EgressPolicyRule, ...]]:
    """Rules for traffic within the network, with its peers and by its accesses; (ingress, egress).

    Egress also to its DNS, to the shared DNS if that is used, and to the API servers.
    """
    others = [peer for own, peer in inputs.peers if own == name.network]
    peers = tuple(p for one in (name, *others) for p in network_peers(one))
    home = LabelSelector(match_labels={NAMESPACE_NAME: name.dns_namespace, TENANT: name.tenant})
    dns_pods = LabelSelector(match_labels={DNS: name.network})
    servers = [PolicyPeer(namespace_selector=home, pod_selector=dns_pods)]
    if inputs.shared_dns:
        servers.append(_SHARED_SERVERS)
    dns = EgressPolicyRule(to=tuple(servers), ports=DNS_PORTS)
    allowed = [access for own, access in inputs.accesses if own == name.network]
    ingress = (
        IngressPolicyRule(from_=peers),
        *(
            IngressPolicyRule(from_=clients, ports=_access_ports(access))
            for access in allowed
            if access.inbound and (clients := _access_peers(access, inputs))
        ),
    )
    egress = (
        EgressPolicyRule(to=peers),
        dns,
        *_apiserver_rules(inputs.apiservers),
        *(
            EgressPolicyRule(to=targets, ports=_access_ports(access))
            for access in allowed
            if not access.inbound and (targets := _access_peers(access, inputs))
        ),
    )
    return ingress, egress


def _access_ports(access: Access) -> tuple[PolicyPort, ...]:
    """The ports of an access, as ports of a NetworkPolicy; empty if the access is to all ports."""
    return tuple(PolicyPort(protocol=PROTOCOLS[one], port=port) for one, port in access.ports)


def _access_peers(access: Access, inputs: IsolationInputs) -> tuple[PolicyPeer, ...]:
    """The peers that an access names: a namespace without tenant, all nodes, or a range.

    Of a range only what is outside of the cluster; none if nothing is. One peer for each node.
    """
    if access.namespace:
        selector = LabelSelector(
            match_labels={NAMESPACE_NAME: access.namespace}, match_expressions=(NO_TENANT_LABEL,)
        )
        return (PolicyPeer(namespace_selector=selector),)
    if access.nodes:
        return tuple(PolicyPeer(ip_block=IPBlock(cidr=_host(one))) for one in inputs.nodes)
    block = _outside_block(access.range, inputs.inside)
    return (PolicyPeer(ip_block=block),) if block is not None else ()


def _outside_block(text: str, inside: Iterable[str]) -> IPBlock | None:
    """A range as IP block, with exceptions for those inside the cluster that overlap it.

    None if one of these has all of it.
    """
    whole = ip_network(text)
    parts = [one for one in map(ip_network, inside) if one.version == whole.version]
    if any(overlaps(whole, one) and one.prefixlen <= whole.prefixlen for one in parts):
        return None
    holes = [one for one in parts if overlaps(whole, one)]
    return IPBlock(cidr=text, except_=tuple(map(str, holes)))


def _apiserver_rules(endpoints: Sequence[tuple[str, int]]) -> Iterator[EgressPolicyRule]:
    """Egress rules to the API servers by TCP, one for each port, sorted by port."""
    ports: dict[int, list[str]] = {}
    for address, port in endpoints:
        ports.setdefault(port, []).append(address)
    for port, addresses in sorted(ports.items()):
        blocks = tuple(PolicyPeer(ip_block=IPBlock(cidr=_host(a))) for a in addresses)
        yield EgressPolicyRule(to=blocks, ports=(PolicyPort(protocol="TCP", port=port),))


def _host(address: str) -> str:
    """The CIDR of one address: `/32`, or `/128` for IPv6."""
    return f"{address}/{128 if ':' in address else 32}"


def _dns_policy(
    name: NetworkName, inputs: IsolationInputs, labels: dict[str, str]
) -> NetworkPolicy:
    """The policy of a network's DNS pods: queries of its own pods in, and traffic out.

    Out are the API servers, and port 53 of any address.
    """
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
    """A NetworkPolicy with these selectors, types and rules.

    Without rules a type denies all of its direction.
    """
    return NetworkPolicy(
        metadata=Meta(name=name, namespace=namespace, labels=labels),
        spec=NetworkPolicySpec(
            pod_selector=pod_selector, policy_types=types, ingress=ingress, egress=egress
        ),
    )


PRIORITY = 900
"""Priority of networks within the Admin tier, where lower numbers come first; namespaces follow."""
MAX_PEERS = 25
"""The most peers of a rule that the API accepts."""


def cluster_network_policies(
    name: NetworkName, peers: tuple[NetworkName, ...]
) -> Iterator[ClusterNetworkPolicy]:
    """The ClusterNetworkPolicies of a network that deny traffic with all namespaces of tenants.

    Traffic within the network and with its peers has action Pass, so that NetworkPolicies decide.
    The default network has two, as a subject cannot mean labelled and unlabelled pods.
    """
    passed = [pods for one in (name, *peers) for pods in _network_pods(one)]
    labels = {TENANT: name.tenant, NETWORK: name.network}
    for policy_name, subject in zip(cluster_policy_names(name), _network_pods(name), strict=True):
        yield _cluster_network_policy(policy_name, labels, PRIORITY, subject, passed)


def cluster_policy_names(name: NetworkName) -> list[str]:
    """The names of the ClusterNetworkPolicies of a network, which no other network can have.

    Two for the default network, else one.
    """
    marks = ("", ".unlabelled") if name.network == DEFAULT else ("",)
    return [shorten_name(f"{FEATURE_DOMAIN}{mark}-{name}", 253) for mark in marks]


def namespace_cluster_policy(namespace: str, tenant: str) -> ClusterNetworkPolicy:
    """The ClusterNetworkPolicy of a namespace: it denies traffic with all namespaces of tenants.

    It comes after those of networks, so it is for pods that are in no network.
    """
    subject: Wire = {"namespaces": {"matchLabels": {NAMESPACE_NAME: namespace}}}
    name = namespace_policy_name(namespace)
    return _cluster_network_policy(name, {TENANT: tenant}, PRIORITY + 1, subject, ())


def namespace_policy_name(namespace: str) -> str:
    """The name of a namespace's ClusterNetworkPolicy: `networks.hanse.dev-NAMESPACE`.

    Those of networks have one more dot.
    """
    return f"{FEATURE_DOMAIN}-{namespace}"


def _cluster_network_policy(
    name: str, labels: dict[str, str], priority: int, subject: Wire, passed: Sequence[Wire]
) -> ClusterNetworkPolicy:
    """A ClusterNetworkPolicy of the Admin tier, for both directions.

    It passes the peers `passed` on to NetworkPolicies, and denies all other namespaces of tenants.
    """
    return ClusterNetworkPolicy(
        metadata=Meta(name=name, labels=labels),
        spec=ClusterNetworkPolicySpec(
            tier="Admin",
            priority=priority,
            subject=subject,
            ingress=tuple(_tenant_rules("from", passed)),
            egress=tuple(_tenant_rules("to", passed)),
        ),
    )


def _tenant_rules(side: Literal["from", "to"], passed: Sequence[Wire]) -> Iterator[Wire]:
    """Rules with action Pass for some peers, at most 25 in each, then one that denies.

    That denies all namespaces of tenants; `side` is the field of the peers.
    """
    for first in range(0, len(passed), MAX_PEERS):
        within = [*passed[first : first + MAX_PEERS]]
        yield {"name": "within", "action": "Pass", side: within}
    tenants: Wire = {"namespaces": {"matchExpressions": [{"key": TENANT, "operator": "Exists"}]}}
    yield {"name": "other-tenants", "action": "Deny", side: [tenants]}


def _network_pods(name: NetworkName) -> Iterator[Wire]:
    """The peers with a network's pods, in all namespaces of its tenant: those with its label first.

    Pods without a label are a peer of the default network.
    """
    for peer in network_peers(name):
        yield {"pods": decode_json(msgspec.json.encode(peer))}  # lists, as they are read
