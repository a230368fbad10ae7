"""The paths under which an object serves a host: the Services behind each, and its monitor."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from hanse.features.gslb.routes import find_listener, route_paths
from hanse.model.kinds.core import Service
from hanse.model.kinds.gateways import GatewayRoute, GRPCRoute, Listener, Route, TLSRoute
from hanse.model.kinds.globalservice import Monitor, MonitorType
from hanse.model.kinds.networking import Ingress
from hanse.model.objects import ClusterId, Object
from hanse.model.snapshot import Snapshot

MAX_PATH_LENGTH = 1024
ROOT = "/"


class HostPath(Struct, frozen=True):
    """A path of a host in one object; empty for a Service, which has none."""

    path: str
    services: tuple[str, ...]
    """The Services behind it, as `<namespace>/<name>`; those without a share are left out."""
    monitor: Monitor | None


def host_paths(obj: Object, host: str, where: ClusterId, snapshot: Snapshot) -> list[HostPath]:
    """The paths under which an object serves a host, with Services and monitor; at least one.

    A Service has one empty path, others the root if there is no path for the host. An empty list
    for kinds that are no sources.
    """
    namespace = obj.metadata.namespace
    match obj:
        case Service():
            return [HostPath("", (f"{namespace}/{obj.metadata.name}",), _service_monitor(obj))]
        case Ingress():
            tls = any(host in t.hosts for t in obj.spec.tls)
            port = 443 if tls else 80
            return _http_paths(_ingress_paths(obj, host), tls=tls, port=port)
        case Route():
            tls = obj.spec.tls is not None
            names = [obj.spec.to, *obj.spec.alternate_backends]
            behind = tuple(f"{namespace}/{t.name}" for t in names if t.weight != 0)
            path = (obj.spec.path or ROOT, behind)
            return _http_paths([path], tls=tls, port=443 if tls else 80)
        case GatewayRoute():
            return _gateway_paths(obj, host, find_listener(obj, host, where, snapshot))
        case _:
            return []


def list_backend_services(obj: Object) -> Iterator[str]:
    """The Services that an Ingress or route refers to, as `<namespace>/<name>`, each once.

    Without default backends of Ingresses, and of Gateway API routes without backends of weight 0 or
    in other namespaces. None for other kinds.
    """
    match obj:
        case Ingress():
            named = [
                s
                for r in obj.spec.rules
                for _, several in _ingress_paths(obj, r.host)
                for s in several
            ]
        case Route():
            targets = [obj.spec.to, *obj.spec.alternate_backends]
            named = [f"{obj.metadata.namespace}/{target.name}" for target in targets]
        case GatewayRoute():
            named = [s for path in route_paths(obj) for s in path.services]
        case _:
            return
    yield from dict.fromkeys(named)


def _gateway_paths(route: GatewayRoute, host: str, listener: Listener) -> list[HostPath]:
    """The paths of a route with monitors by its kind: HTTP(S), TLS, gRPC health, or TCP.

    gRPC health only if a path leads to the health service, else TCP. The root if there are no
    paths; the port is the listener's, else 443 with TLS and 80 without.
    """
    tls = listener.protocol in ("HTTPS", "TLS")
    port = listener.port or (443 if tls or isinstance(route, TLSRoute) else 80)
    paths = list(route_paths(route))
    if isinstance(route, TLSRoute):
        monitor = Monitor(type="TLS", port=port, server_name=host)
    elif isinstance(route, GRPCRoute) and any(path.has_health for path in paths):
        monitor = Monitor(type="GRPCS" if tls else "GRPC", port=port)
    elif isinstance(route, GRPCRoute):
        monitor = Monitor(type="TCP", port=port)
    else:
        named = [(path.path, path.services) for path in paths]
        return _http_paths(named, tls=tls, port=port)
    return [HostPath(p.path, p.services, monitor) for p in paths] or [HostPath(ROOT, (), monitor)]


def _http_paths(
    paths: Iterable[tuple[str, tuple[str, ...]]], *, tls: bool, port: int
) -> list[HostPath]:
    """A HostPath with an HTTP(S) monitor for each path; only the root if there are no paths.

    A path that no HTTP request can have is probed at the root.
    """
    kind: MonitorType = "HTTPS" if tls else "HTTP"
    return [
        HostPath(
            path or ROOT,
            services,
            Monitor(
                type=kind,
                port=port,
                path=path if is_http_path(path) else ROOT,
            ),
        )
        for path, services in list(paths) or [(ROOT, ())]
    ]


def _ingress_paths(ingress: Ingress, host: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each path of a host in an Ingress, with a tuple of the Service (`namespace/name`) behind it.

    The tuple is empty if the backend is no Service.
    """
    for rule in ingress.spec.rules:
        if rule.host.lower() == host.lower() and rule.http is not None:
            for path in rule.http.paths or ():
                service = path.backend.service
                name = f"{ingress.metadata.namespace}/{service.name}" if service is not None else ""
                yield path.path, (name,) if name else ()


def _service_monitor(service: Service) -> Monitor | None:
    """A TCP monitor of the lowest TCP port; None for a Service without any."""
    ports = [p.port for p in service.spec.ports if p.protocol == "TCP"]
    return Monitor(type="TCP", port=min(ports)) if ports else None


def is_http_path(text: str) -> bool:
    """Whether a text is a path that an HTTP request may contain unchanged.

    It begins with /, has printable ASCII and no blanks, and at most MAX_PATH_LENGTH characters.
    """
    clean = text.isascii() and text.isprintable() and " " not in text
    return clean and text.startswith("/") and len(text) <= MAX_PATH_LENGTH
