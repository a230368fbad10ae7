"""The names of one tenant network: its Services and pods, its `kubernetes`, and nobody else's."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from hanse.dns.answers import Answer, Node, Type, address, srv, together, txt
from hanse.dns.names import below, wire_name
from hanse.dns.zone import View
from hanse.features.networks.names import KUBE_SERVICE, NETWORK, TENANT, NetworkName
from hanse.model.facts import Role
from hanse.model.keys import Key
from hanse.model.kinds.core import Pod, Service
from hanse.model.kinds.discovery import Endpoint, EndpointPort, EndpointSlice
from hanse.model.objects import Object
from hanse.model.snapshot import Change, FactChange, Index, Snapshot, Watch

SERVICE, POD = "service", "pod"
VERSION = Key("version")
SLICES = Index(
    EndpointSlice,
    "dns-network-slices",
    lambda s: [f"{s.metadata.namespace}/{s.metadata.labels.get(KUBE_SERVICE, '')}"],
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
        self.watches: tuple[Watch, ...] = tuple(
            watch
            for space in namespaces or ("",)
            for watch in (
                Watch(Role.LOCAL, Service, space, chosen),
                Watch(Role.LOCAL, EndpointSlice, space, chosen, (SLICES,)),
                Watch(Role.LOCAL, Pod, space, chosen),
            )
        )
        self._aliases = {
            (network.alias_namespace, network.kubernetes): ("default", "kubernetes"),
            (network.dns_namespace, network.kube_dns): ("kube-system", "kube-dns"),
        }

    def synced(self, seen: Snapshot) -> bool:
        return all(seen.listed(seen.local, kind) for kind in (Service, EndpointSlice, Pod))

    def keys(self, seen: Snapshot) -> Iterator[Key]:
        yield VERSION
        for service in seen.all(seen.local, Service):
            if self._is_ours(service):
                yield Key(SERVICE, service.metadata.name, service.metadata.namespace)
        for pod in seen.all(seen.local, Pod):
            if self._is_ours(pod):
                yield Key(POD, pod.metadata.name, pod.metadata.namespace)

    def wakes(self, change: Change, seen: Snapshot) -> Iterable[Key]:
        if isinstance(change, FactChange) or change.where != seen.local:
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

    def telling(self, seen: Snapshot) -> Callable[[Key], Sequence[Node]]:
        def tell(key: Key) -> Sequence[Node]:
            if key == VERSION:
                version = together(Type.TXT, [txt("1.1.0")], self.view.ttl)
                return (Node(b"\x0bdns-version" + self._apex, (version,)),)
            if key.topic == POD:
                pod = seen.get(seen.local, Pod, key.name, key.namespace)
                return list(self._pod(pod)) if pod is not None and self._is_ours(pod) else ()
            service = seen.get(seen.local, Service, key.name, key.namespace)
            if service is None or not self._is_ours(service):
                return ()
            return list(self._service(service, seen))

        return tell

    def _is_ours(self, obj: Object) -> bool:
        return all(obj.metadata.labels.get(name) == value for name, value in self._labels.items())

    def _service(self, service: Service, seen: Snapshot) -> Iterator[Node]:
        """A Service under its own name, and under the one that every cluster has for it."""
        meta = service.metadata
        names = [(meta.namespace, meta.name)]
        if alias := self._aliases.get(names[0]):
            names.append(alias)
        for namespace, called in names:
            space = below(namespace, self._services)
            name = below(called, space) if space is not None else None
            if name is None:
                continue
            if service.headless:
                yield from self._headless(name, service, seen)
            else:
                yield from self._addressed(name, service)

    def _addressed(self, name: bytes, service: Service) -> Iterator[Node]:
        several = service.spec.cluster_ips or (service.spec.cluster_ip,)
        rdatas = [rdata for text in several if (rdata := address(text)) is not None]
        ports = [(p.name, p.protocol, p.port) for p in service.spec.ports] if rdatas else []
        yield Node(name, (*self._addresses(rdatas), *self._srv([srv(p, name) for *_, p in ports])))
        for called, protocol, number in ports:
            own = _port_name(called, protocol, name) if called else None
            if own is not None:
                yield Node(own, self._srv([srv(number, name)]))

    def _headless(self, name: bytes, service: Service, seen: Snapshot) -> Iterator[Node]:
        """Every ready endpoint, each also by a name of its own."""
        place = f"{service.metadata.namespace}/{service.metadata.name}"
        pods: dict[bytes, list[bytes]] = {}
        named: dict[tuple[str, str], list[bytes]] = {}
        for piece in seen.by(seen.local, SLICES, place):
            if not self._is_ours(piece):
                continue
            for endpoint in piece.endpoints or ():
                if endpoint.ready or service.spec.publish_not_ready_addresses:
                    own = self._endpoint(name, endpoint, pods)
                    _count_ports(piece.ports or (), own, named)
        everybody = [rdata for several in pods.values() for rdata in several]
        every_port = [record for several in named.values() for record in several]
        yield Node(name, (*self._addresses(everybody), *self._srv(every_port)))
        for own, rdatas in pods.items():
            yield Node(own, self._addresses(rdatas))
        for (called, protocol), records in named.items():
            title = _port_name(called, protocol, name) if called else None
            if title is not None:
                yield Node(title, self._srv(records))

    def _endpoint(
        self, name: bytes, endpoint: Endpoint, pods: dict[bytes, list[bytes]]
    ) -> bytes | None:
        rdatas = [rdata for text in endpoint.addresses if (rdata := address(text)) is not None]
        if not rdatas:
            return None
        own = below(endpoint.hostname or _dashed(endpoint.addresses[0]), name)
        if own is not None:
            pods.setdefault(own, []).extend(rdatas)
        return own

    def _pod(self, pod: Pod) -> Iterator[Node]:
        space = below(pod.metadata.namespace, self._pods)
        for one in pod.status.pod_ips:
            rdata = address(one.ip)
            name = below(_dashed(one.ip), space) if space is not None else None
            if name is not None and rdata is not None:
                yield Node(name, self._addresses([rdata]))

    def _addresses(self, rdatas: Sequence[bytes]) -> tuple[Answer, ...]:
        several = list(dict.fromkeys(rdatas))
        four = [rdata for rdata in several if len(rdata) == 4]
        sixteen = [rdata for rdata in several if len(rdata) == 16]
        told = ((Type.A, four), (Type.AAAA, sixteen))
        return tuple(together(rtype, some, self.view.ttl) for rtype, some in told if some)

    def _srv(self, records: Sequence[bytes]) -> tuple[Answer, ...]:
        several = list(dict.fromkeys(records))
        return (together(Type.SRV, several, self.view.ttl),) if several else ()


def _count_ports(
    ports: Iterable[EndpointPort], own: bytes | None, named: dict[tuple[str, str], list[bytes]]
) -> None:
    for port in ports:
        if own is not None and port.port is not None:
            named.setdefault((port.name, port.protocol), []).append(srv(port.port, own))


def _port_name(port: str, protocol: str, name: bytes) -> bytes | None:
    parent = below(f"_{protocol}", name)
    return below(f"_{port}", parent) if parent is not None else None


def _dashed(text: str) -> str:
    return text.replace(".", "-").replace(":", "-")
