"""Who can reach whom by NetworkPolicies: their published semantics, evaluated.

Policies add up. A pod that no policy selects for a direction takes or sends anything in it; one
that some policy selects only what a rule of those policies allows. A connection needs the word of
both ends. Nothing here knows how our own policies are made.
"""

from collections.abc import Iterable, Sequence
from ipaddress import ip_address, ip_network
from typing import Literal

from msgspec import Struct

from hanse.features.networks.names import DEFAULT, DNS, NETWORK, TENANT, NetworkName
from hanse.features.networks.selectors import selects
from hanse.model.kinds.core import Namespace, Pod, Protocol
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


Reachability = Literal["all", "some", "none"]
OUTSIDE = "outside"
"""Everything that is no tenant's: other pods of the cluster, and the world."""

SAMPLE_PORT = TrafficPort(8080)
_WORLD = TrafficEndpoint(OUTSIDE, addresses=("198.51.100.1",))


class ReachabilityMatrix(Struct, frozen=True):
    """For each pair of networks whether pods of the first can open connections to the second."""

    names: tuple[str, ...]
    reach: dict[tuple[str, str], Reachability]

    def leaks(self) -> list[tuple[str, str]]:
        """Pairs of different networks of which one reaches the other."""
        return [
            (one, other)
            for (one, other), how in self.reach.items()
            if how != "none" and one != other and OUTSIDE not in (one, other)
        ]


def reachability_matrix(
    namespaces: Iterable[Namespace],
    pods: Iterable[Pod],
    policies: Sequence[NetworkPolicy],
    networks: Iterable[NetworkName],
) -> ReachabilityMatrix:
    """The whole matrix: of the pods there are, and of one more in each namespace of a tenant.

    Pods that policies cannot tell apart are looked at once.
    """
    groups = endpoint_groups(namespaces, pods, networks)
    by_space: dict[str, list[NetworkPolicy]] = {}
    for policy in policies:
        by_space.setdefault(policy.metadata.namespace, []).append(policy)

    def reaches(one: TrafficEndpoint, other: TrafficEndpoint) -> bool:
        concerned = [*by_space.get(one.namespace, ())]
        if other.namespace != one.namespace:
            concerned += by_space.get(other.namespace, ())
        return can_reach(one, other, SAMPLE_PORT, concerned)

    names = tuple(sorted(groups, key=lambda name: (name == OUTSIDE, name)))
    return ReachabilityMatrix(
        names,
        {
            (one, other): _summed([reaches(a, b) for a in groups[one] for b in groups[other]])
            for one in names
            for other in names
        },
    )


def endpoint_groups(
    namespaces: Iterable[Namespace], pods: Iterable[Pod], networks: Iterable[NetworkName]
) -> dict[str, list[TrafficEndpoint]]:
    """The ends of connections by the network they are in, one for all that look alike."""
    spaces = {n.metadata.name: n for n in namespaces}
    found: dict[str, dict[object, TrafficEndpoint]] = {OUTSIDE: {"world": _WORLD}}
    for pod in pods:
        space = spaces.get(pod.metadata.namespace)
        if space is not None and not pod.spec.host_network and DNS not in pod.metadata.labels:
            _put(found, _spot(space, pod.metadata.name, pod.metadata.labels, pod))
    for name in networks:
        found.setdefault(str(name), {})
        for space in spaces.values():
            if space.metadata.labels.get(TENANT) == name.tenant:
                labels = {TENANT: name.tenant, NETWORK: name.network}
                _put(found, _spot(space, "(a new pod)", labels))
    return {name: list(several.values()) for name, several in found.items()}


def _spot(
    space: Namespace, name: str, labels: dict[str, str], pod: Pod | None = None
) -> TrafficEndpoint:
    addresses = (pod.status.pod_ip,) if pod is not None and pod.status.pod_ip else ()
    return TrafficEndpoint(
        name,
        space.metadata.name,
        labels,
        {**space.metadata.labels, "kubernetes.io/metadata.name": space.metadata.name},
        addresses,
    )


def _put(found: dict[str, dict[object, TrafficEndpoint]], spot: TrafficEndpoint) -> None:
    tenant = spot.namespace_labels.get(TENANT, "")
    name = f"{tenant}.{spot.labels.get(NETWORK, DEFAULT)}" if tenant else OUTSIDE
    alike = (spot.namespace, tuple(sorted(spot.labels.items())))
    found.setdefault(name, {}).setdefault(alike, spot)


def _summed(answers: Sequence[bool]) -> Reachability:
    if not any(answers):
        return "none"
    return "all" if all(answers) else "some"
