"""Which networks reach which, by the policies that are written in a cluster."""

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from hanse.features.networks.names import DEFAULT, DNS, NETWORK, TENANT, NetworkName
from hanse.features.networks.reachability import TrafficEndpoint, TrafficPort, can_reach
from hanse.model.kinds.core import Namespace, Pod
from hanse.model.kinds.networking import NetworkPolicy

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


def matrix(
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
