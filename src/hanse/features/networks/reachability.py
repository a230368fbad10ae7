"""Evaluates NetworkPolicies by their specification: which connections they allow.

Policies are additive. A pod that no policy selects for a direction is not restricted in it; a
selected pod may only do what a rule of these policies allows. Both ends must allow a connection.
Nothing here depends on how `isolation` builds its policies.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Literal

from msgspec import Struct

from hanse.features.networks.admin_reachability import Verdict, admin_ports, admin_verdict
from hanse.features.networks.antrea_reachability import AntreaRule, antrea_ports, antrea_verdict
from hanse.features.networks.names import DEFAULT, DNS, NETWORK, TENANT, NetworkName
from hanse.features.networks.traffic import TrafficEndpoint, TrafficPort, is_in_block
from hanse.model.kinds.core import Namespace, Pod, Protocol
from hanse.model.kinds.networking import NetworkPolicy, PolicyPeer, PolicyPort
from hanse.model.kinds.policynetworking import ClusterNetworkPolicy
from hanse.model.selectors import selects

Direction = Literal["ingress", "egress"]


def is_allowed(
    source: TrafficEndpoint,
    target: TrafficEndpoint,
    traffic_port: TrafficPort,
    policies: Sequence[NetworkPolicy],
    admin: Sequence[ClusterNetworkPolicy] = (),
    antrea: Sequence[AntreaRule] = (),
) -> bool:
    """Whether policies allow a connection, for both of its ends; what none decides is allowed.

    The order is Antrea's tiers, Admin tier, NetworkPolicies, Antrea's baseline, Baseline tier: the
    first that does not pass decides.
    """
    directions: tuple[Direction, ...] = ("egress", "ingress")
    ends = (source, target, traffic_port)

    def verdicts(direction: Direction) -> Iterator[Verdict]:
        """What each kind of policies says for one direction, in their order; Pass: nothing."""
        yield antrea_verdict(*ends, antrea, direction, baseline=False)
        yield admin_verdict(*ends, admin, direction, "Admin")
        said = _policies_allow(*ends, policies, direction)
        yield "Pass" if said is None else "Accept" if said else "Deny"
        yield antrea_verdict(*ends, antrea, direction, baseline=True)
        yield admin_verdict(*ends, admin, direction, "Baseline")

    return all(
        next((v for v in verdicts(direction) if v != "Pass"), "Accept") == "Accept"
        for direction in directions
    )


def _policies_allow(
    source: TrafficEndpoint,
    target: TrafficEndpoint,
    traffic_port: TrafficPort,
    policies: Iterable[NetworkPolicy],
    direction: Direction,
) -> bool | None:
    """Whether NetworkPolicies of one end allow the connection; None if none selects it.

    The end is the source for egress, else the target. An end that is no pod is selected by none.
    """
    end, peer = (source, target) if direction == "egress" else (target, source)
    if not end.is_pod:
        return None
    wanted = "Egress" if direction == "egress" else "Ingress"
    selecting = [p for p in policies if _selects_endpoint(p, end) and wanted in policy_types(p)]
    if not selecting:
        return None
    return any(
        _peers_match(peers, p, peer) and _ports_match(ports, target, traffic_port)
        for p in selecting
        for peers, ports in _rules(p, direction)
    )


def _rules(
    policy: NetworkPolicy, direction: Direction
) -> Iterator[tuple[Sequence[PolicyPeer], Sequence[PolicyPort]]]:
    """Peers and ports of each ingress or egress rule of a policy, by direction."""
    if direction == "egress":
        yield from ((rule.to, rule.ports) for rule in policy.spec.egress or ())
    else:
        yield from ((rule.from_, rule.ports) for rule in policy.spec.ingress or ())


def policy_types(policy: NetworkPolicy) -> frozenset[str]:
    """The policyTypes of a NetworkPolicy; by default Ingress.

    Egress, too, if there are none but egress rules are.
    """
    if policy.spec.policy_types:
        return frozenset(policy.spec.policy_types)
    return frozenset({"Ingress", "Egress"} if policy.spec.egress else {"Ingress"})


def _selects_endpoint(policy: NetworkPolicy, endpoint: TrafficEndpoint) -> bool:
    """Whether a policy's pod selector matches a pod, which has to be in its namespace."""
    return policy.metadata.namespace == endpoint.namespace and selects(
        policy.spec.pod_selector, endpoint.labels
    )


def _peers_match(
    peers: Sequence[PolicyPeer], policy: NetworkPolicy, endpoint: TrafficEndpoint
) -> bool:
    """Whether one of the peers includes an endpoint; an empty list includes all."""
    return not peers or any(_peer_matches(peer, policy, endpoint) for peer in peers)


def _peer_matches(peer: PolicyPeer, policy: NetworkPolicy, endpoint: TrafficEndpoint) -> bool:
    """Whether a policy's peer includes an endpoint.

    An IP block compares addresses only; selectors match pods only, by default in the policy's
    namespace.
    """
    if peer.ip_block is not None:
        block = peer.ip_block
        return any(is_in_block(a, block.cidr, block.except_) for a in endpoint.addresses)
    if not endpoint.is_pod:
        return False
    if peer.namespace_selector is None:
        in_space = endpoint.namespace == policy.metadata.namespace
    else:
        in_space = selects(peer.namespace_selector, endpoint.namespace_labels)
    return in_space and (peer.pod_selector is None or selects(peer.pod_selector, endpoint.labels))


def _ports_match(
    ports: Sequence[PolicyPort], target: TrafficEndpoint, traffic_port: TrafficPort
) -> bool:
    """Whether one of the ports includes traffic to the target; an empty list includes all."""
    return not ports or any(_port_matches(port, target, traffic_port) for port in ports)


def _port_matches(port: PolicyPort, target: TrafficEndpoint, traffic_port: TrafficPort) -> bool:
    """Whether a policy port includes traffic to the target; named ports are the target's.

    A policy port without number or name includes all ports of its protocol; endPort is included.
    """
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
"""The name for pods without a tenant and external addresses."""

SAMPLE_PORT = TrafficPort(8080)
NEW_POD = ("10.255.255.254",)
"""The address of a pod that has none yet: blocks of all addresses contain it."""
_EXTERNAL = TrafficEndpoint(OUTSIDE, addresses=("198.51.100.1",))


class ReachabilityMatrix(Struct, frozen=True):
    """For each pair of networks whether pods of the first can connect to the second."""

    names: tuple[str, ...]
    reach: dict[tuple[str, str], Reachability]

    def leaks(self) -> list[tuple[str, str]]:
        """Pairs of different networks of which the first reaches the second, agreed peers included.

        `outside` does not count.
        """
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
    admin: Sequence[ClusterNetworkPolicy] = (),
    antrea: Sequence[AntreaRule] = (),
) -> ReachabilityMatrix:
    """The matrix over existing pods, and hypothetical pods in each namespace of a tenant.

    By (source, target) whether none, some or all of their pods and sampled ports are reached. Names
    are sorted, `outside` last. Pods with equal namespace and labels are evaluated once.
    """
    pods = list(pods)
    groups = endpoint_groups(namespaces, pods, networks)
    named = (*sample_ports(policies, pods), *admin_ports(admin), *antrea_ports(antrea))
    ports = list(dict.fromkeys(named))
    by_space: dict[str, list[NetworkPolicy]] = {}
    for policy in policies:
        by_space.setdefault(policy.metadata.namespace, []).append(policy)

    def reaches(one: TrafficEndpoint, other: TrafficEndpoint) -> Iterator[bool]:
        """Whether one endpoint reaches the other, for each sampled port."""
        concerned = [*by_space.get(one.namespace, ())]
        if other.namespace != one.namespace:
            concerned += by_space.get(other.namespace, ())
        return (is_allowed(one, other, port, concerned, admin, antrea) for port in ports)

    names = tuple(sorted(groups, key=lambda name: (name == OUTSIDE, name)))
    return ReachabilityMatrix(
        names,
        {
            (one, other): summarize_reachability(
                [yes for a in groups[one] for b in groups[other] for yes in reaches(a, b)]
            )
            for one in names
            for other in names
        },
    )


def sample_ports(policies: Sequence[NetworkPolicy], pods: Iterable[Pod]) -> list[TrafficPort]:
    """The ports that policies name, by number or pods' port names, ends of ranges, and TCP 8080.

    Sorted by protocol and number; a rule's port without a number counts as 8080.
    """
    named: dict[tuple[str, Protocol], set[int]] = {}
    for pod in pods:
        for container in pod.spec.containers:
            for port in container.ports:
                named.setdefault((port.name, port.protocol), set()).add(port.container_port)
    inbound = [rule.ports for p in policies for rule in p.spec.ingress or ()]
    outbound = [rule.ports for p in policies for rule in p.spec.egress or ()]
    found = {SAMPLE_PORT}
    for policy_port in chain(*inbound, *outbound):
        protocol = policy_port.protocol
        match policy_port.port:
            case None:
                numbers = {SAMPLE_PORT.port}
            case str(name):
                numbers = named.get((name, protocol), set())
            case first:
                numbers = {first, policy_port.end_port or first}
        found |= {TrafficPort(number, protocol) for number in numbers}
    return sorted(found, key=lambda port: (port.protocol, port.port))


def endpoint_groups(
    namespaces: Iterable[Namespace], pods: Iterable[Pod], networks: Iterable[NetworkName]
) -> dict[str, list[TrafficEndpoint]]:
    """The endpoints of each network by name, one for all pods with equal namespace and labels.

    Each namespace of the tenant of one of `networks` has a hypothetical pod, too, and for default
    one without labels; pods add their own network. Those with hostNetwork and DNS pods are left
    out; pods without tenant and one external address are `outside`.
    """
    spaces = {n.metadata.name: n for n in namespaces}
    found: dict[str, dict[object, TrafficEndpoint]] = {OUTSIDE: {"world": _EXTERNAL}}
    for pod in pods:
        space = spaces.get(pod.metadata.namespace)
        if space is not None and not pod.spec.host_network and DNS not in pod.metadata.labels:
            _add_endpoint(
                found, _traffic_endpoint(space, pod.metadata.name, pod.metadata.labels, pod)
            )
    for name in networks:
        found.setdefault(str(name), {})
        for space in spaces.values():
            if space.metadata.labels.get(TENANT) == name.tenant:
                labels = {TENANT: name.tenant, NETWORK: name.network}
                _add_endpoint(found, _traffic_endpoint(space, "(a new pod)", labels))
                if name.network == DEFAULT:
                    _add_endpoint(found, _traffic_endpoint(space, "(a pod without label)", {}))
    return {name: list(several.values()) for name, several in found.items()}


def _traffic_endpoint(
    space: Namespace, name: str, labels: dict[str, str], pod: Pod | None = None
) -> TrafficEndpoint:
    """The endpoint of a pod or of bare labels; without a pod IP it has the address `NEW_POD`.

    Only `podIP` counts. The namespace labels always include `kubernetes.io/metadata.name`.
    """
    addresses = (pod.status.pod_ip,) if pod is not None and pod.status.pod_ip else NEW_POD
    return TrafficEndpoint(
        name,
        space.metadata.name,
        labels,
        {**space.metadata.labels, "kubernetes.io/metadata.name": space.metadata.name},
        addresses,
        {} if pod is None else _named_ports(pod),
    )


def _named_ports(pod: Pod) -> dict[tuple[str, str], int]:
    """The numbers of a pod's named container ports by name and protocol."""
    ports = (port for container in pod.spec.containers for port in container.ports)
    return {(port.name, port.protocol): port.container_port for port in ports if port.name}


def _add_endpoint(
    found: dict[str, dict[object, TrafficEndpoint]], endpoint: TrafficEndpoint
) -> None:
    """Add an endpoint to its network in `found`, or without a tenant to `outside`.

    The network is that of its namespace's tenant and its label. Nothing is added if one of equal
    namespace and labels is there.
    """
    tenant = endpoint.namespace_labels.get(TENANT, "")
    name = f"{tenant}.{endpoint.labels.get(NETWORK, DEFAULT)}" if tenant else OUTSIDE
    identity = (endpoint.namespace, tuple(sorted(endpoint.labels.items())))
    found.setdefault(name, {}).setdefault(identity, endpoint)


def summarize_reachability(answers: Sequence[bool]) -> Reachability:
    """`none`, `some` or `all` of the answers are true; `none` if there are no answers."""
    if not any(answers):
        return "none"
    return "all" if all(answers) else "some"
