"""Who can reach whom by NetworkPolicies: their published semantics, evaluated.

Policies add up. A pod that no policy selects for a direction takes or sends anything in it; one
that some policy selects only what a rule of those policies allows. A connection needs the word of
both ends. Nothing here knows how our own policies are made.
"""

from collections.abc import Iterable, Sequence
from ipaddress import ip_address, ip_network

from msgspec import Struct

from hanse.features.networks.selectors import selects
from hanse.model.kinds.core import Protocol
from hanse.model.kinds.networking import IPBlock, NetworkPolicy, PolicyPeer, PolicyPort


class TrafficEndpoint(Struct, frozen=True):
    """One end of a connection: a pod, or an address outside where there is no namespace."""

    name: str
    namespace: str = ""
    labels: dict[str, str] = {}
    namespace_labels: dict[str, str] = {}
    addresses: tuple[str, ...] = ()
    ports: dict[tuple[str, str], int] = {}
    """Named ports by name and protocol."""

    @property
    def is_pod(self) -> bool:
        return bool(self.namespace)


class TrafficPort(Struct, frozen=True):
    """What is tried: a port of the other end, by protocol."""

    port: int
    protocol: Protocol = "TCP"


def can_reach(
    source: TrafficEndpoint,
    target: TrafficEndpoint,
    traffic_port: TrafficPort,
    policies: Sequence[NetworkPolicy],
) -> bool:
    """Whether policies let a connection through; replies to it always pass."""
    return _may_send(source, target, traffic_port, policies) and _may_take(
        source, target, traffic_port, policies
    )


def _may_send(
    source: TrafficEndpoint,
    target: TrafficEndpoint,
    traffic_port: TrafficPort,
    policies: Iterable[NetworkPolicy],
) -> bool:
    if not source.is_pod:
        return True
    chosen = [p for p in policies if _selected(p, source) and "Egress" in _types(p)]
    return not chosen or any(
        _peers_match(rule.to, p, target) and _ports_match(rule.ports, target, traffic_port)
        for p in chosen
        for rule in p.spec.egress or ()
    )


def _may_take(
    source: TrafficEndpoint,
    target: TrafficEndpoint,
    traffic_port: TrafficPort,
    policies: Iterable[NetworkPolicy],
) -> bool:
    if not target.is_pod:
        return True
    chosen = [p for p in policies if _selected(p, target) and "Ingress" in _types(p)]
    return not chosen or any(
        _peers_match(rule.from_, p, source) and _ports_match(rule.ports, target, traffic_port)
        for p in chosen
        for rule in p.spec.ingress or ()
    )


def _types(policy: NetworkPolicy) -> frozenset[str]:
    """Without policyTypes a policy is about ingress, and about egress where it has such rules."""
    told = policy.spec.policy_types
    if told:
        return frozenset(told)
    return frozenset(("Ingress", "Egress") if policy.spec.egress else ("Ingress",))


def _selected(policy: NetworkPolicy, spot: TrafficEndpoint) -> bool:
    return policy.metadata.namespace == spot.namespace and selects(
        policy.spec.pod_selector, spot.labels
    )


def _peers_match(peers: Sequence[PolicyPeer], policy: NetworkPolicy, spot: TrafficEndpoint) -> bool:
    """Any peer will do; no peers at all is everybody."""
    return not peers or any(_peer_matches(peer, policy, spot) for peer in peers)


def _peer_matches(peer: PolicyPeer, policy: NetworkPolicy, spot: TrafficEndpoint) -> bool:
    if peer.ip_block is not None:
        return any(_in_block(peer.ip_block, address) for address in spot.addresses)
    if not spot.is_pod:
        return False
    if peer.namespace_selector is None:
        in_space = spot.namespace == policy.metadata.namespace
    else:
        in_space = selects(peer.namespace_selector, spot.namespace_labels)
    return in_space and (peer.pod_selector is None or selects(peer.pod_selector, spot.labels))


def _in_block(block: IPBlock, address: str) -> bool:
    at = ip_address(address)

    def has(cidr: str) -> bool:
        network = ip_network(cidr, strict=False)
        return network.version == at.version and at in network

    return has(block.cidr) and not any(has(hole) for hole in block.except_)


def _ports_match(
    ports: Sequence[PolicyPort], target: TrafficEndpoint, traffic_port: TrafficPort
) -> bool:
    """Any port will do; no ports at all is every port of every protocol."""
    return not ports or any(_port_matches(port, target, traffic_port) for port in ports)


def _port_matches(port: PolicyPort, target: TrafficEndpoint, traffic_port: TrafficPort) -> bool:
    if port.protocol != traffic_port.protocol:
        return False
    match port.port:
        case None:
            return True
        case str(name):
            return target.ports.get((name, port.protocol)) == traffic_port.port
        case first:
            return first <= traffic_port.port <= (port.end_port or first)
