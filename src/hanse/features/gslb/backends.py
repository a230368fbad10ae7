"""Backends of hosts: Services, Ingresses and Routes with a host name and an address."""

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from hanse.features.gslb.names import HOSTNAMES
from hanse.model.addresses import is_address, is_routable
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
MAX_PATH_LENGTH = 1024
UNNAMED_PREFIX = "~"
"""The prefix of `<name>.<namespace>` for a Service that has a host name only with a domain."""


class HostBackend(Struct, frozen=True):
    """One address that serves a host: its source, its monitor, and whether endpoints are ready."""

    address: str
    """Empty for a load balancer with only a name that has no known address."""
    source: Object
    monitor: Monitor | None
    ready: bool
    hostname: str = ""
    """The load balancer's name that the address was looked up from."""


def list_hosts(obj: Object) -> Iterator[str]:
    """The host names that an object serves, in lower case; a Service may have only a prefix.

    Wildcards and invalid names are left out.
    """
    return (h for h in _declared_hosts(obj) if h.startswith(UNNAMED_PREFIX) or is_host_name(h))


def is_host_name(text: str) -> bool:
    """Whether a text is the name of one host, in any case and with or without a final dot."""
    return _HOST.fullmatch(text.strip().lower().removesuffix(".")) is not None


class InvalidHostName(Struct, frozen=True):
    """A field that should be a host name and is none."""

    field: str
    name: str


def invalid_names(obj: Object) -> Iterator[InvalidHostName]:
    """The invalid host names of an object."""
    for field, name in _declared_names(obj):
        if name.strip() and not is_host_name(name):
            yield InvalidHostName(field, name.strip())


def _declared_names(obj: Object) -> Iterator[tuple[str, str]]:
    """Host names as users wrote them, each with its field; none for other types of Service."""
    match obj:
        case Service() if obj.spec.type == "LoadBalancer":
            names = obj.metadata.annotations.get(HOSTNAMES, "")
            yield from ((f"annotation {HOSTNAMES}", name) for name in names.split(","))
        case Ingress():
            yield from ((f"spec.rules[{n}].host", r.host) for n, r in enumerate(obj.spec.rules))
        case Route():
            yield "spec.host", obj.spec.host
        case HTTPRoute():
            yield from ((f"spec.hostnames[{n}]", h) for n, h in enumerate(obj.spec.hostnames))
        case _:
            return


def _declared_hosts(obj: Object) -> Iterator[str]:
    """The hosts of an object, valid or not; an unnamed Service has a prefixed name."""
    match obj:
        case Service() if obj.spec.type == "LoadBalancer":
            hosts = list(_service_host_names(obj))
            yield from hosts
            if not hosts:
                yield f"{UNNAMED_PREFIX}{obj.metadata.name}.{obj.metadata.namespace}"
        case Service():
            return
        case _:
            yield from dict.fromkeys(name.lower() for _, name in _declared_names(obj) if name)


SERVICE_HOSTS = Index(Service, "gslb-host", list_hosts)
INGRESS_HOSTS = Index(Ingress, "gslb-host", list_hosts)
ROUTE_HOSTS = Index(Route, "gslb-host", list_hosts)
HTTPROUTE_HOSTS = Index(HTTPRoute, "gslb-host", list_hosts)


def list_backend_services(obj: Object) -> Iterator[str]:
    """The Services that an object routes to, as `<namespace>/<name>`."""
    names: Iterable[str] = ()
    match obj:
        case Ingress():
            names = [n for rule in obj.spec.rules for n in _ingress_paths(obj, rule.host)[1]]
        case Route():
            names = [obj.spec.to.name]
        case HTTPRoute():
            names = _httproute_backends(obj)
        case _:
            return
    yield from (f"{obj.metadata.namespace}/{name}" for name in dict.fromkeys(names))


INGRESS_BACKENDS = Index(Ingress, "gslb-backend", list_backend_services)
ROUTE_BACKENDS = Index(Route, "gslb-backend", list_backend_services)
HTTPROUTE_BACKENDS = Index(HTTPRoute, "gslb-backend", list_backend_services)
SLICES_BY_SERVICE = Index(
    EndpointSlice,
    "gslb-service",
    lambda s: [f"{s.metadata.namespace}/{s.metadata.labels.get(KUBE_SERVICE, '')}"],
)


def list_objects_for(
    host: str, domain: str, where: ClusterId, snapshot: Snapshot
) -> Iterator[Object]:
    """The objects of a cluster that serve a host, also unnamed Services in the default domain."""
    yield from snapshot.by(where, SERVICE_HOSTS, host)
    domain = domain.lower()
    if domain and host.endswith(f".{domain}"):
        front = host.removesuffix(f".{domain}")
        yield from snapshot.by(where, SERVICE_HOSTS, UNNAMED_PREFIX + front)
    yield from snapshot.by(where, INGRESS_HOSTS, host)
    yield from snapshot.by(where, ROUTE_HOSTS, host)
    yield from snapshot.by(where, HTTPROUTE_HOSTS, host)


def find_source(ref: str, where: ClusterId, snapshot: Snapshot) -> Object | None:
    """The object that a member was derived from, by the member's reference; None if it is gone."""
    for kind in SOURCE_KINDS:
        title = f"{kind.kind} "
        if ref.startswith(title):
            namespace, _, name = ref.removeprefix(title).partition("/")
            return snapshot.get(where, kind, name, namespace)
    return None


def list_dependents(service: str, where: ClusterId, snapshot: Snapshot) -> Iterator[Object]:
    """The objects whose readiness depends on a Service, itself included."""
    namespace, _, name = service.partition("/")
    own = snapshot.get(where, Service, name, namespace)
    if own is not None:
        yield own
    yield from snapshot.by(where, INGRESS_BACKENDS, service)
    yield from snapshot.by(where, ROUTE_BACKENDS, service)
    yield from snapshot.by(where, HTTPROUTE_BACKENDS, service)


def full_host(name: str, domain: str) -> str | None:
    """The full host name for a value of the index; None for a Service without one."""
    if not name.startswith(UNNAMED_PREFIX):
        return name
    return f"{name.removeprefix(UNNAMED_PREFIX)}.{domain.lower()}" if domain else None


def find_backends(
    obj: Object, host: str, where: ClusterId, snapshot: Snapshot
) -> Iterator[HostBackend]:
    """The backends of an object for a host, one per address, ready if any endpoint is ready."""
    namespace = obj.metadata.namespace
    monitor: Monitor | None
    match obj:
        case Service():
            services, monitor = [obj.metadata.name], _service_monitor(obj)
        case Ingress():
            paths, services = _ingress_paths(obj, host)
            monitor = _http_monitor(paths, any(host in t.hosts for t in obj.spec.tls))
        case Route():
            services = [obj.spec.to.name]
            monitor = _http_monitor([obj.spec.path], obj.spec.tls is not None)
        case HTTPRoute():
            services = list(_httproute_backends(obj))
            paths = [m.path.value for r in obj.spec.rules for m in r.matches]
            monitor = _http_monitor(
                paths, any(map(_is_https_only, _accepting_gateways(obj, where, snapshot)))
            )
        case _:
            return
    resolved = list(_resolve_addresses(obj, host, where, snapshot))
    ready = bool(resolved) and _has_ready_endpoint(services, namespace, where, snapshot)
    for each in resolved:
        yield HostBackend(each.address, obj, monitor, ready, each.hostname)


class _ResolvedAddress(Struct, frozen=True):
    address: str
    hostname: str = ""


def _resolve_addresses(
    obj: Object, host: str, where: ClusterId, snapshot: Snapshot
) -> Iterator[_ResolvedAddress]:
    """The addresses in an object's status, each once; a name without any gives an empty address."""
    addresses = list(list_status_addresses(obj, host, where, snapshot))
    seen = {text for text in addresses if is_address(text)}
    yield from (
        _ResolvedAddress(address) for address in dict.fromkeys(addresses) if address in seen
    )
    for name in list_load_balancer_names(addresses, host, snapshot):
        found = routable_addresses(host_lookup(name, snapshot).addresses or ())
        yield from (
            _ResolvedAddress(address, name) for address in found or ("",) if address not in seen
        )
        seen.update(found)


def list_load_balancer_names(
    addresses: Iterable[str], host: str, snapshot: Snapshot
) -> Iterator[str]:
    """The names among status addresses that are looked up: global hosts of our own are not."""
    for name in dict.fromkeys(text.lower().removesuffix(".") for text in addresses):
        if (
            not is_address(name)
            and is_host_name(name)
            and not _is_global_host(name, host, snapshot)
        ):
            yield name


def _is_global_host(name: str, host: str, snapshot: Snapshot) -> bool:
    """Whether a name is the host itself or the name of a GlobalService here."""
    return name == host or snapshot.get(snapshot.local, GlobalService, name, NAMESPACE) is not None


def list_status_addresses(
    obj: Object, host: str, where: ClusterId, snapshot: Snapshot
) -> Iterator[str]:
    """The addresses in an object's status; those of the host itself, if any, replace the others."""
    match obj:
        case Service() | Ingress():
            entries = obj.status.load_balancer.ingress
            own = [e for e in entries if e.hostname == host and e.ip]
            yield from (entry.ip or entry.hostname for entry in own or entries)
        case Route():
            yield from _route_addresses(obj)
        case HTTPRoute():
            for gateway in _accepting_gateways(obj, where, snapshot):
                addresses = gateway.status.addresses
                yield from (a.value for a in addresses if a.type in ("IPAddress", "Hostname"))
        case _:
            return


def _service_host_names(service: Service) -> Iterator[str]:
    """The names in a Service's status, or else in its annotation."""
    annotated = service.metadata.annotations.get(HOSTNAMES, "")
    entries = service.status.load_balancer.ingress
    names = [e.hostname for e in entries if e.hostname and e.ip] or annotated.split(",")
    yield from dict.fromkeys(n.strip().lower().removesuffix(".") for n in names if n.strip())


def _service_monitor(service: Service) -> Monitor | None:
    """A TCP monitor of the lowest port; None for a Service with UDP ports only."""
    ports = [p.port for p in service.spec.ports if p.protocol == "TCP"]
    return Monitor(type="TCP", port=min(ports)) if ports else None


def _http_monitor(paths: Iterable[str], tls: bool) -> Monitor:
    """A monitor of the first valid path, or else of `/`, on port 443 with TLS, else on port 80."""
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
    services = [p.backend.service.name for p in paths if p.backend.service is not None]
    return [p.path for p in paths], services


def _route_addresses(route: Route) -> Iterator[str]:
    """The address of each router that admitted a Route, from its condition; else its name."""
    for entry in route.status.ingress:
        for condition in entry.conditions:
            if condition.type == "Admitted" and condition.status == "True":
                message = condition.message
                yield message if is_address(message) else entry.router_canonical_hostname


def _accepting_gateways(
    route: HTTPRoute, where: ClusterId, snapshot: Snapshot
) -> Iterator[Gateway]:
    """The Gateways that have accepted a route."""
    for parent in route.status.parents:
        ref = parent.parent_ref
        accepted = any(c.type == "Accepted" and c.status == "True" for c in parent.conditions)
        namespace = ref.namespace or route.metadata.namespace
        gateway = snapshot.get(where, Gateway, ref.name, namespace)
        if accepted and gateway is not None:
            yield gateway


def _is_https_only(gateway: Gateway) -> bool:
    """Whether a Gateway has a listener for HTTPS and none for HTTP."""
    protocols = {listener.protocol for listener in gateway.spec.listeners}
    return "HTTPS" in protocols and "HTTP" not in protocols


def _httproute_backends(route: HTTPRoute) -> Iterator[str]:
    """The Services in its own namespace that a route refers to."""
    for rule in route.spec.rules:
        for ref in rule.backend_refs:
            if ref.kind == "Service" and ref.namespace in ("", route.metadata.namespace):
                yield ref.name


def _has_ready_endpoint(
    services: Iterable[str], namespace: str, where: ClusterId, snapshot: Snapshot
) -> bool:
    """Whether any of the Services has a ready endpoint; True if none has EndpointSlices."""
    known = False
    for name in dict.fromkeys(services):
        for endpoint_slice in snapshot.by(where, SLICES_BY_SERVICE, f"{namespace}/{name}"):
            known = True
            if any(endpoint.ready for endpoint in endpoint_slice.endpoints or ()):
                return True
    return not known


def is_http_path(text: str) -> bool:
    """Whether a text is a path that an HTTP request may contain unchanged."""
    clean = text.isascii() and text.isprintable() and " " not in text
    return clean and text.startswith("/") and len(text) <= MAX_PATH_LENGTH


def routable_addresses(addresses: Iterable[str]) -> list[str]:
    """The addresses that clients in any cluster may be sent to."""
    return [address for address in addresses if is_routable(address)]
