"""What the rules of a node depend on, and how it is read from a snapshot of the cluster."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import ip_address, ip_network

from msgspec import Struct

from hanse.features.networks.guard.vpcs import VpcFacts, vpc_networks, vpc_of
from hanse.features.networks.lookups import apiserver_endpoints, pod_network
from hanse.features.networks.membership import (
    is_network_dns,
    is_shared_dns,
    tenant_of,
)
from hanse.features.networks.names import NetworkName, parse_network_name
from hanse.features.networks.peering import agreed_peers
from hanse.model.kinds.core import Namespace, Node, Pod, Service
from hanse.model.kinds.networks import Network, NetworkAccess
from hanse.model.objects import Object
from hanse.model.snapshot import Index, Snapshot

FINISHED = ("Succeeded", "Failed")
NOWHERE = (
    *("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3"),
    *("::/127", "fe80::/10", "ff00::/8"),
)
"""What no range of an access means: a single host or link, and groups, broadcast included."""


class AddressOwner(Struct, frozen=True, order=True):
    """Whose an address of a pod is: a network's, or the platform's if it has no network."""

    namespace: str
    network: NetworkName | None = None
    is_dns: bool = False
    """Whether it is the address of a network's DNS server, which asks other name servers; without
    a network, of the one that all networks ask."""
    vpc: str = ""
    """The VPC of its network, if it has one."""


class Undecided(Struct, frozen=True):
    """An address that does not say whose it is: of several networks, or of a pod in none.

    Nothing passes by the address; pods of VPCs are known by their interface.
    """

    members: tuple[tuple[NetworkName, str], ...] = ()
    """The networks with a VPC of which pods have the address, each with its VPC."""


Owner = AddressOwner | Undecided


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
    vpcs: tuple[VpcFacts, ...] = ()
    """The VPCs that have pods on this node."""


def cluster_facts(snapshot: Snapshot, node: str, more_ranges: Iterable[str] = ()) -> ClusterFacts:
    """What the rules of a node depend on, by the snapshot, without its VPCs; all sorted.

    `more_ranges` are pod ranges of this node beside those in its Node.
    """
    nodes = list(snapshot.all(snapshot.local, Node))
    own = [r for n in nodes if n.metadata.name == node for r in pod_ranges(n)]
    local = sorted({*own, *more_ranges})
    balancers = (a for s in snapshot.all(snapshot.local, Service) for a in _external_addresses(s))
    return ClusterFacts(
        networks=tuple(sorted(_networks(snapshot))),
        apiservers=tuple(sorted(set(apiserver_endpoints(snapshot)))),
        nodes=tuple(sorted({a for n in nodes for a in node_addresses(n)})),
        inside=tuple(sorted({*local, *(r for n in nodes for r in pod_ranges(n)), *balancers})),
        local_pods=tuple(local),
    )


def address_owner(address: str, snapshot: Snapshot) -> Owner | None:
    """The owner of a pod address: a network's or the platform's pod; None if no pod has it.

    Undecided if pods of several owners have it and one is in a network, or if one's network is not
    known. Of several pods of the platform the first by namespace counts. Pods that are being
    deleted count only if there are no others.
    """
    pods = list(snapshot.by(snapshot.local, PODS_BY_OWN_ADDRESS, address))
    alive = [p for p in pods if p.metadata.deletion_timestamp is None] or pods
    owners = {_pod_owner(pod, snapshot) for pod in alive}
    known = [owner for owner in owners if owner is not None]
    if len(known) != len(owners) or (len(known) > 1 and any(o.network for o in known)):
        return Undecided(vpc_networks(alive, snapshot))
    return min(known, default=None, key=lambda owner: owner.namespace)


def pod_addresses(pod: Pod | None) -> set[str]:
    """The addresses of a pod in normal form; none if it has the node's network, or is None.

    None, too, once it has finished. Invalid addresses are left out.
    """
    if pod is None or pod.spec.host_network or pod.status.phase in FINISHED:
        return set()
    texts = (*(one.ip for one in pod.status.pod_ips), pod.status.pod_ip)
    return {address for text in texts if (address := canonical_address(text))}


PODS_BY_OWN_ADDRESS = Index(Pod, "guard-addresses", pod_addresses)


def _pod_owner(pod: Pod, snapshot: Snapshot) -> AddressOwner | None:
    """The namespace, network, VPC and DNS role of a pod; without network if it has no tenant.

    None if its namespace is unknown, its network does not exist, or its label has another tenant.
    """
    space = pod.metadata.namespace
    namespace = snapshot.get(snapshot.local, Namespace, space)
    if namespace is None:
        return None
    tenant = tenant_of(namespace)
    if not tenant:
        return AddressOwner(space, is_dns=is_shared_dns(pod))
    network = pod_network(pod, namespace, snapshot)
    if network is None:
        return None
    name = parse_network_name(network.metadata.name)
    return _shared_owner(space, name, is_network_dns(pod, name), vpc_of(network))


@lru_cache(maxsize=16384)
def _shared_owner(space: str, name: NetworkName, is_dns: bool, vpc: str) -> AddressOwner:
    """An owner with these fields, one cached object for all addresses that it has."""
    return AddressOwner(space, name, is_dns, vpc)


def _networks(snapshot: Snapshot) -> Iterator[NetworkFacts]:
    """Peers and accesses of each network whose spec.tenant is that of its name.

    Other networks are left out.
    """
    accesses = list(snapshot.all(snapshot.local, NetworkAccess))
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
            network_accesses(name, accesses),
        )


def network_accesses(name: NetworkName, accesses: Iterable[NetworkAccess]) -> tuple[Access, ...]:
    """What the platform allows a network by these NetworkAccesses, sorted."""
    return tuple(sorted({one for access in accesses for one in _accesses(access, name)}))


def _accesses(access: NetworkAccess, name: NetworkName) -> Iterator[Access]:
    """The accesses that a NetworkAccess grants a network; none unless its list matches.

    That is by the network's name, `TENANT.*` or `*`.
    """
    spec = access.spec
    if not {"*", f"{name.tenant}.*", str(name)} & set(spec.networks):
        return
    for inbound, peers in ((True, spec.from_), (False, spec.to)):
        for peer in peers:
            ports = tuple(sorted({(p.protocol.lower(), p.port) for p in peer.ports}))
            yield Access(inbound, peer.namespace, _canonical_range(peer.cidr), peer.nodes, ports)


def pod_ranges(node: Node) -> list[str]:
    """The valid pod CIDRs of a node, in their normal form."""
    found = node.spec.pod_cidrs or ((node.spec.pod_cidr,) if node.spec.pod_cidr else ())
    return [text for one in found if (text := _canonical_range(one))]


def node_addresses(node: Node) -> Iterator[str]:
    """The valid IP addresses of a node, in normal form: internal, external and other types in `IP`.

    Host names are left out.
    """
    for one in node.status.addresses:
        if one.type.endswith("IP") and (text := canonical_address(one.address)):
            yield text


def _external_addresses(service: Service) -> Iterator[str]:
    """The external IPs and load balancer IPs of a Service, in normal form.

    Invalid or empty ones are left out.
    """
    balancers = (i.ip for i in service.status.load_balancer.ingress)
    for text in (*service.spec.external_ips, *balancers):
        if address := canonical_address(text):
            yield address


def concerns_rules(before: Object | None, after: Object | None) -> bool:
    """Whether a change of anything but a pod can change the rules.

    An updated Node only by its addresses and pod ranges, a Service, also a new or deleted one, only
    by external addresses; all else always.
    """
    match before, after:
        case Node(), Node():
            return (pod_ranges(before), [*node_addresses(before)]) != (
                pod_ranges(after),
                [*node_addresses(after)],
            )
        case Service(), Service():
            return [*_external_addresses(before)] != [*_external_addresses(after)]
        case (Service() as service, None) | (None, Service() as service):
            return any(_external_addresses(service))
        case _:
            return True


def canonical_address(text: str) -> str:
    """An address in its normal form; empty if the text is none.

    A text in normal form is returned itself, not a copy.
    """
    try:
        address = str(ip_address(text))
    except ValueError:
        return ""
    return text if address == text else address  # most are, and all who hold it share it


def _canonical_range(text: str) -> str:
    """A range in its normal form, without host bits; empty if the text is none."""
    try:
        return str(ip_network(text, strict=False))
    except ValueError:
        return ""
