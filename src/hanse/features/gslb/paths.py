"""The paths under which an object serves a host: the Services behind each, and its monitor."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from hanse.model.kinds.core import Service
from hanse.model.kinds.gateways import Gateway, HTTPRoute, Listener, Route
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
    """The paths under which an object serves a host; at least one for each kind of source."""
    namespace = obj.metadata.namespace
    match obj:
        case Service():
            return [HostPath("", (f"{namespace}/{obj.metadata.name}",), _service_monitor(obj))]
        case Ingress():
            tls = any(host in t.hosts for t in obj.spec.tls)
            port = 443 if tls else 80
            return _with_root(_ingress_paths(obj, host), tls=tls, port=port)
        case Route():
            tls = obj.spec.tls is not None
            names = [obj.spec.to, *obj.spec.alternate_backends]
            behind = tuple(f"{namespace}/{t.name}" for t in names if t.weight != 0)
            path = (obj.spec.path or ROOT, behind)
            return _with_root([path], tls=tls, port=443 if tls else 80)
        case HTTPRoute():
            listener = _listener(obj, host, where, snapshot)
            tls = listener.protocol in ("HTTPS", "TLS")
            port = listener.port or (443 if tls else 80)
            return _with_root(_httproute_paths(obj), tls=tls, port=port)
        case _:
            return []


def list_backend_services(obj: Object) -> Iterator[str]:
    """The Services that an object routes to, as `<namespace>/<name>`."""
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
        case HTTPRoute():
            named = [s for _, several in _httproute_paths(obj) for s in several]
        case _:
            return
    yield from dict.fromkeys(named)


def accepting_gateways(route: HTTPRoute, where: ClusterId, snapshot: Snapshot) -> Iterator[Gateway]:
    """The Gateways that have accepted a route."""
    yield from (gateway for gateway, _ in _attachments(route, where, snapshot))


def _attachments(
    route: HTTPRoute, where: ClusterId, snapshot: Snapshot
) -> Iterator[tuple[Gateway, str]]:
    """The Gateways that have accepted a route, each with the name of a listener, if any."""
    for parent in route.status.parents:
        ref = parent.parent_ref
        accepted = any(c.type == "Accepted" and c.status == "True" for c in parent.conditions)
        gateway = snapshot.get(where, Gateway, ref.name, ref.namespace or route.metadata.namespace)
        if accepted and gateway is not None:
            yield gateway, ref.section_name


def _listener(route: HTTPRoute, host: str, where: ClusterId, snapshot: Snapshot) -> Listener:
    """The listener by which a host of a route is reached; one without TLS is preferred."""
    found = [
        listener
        for gateway, section in _attachments(route, where, snapshot)
        for listener in gateway.spec.listeners
        if section in ("", listener.name) and _covers(listener.hostname, host)
    ]
    plain = [listener for listener in found if listener.protocol == "HTTP"]
    return next(iter(plain or found), Listener(protocol="HTTP", port=80))


def _covers(pattern: str, host: str) -> bool:
    """Whether a listener's host name covers a host; an empty one covers all."""
    pattern = pattern.lower()
    return pattern in ("", host) or (pattern.startswith("*.") and host.endswith(pattern[1:]))


def _with_root(
    paths: Iterable[tuple[str, tuple[str, ...]]], *, tls: bool, port: int
) -> list[HostPath]:
    """Paths with their monitors; an object without any path serves the root."""
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
    """The paths of a host, and the Service behind each."""
    for rule in ingress.spec.rules:
        if rule.host.lower() == host.lower() and rule.http is not None:
            for path in rule.http.paths or ():
                service = path.backend.service
                name = f"{ingress.metadata.namespace}/{service.name}" if service is not None else ""
                yield path.path, (name,) if name else ()


def _httproute_paths(route: HTTPRoute) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The paths of a route, and the Services behind each; those of other namespaces are unknown."""
    for rule in route.spec.rules:
        services = tuple(
            f"{route.metadata.namespace}/{ref.name}"
            for ref in rule.backend_refs
            if ref.kind == "Service"
            and ref.namespace in ("", route.metadata.namespace)
            and ref.weight != 0
        )
        for path in [match.path.value for match in rule.matches] or [ROOT]:
            yield path, services


def _service_monitor(service: Service) -> Monitor | None:
    """A TCP monitor of the lowest port; None for a Service with UDP ports only."""
    ports = [p.port for p in service.spec.ports if p.protocol == "TCP"]
    return Monitor(type="TCP", port=min(ports)) if ports else None


def is_http_path(text: str) -> bool:
    """Whether a text is a path that an HTTP request may contain unchanged."""
    clean = text.isascii() and text.isprintable() and " " not in text
    return clean and text.startswith("/") and len(text) <= MAX_PATH_LENGTH
