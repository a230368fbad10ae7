"""Backends of hosts: Services, Ingresses and Routes with a host name and an address."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.gslb.known import is_withdrawn
from hanse.features.gslb.names import HOSTNAMES
from hanse.features.gslb.paths import ROOT, host_paths, list_backend_services
from hanse.features.gslb.routes import (
    GATEWAYS_BY_HOST,
    accepting_gateways,
    inherited_hosts,
    parent_gateways,
)
from hanse.model.addresses import is_address, is_routable
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.gateways import GATEWAY_ROUTES, Gateway, GatewayRoute, Route
from hanse.model.kinds.globalservice import (
    MAX_PATHS,
    GlobalService,
    Monitor,
    PathReadiness,
)
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.kinds.networking import Ingress
from hanse.model.objects import ClusterId, Object, object_ref
from hanse.model.questions import host_lookup
from hanse.model.schema import SUBDOMAIN
from hanse.model.snapshot import Index, Snapshot

SOURCE_KINDS: tuple[type[Object], ...] = (Service, Ingress, Route, *GATEWAY_ROUTES)
_HOST = re.compile(rf"(?=.{{1,253}}$)(?!.*[^.]{{64}})(?!(.*\.)?\d+$){SUBDOMAIN}")
"""A subdomain with labels that DNS can hold, and whose last one is no number: no IP address."""
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
    path: str = ""
    host: str = ""
    """The name that its source has the host by."""


class MergedBackend(Struct, frozen=True):
    """One address that serves a host: its primary backend, and the readiness of every path."""

    primary: HostBackend
    paths: tuple[PathReadiness, ...]


def list_hosts(obj: Object) -> Iterator[str]:
    """The valid host names that an object declares, each once, in lower case, without wildcards.

    Of Services only LoadBalancers have any: one that declares no name at all, not even an invalid
    one, has `~<name>.<namespace>`, which needs a default domain (`full_host`).
    """
    return (h for h in _declared_hosts(obj) if h.startswith(UNNAMED_PREFIX) or is_host_name(h))


def is_host_name(text: str) -> bool:
    """Whether a text is the name of one host, in any case and with or without a final dot.

    Blanks around it are ignored. False for wildcards, IP addresses, labels over 63 and names over
    253 characters.
    """
    return _HOST.fullmatch(text.strip().lower().removesuffix(".")) is not None


class InvalidHostName(Struct, frozen=True):
    """A field that should be a host name and is none."""

    field: str
    name: str


def invalid_names(obj: Object) -> Iterator[InvalidHostName]:
    """The names in an object that are no valid host names, such as wildcards, each with its field.

    Empty names are skipped.
    """
    for field, name in _declared_names(obj):
        if name.strip() and not is_host_name(name):
            yield InvalidHostName(field, name.strip())


def _declared_names(obj: Object) -> Iterator[tuple[str, str]]:
    """Pairs of field and host name as users wrote them, which may be empty or invalid.

    Of a LoadBalancer Service these are the parts of its hostname annotation; other Services and
    kinds that are no sources have none.
    """
    match obj:
        case Service() if obj.spec.type == "LoadBalancer":
            names = obj.metadata.annotations.get(HOSTNAMES, "")
            yield from ((f"annotation {HOSTNAMES}", name) for name in names.split(","))
        case Ingress():
            yield from ((f"spec.rules[{n}].host", r.host) for n, r in enumerate(obj.spec.rules))
        case Route():
            yield "spec.host", obj.spec.host
        case GatewayRoute():
            yield from ((f"spec.hostnames[{n}]", h) for n, h in enumerate(obj.spec.hostnames))
        case _:
            return


def _declared_hosts(obj: Object) -> Iterator[str]:
    """The hosts of an object in lower case, each once, valid or not.

    A LoadBalancer Service has those of its status entries with an IP, else of its hostname
    annotation, else `~<name>.<namespace>`; other Services have none.
    """
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


SOURCES_BY_HOST: dict[type[Object], Index[Any]] = {
    kind: Index(kind, "gslb-host", list_hosts) for kind in SOURCE_KINDS
}
SOURCES_BY_BACKEND: dict[type[Object], Index[Any]] = {
    kind: Index(kind, "gslb-backend", list_backend_services)
    for kind in SOURCE_KINDS
    if kind is not Service
}
ROUTES_BY_GATEWAY: dict[type[Object], Index[Any]] = {
    kind: Index(kind, "gslb-gateway", parent_gateways) for kind in GATEWAY_ROUTES
}
"""The routes that inherit host names of a gateway's listeners."""
BY_BALANCER_NAME: dict[type[Object], Index[Any]] = {
    kind: Index(kind, "gslb-balancer", lambda obj: list(_balancer_hostnames(obj)))
    for kind in (Service, Ingress, Route, Gateway)
}
"""The objects whose load balancers have a name instead of an address."""
SLICES_BY_SERVICE = Index(
    EndpointSlice,
    "gslb-service",
    lambda s: [f"{s.metadata.namespace}/{s.metadata.labels.get(KUBE_SERVICE, '')}"],
)


def _balancer_hostnames(obj: Object) -> Iterator[str]:
    """The host names of load balancers in an object's status, in lower case without a final dot.

    Of a Service or Ingress, of entries without an IP; of a Route, of all its routers; of a Gateway,
    its addresses of type Hostname. None for other kinds.
    """
    match obj:
        case Service() | Ingress():
            entries = obj.status.load_balancer.ingress
            yield from (_normal_name(e.hostname) for e in entries if e.hostname and not e.ip)
        case Route():
            names = (entry.router_canonical_hostname for entry in obj.status.ingress)
            yield from (_normal_name(name) for name in names if name)
        case Gateway():
            addresses = obj.status.addresses
            yield from (_normal_name(a.value) for a in addresses if a.type == "Hostname")
        case _:
            return


def objects_with_balancer_hostname(
    name: str, where: ClusterId, snapshot: Snapshot
) -> Iterator[Object]:
    """The objects of a cluster whose load balancer has this host name in its status.

    If a Gateway has it, these are all routes of the Gateway API in the cluster, not the Gateway.
    """
    for kind, index in BY_BALANCER_NAME.items():
        found = snapshot.by(where, index, name)
        if kind is not Gateway:
            yield from found
        elif any(True for _ in found):
            yield from (route for routes in GATEWAY_ROUTES for route in snapshot.all(where, routes))


def list_objects_for(
    host: str, domain: str, where: ClusterId, snapshot: Snapshot
) -> Iterator[Object]:
    """The objects of a cluster that declare a host, whether or not a policy selects them.

    Also unnamed Services in the default domain, unless that is empty, and routes that inherit the
    host from a listener.
    """
    for index in SOURCES_BY_HOST.values():
        yield from snapshot.by(where, index, host)
    domain = domain.lower()
    if domain and host.endswith(f".{domain}"):
        front = host.removesuffix(f".{domain}")
        yield from snapshot.by(where, SOURCES_BY_HOST[Service], UNNAMED_PREFIX + front)
    routes = {
        object_ref(route): route  # once, however many of its Gateways have the host
        for gateway in snapshot.by(where, GATEWAYS_BY_HOST, host)
        for index in ROUTES_BY_GATEWAY.values()
        for route in snapshot.by(where, index, f"{gateway.namespace}/{gateway.name}")
        if host in inherited_hosts(route, where, snapshot)
    }
    yield from routes.values()


def hosts_of(obj: Object, where: ClusterId, snapshot: Snapshot) -> Iterator[str]:
    """The host names by `list_hosts`, and those that a Gateway API route inherits from listeners.

    An unnamed LoadBalancer Service has `~<name>.<namespace>`.
    """
    yield from list_hosts(obj)
    if isinstance(obj, GatewayRoute):
        yield from inherited_hosts(obj, where, snapshot)


def find_source(ref: str, where: ClusterId, snapshot: Snapshot) -> Object | None:
    """The object in `where` that a member's `source` (`KIND NAMESPACE/NAME`) names.

    None if the object does not exist or the kind is no kind of sources.
    """
    for kind in SOURCE_KINDS:
        title = f"{kind.kind} "
        if ref.startswith(title):
            namespace, _, name = ref.removeprefix(title).partition("/")
            return snapshot.get(where, kind, name, namespace)
    return None


def list_dependents(service: str, where: ClusterId, snapshot: Snapshot) -> Iterator[Object]:
    """A Service (`namespace/name`), if it exists in a cluster, and the objects that route to it."""
    namespace, _, name = service.partition("/")
    own = snapshot.get(where, Service, name, namespace)
    if own is not None:
        yield own
    for index in SOURCES_BY_BACKEND.values():
        yield from snapshot.by(where, index, service)


def full_host(name: str, domain: str) -> str | None:
    """The host of an index value; `~<name>.<namespace>` of an unnamed Service gets the domain.

    None if that needs a domain and there is none.
    """
    if not name.startswith(UNNAMED_PREFIX):
        return name
    return f"{name.removeprefix(UNNAMED_PREFIX)}.{domain.lower()}" if domain else None


def find_backends(
    obj: Object, host: str, where: ClusterId, snapshot: Snapshot
) -> Iterator[HostBackend]:
    """The backends of an object for a host: one per path and per address in the object's status.

    A load balancer's name that is not resolved gives an empty address, with that name as
    `hostname`. None if the status has neither; each is ready if the Services of its path are.
    """
    resolved = list(_resolve_addresses(obj, host, where, snapshot))
    for path in host_paths(obj, host, where, snapshot) if resolved else ():
        ready = _has_ready_endpoint(path.services, where, snapshot)
        for each in resolved:
            yield HostBackend(
                each.address, obj, path.monitor, ready, each.hostname, path.path, host
            )


def merge_backends(backends: Iterable[HostBackend]) -> list[MergedBackend]:
    """One backend per address, or unresolved name, of all objects that have it, sorted by these.

    Its primary backend is that of the root path, or else of the shortest; of several objects the
    oldest. A path is ready if any backend with it is; up to MAX_PATHS are kept.
    """
    by_address: dict[tuple[str, str], list[HostBackend]] = {}
    for backend in backends:
        key = (backend.address, "" if backend.address else backend.hostname)
        by_address.setdefault(key, []).append(backend)
    return [_merge(by_address[key]) for key in sorted(by_address)]


def _merge(backends: list[HostBackend]) -> MergedBackend:
    """The backend of one address: the first by `_path_order`, with its paths up to MAX_PATHS.

    A path is ready if any backend with it is, and has the source and monitor of the first ready
    one, else of the first. The primary is ready if its path is.
    """
    ordered = sorted(backends, key=_path_order)
    paths: dict[str, PathReadiness] = {}
    for backend in ordered:
        known = paths.get(backend.path)
        if known is None or (backend.ready and not known.ready):
            source = str(object_ref(backend.source))
            paths[backend.path] = PathReadiness(
                path=backend.path, ready=backend.ready, source=source, monitor=backend.monitor
            )
    primary = ordered[0]
    ready = paths[primary.path].ready
    return MergedBackend(replace(primary, ready=ready), tuple(paths.values())[:MAX_PATHS])


def _path_order(backend: HostBackend) -> tuple[bool, int, str, str, str]:
    """Sort key of backends: the root or empty path first, then by length of the path.

    Then the oldest object first, then by object reference and path.
    """
    created = backend.source.metadata.creation_timestamp
    age = created.isoformat() if created is not None else ""
    not_root = backend.path not in ("", ROOT)
    return (not_root, len(backend.path), age, str(object_ref(backend.source)), backend.path)


class _ResolvedAddress(Struct, frozen=True):
    address: str
    hostname: str = ""


def _resolve_addresses(
    obj: Object, host: str, where: ClusterId, snapshot: Snapshot
) -> Iterator[_ResolvedAddress]:
    """The addresses in an object's status, then those that its names resolve to, each once.

    A name that is not resolved, or has no routable address, gives one empty address, with that
    name. The host's own name and names of GlobalServices are skipped.
    """
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
    """The valid host names among status addresses, normalized, each once.

    Left out are the host itself and names that have a GlobalService here which is not withdrawn.
    """
    for name in dict.fromkeys(map(_normal_name, addresses)):
        if (
            not is_address(name)
            and is_host_name(name)
            and not _is_global_host(name, host, snapshot)
        ):
            yield name


def _normal_name(text: str) -> str:
    """A name in lower case, without a final dot."""
    return text.lower().removesuffix(".")


def _is_global_host(name: str, host: str, snapshot: Snapshot) -> bool:
    """Whether a name is `host` itself, or has a GlobalService here that is not withdrawn."""
    service = snapshot.get(snapshot.local, GlobalService, name, NAMESPACE)
    return name == host or (service is not None and not is_withdrawn(service))


def list_status_addresses(
    obj: Object, host: str, where: ClusterId, snapshot: Snapshot
) -> Iterator[str]:
    """IP addresses and host names in an object's status; a text may be empty.

    Of a Service or Ingress, entries with the host's name and an IP replace all others; a Route has
    those of routers that admitted it, a route of the Gateway API those of Gateways that accepted
    it.
    """
    match obj:
        case Service() | Ingress():
            entries = obj.status.load_balancer.ingress
            own = [e for e in entries if e.hostname == host and e.ip]
            yield from (entry.ip or entry.hostname for entry in own or entries)
        case Route():
            yield from _route_addresses(obj)
        case GatewayRoute():
            for gateway in accepting_gateways(obj, where, snapshot):
                addresses = gateway.status.addresses
                yield from (a.value for a in addresses if a.type in ("IPAddress", "Hostname"))
        case _:
            return


def _service_host_names(service: Service) -> Iterator[str]:
    """The host names of status entries with an IP, or else those of the ExternalDNS annotation.

    Each once, stripped, in lower case, without a final dot, valid or not.
    """
    annotated = service.metadata.annotations.get(HOSTNAMES, "")
    entries = service.status.load_balancer.ingress
    names = [e.hostname for e in entries if e.hostname and e.ip] or annotated.split(",")
    yield from dict.fromkeys(n.strip().lower().removesuffix(".") for n in names if n.strip())


def _route_addresses(route: Route) -> Iterator[str]:
    """One text for each Admitted condition that is True of a Route's routers.

    It is the condition's message if that is an IP address, else the router's canonical host name,
    which may be empty.
    """
    for entry in route.status.ingress:
        for condition in entry.conditions:
            if condition.type == "Admitted" and condition.status == "True":
                message = condition.message
                yield message if is_address(message) else entry.router_canonical_hostname


def _has_ready_endpoint(services: Iterable[str], where: ClusterId, snapshot: Snapshot) -> bool:
    """Whether any of the Services has a ready endpoint, or exists without EndpointSlices.

    An object without Services counts as ready.
    """
    ready, names = False, list(dict.fromkeys(services))
    for service in names:
        slices = list(snapshot.by(where, SLICES_BY_SERVICE, service))
        namespace, _, name = service.partition("/")
        exists = snapshot.get(where, Service, name, namespace) is not None
        ready |= exists and not slices
        ready |= any(endpoint.ready for s in slices for endpoint in s.endpoints or ())
    return ready or not names


def routable_addresses(addresses: Iterable[str]) -> list[str]:
    """Those of the texts that are routable IP addresses (`is_routable`), in the given order."""
    return [address for address in addresses if is_routable(address)]
