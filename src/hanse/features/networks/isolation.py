"""NetworkPolicies that isolate the networks of a tenant, for one of its namespaces."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from hanse.features.networks.names import (
    DEFAULT,
    DNS,
    FEATURE_DOMAIN,
    NAMESPACE_NAME,
    NETWORK,
    TENANT,
    NetworkName,
    shorten_name,
)
from hanse.features.networks.selectors import complement, policy_types, with_requirements
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
from hanse.model.objects import Meta, Wire

NO_NETWORK_LABEL = LabelRequirement(key=NETWORK, operator="DoesNotExist")
DNS_PORTS = (PolicyPort(protocol="UDP", port=53), PolicyPort(protocol="TCP", port=53))
NOT_NARROWED = "networks.hanse.dev/not-narrowed"
"""Annotation of a policy that user policies should narrow, but there are too many."""

PolicyType = Literal["Ingress", "Egress"]


class IsolationInputs(Struct, frozen=True):
    """What the policies of a namespace depend on beside the namespace itself."""

    tenant: str
    networks: tuple[str, ...]
    apiservers: tuple[tuple[str, int], ...] = ()
    """Address and port of every API server."""
    peers: tuple[tuple[str, NetworkName], ...] = ()
    """Networks of this tenant, each with a peer that both sides agreed on."""
    user_policies: tuple[NetworkPolicy, ...] = ()
    """NetworkPolicies of users in the namespace, which narrow what these policies allow."""


def isolation_policies(namespace: str, inputs: IsolationInputs) -> Iterator[NetworkPolicy]:
    """Deny all, then allow traffic within a network, to its DNS and to the API servers."""
    yield _network_policy(namespace, "hanse-deny", LabelSelector(), ("Ingress", "Egress"), {})
    for network in inputs.networks:
        name = NetworkName(inputs.tenant, network)
        labels = {TENANT: inputs.tenant, NETWORK: network}
        for suffix, pod_selector in _pod_selectors(network):
            yield from _base_policies(namespace, name, suffix, pod_selector, inputs, labels)
            yield from _network_policies(namespace, name, suffix, pod_selector, inputs, labels)
        if namespace == name.dns_namespace:
            yield _dns_policy(name, inputs, labels)


def _pod_selectors(network: str) -> Iterator[tuple[str, LabelSelector]]:
    """Name suffix and pod selector of a network's pods; unlabelled pods are in the default one."""
    yield "", LabelSelector(match_labels={NETWORK: network})
    if network == DEFAULT:
        yield "-unnamed", LabelSelector(match_expressions=(NO_NETWORK_LABEL,))


def network_peers(name: NetworkName) -> tuple[PolicyPeer, ...]:
    """The pods of a network as policy peers: namespace and pod selector in one peer."""
    tenants = LabelSelector(match_labels={TENANT: name.tenant})
    return tuple(
        PolicyPeer(namespace_selector=tenants, pod_selector=pod_selector)
        for _, pod_selector in _pod_selectors(name.network)
    )


def _base_policies(
    namespace: str,
    name: NetworkName,
    suffix: str,
    pod_selector: LabelSelector,
    inputs: IsolationInputs,
    labels: dict[str, str],
) -> Iterator[NetworkPolicy]:
    """Egress to DNS and the API servers, which user policies do not narrow."""
    home = LabelSelector(match_labels={NAMESPACE_NAME: name.dns_namespace, TENANT: name.tenant})
    pods = LabelSelector(match_labels={DNS: name.network})
    dns = EgressPolicyRule(
        to=(PolicyPeer(namespace_selector=home, pod_selector=pods),), ports=DNS_PORTS
    )
    egress = (dns, *_apiserver_rules(inputs.apiservers))
    policy_name = f"hanse-base-{name.network}{suffix}"
    yield _network_policy(namespace, policy_name, pod_selector, ("Egress",), labels, egress=egress)


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


def _network_policies(
    namespace: str,
    name: NetworkName,
    suffix: str,
    pod_selector: LabelSelector,
    inputs: IsolationInputs,
    labels: dict[str, str],
) -> Iterator[NetworkPolicy]:
    """Traffic within the network and with its peers, for pods that no user policy selects."""
    others = [peer for own, peer in inputs.peers if own == name.network]
    peers = tuple(p for one in (name, *others) for p in network_peers(one))
    ingress = (IngressPolicyRule(from_=peers),)
    egress = (EgressPolicyRule(to=peers),)
    ingress_pods = unselected_pods(inputs.user_policies, "Ingress")
    egress_pods = unselected_pods(inputs.user_policies, "Egress")
    policy_name = f"hanse-network-{name.network}{suffix}"
    if ingress_pods == egress_pods:
        for number, term in enumerate(ingress_pods.terms):
            yield _network_policy(
                namespace,
                _numbered_name(policy_name, number),
                with_requirements(pod_selector, term),
                ("Ingress", "Egress"),
                {**labels},
                ingress=ingress,
                egress=egress,
                notes=ingress_pods.notes,
            )
        return
    for number, term in enumerate(ingress_pods.terms):
        numbered_name = _numbered_name(f"{policy_name}-in", number)
        selector = with_requirements(pod_selector, term)
        yield _network_policy(
            namespace,
            numbered_name,
            selector,
            ("Ingress",),
            labels,
            ingress=ingress,
            notes=ingress_pods.notes,
        )
    for number, term in enumerate(egress_pods.terms):
        numbered_name = _numbered_name(f"{policy_name}-out", number)
        selector = with_requirements(pod_selector, term)
        yield _network_policy(
            namespace,
            numbered_name,
            selector,
            ("Egress",),
            labels,
            egress=egress,
            notes=egress_pods.notes,
        )


class UnselectedPods(Struct, frozen=True):
    """The pods that no user policy selects: alternative requirements, of which one must hold."""

    terms: tuple[tuple[LabelRequirement, ...], ...]
    notes: tuple[str, ...] = ()


def unselected_pods(
    user_policies: Iterable[NetworkPolicy], direction: PolicyType
) -> UnselectedPods:
    """The pods that no user policy selects in a direction.

    Policies are additive: pods that a user policy selects must not be selected by these ones, or
    the user policy could not narrow anything.
    """
    selector = [p for p in user_policies if direction in policy_types(p)]
    terms = complement([p.spec.pod_selector for p in selector])
    if terms is None:
        return UnselectedPods(((),), tuple(sorted(p.metadata.name for p in selector)))
    return UnselectedPods(tuple(terms))


def _dns_policy(
    name: NetworkName, inputs: IsolationInputs, labels: dict[str, str]
) -> NetworkPolicy:
    """The policy of a network's DNS pods: queries in, upstream queries and API reads out."""
    pod_selector = LabelSelector(match_labels={TENANT: name.tenant, DNS: name.network})
    egress = (*_apiserver_rules(inputs.apiservers), EgressPolicyRule(ports=DNS_PORTS))
    ingress = (IngressPolicyRule(from_=network_peers(name), ports=DNS_PORTS),)
    return _network_policy(
        name.dns_namespace,
        f"hanse-dns-{name.network}",
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
    notes: tuple[str, ...] = (),
) -> NetworkPolicy:
    """A NetworkPolicy with a shortened name; notes become annotation `NOT_NARROWED`.

    The annotation is cut at 4000 characters, and left out without notes.
    """
    annotations = {NOT_NARROWED: ",".join(notes)[:4000]} if notes else {}
    return NetworkPolicy(
        metadata=Meta(
            name=shorten_name(name, 253),
            namespace=namespace,
            labels=labels,
            annotations=annotations,
        ),
        spec=NetworkPolicySpec(
            pod_selector=pod_selector, policy_types=types, ingress=ingress, egress=egress
        ),
    )


def _numbered_name(name: str, number: int) -> str:
    return f"{name}-{number}" if number else name


PRIORITY = 900
"""Priority within the Admin tier; lower numbers come first."""


def cluster_network_policies(
    name: NetworkName, peers: tuple[NetworkName, ...]
) -> Iterator[ClusterNetworkPolicy]:
    """A ClusterNetworkPolicy that denies traffic with other tenants.

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
