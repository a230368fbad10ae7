"""What clusters bring: Services, Ingresses and Routes with a host name and an address."""

import re
from collections.abc import Iterable, Iterator
from ipaddress import ip_address

from msgspec import Struct

from hanse.features.gslb.names import HOSTNAMES
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.gateways import Gateway, HTTPRoute, Route
from hanse.model.kinds.globalservice import Monitor
from hanse.model.kinds.networking import Ingress
from hanse.model.objects import ClusterId, Object
from hanse.model.schema import SUBDOMAIN
from hanse.model.snapshot import Index, Snapshot

INPUTS: tuple[type[Object], ...] = (Service, Ingress, Route, HTTPRoute)
_HOST = re.compile(f"(?=.{{1,253}}$){SUBDOMAIN}")
UNNAMED = "~"
"""Before `<name>.<namespace>`: a Service that has no host name unless a domain is given."""


class Found(Struct, frozen=True):
    """One way in that serves a host: where, watched how, and whether anything is behind it."""

    address: str
    source: Object
    monitor: Monitor | None
    ready: bool


def hosts_of(obj: Object) -> Iterator[str]:
    """The host names that an object serves, in lower case; a Service may have but a front part.

    What is no name of one host, a wildcard among them, gets no global service.
    """
    return (h for h in _told_hosts(obj) if h.startswith(UNNAMED) or is_host(h))


def is_host(told: str) -> bool:
    """Whether a name is that of one host, however it is written."""
    return _HOST.fullmatch(told.strip().lower().removesuffix(".")) is not None


def _told_hosts(obj: Object) -> Iterator[str]:
    match obj:
        case Service() if obj.spec.type == "LoadBalancer":
            named = list(_service_hosts(obj))
            yield from named
            if not named:
                yield f"{UNNAMED}{obj.metadata.name}.{obj.metadata.namespace}"
        case Ingress():
            yield from dict.fromkeys(r.host.lower() for r in obj.spec.rules if r.host)
        case Route() if obj.spec.host:
            yield obj.spec.host.lower()
        case HTTPRoute():
            yield from dict.fromkeys(host.lower() for host in obj.spec.hostnames)
        case _:
            return


SERVICE_HOSTS = Index(Service, "gslb-host", hosts_of)
INGRESS_HOSTS = Index(Ingress, "gslb-host", hosts_of)
ROUTE_HOSTS = Index(Route, "gslb-host", hosts_of)
HTTPROUTE_HOSTS = Index(HTTPRoute, "gslb-host", hosts_of)


def services_behind(obj: Object) -> Iterator[str]:
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


INGRESS_BACKENDS = Index(Ingress, "gslb-backend", services_behind)
ROUTE_BACKENDS = Index(Route, "gslb-backend", services_behind)
HTTPROUTE_BACKENDS = Index(HTTPRoute, "gslb-backend", services_behind)
SLICES = Index(
    EndpointSlice,
    "gslb-service",
    lambda s: [f"{s.metadata.namespace}/{s.metadata.labels.get(KUBE_SERVICE, '')}"],
)


def objects_for(host: str, domain: str, where: ClusterId, seen: Snapshot) -> Iterator[Object]:
    """The objects of a cluster that serve a host."""
    yield from seen.by(where, SERVICE_HOSTS, host)
    domain = domain.lower()
    if domain and host.endswith(f".{domain}"):
        front = host.removesuffix(f".{domain}")
        yield from seen.by(where, SERVICE_HOSTS, UNNAMED + front)
    yield from seen.by(where, INGRESS_HOSTS, host)
    yield from seen.by(where, ROUTE_HOSTS, host)
    yield from seen.by(where, HTTPROUTE_HOSTS, host)


def source_of(told: str, where: ClusterId, seen: Snapshot) -> Object | None:
    """The object of a cluster that brought a member, by the words that the member has for it."""
    for kind in INPUTS:
        title = f"{kind.kind} "
        if told.startswith(title):
            namespace, _, name = told.removeprefix(title).partition("/")
            return seen.get(where, kind, name, namespace)
    return None


def led_to(service: str, where: ClusterId, seen: Snapshot) -> Iterator[Object]:
    """The objects of a cluster whose readiness is that of a Service, itself among them."""
    namespace, _, name = service.partition("/")
    own = seen.get(where, Service, name, namespace)
    if own is not None:
        yield own
    yield from seen.by(where, INGRESS_BACKENDS, service)
    yield from seen.by(where, ROUTE_BACKENDS, service)
    yield from seen.by(where, HTTPROUTE_BACKENDS, service)


def full_host(told: str, domain: str) -> str | None:
    """The whole host name of an index's value; None for a Service that has none."""
    if not told.startswith(UNNAMED):
        return told
    return f"{told.removeprefix(UNNAMED)}.{domain.lower()}" if domain else None


def found_in(obj: Object, host: str, where: ClusterId, seen: Snapshot) -> Iterator[Found]:
    """The ways in that an object gives a host; one for each address it has."""
    match obj:
        case Service():
            entries = obj.status.load_balancer.ingress
            mine = [e.ip for e in entries if e.hostname == host] or [e.ip for e in entries]
            ready = _is_ready([obj.metadata.name], obj.metadata.namespace, where, seen)
            addresses, monitor = mine, _service_monitor(obj)
        case Ingress():
            lb = obj.status.load_balancer.ingress
            addresses = [e.ip for e in lb if e.hostname == host] or [e.ip for e in lb]
            paths, services = _ingress_paths(obj, host)
            tls = any(host in t.hosts for t in obj.spec.tls)
            monitor = _http_monitor(paths, tls)
            ready = _is_ready(services, obj.metadata.namespace, where, seen)
        case Route():
            addresses = list(_route_addresses(obj))
            monitor = _http_monitor([obj.spec.path], obj.spec.tls is not None)
            ready = _is_ready([obj.spec.to.name], obj.metadata.namespace, where, seen)
        case HTTPRoute():
            gateways = list(_gateways(obj, where, seen))
            addresses = [a.value for g in gateways for a in g.status.addresses]
            paths = [m.path.value for r in obj.spec.rules for m in r.matches]
            monitor = _http_monitor(paths, any(map(_is_encrypted, gateways)))
            ready = _is_ready(list(_backends(obj)), obj.metadata.namespace, where, seen)
        case _:
            return
    for address in dict.fromkeys(filter(_is_address, addresses)):
        yield Found(address, obj, monitor, ready)


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
    path = next((p for p in paths if p.startswith("/")), "/")
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
    """The address of each router that admitted it: its name, or as some tell it, a message."""
    for entry in route.status.ingress:
        for condition in entry.conditions:
            if condition.type == "Admitted" and condition.status == "True":
                yield condition.message
                yield entry.router_canonical_hostname


def _gateways(route: HTTPRoute, where: ClusterId, seen: Snapshot) -> Iterator[Gateway]:
    for parent in route.status.parents:
        ref = parent.parent_ref
        accepted = any(c.type == "Accepted" and c.status == "True" for c in parent.conditions)
        namespace = ref.namespace or route.metadata.namespace
        gateway = seen.get(where, Gateway, ref.name, namespace)
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


def _is_ready(services: Iterable[str], namespace: str, where: ClusterId, seen: Snapshot) -> bool:
    """Whether a Service behind it has a ready endpoint; where none has slices, nobody knows."""
    known = False
    for name in dict.fromkeys(services):
        for piece in seen.by(where, SLICES, f"{namespace}/{name}"):
            known = True
            if any(endpoint.ready for endpoint in piece.endpoints or ()):
                return True
    return not known


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
