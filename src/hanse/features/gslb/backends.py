"""What clusters bring: Services, Ingresses and Routes with a host name and an address."""

import re
from collections.abc import Iterable, Iterator
from ipaddress import ip_address

from msgspec import Struct

from hanse.features.gslb.monitors import is_http_path
from hanse.features.gslb.names import HOSTNAMES
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.gateways import Gateway, HTTPRoute, Route
from hanse.model.kinds.globalservice import GlobalService, Monitor
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.kinds.networking import Ingress
from hanse.model.objects import ClusterId, Object
from hanse.model.questions import host_lookup
from hanse.model.schema import SUBDOMAIN
from hanse.model.snapshot import Index, Snapshot

SOURCE_KINDS: tuple[type[Object], ...] = (Service, Ingress, Route, HTTPRoute)
_HOST = re.compile(f"(?=.{{1,253}}$){SUBDOMAIN}")
UNNAMED_PREFIX = "~"
"""Before `<name>.<namespace>`: a Service that has no host name unless a domain is given."""


class HostBackend(Struct, frozen=True):
    """One way in that serves a host: where, watched how, and whether anything is behind it."""

    address: str
    """Empty where it has but a name, and that has no address or none that is known now."""
    source: Object
    monitor: Monitor | None
    ready: bool
    hostname: str = ""
    """The name that was looked up for the address, as load balancers of some clouds have one."""


def list_hosts(obj: Object) -> Iterator[str]:
    """The host names that an object serves, in lower case; a Service may have but a front part.

    What is no name of one host, a wildcard among them, gets no global service.
    """
    return (h for h in _told_hosts(obj) if h.startswith(UNNAMED_PREFIX) or is_host_name(h))


def is_host_name(told: str) -> bool:
    """Whether a name is that of one host, however it is written."""
    return _HOST.fullmatch(told.strip().lower().removesuffix(".")) is not None


class InvalidName(Struct, frozen=True):
    """What is written where a host's name should be."""

    field: str
    name: str


def invalid_names(obj: Object) -> Iterator[InvalidName]:
    """What an object has for host names and what is none."""
    for field, name in _names_in(obj):
        if name.strip() and not is_host_name(name):
            yield InvalidName(field, name.strip())


def _names_in(obj: Object) -> Iterator[tuple[str, str]]:
    """Host names as people wrote them, each with its field."""
    match obj:
        case Service() if obj.spec.type == "LoadBalancer":
            told = obj.metadata.annotations.get(HOSTNAMES, "")
            yield from ((f"annotation {HOSTNAMES}", name) for name in told.split(","))
        case Ingress():
            yield from ((f"spec.rules[{n}].host", r.host) for n, r in enumerate(obj.spec.rules))
        case Route():
            yield "spec.host", obj.spec.host
        case HTTPRoute():
            yield from ((f"spec.hostnames[{n}]", h) for n, h in enumerate(obj.spec.hostnames))
        case _:
            return


def _told_hosts(obj: Object) -> Iterator[str]:
    match obj:
        case Service() if obj.spec.type == "LoadBalancer":
            named = list(_service_hosts(obj))
            yield from named
            if not named:
                yield f"{UNNAMED_PREFIX}{obj.metadata.name}.{obj.metadata.namespace}"
        case Service():
            return
        case _:
            yield from dict.fromkeys(name.lower() for _, name in _names_in(obj) if name)


SERVICE_HOSTS = Index(Service, "gslb-host", list_hosts)
INGRESS_HOSTS = Index(Ingress, "gslb-host", list_hosts)
ROUTE_HOSTS = Index(Route, "gslb-host", list_hosts)
HTTPROUTE_HOSTS = Index(HTTPRoute, "gslb-host", list_hosts)


def list_backend_services(obj: Object) -> Iterator[str]:
    """The Services that an object leads to, as `<namespace>/<name>`."""
    names: Iterable[str] = ()
    match obj:
        case Ingress():
            names = [n for rule in obj.spec.rules for n in _ingress_paths(obj, rule.host)[1]]
        case Route():
            names = [obj.spec.to.name]
        case HTTPRoute():
            names = _backends(obj)
        case _:
            return
    yield from (f"{obj.metadata.namespace}/{name}" for name in dict.fromkeys(names))


INGRESS_BACKENDS = Index(Ingress, "gslb-backend", list_backend_services)
ROUTE_BACKENDS = Index(Route, "gslb-backend", list_backend_services)
HTTPROUTE_BACKENDS = Index(HTTPRoute, "gslb-backend", list_backend_services)
SLICES = Index(
    EndpointSlice,
    "gslb-service",
    lambda s: [f"{s.metadata.namespace}/{s.metadata.labels.get(KUBE_SERVICE, '')}"],
)


def list_objects_for(
    host: str, domain: str, where: ClusterId, snapshot: Snapshot
) -> Iterator[Object]:
    """The objects of a cluster that serve a host."""
    yield from snapshot.by(where, SERVICE_HOSTS, host)
    domain = domain.lower()
    if domain and host.endswith(f".{domain}"):
        front = host.removesuffix(f".{domain}")
        yield from snapshot.by(where, SERVICE_HOSTS, UNNAMED_PREFIX + front)
    yield from snapshot.by(where, INGRESS_HOSTS, host)
    yield from snapshot.by(where, ROUTE_HOSTS, host)
    yield from snapshot.by(where, HTTPROUTE_HOSTS, host)


def find_source(told: str, where: ClusterId, snapshot: Snapshot) -> Object | None:
    """The object of a cluster that brought a member, by the words that the member has for it."""
    for kind in SOURCE_KINDS:
        title = f"{kind.kind} "
        if told.startswith(title):
            namespace, _, name = told.removeprefix(title).partition("/")
            return snapshot.get(where, kind, name, namespace)
    return None


def list_dependents(service: str, where: ClusterId, snapshot: Snapshot) -> Iterator[Object]:
    """The objects of a cluster whose readiness is that of a Service, itself among them."""
    namespace, _, name = service.partition("/")
    own = snapshot.get(where, Service, name, namespace)
    if own is not None:
        yield own
    yield from snapshot.by(where, INGRESS_BACKENDS, service)
    yield from snapshot.by(where, ROUTE_BACKENDS, service)
    yield from snapshot.by(where, HTTPROUTE_BACKENDS, service)


def full_host(told: str, domain: str) -> str | None:
    """The whole host name of an index's value; None for a Service that has none."""
    if not told.startswith(UNNAMED_PREFIX):
        return told
    return f"{told.removeprefix(UNNAMED_PREFIX)}.{domain.lower()}" if domain else None


def find_backends(
    obj: Object, host: str, where: ClusterId, snapshot: Snapshot
) -> Iterator[HostBackend]:
    """The ways in that an object gives a host; one for each address it has."""
    namespace = obj.metadata.namespace
    monitor: Monitor | None
    match obj:
        case Service():
            behind, monitor = [obj.metadata.name], _service_monitor(obj)
        case Ingress():
            paths, behind = _ingress_paths(obj, host)
            monitor = _http_monitor(paths, any(host in t.hosts for t in obj.spec.tls))
        case Route():
            behind = [obj.spec.to.name]
            monitor = _http_monitor([obj.spec.path], obj.spec.tls is not None)
        case HTTPRoute():
            behind = list(_backends(obj))
            paths = [m.path.value for r in obj.spec.rules for m in r.matches]
            monitor = _http_monitor(paths, any(map(_is_encrypted, _gateways(obj, where, snapshot))))
        case _:
            return
    ways_in = list(_ways_in(obj, host, where, snapshot))
    ready = bool(ways_in) and _is_ready(behind, namespace, where, snapshot)
    for told in ways_in:
        yield HostBackend(told.address, obj, monitor, ready, told.hostname)


class _WayIn(Struct, frozen=True):
    address: str
    hostname: str = ""


def _ways_in(obj: Object, host: str, where: ClusterId, snapshot: Snapshot) -> Iterator[_WayIn]:
    """Each address once; what is told as a name is looked up."""
    told = list(list_status_addresses(obj, host, where, snapshot))
    met = {text for text in told if is_address(text)}
    yield from (_WayIn(address) for address in dict.fromkeys(told) if address in met)
    for name in list_load_balancer_names(told, host, snapshot):
        found = routable_addresses(host_lookup(name, snapshot).addresses or ())
        yield from (_WayIn(address, name) for address in found or ("",) if address not in met)
        met.update(found)


def list_load_balancer_names(told: Iterable[str], host: str, snapshot: Snapshot) -> Iterator[str]:
    """The names among the addresses of a way in; what we answer ourselves is not asked for."""
    for name in dict.fromkeys(text.lower().removesuffix(".") for text in told):
        if not is_address(name) and is_host_name(name) and not _is_ours(name, host, snapshot):
            yield name


def _is_ours(name: str, host: str, snapshot: Snapshot) -> bool:
    return name == host or snapshot.get(snapshot.local, GlobalService, name, NAMESPACE) is not None


def list_status_addresses(
    obj: Object, host: str, where: ClusterId, snapshot: Snapshot
) -> Iterator[str]:
    """What an object's status has for addresses of a host, names of load balancers among them."""
    match obj:
        case Service() | Ingress():
            entries = obj.status.load_balancer.ingress
            own = [e for e in entries if e.hostname == host and e.ip]
            yield from (entry.ip or entry.hostname for entry in own or entries)
        case Route():
            yield from _route_addresses(obj)
        case HTTPRoute():
            for gateway in _gateways(obj, where, snapshot):
                addresses = gateway.status.addresses
                yield from (a.value for a in addresses if a.type in ("IPAddress", "Hostname"))
        case _:
            return


def _service_hosts(service: Service) -> Iterator[str]:
    told = service.metadata.annotations.get(HOSTNAMES, "")
    entries = service.status.load_balancer.ingress
    names = [e.hostname for e in entries if e.hostname and e.ip] or told.split(",")
    yield from dict.fromkeys(n.strip().lower().removesuffix(".") for n in names if n.strip())


def _service_monitor(service: Service) -> Monitor | None:
    """A connection to its lowest port; what speaks UDP alone is not tried."""
    ports = [p.port for p in service.spec.ports if p.protocol == "TCP"]
    return Monitor(type="TCP", port=min(ports)) if ports else None


def _http_monitor(paths: Iterable[str], tls: bool) -> Monitor:
    path = next((p for p in paths if is_http_path(p)), "/")
    kind, port = ("HTTPS", 443) if tls else ("HTTP", 80)
    return Monitor(type="HTTPS" if kind == "HTTPS" else "HTTP", port=port, path=path)


def _ingress_paths(ingress: Ingress, host: str) -> tuple[list[str], list[str]]:
    """The paths of a host, and the Services behind them."""
    paths = [
        path
        for rule in ingress.spec.rules
        if rule.host.lower() == host.lower() and rule.http is not None
        for path in rule.http.paths or ()
    ]
    behind = [p.backend.service.name for p in paths if p.backend.service is not None]
    return [p.path for p in paths], behind


def _route_addresses(route: Route) -> Iterator[str]:
    """The address of each router that admitted it: as some tell it, a message; else its name."""
    for entry in route.status.ingress:
        for condition in entry.conditions:
            if condition.type == "Admitted" and condition.status == "True":
                told = condition.message
                yield told if is_address(told) else entry.router_canonical_hostname


def _gateways(route: HTTPRoute, where: ClusterId, snapshot: Snapshot) -> Iterator[Gateway]:
    for parent in route.status.parents:
        ref = parent.parent_ref
        accepted = any(c.type == "Accepted" and c.status == "True" for c in parent.conditions)
        namespace = ref.namespace or route.metadata.namespace
        gateway = snapshot.get(where, Gateway, ref.name, namespace)
        if accepted and gateway is not None:
            yield gateway


def _is_encrypted(gateway: Gateway) -> bool:
    protocols = {listener.protocol for listener in gateway.spec.listeners}
    return "HTTPS" in protocols and "HTTP" not in protocols


def _backends(route: HTTPRoute) -> Iterator[str]:
    for rule in route.spec.rules:
        for ref in rule.backend_refs:
            if ref.kind == "Service" and ref.namespace in ("", route.metadata.namespace):
                yield ref.name


def _is_ready(
    services: Iterable[str], namespace: str, where: ClusterId, snapshot: Snapshot
) -> bool:
    """Whether a Service behind it has a ready endpoint; where none has slices, nobody knows."""
    known = False
    for name in dict.fromkeys(services):
        for piece in snapshot.by(where, SLICES, f"{namespace}/{name}"):
            known = True
            if any(endpoint.ready for endpoint in piece.endpoints or ()):
                return True
    return not known


def is_address(text: str) -> bool:
    """Whether a text is an IP address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def routable_addresses(addresses: Iterable[str]) -> list[str]:
    """The addresses of a name that clients anywhere may be sent to."""
    return [address for address in addresses if _is_elsewhere(address)]


def _is_elsewhere(text: str) -> bool:
    if not is_address(text):
        return False
    ip = ip_address(text)
    return not (ip.is_loopback or ip.is_link_local or ip.is_multicast or ip.is_unspecified)
