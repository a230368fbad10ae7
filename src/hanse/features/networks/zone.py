"""The zone of one tenant network: only its own Services and pods, and its `kubernetes`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import ip_address

from msgspec import Struct

from hanse.features.networks.names import NETWORK, TENANT, NetworkName
from hanse.model.dns.names import child_name, wire_name
from hanse.model.dns.records import (
    RecordType,
    ZoneNode,
    address_rdata,
    full_rrset,
    version_node,
)
from hanse.model.dns.service_records import (
    SCHEMA_VERSION,
    address_rrsets,
    dashed_address,
    service_nodes,
)
from hanse.model.dns.zones import View
from hanse.model.facts import Role
from hanse.model.kinds.core import ConfigMap, Pod, Service
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.objects import Object
from hanse.model.plan import Key
from hanse.model.snapshot import Change, FactChange, Index, Snapshot, Watch

SERVICE, POD = "service", "pod"
_KINDS: dict[str, type[Service] | type[Pod]] = {SERVICE: Service, POD: Pod}
NAMESPACES = "namespaces"
"""The key of the ConfigMap with the namespaces of a network's tenant."""
VERSION = Key("version")
SLICES_BY_SERVICE = Index(
    EndpointSlice,
    "dns-network-slices",
    lambda s: [f"{s.metadata.namespace}/{s.metadata.labels.get(KUBE_SERVICE, '')}"],
)


REVERSE_ZONES = tuple(
    wire_name(zone)
    for zone in (
        *("10.in-addr.arpa", "168.192.in-addr.arpa", "d.f.ip6.arpa"),
        *(f"{second}.172.in-addr.arpa" for second in range(16, 32)),
    )
)
"""The reverse names of private addresses, which nobody else answers; others are forwarded."""


def watches(namespace: str = "", labels: str = NETWORK) -> tuple[Watch, ...]:
    """The watches on Services, EndpointSlices and pods with these labels, by default any network's.

    In one namespace, or by default in all.
    """
    return (
        Watch(Role.LOCAL, Service, namespace, labels),
        Watch(Role.LOCAL, EndpointSlice, namespace, labels, (SLICES_BY_SERVICE,)),
        Watch(Role.LOCAL, Pod, namespace, labels),
    )


class NetworkZone:
    """All names of one network, for the pods in it."""

    name = "network"

    def __init__(
        self,
        view: View,
        network: NetworkName,
        namespaces: Sequence[str] = (),
        *,
        follow: bool = False,
    ) -> None:
        """Serve the names in these namespaces, or without any in all.

        With `follow`, and no namespaces given, at first only in that of the network's DNS: its
        ConfigMap names the others.
        """
        self.view = view
        self.network = network
        self._apex = wire_name(view.zone)
        self._services = b"\x03svc" + self._apex
        self._pods = b"\x03pod" + self._apex
        self.zones: tuple[bytes, ...] = (self._apex, *REVERSE_ZONES)
        config = Watch(Role.LOCAL, ConfigMap, network.dns_namespace, name=network.kube_dns)
        self._config = config if follow else None
        self.watches = self._watches(namespaces or (network.dns_namespace if follow else "",))
        self._aliases = {
            (network.alias_namespace, network.kubernetes): ("default", "kubernetes"),
            (network.dns_namespace, network.kube_dns): ("kube-system", "kube-dns"),
        }

    def followed_watches(self, snapshot: Snapshot) -> tuple[Watch, ...]:
        """The watches for the namespaces in the network's ConfigMap, and for that itself.

        Empty if the zone does not follow the ConfigMap, or that is missing or lacks the key: the
        watches then stay as they are.
        """
        named = self._named_namespaces(snapshot)
        return self._watches(named) if self._config is not None and named is not None else ()

    def _named_namespaces(self, snapshot: Snapshot) -> Sequence[str] | None:
        """The namespaces in the network's ConfigMap; None if that is missing or lacks the key."""
        network = self.network
        config = snapshot.get(snapshot.local, ConfigMap, network.kube_dns, network.dns_namespace)
        if config is None or NAMESPACES not in config.data:
            return None
        return config.data[NAMESPACES].split()

    def _watches(self, namespaces: Sequence[str]) -> tuple[Watch, ...]:
        """The watches for these namespaces, by the labels of the network.

        Also that of its ConfigMap, if it is followed.
        """
        selector = f"{TENANT}={self.network.tenant},{NETWORK}={self.network.network}"
        own = (w for namespace in namespaces for w in watches(namespace, selector))
        return (*own, *((self._config,) if self._config is not None else ()))

    def synced(self, snapshot: Snapshot) -> bool:
        """Whether Services, EndpointSlices and pods are listed.

        If the zone follows the network's ConfigMap, also whether that is there and has the list of
        namespaces.
        """
        if self._config is not None and self._named_namespaces(snapshot) is None:
            return False
        return all(snapshot.listed(snapshot.local, kind) for kind in (Service, EndpointSlice, Pod))

    def keys(self, snapshot: Snapshot) -> Iterator[Key]:
        """`VERSION`, and the keys of all Services and pods of this zone."""
        yield VERSION
        members = self.members(snapshot)
        for topic, kind in _KINDS.items():
            for obj in members.candidates(kind):
                if members.has(obj):
                    yield Key(topic, obj.metadata.name, obj.metadata.namespace)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The keys of a changed Service or pod, or of the Service of a changed EndpointSlice.

        Before and after the change. Facts, other clusters and objects outside this zone have no
        keys.
        """
        if isinstance(change, FactChange) or change.where != snapshot.local:
            return ()
        members = self.members(snapshot)
        versions = (change.before, change.after)
        return {key for v in versions if v is not None and members.has(v) for key in member_keys(v)}

    def members(self, snapshot: Snapshot) -> "ZoneMembers":
        """Which objects have names in this zone: those whose labels name its tenant and network.

        Namespaces are not verified, and there are no peers.
        """
        return ZoneMembers(
            self.network, _labelled_network, lambda kind: snapshot.all(snapshot.local, kind)
        )

    def records_for(self, snapshot: Snapshot) -> Callable[[Key], Sequence[ZoneNode]]:
        """A function that builds a key's nodes from the snapshot.

        It leaves out reverse names of objects in peered networks. A key whose object is gone or is
        not in this zone has no nodes.
        """
        members = self.members(snapshot)

        def build_nodes(key: Key) -> Sequence[ZoneNode]:
            """The nodes of a key; none if its object is gone or is not in this zone.

            Those of a peer's object are without reverse names; `VERSION` has the version of the
            zone.
            """
            if key == VERSION:
                return (version_node(self._apex, SCHEMA_VERSION, self.view.ttl),)
            obj = snapshot.get(snapshot.local, _KINDS[key.topic], key.name, key.namespace)
            if obj is None or not members.has(obj):
                return ()
            nodes = self._nodes(obj, members, snapshot)
            if members.network_of(obj) == self.network:
                return list(nodes)
            return [n for n in nodes if not n.name.endswith(REVERSE_ZONES)]

        return build_nodes

    def _nodes(self, obj: Object, members: "ZoneMembers", snapshot: Snapshot) -> Iterator[ZoneNode]:
        """The nodes of a Service or a pod; none for other objects."""
        match obj:
            case Service():
                yield from self._service_nodes(obj, members, snapshot)
            case Pod():
                yield from self._pod_nodes(obj)

    def _service_nodes(
        self, service: Service, members: "ZoneMembers", snapshot: Snapshot
    ) -> Iterator[ZoneNode]:
        """The nodes of a Service, also as `kubernetes` or `kube-dns` if it stands for that.

        Its private cluster IPs have reverse names, unless it is headless, which point to the alias
        if there is one. An ExternalName Service has only a CNAME.
        """
        meta = service.metadata
        names = [(meta.namespace, meta.name)]
        if alias := self._aliases.get(names[0]):
            names.append(alias)
        for namespace, service_name in names:
            namespace_domain = child_name(namespace, self._services)
            name = (
                child_name(service_name, namespace_domain) if namespace_domain is not None else None
            )
            if name is None:
                continue
            service_key = f"{meta.namespace}/{meta.name}"
            slices = [
                endpoint_slice
                for endpoint_slice in snapshot.by(snapshot.local, SLICES_BY_SERVICE, service_key)
                if members.network_of(endpoint_slice) == members.network_of(service)
            ]
            yield from service_nodes(name, service, slices, self.view.ttl)
        if name is not None and not service.headless:
            for address in service.spec.cluster_ips or (service.spec.cluster_ip,):
                yield from self._reverse_nodes(address, name)

    def _pod_nodes(self, pod: Pod) -> Iterator[ZoneNode]:
        """A node for each address of a pod, `ADDRESS.NAMESPACE.pod.ZONE` with a dashed address.

        Private addresses also have a PTR record.
        """
        namespace_domain = child_name(pod.metadata.namespace, self._pods)
        for pod_ip in pod.status.pod_ips:
            rdata = address_rdata(pod_ip.ip)
            name = (
                child_name(dashed_address(pod_ip.ip), namespace_domain)
                if namespace_domain is not None
                else None
            )
            if name is not None and rdata is not None:
                yield ZoneNode(name, address_rrsets([rdata], self.view.ttl))
                yield from self._reverse_nodes(pod_ip.ip, name)

    def _reverse_nodes(self, address: str, name: bytes) -> Iterator[ZoneNode]:
        """The PTR record of an address that is in `REVERSE_ZONES`, to a name.

        None for public addresses, and for texts that are no address.
        """
        try:
            reverse = wire_name(ip_address(address).reverse_pointer)
        except ValueError:
            return
        if reverse.endswith(REVERSE_ZONES):
            yield ZoneNode(reverse, (full_rrset(RecordType.PTR, [name], self.view.ttl),))


class ZoneMembers(Struct, frozen=True):
    """Whose objects have names in the zone of a network: its own, and those of its peers."""

    network: NetworkName
    network_of: Callable[[Object], NetworkName | None]
    candidates: Callable[[type[Service] | type[Pod]], Iterator[Service | Pod]]
    """Objects of a kind among which those are."""
    peers: frozenset[NetworkName] = frozenset()

    def has(self, obj: Object) -> bool:
        """Whether an object is of the network or of one of its peers; False if it is of none."""
        found = self.network_of(obj)
        return found is not None and (found == self.network or found in self.peers)


def member_keys(obj: Object) -> tuple[Key, ...]:
    """The key of a Service or pod, or of the Service of an EndpointSlice; none for others."""
    meta = obj.metadata
    match obj:
        case Service():
            return (Key(SERVICE, meta.name, meta.namespace),)
        case Pod():
            return (Key(POD, meta.name, meta.namespace),)
        case EndpointSlice() if KUBE_SERVICE in meta.labels:
            return (Key(SERVICE, meta.labels[KUBE_SERVICE], meta.namespace),)
        case _:
            return ()


def _labelled_network(obj: Object) -> NetworkName | None:
    """The network of an object's tenant and network labels, unverified.

    None unless it has both.
    """
    labels = obj.metadata.labels
    if TENANT not in labels or NETWORK not in labels:
        return None
    return NetworkName(labels[TENANT], labels[NETWORK])
