"""The policies that keep a tenant's networks apart, in one of its namespaces."""

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
from hanse.features.networks.selectors import complement, with_requirements
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

UNNAMED = LabelRequirement(key=NETWORK, operator="DoesNotExist")
DNS_PORTS = (PolicyPort(protocol="UDP", port=53), PolicyPort(protocol="TCP", port=53))
NOT_NARROWED = "networks.hanse.dev/not-narrowed"
"""Annotation of a policy that people's own policies should narrow and cannot: too many."""

PolicyType = Literal["Ingress", "Egress"]


class IsolationInputs(Struct, frozen=True):
    """What a namespace's policies depend on beside the namespace itself."""

    tenant: str
    networks: tuple[str, ...]
    api: tuple[tuple[str, int], ...] = ()
    """Address and port of every API server."""
    peers: tuple[tuple[str, NetworkName], ...] = ()
    """Networks of this tenant, each with one that both sides agree to reach."""
    users: tuple[NetworkPolicy, ...] = ()
    """People's own policies in the namespace: they narrow what ours allow."""


def isolation_policies(namespace: str, around: IsolationInputs) -> Iterator[NetworkPolicy]:
    """Everything is denied, but what one network's pods say to each other, to DNS and the API."""
    yield _policy(namespace, "hanse-deny", LabelSelector(), ("Ingress", "Egress"), {})
    for network in around.networks:
        name = NetworkName(around.tenant, network)
        marks = {TENANT: around.tenant, NETWORK: network}
        for suffix, who in _members(network):
            yield from _base(namespace, name, suffix, who, around, marks)
            yield from _within(namespace, name, suffix, who, around, marks)
        if namespace == name.dns_namespace:
            yield _dns_pods(name, around, marks)


def _members(network: str) -> Iterator[tuple[str, LabelSelector]]:
    """Selectors of a network's pods; those that name no network are in the default one."""
    yield "", LabelSelector(match_labels={NETWORK: network})
    if network == DEFAULT:
        yield "-unnamed", LabelSelector(match_expressions=(UNNAMED,))


def network_peers(name: NetworkName) -> tuple[PolicyPeer, ...]:
    """The pods of a network: of its tenant's namespaces and of the network, both in one peer."""
    tenants = LabelSelector(match_labels={TENANT: name.tenant})
    return tuple(
        PolicyPeer(namespace_selector=tenants, pod_selector=who)
        for _, who in _members(name.network)
    )


def _base(
    namespace: str,
    name: NetworkName,
    suffix: str,
    who: LabelSelector,
    around: IsolationInputs,
    marks: dict[str, str],
) -> Iterator[NetworkPolicy]:
    """What no pod can do without, whatever people's own policies say."""
    home = LabelSelector(match_labels={NAMESPACE_NAME: name.dns_namespace, TENANT: name.tenant})
    pods = LabelSelector(match_labels={DNS: name.network})
    dns = EgressPolicyRule(
        to=(PolicyPeer(namespace_selector=home, pod_selector=pods),), ports=DNS_PORTS
    )
    egress = (dns, *_to_api(around.api))
    called = f"hanse-base-{name.network}{suffix}"
    yield _policy(namespace, called, who, ("Egress",), marks, egress=egress)


def _to_api(endpoints: Sequence[tuple[str, int]]) -> Iterator[EgressPolicyRule]:
    ports: dict[int, list[str]] = {}
    for address, port in endpoints:
        ports.setdefault(port, []).append(address)
    for port, addresses in sorted(ports.items()):
        blocks = tuple(
            PolicyPeer(ip_block=IPBlock(cidr=f"{a}/{128 if ':' in a else 32}")) for a in addresses
        )
        yield EgressPolicyRule(to=blocks, ports=(PolicyPort(protocol="TCP", port=port),))


def _within(
    namespace: str,
    name: NetworkName,
    suffix: str,
    who: LabelSelector,
    around: IsolationInputs,
    marks: dict[str, str],
) -> Iterator[NetworkPolicy]:
    """Traffic within the network, and with its peers, of pods that people do not narrow."""
    others = [peer for mine, peer in around.peers if mine == name.network]
    peers = tuple(p for one in (name, *others) for p in network_peers(one))
    ingress = (IngressPolicyRule(from_=peers),)
    egress = (EgressPolicyRule(to=peers),)
    coming = unselected_pods(around.users, "Ingress")
    going = unselected_pods(around.users, "Egress")
    called = f"hanse-network-{name.network}{suffix}"
    if coming == going:
        for number, term in enumerate(coming.terms):
            yield _policy(
                namespace,
                _numbered(called, number),
                with_requirements(who, term),
                ("Ingress", "Egress"),
                {**marks},
                ingress=ingress,
                egress=egress,
                notes=coming.notes,
            )
        return
    for number, term in enumerate(coming.terms):
        title = _numbered(f"{called}-in", number)
        chosen = with_requirements(who, term)
        yield _policy(
            namespace, title, chosen, ("Ingress",), marks, ingress=ingress, notes=coming.notes
        )
    for number, term in enumerate(going.terms):
        title = _numbered(f"{called}-out", number)
        chosen = with_requirements(who, term)
        yield _policy(
            namespace, title, chosen, ("Egress",), marks, egress=egress, notes=going.notes
        )


class UnselectedPods(Struct, frozen=True):
    """Whom a network's own policy still selects, by requirements of which one must hold."""

    terms: tuple[tuple[LabelRequirement, ...], ...]
    notes: tuple[str, ...] = ()


def unselected_pods(users: Iterable[NetworkPolicy], direction: PolicyType) -> UnselectedPods:
    """Pods that no policy of people's selects in a direction; allowing adds up, so those that one
    selects must not be selected by ours."""
    chosen = [p for p in users if direction in policy_types(p)]
    terms = complement([p.spec.pod_selector for p in chosen])
    if terms is None:
        return UnselectedPods(((),), tuple(sorted(p.metadata.name for p in chosen)))
    return UnselectedPods(tuple(terms))


def policy_types(policy: NetworkPolicy) -> frozenset[str]:
    """The directions that a policy is about, also where it leaves that to be filled in."""
    if policy.spec.policy_types:
        return frozenset(policy.spec.policy_types)
    return frozenset({"Ingress", "Egress"} if policy.spec.egress else {"Ingress"})


def _dns_pods(name: NetworkName, around: IsolationInputs, marks: dict[str, str]) -> NetworkPolicy:
    """Who may ask a network's DNS, and whom that asks in turn."""
    who = LabelSelector(match_labels={TENANT: name.tenant, DNS: name.network})
    egress = (*_to_api(around.api), EgressPolicyRule(ports=DNS_PORTS))
    ingress = (IngressPolicyRule(from_=network_peers(name), ports=DNS_PORTS),)
    return _policy(
        name.dns_namespace,
        f"hanse-dns-{name.network}",
        who,
        ("Ingress", "Egress"),
        marks,
        ingress=ingress,
        egress=egress,
    )


def _policy(
    namespace: str,
    name: str,
    who: LabelSelector,
    types: tuple[PolicyType, ...],
    marks: dict[str, str],
    *,
    ingress: tuple[IngressPolicyRule, ...] = (),
    egress: tuple[EgressPolicyRule, ...] = (),
    notes: tuple[str, ...] = (),
) -> NetworkPolicy:
    told = {NOT_NARROWED: ",".join(notes)[:4000]} if notes else {}
    return NetworkPolicy(
        metadata=Meta(
            name=shorten_name(name, 253), namespace=namespace, labels=marks, annotations=told
        ),
        spec=NetworkPolicySpec(
            pod_selector=who, policy_types=types, ingress=ingress, egress=egress
        ),
    )


def _numbered(name: str, number: int) -> str:
    return f"{name}-{number}" if number else name


PRIORITY = 900
"""Among administrators' policies; lower ones come first."""


def cluster_network_policies(
    name: NetworkName, peers: tuple[NetworkName, ...]
) -> Iterator[ClusterNetworkPolicy]:
    """Traffic within a network and with its peers is left to NetworkPolicies; all other traffic
    of tenants' pods is denied before they are asked."""
    own = [_pods(one) for one in (name, *peers)]
    tenants: Wire = {"namespaces": {"matchExpressions": [{"key": TENANT, "operator": "Exists"}]}}
    yield ClusterNetworkPolicy(
        metadata=Meta(name=shorten_name(f"{FEATURE_DOMAIN}-{name}", 253)),
        spec=ClusterNetworkPolicySpec(
            tier="Admin",
            priority=PRIORITY,
            subject=_pods(name),
            ingress=(
                {"name": "within", "action": "Pass", "from": own},
                {"name": "other-tenants", "action": "Deny", "from": [tenants]},
            ),
            egress=(
                {"name": "within", "action": "Pass", "to": own},
                {"name": "other-tenants", "action": "Deny", "to": [tenants]},
            ),
        ),
    )


def _pods(name: NetworkName) -> Wire:
    """A network's pods, in all namespaces of its tenant."""
    return {
        "pods": {
            "namespaceSelector": {"matchLabels": {TENANT: name.tenant}},
            "podSelector": {"matchLabels": {NETWORK: name.network}},
        }
    }
