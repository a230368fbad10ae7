"""The zone of one tenant network: only its own Services and pods, and its `kubernetes`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import ip_address

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
    """The watches on Services, EndpointSlices and pods by labels; by default of all networks."""
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
        """The names in namespaces, or in all; `follow` those that the network's ConfigMap names."""
        self.view = view
        self.network = network
        self._labels = {TENANT: network.tenant, NETWORK: network.network}
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
        """The watches for the namespaces in the network's ConfigMap.

        Empty if it is not followed, is missing or lacks the key: the watches stay as they are.
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
        """The watches for these namespaces, and for the ConfigMap if it is followed."""
        selector = ",".join(f"{name}={value}" for name, value in self._labels.items())
        own = (w for namespace in namespaces for w in watches(namespace, selector))
        return (*own, *((self._config,) if self._config is not None else ()))

    def synced(self, snapshot: Snapshot) -> bool:
        """Whether Services, slices and pods are listed, and the namespaces named if followed."""
        if self._config is not None and self._named_namespaces(snapshot) is None:
            return False
        return all(snapshot.listed(snapshot.local, kind) for kind in (Service, EndpointSlice, Pod))

    def keys(self, snapshot: Snapshot) -> Iterator[Key]:
        """`VERSION`, and the keys of all Services and pods of this zone."""
        yield VERSION
        for service in snapshot.all(snapshot.local, Service):
            if self._is_ours(service):
                yield Key(SERVICE, service.metadata.name, service.metadata.namespace)
        for pod in snapshot.all(snapshot.local, Pod):
            if self._is_ours(pod):
                yield Key(POD, pod.metadata.name, pod.metadata.namespace)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The key of a changed Service or pod, or of the Services of a changed EndpointSlice.

        Facts, other clusters and objects outside this zone have no keys.
        """
        if isinstance(change, FactChange) or change.where != snapshot.local:
            return ()
        versions = [s for s in (change.before, change.after) if s is not None and self._is_ours(s)]
        match change.object:
            case Service():
                return [Key(SERVICE, s.metadata.name, s.metadata.namespace) for s in versions[:1]]
            case Pod():
                return [Key(POD, s.metadata.name, s.metadata.namespace) for s in versions[:1]]
            case EndpointSlice():
                return {
                    Key(SERVICE, s.metadata.labels[KUBE_SERVICE], s.metadata.namespace)
                    for s in versions
                    if KUBE_SERVICE in s.metadata.labels
                }
            case _:
                return ()

    def records_for(self, snapshot: Snapshot) -> Callable[[Key], Sequence[ZoneNode]]:
        """A function that builds a key's nodes from the snapshot.

        A key whose object is gone or is not in this zone has no nodes.
        """

        def build_nodes(key: Key) -> Sequence[ZoneNode]:
            """The nodes of a key; none if its object is gone or is not in this zone."""
            if key == VERSION:
                return (version_node(self._apex, SCHEMA_VERSION, self.view.ttl),)
            if key.topic == POD:
                pod = snapshot.get(snapshot.local, Pod, key.name, key.namespace)
                return list(self._pod_nodes(pod)) if pod is not None and self._is_ours(pod) else ()
            service = snapshot.get(snapshot.local, Service, key.name, key.namespace)
            if service is None or not self._is_ours(service):
                return ()
            return list(self._service_nodes(service, snapshot))

        return build_nodes

    def _is_ours(self, obj: Object) -> bool:
        """Whether an object has the labels of the network."""
        return all(obj.metadata.labels.get(name) == value for name, value in self._labels.items())

    def _service_nodes(self, service: Service, snapshot: Snapshot) -> Iterator[ZoneNode]:
        """The nodes of a Service, also as `kubernetes` or `kube-dns` if it stands for that.

        Its private cluster IPs have reverse names, unless it is headless.
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
                if self._is_ours(endpoint_slice)
            ]
            yield from service_nodes(name, service, slices, self.view.ttl)
        if name is not None and not service.headless:
            for address in service.spec.cluster_ips or (service.spec.cluster_ip,):
                yield from self._reverse_nodes(address, name)

    def _pod_nodes(self, pod: Pod) -> Iterator[ZoneNode]:
        """The names of a pod by its dashed addresses, and their reverse names."""
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
        """The PTR record of a private address; none for others."""
        try:
            reverse = wire_name(ip_address(address).reverse_pointer)
        except ValueError:
            return
        if reverse.endswith(REVERSE_ZONES):
            yield ZoneNode(reverse, (full_rrset(RecordType.PTR, [name], self.view.ttl),))
