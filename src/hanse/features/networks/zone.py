"""The names of one tenant network: its Services and pods, its `kubernetes`, and nobody else's."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from hanse.features.networks.names import NETWORK, TENANT, NetworkName
from hanse.model.dns.names import child_name, wire_name
from hanse.model.dns.records import ZoneNode, address_rdata, version_node
from hanse.model.dns.service_records import (
    SCHEMA_VERSION,
    address_rrsets,
    dashed_address,
    service_nodes,
)
from hanse.model.dns.zones import View
from hanse.model.facts import Role
from hanse.model.kinds.core import Pod, Service
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.objects import Object
from hanse.model.plan import Key
from hanse.model.snapshot import Change, FactChange, Index, Snapshot, Watch

SERVICE, POD = "service", "pod"
VERSION = Key("version")
SLICES_BY_SERVICE = Index(
    EndpointSlice,
    "dns-network-slices",
    lambda s: [f"{s.metadata.namespace}/{s.metadata.labels.get(KUBE_SERVICE, '')}"],
)


def watches(namespace: str = "", labels: str = NETWORK) -> tuple[Watch, ...]:
    """What has to be seen for the names of some networks; by itself: of all."""
    return (
        Watch(Role.LOCAL, Service, namespace, labels),
        Watch(Role.LOCAL, EndpointSlice, namespace, labels, (SLICES_BY_SERVICE,)),
        Watch(Role.LOCAL, Pod, namespace, labels),
    )


class NetworkZone:
    """All names of one network, as pods in it see them."""

    name = "network"

    def __init__(self, view: View, network: NetworkName, namespaces: Sequence[str] = ()) -> None:
        self.view = view
        self.network = network
        self._labels = {TENANT: network.tenant, NETWORK: network.network}
        self._apex = wire_name(view.zone)
        self._services = b"\x03svc" + self._apex
        self._pods = b"\x03pod" + self._apex
        self.zones: tuple[bytes, ...] = (self._apex,)
        chosen = ",".join(f"{name}={value}" for name, value in self._labels.items())
        self.watches = tuple(w for space in namespaces or ("",) for w in watches(space, chosen))
        self._aliases = {
            (network.alias_namespace, network.kubernetes): ("default", "kubernetes"),
            (network.dns_namespace, network.kube_dns): ("kube-system", "kube-dns"),
        }

    def synced(self, snapshot: Snapshot) -> bool:
        return all(snapshot.listed(snapshot.local, kind) for kind in (Service, EndpointSlice, Pod))

    def keys(self, snapshot: Snapshot) -> Iterator[Key]:
        yield VERSION
        for service in snapshot.all(snapshot.local, Service):
            if self._is_ours(service):
                yield Key(SERVICE, service.metadata.name, service.metadata.namespace)
        for pod in snapshot.all(snapshot.local, Pod):
            if self._is_ours(pod):
                yield Key(POD, pod.metadata.name, pod.metadata.namespace)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        if isinstance(change, FactChange) or change.where != snapshot.local:
            return ()
        sides = [s for s in (change.before, change.after) if s is not None and self._is_ours(s)]
        match change.object:
            case Service():
                return [Key(SERVICE, s.metadata.name, s.metadata.namespace) for s in sides[:1]]
            case Pod():
                return [Key(POD, s.metadata.name, s.metadata.namespace) for s in sides[:1]]
            case EndpointSlice():
                return {
                    Key(SERVICE, s.metadata.labels[KUBE_SERVICE], s.metadata.namespace)
                    for s in sides
                    if KUBE_SERVICE in s.metadata.labels
                }
            case _:
                return ()

    def records_for(self, snapshot: Snapshot) -> Callable[[Key], Sequence[ZoneNode]]:
        def build_nodes(key: Key) -> Sequence[ZoneNode]:
            if key == VERSION:
                return (version_node(self._apex, SCHEMA_VERSION, self.view.ttl),)
            if key.topic == POD:
                pod = snapshot.get(snapshot.local, Pod, key.name, key.namespace)
                return list(self._pod(pod)) if pod is not None and self._is_ours(pod) else ()
            service = snapshot.get(snapshot.local, Service, key.name, key.namespace)
            if service is None or not self._is_ours(service):
                return ()
            return list(self._service(service, snapshot))

        return build_nodes

    def _is_ours(self, obj: Object) -> bool:
        return all(obj.metadata.labels.get(name) == value for name, value in self._labels.items())

    def _service(self, service: Service, snapshot: Snapshot) -> Iterator[ZoneNode]:
        """A Service under its own name, and under the one that every cluster has for it."""
        meta = service.metadata
        names = [(meta.namespace, meta.name)]
        if alias := self._aliases.get(names[0]):
            names.append(alias)
        for namespace, called in names:
            space = child_name(namespace, self._services)
            name = child_name(called, space) if space is not None else None
            if name is None:
                continue
            place = f"{meta.namespace}/{meta.name}"
            slices = [
                piece
                for piece in snapshot.by(snapshot.local, SLICES_BY_SERVICE, place)
                if self._is_ours(piece)
            ]
            yield from service_nodes(name, service, slices, self.view.ttl)

    def _pod(self, pod: Pod) -> Iterator[ZoneNode]:
        space = child_name(pod.metadata.namespace, self._pods)
        for one in pod.status.pod_ips:
            rdata = address_rdata(one.ip)
            name = child_name(dashed_address(one.ip), space) if space is not None else None
            if name is not None and rdata is not None:
                yield ZoneNode(name, address_rrsets([rdata], self.view.ttl))
