"""Routes of the Gateway API: the gateways and listeners they are attached to, hosts and paths."""

from collections.abc import Iterator

from msgspec import Struct

from hanse.model.kinds.gateways import (
    Gateway,
    GatewayReference,
    GatewayRoute,
    GRPCRoute,
    HTTPRoute,
    Listener,
    MethodMatch,
    RouteMatch,
)
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Index, Snapshot

HEALTH_SERVICE = "grpc.health.v1.Health"
_PROTOCOLS = {"HTTPRoute": ("HTTP", "HTTPS"), "GRPCRoute": ("HTTP", "HTTPS"), "TLSRoute": ("TLS",)}


class RoutePath(Struct, frozen=True):
    """A path of a route: of gRPC a service and a method."""

    path: str
    services: tuple[str, ...]
    """The Services behind it, as `<namespace>/<name>`; those without a share are left out."""
    has_health: bool = False
    """Whether calls of the gRPC health service take it."""


def listener_hosts(gateway: Gateway) -> Iterator[str]:
    """The exact host names of a gateway's listeners, in lower case."""
    names = (listener.hostname.lower() for listener in gateway.spec.listeners)
    yield from dict.fromkeys(name for name in names if name and not name.startswith("*."))


def inherits_hosts(route: GatewayRoute) -> bool:
    """Whether a route takes host names from listeners: it has none, or a wildcard."""
    names = route.spec.hostnames
    return not names or any(name.startswith("*.") for name in names)


def parent_gateways(route: GatewayRoute) -> Iterator[str]:
    """The gateways in the status of a route that inherits hosts, as `namespace/name`; else none.

    They need not have accepted the route, and may repeat.
    """
    if inherits_hosts(route):
        for parent in route.status.parents:
            ref = parent.parent_ref
            yield f"{ref.namespace or route.metadata.namespace}/{ref.name}"


GATEWAYS_BY_HOST = Index(Gateway, "gslb-host", listener_hosts)


def inherited_hosts(route: GatewayRoute, where: ClusterId, snapshot: Snapshot) -> list[str]:
    """The exact host names of listeners that a route is attached to, which it does not name itself.

    In lower case, each once; of a route with wildcards only those that they cover. Empty if the
    route names hosts and no wildcard.
    """
    if not inherits_hosts(route):
        return []
    found = [
        listener.hostname.lower()
        for _, listeners in _attachments(route, where, snapshot)
        for listener in listeners
        if listener.hostname and not listener.hostname.startswith("*.")
    ]
    own = [name.lower() for name in route.spec.hostnames] or [""]
    return list(
        dict.fromkeys(h for h in found if h not in own and any(covers(name, h) for name in own))
    )


def accepting_gateways(
    route: GatewayRoute, where: ClusterId, snapshot: Snapshot
) -> Iterator[Gateway]:
    """The existing Gateways that have accepted a route, by the Accepted condition of its status.

    A Gateway is repeated for each of its listeners that the route refers to as a parent.
    """
    yield from (gateway for gateway, _ in _attachments(route, where, snapshot))


def find_listener(route: GatewayRoute, host: str, where: ClusterId, snapshot: Snapshot) -> Listener:
    """The first listener of a route that covers the host, HTTP preferred; an empty one if none."""
    found = [
        listener
        for _, listeners in _attachments(route, where, snapshot)
        for listener in listeners
        if covers(listener.hostname, host)
    ]
    plain = [listener for listener in found if listener.protocol == "HTTP"]
    return next(iter(plain or found), Listener())


def covers(pattern: str, host: str) -> bool:
    """Whether a host name or wildcard covers a host; an empty one covers all.

    A wildcard covers names of any depth below it. The pattern may have any case, the host must be
    in lower case.
    """
    pattern = pattern.lower()
    return pattern in ("", host) or (pattern.startswith("*.") and host.endswith(pattern[1:]))


def route_paths(route: GatewayRoute) -> Iterator[RoutePath]:
    """The paths of a route, one per match of each rule, with the Services behind it.

    A rule without matches has the default path. Of backends only Services in the route's namespace
    with a weight other than 0 are included.
    """
    own = route.metadata.namespace
    for rule in route.spec.rules:
        services = tuple(
            f"{own}/{ref.name}"
            for ref in rule.backend_refs
            if ref.kind == "Service" and ref.namespace in ("", own) and ref.weight != 0
        )
        for match in rule.matches or (RouteMatch(),):
            yield _route_path(route, match, services)


def _route_path(route: GatewayRoute, match: RouteMatch, services: tuple[str, ...]) -> RoutePath:
    """One path of a route: of a GRPCRoute its service and method, of a TLSRoute the root.

    A GRPCRoute's path has health if it leads to Check of the health service.
    """
    if isinstance(route, HTTPRoute):
        return RoutePath(match.path.value, services)
    if isinstance(route, GRPCRoute):
        method = match.method if isinstance(match.method, MethodMatch) else MethodMatch()
        path = "/" + "/".join(filter(None, (method.service, method.method)))
        has_health = method.service in ("", HEALTH_SERVICE) and method.method in ("", "Check")
        return RoutePath(path, services, has_health)
    return RoutePath("/", services)


def _attachments(
    route: GatewayRoute, where: ClusterId, snapshot: Snapshot
) -> Iterator[tuple[Gateway, list[Listener]]]:
    """The Gateways that have accepted a route, each with the listeners it is attached to.

    One pair for each accepted parent reference whose Gateway exists. Only listeners with a protocol
    of the route's kind; there may be none.
    """
    protocols = _PROTOCOLS[type(route).kind.name]
    for parent in route.status.parents:
        ref = parent.parent_ref
        accepted = any(c.type == "Accepted" and c.status == "True" for c in parent.conditions)
        gateway = snapshot.get(where, Gateway, ref.name, ref.namespace or route.metadata.namespace)
        if accepted and gateway is not None:
            yield (
                gateway,
                [
                    listener
                    for listener in gateway.spec.listeners
                    if listener.protocol in protocols and _selects(ref, listener)
                ],
            )


def _selects(ref: GatewayReference, listener: Listener) -> bool:
    """Whether a reference means a listener: by sectionName and port, which fit any if not set."""
    return ref.section_name in ("", listener.name) and ref.port in (None, listener.port)
