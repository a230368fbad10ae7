"""The names of all flat networks for one server: each client is answered from its own network.

Whose a client's address is, and whose a name is, is decided by the namespace's tenant and the
label of the pod or Service, as everywhere (`membership.py`).
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from msgspec import Struct

from hanse.features.networks.addressed_pods import AddressedPod
from hanse.features.networks.guard.facts import (
    PODS_BY_OWN_ADDRESS,
    AddressOwner,
    address_owner,
    pod_addresses,
)
from hanse.features.networks.lookups import (
    FLAT,
    NAMESPACES_BY_TENANT,
    NETWORKS_BY_TENANT,
    PEERINGS_BY_PEER,
    find_network,
    tenant_namespaces,
    tenant_networks,
)
from hanse.features.networks.membership import network_of
from hanse.features.networks.names import NETWORK, TENANT, NetworkName, parse_network_name
from hanse.features.networks.peering import agreed_peers, own_network
from hanse.features.networks.zone import SLICES_BY_SERVICE, NetworkZone, ZoneMembers, member_keys
from hanse.model.facts import Role
from hanse.model.kinds.core import Namespace, Pod, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.networks import Network, NetworkPeering, Tenant
from hanse.model.objects import Object
from hanse.model.plan import Key
from hanse.model.snapshot import Change, ObjectChange, Snapshot, Watch

SHARED_WATCHES: tuple[Watch, ...] = (
    Watch(Role.LOCAL, AddressedPod, indexes=(PODS_BY_OWN_ADDRESS,), reason="whose an address is"),
    Watch(Role.LOCAL, Service, labels=NETWORK, reason="names of Services in networks"),
    Watch(
        Role.LOCAL,
        EndpointSlice,
        labels=NETWORK,
        indexes=(SLICES_BY_SERVICE,),
        reason="endpoints of headless Services",
    ),
    Watch(
        Role.LOCAL,
        Namespace,
        indexes=(NAMESPACES_BY_TENANT,),
        reason="which tenant a pod or Service belongs to",
    ),
    Watch(Role.LOCAL, Tenant, reason="which tenants exist"),
    Watch(Role.LOCAL, Network, indexes=(NETWORKS_BY_TENANT,), reason="which networks exist"),
    Watch(
        Role.LOCAL,
        NetworkPeering,
        indexes=(PEERINGS_BY_PEER,),
        reason="which networks know each other's names",
    ),
)
"""All watches of a server of all networks, which writes nothing."""


class SharedNetworkZone(NetworkZone):
    """The names of one network and of the networks it is peered with, by `membership.py`.

    Reverse names are those of its own addresses alone.
    """

    def members(self, snapshot: Snapshot) -> ZoneMembers:
        """The objects with names in this zone: of its network, and of peers that agreed.

        Their network is decided by their namespace's tenant and their labels.
        """
        name = self.network
        peers = frozenset(
            p for own, p in agreed_peers(name.tenant, snapshot) if own == name.network
        )
        tenants = {name.tenant, *(peer.tenant for peer in peers)}
        spaces = [n.metadata.name for t in tenants for n in tenant_namespaces(t, snapshot)]

        def candidates(kind: type[Service] | type[Pod]) -> Iterator[Service | Pod]:
            """The objects of a kind in the namespaces of these tenants."""
            return chain.from_iterable(
                snapshot.in_namespace(snapshot.local, kind, space) for space in spaces
            )

        return ZoneMembers(name, lambda obj: _network_of(obj, snapshot), candidates, peers)


class ConcernedNames(Struct, frozen=True):
    """What a change may concern of a server of all networks."""

    keys: frozenset[tuple[NetworkName, Key]] = frozenset()
    """Keys in the zones of networks."""
    networks: frozenset[NetworkName] = frozenset()
    """Networks of which every name may change; some may not exist any more."""
    addresses: frozenset[str] = frozenset()
    """Addresses whose network may be another."""


def flat_networks(snapshot: Snapshot) -> set[NetworkName]:
    """The names of the existing networks of type flat, which the shared DNS server answers."""
    networks = snapshot.all(snapshot.local, Network)
    names = (parse_network_name(network.metadata.name) for network in networks)
    return {name for name in names if is_flat(name, snapshot)}


def is_flat(name: NetworkName, snapshot: Snapshot) -> bool:
    """Whether a network exists and is of type flat."""
    network = find_network(name, snapshot)
    return network is not None and network.spec.type == FLAT


def asker_network(address: str, snapshot: Snapshot) -> NetworkName | None:
    """The flat network of the pods that have an address; None if no pod has it.

    None, too, if its pods are in several namespaces or networks, or in no network of type flat.
    """
    owner = address_owner(address, snapshot)
    if not isinstance(owner, AddressOwner) or owner.network is None:
        return None
    return owner.network if is_flat(owner.network, snapshot) else None


def concerned_names(change: Change, snapshot: Snapshot) -> ConcernedNames:
    """The keys, networks and client addresses whose answers a change may affect.

    Of a pod, Service or slice its keys, and a pod's addresses; of a Network, peering, Tenant, or
    namespace all names of their networks and possible peers, and for Networks and namespaces the
    addresses of pods. None for an update that changes neither a namespace's tenant nor whether it
    is terminating, for facts, and for objects of other clusters and kinds.
    """
    if not isinstance(change, ObjectChange) or change.where != snapshot.local:
        return ConcernedNames()
    match change.object:
        case Pod() | Service() | EndpointSlice():
            return _concerned_by_member(change, snapshot)
        case Namespace(metadata=meta):
            versions = (v for v in (change.before, change.after) if v is not None)
            tenants = {v.metadata.labels.get(TENANT, "") for v in versions} - {""}
            if change.before is not None and change.after is not None and not _is_moved(change):
                return ConcernedNames()
            return ConcernedNames(
                networks=frozenset(_networks_of(tenants, snapshot)),
                addresses=_addresses_in([meta.name], snapshot),
            )
        case Network(metadata=meta):
            name = parse_network_name(meta.name)
            spaces = (n.metadata.name for n in tenant_namespaces(name.tenant, snapshot))
            return ConcernedNames(
                networks=frozenset({name, *_possible_peers(name, snapshot)}),
                addresses=_addresses_in(spaces, snapshot),
            )
        case NetworkPeering():
            peerings = [v for v in (change.before, change.after) if isinstance(v, NetworkPeering)]
            ends = ((own_network(p, snapshot), parse_network_name(p.spec.peer)) for p in peerings)
            return ConcernedNames(networks=frozenset(chain.from_iterable(ends)))
        case Tenant(metadata=meta):
            return ConcernedNames(networks=frozenset(_networks_of({meta.name}, snapshot)))
        case _:
            return ConcernedNames()


def _concerned_by_member(change: ObjectChange, snapshot: Snapshot) -> ConcernedNames:
    """The keys that a changed Service, pod or slice has in zones of its network and possible peers.

    Before and after the change; also the addresses of a pod.
    """
    keys: set[tuple[NetworkName, Key]] = set()
    addresses: set[str] = set()
    for version in (change.before, change.after):
        if version is None:
            continue
        if isinstance(version, Pod):
            addresses |= pod_addresses(version)
        own = _network_of(version, snapshot)
        if own is not None:
            audience = (own, *_possible_peers(own, snapshot))
            keys |= {(name, key) for name in audience for key in member_keys(version)}
    return ConcernedNames(frozenset(keys), addresses=frozenset(addresses))


def _network_of(obj: Object, snapshot: Snapshot) -> NetworkName | None:
    """The existing network of an object, by its namespace and labels; None if it is in none."""
    namespace = snapshot.get(snapshot.local, Namespace, obj.metadata.namespace)
    return network_of(obj, namespace, lambda name: find_network(name, snapshot) is not None)


def _is_moved(change: ObjectChange) -> bool:
    """Whether an update gives a namespace another tenant, or changes whether it is terminating.

    Both versions must be Namespaces.
    """
    before, after = change.before, change.after
    assert isinstance(before, Namespace)
    assert isinstance(after, Namespace)
    labels = (before.metadata.labels.get(TENANT), after.metadata.labels.get(TENANT))
    return labels[0] != labels[1] or before.terminating != after.terminating


def _networks_of(tenants: Iterable[str], snapshot: Snapshot) -> Iterator[NetworkName]:
    """The networks of tenants, and those that a NetworkPeering of either side names.

    A name may be given more than once.
    """
    for tenant in tenants:
        for network in tenant_networks(tenant, snapshot):
            name = parse_network_name(network.metadata.name)
            yield name
            yield from _possible_peers(name, snapshot)


def _possible_peers(name: NetworkName, snapshot: Snapshot) -> Iterator[NetworkName]:
    """The networks that a NetworkPeering of either side names, whether or not both agree.

    They need not exist, and may be given more than once.
    """
    for namespace in tenant_namespaces(name.tenant, snapshot):
        space = namespace.metadata.name
        for peering in snapshot.in_namespace(snapshot.local, NetworkPeering, space):
            if peering.spec.network == name.network:
                yield parse_network_name(peering.spec.peer)
    for peering in snapshot.by(snapshot.local, PEERINGS_BY_PEER, str(name)):
        yield own_network(peering, snapshot)


def _addresses_in(namespaces: Iterable[str], snapshot: Snapshot) -> frozenset[str]:
    """The addresses of all pods in these namespaces.

    Without those of pods that have finished or the node's network.
    """
    pods = (p for s in namespaces for p in snapshot.in_namespace(snapshot.local, Pod, s))
    return frozenset(address for pod in pods for address in pod_addresses(pod))
