"""What the rules of a node depend on, and how it is read from a snapshot of the cluster."""

from collections.abc import Iterable, Iterator
from ipaddress import ip_address, ip_network

from msgspec import Struct

from hanse.features.networks.kubernetes_service import apiserver_endpoints
from hanse.features.networks.lookups import find_network
from hanse.features.networks.membership import (
    is_network_dns,
    is_shared_dns,
    network_of,
    tenant_of,
)
from hanse.features.networks.names import NetworkName, parse_network_name
from hanse.features.networks.peering import agreed_peers
from hanse.model.kinds.core import Namespace, Node, Pod, Service
from hanse.model.kinds.networks import Network, NetworkAccess
from hanse.model.objects import Object
from hanse.model.snapshot import Index, Snapshot

FINISHED = ("Succeeded", "Failed")


class AddressOwner(Struct, frozen=True, order=True):
    """Whose an address of a pod is: a network's, or the platform's if it has no network."""

    namespace: str
    network: NetworkName | None = None
    is_dns: bool = False
    """Whether it is the address of a network's DNS server, which asks other name servers; without
    a network, of the one that all networks ask."""


class Access(Struct, frozen=True, order=True):
    """One direction of a NetworkAccess: who may be reached, or may reach, on which ports."""

    inbound: bool
    namespace: str = ""
    range: str = ""
    nodes: bool = False
    ports: tuple[tuple[str, int], ...] = ()
    """Protocol and port of the server; empty: all."""


class NetworkFacts(Struct, frozen=True, order=True):
    """One network: the networks it is peered with, and what the platform allows it."""

    name: NetworkName
    peers: tuple[NetworkName, ...] = ()
    accesses: tuple[Access, ...] = ()


class ClusterFacts(Struct, frozen=True):
    """All that rules depend on, apart from the addresses of pods."""

    networks: tuple[NetworkFacts, ...] = ()
    apiservers: tuple[tuple[str, int], ...] = ()
    nodes: tuple[str, ...] = ()
    """Addresses of all nodes."""
    inside: tuple[str, ...] = ()
    """Ranges of the cluster beside pods and nodes: pod ranges, and addresses of load balancers."""
    local_pods: tuple[str, ...] = ()
    """The pod ranges of this node: an address in it that is nobody's yet reaches nothing."""


def cluster_facts(snapshot: Snapshot, node: str, pod_ranges: Iterable[str] = ()) -> ClusterFacts:
    """What the rules of a node depend on, by the snapshot; `pod_ranges` are further ones of it."""
    nodes = list(snapshot.all(snapshot.local, Node))
    own = [r for n in nodes if n.metadata.name == node for r in _pod_ranges(n)]
    local = sorted({*own, *pod_ranges})
    balancers = (a for s in snapshot.all(snapshot.local, Service) for a in _outside_addresses(s))
    return ClusterFacts(
        networks=tuple(sorted(_networks(snapshot))),
        apiservers=tuple(sorted(set(apiserver_endpoints(snapshot)))),
        nodes=tuple(sorted({a for n in nodes for a in _node_addresses(n)})),
        inside=tuple(sorted({*local, *(r for n in nodes for r in _pod_ranges(n)), *balancers})),
        local_pods=tuple(local),
    )


def address_owner(address: str, snapshot: Snapshot) -> AddressOwner | None:
    """Whose a pod address is; None if it is no pod's, or of several owners not all the platform.

    A pod that is being deleted has lost its address once another pod has it.
    """
    pods = list(snapshot.by(snapshot.local, PODS_BY_OWN_ADDRESS, address))
    alive = [p for p in pods if p.metadata.deletion_timestamp is None]
    owners = {_pod_owner(pod, snapshot) for pod in alive or pods}
    if len(owners) > 1 and any(o is None or o.network is not None for o in owners):
        return None
    return min(owners, default=None, key=lambda o: o.namespace if o is not None else "")


def pod_addresses(pod: Pod | None) -> set[str]:
    """The addresses of a pod; none if it has the node's network, has finished, or is None."""
    if pod is None or pod.spec.host_network or pod.status.phase in FINISHED:
        return set()
    texts = (*(one.ip for one in pod.status.pod_ips), pod.status.pod_ip)
    return {address for text in texts if (address := canonical_address(text))}


PODS_BY_OWN_ADDRESS = Index(Pod, "guard-addresses", pod_addresses)


def _pod_owner(pod: Pod, snapshot: Snapshot) -> AddressOwner | None:
    """The owner of a pod's addresses; without network if its namespace has no tenant.

    None if its namespace is unknown, or its network does not exist.
    """
    space = pod.metadata.namespace
    namespace = snapshot.get(snapshot.local, Namespace, space)
    if namespace is None:
        return None
    tenant = tenant_of(namespace)
    if not tenant:
        return AddressOwner(space, is_dns=is_shared_dns(pod))
    name = network_of(pod, namespace, lambda n: find_network(n, snapshot) is not None)
    return None if name is None else AddressOwner(space, name, is_network_dns(pod, name))


def _networks(snapshot: Snapshot) -> Iterator[NetworkFacts]:
    """Peers and accesses of each network whose spec.tenant is that of its name."""
    accesses = sorted(snapshot.all(snapshot.local, NetworkAccess), key=lambda a: a.metadata.name)
    peers: dict[str, list[tuple[str, NetworkName]]] = {}
    for network in snapshot.all(snapshot.local, Network):
        name = parse_network_name(network.metadata.name)
        if network.spec.tenant != name.tenant:
            continue
        if name.tenant not in peers:
            peers[name.tenant] = agreed_peers(name.tenant, snapshot)
        yield NetworkFacts(
            name,
            tuple(peer for own, peer in peers[name.tenant] if own == name.network),
            tuple(sorted({one for a in accesses for one in _accesses(a, name)})),
        )


def _accesses(access: NetworkAccess, name: NetworkName) -> Iterator[Access]:
    """What a NetworkAccess means for a network; nothing unless it names it, its tenant's or all."""
    spec = access.spec
    if not {"*", f"{name.tenant}.*", str(name)} & set(spec.networks):
        return
    for inbound, peers in ((True, spec.from_), (False, spec.to)):
        for peer in peers:
            ports = tuple(sorted({(p.protocol.lower(), p.port) for p in peer.ports}))
            yield Access(inbound, peer.namespace, _range(peer.cidr), peer.nodes, ports)


def _pod_ranges(node: Node) -> list[str]:
    found = node.spec.pod_cidrs or ((node.spec.pod_cidr,) if node.spec.pod_cidr else ())
    return [text for one in found if (text := _range(one))]


def _node_addresses(node: Node) -> Iterator[str]:
    for one in node.status.addresses:
        if one.type.endswith("IP") and (text := canonical_address(one.address)):
            yield text


def _outside_addresses(service: Service) -> Iterator[str]:
    """The external IPs and load balancer IPs of a Service."""
    balancers = (i.ip for i in service.status.load_balancer.ingress)
    for text in (*service.spec.external_ips, *balancers):
        if address := canonical_address(text):
            yield address


def concerns_rules(before: Object | None, after: Object | None) -> bool:
    """Whether a change of anything but a pod can change the rules.

    Of a Node that are addresses and pod ranges, of a Service external addresses.
    """
    match before, after:
        case Node(), Node():
            return (_pod_ranges(before), [*_node_addresses(before)]) != (
                _pod_ranges(after),
                [*_node_addresses(after)],
            )
        case Service(), Service():
            return [*_outside_addresses(before)] != [*_outside_addresses(after)]
        case (Service() as service, None) | (None, Service() as service):
            return any(_outside_addresses(service))
        case _:
            return True


def canonical_address(text: str) -> str:
    """An address in its normal form; empty if it is none."""
    try:
        return str(ip_address(text))
    except ValueError:
        return ""


def _range(text: str) -> str:
    """A range in its normal form; empty if it is none."""
    try:
        return str(ip_network(text, strict=False))
    except ValueError:
        return ""
