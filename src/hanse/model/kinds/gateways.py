"""Ways into clusters that others define: Gateway API routes, and OpenShift's Routes."""

from typing import ClassVar

from hanse.model.kinds.core import ObservedCondition
from hanse.model.objects import Kind, Object, Value

GATEWAY_GROUP = "gateway.networking.k8s.io"


class Listener(Value, frozen=True, kw_only=True):
    """A port of a gateway."""

    name: str = ""
    port: int = 0
    protocol: str = ""
    hostname: str = ""


class GatewaySpec(Value, frozen=True, kw_only=True):
    """What a gateway listens to."""

    listeners: tuple[Listener, ...] = ()


class GatewayAddress(Value, frozen=True, kw_only=True):
    """Where a gateway is reached."""

    type: str = "IPAddress"
    value: str = ""


class GatewayStatus(Value, frozen=True, kw_only=True):
    """What became of a gateway."""

    addresses: tuple[GatewayAddress, ...] = ()


class Gateway(Object, frozen=True, kw_only=True):
    """A way in that routes are attached to. We read it and never write it."""

    kind: ClassVar[Kind] = Kind(GATEWAY_GROUP, "v1", "Gateway", "gateways")
    fallback_versions: ClassVar[tuple[str, ...]] = ("v1beta1",)

    spec: GatewaySpec = GatewaySpec()
    status: GatewayStatus = GatewayStatus()


class GatewayReference(Value, frozen=True, kw_only=True):
    """The gateway that a route is attached to, and by which of its listeners."""

    group: str = GATEWAY_GROUP
    kind: str = "Gateway"
    namespace: str = ""
    name: str = ""
    section_name: str = ""
    port: int | None = None


class PathMatch(Value, frozen=True, kw_only=True):
    """A path that a rule matches."""

    type: str = "PathPrefix"
    value: str = "/"


class MethodMatch(Value, frozen=True, kw_only=True):
    """A method of gRPC that a rule matches; empty: all."""

    type: str = "Exact"
    service: str = ""
    method: str = ""


class RouteMatch(Value, frozen=True, kw_only=True):
    """What a rule matches: of HTTP a path, of gRPC a method."""

    path: PathMatch = PathMatch()
    method: MethodMatch | str | None = None


class BackendReference(Value, frozen=True, kw_only=True):
    """The Service behind a rule."""

    group: str = ""
    kind: str = "Service"
    namespace: str = ""
    name: str = ""
    weight: int = 1


class RouteRule(Value, frozen=True, kw_only=True):
    """Where requests go."""

    matches: tuple[RouteMatch, ...] = ()
    backend_refs: tuple[BackendReference, ...] = ()


class GatewayRouteSpec(Value, frozen=True, kw_only=True):
    """Which hosts lead where."""

    parent_refs: tuple[GatewayReference, ...] = ()
    hostnames: tuple[str, ...] = ()
    rules: tuple[RouteRule, ...] = ()


class RouteParentStatus(Value, frozen=True, kw_only=True):
    """What one gateway made of a route."""

    parent_ref: GatewayReference = GatewayReference()
    conditions: tuple[ObservedCondition, ...] = ()


class GatewayRouteStatus(Value, frozen=True, kw_only=True):
    """What gateways made of a route."""

    parents: tuple[RouteParentStatus, ...] = ()


class GatewayRoute(Object, frozen=True, kw_only=True):
    """What the routes of the Gateway API have in common."""

    spec: GatewayRouteSpec = GatewayRouteSpec()
    status: GatewayRouteStatus = GatewayRouteStatus()


class HTTPRoute(GatewayRoute, frozen=True, kw_only=True):
    """Hosts that a gateway serves by HTTP. We read it and never write it."""

    kind: ClassVar[Kind] = Kind(GATEWAY_GROUP, "v1", "HTTPRoute", "httproutes")
    fallback_versions: ClassVar[tuple[str, ...]] = ("v1beta1",)


class GRPCRoute(GatewayRoute, frozen=True, kw_only=True):
    """Hosts that a gateway serves by gRPC. We read it and never write it."""

    kind: ClassVar[Kind] = Kind(GATEWAY_GROUP, "v1", "GRPCRoute", "grpcroutes")
    fallback_versions: ClassVar[tuple[str, ...]] = ("v1alpha2",)


class TLSRoute(GatewayRoute, frozen=True, kw_only=True):
    """Hosts whose TLS connections a gateway passes on. We read it and never write it."""

    kind: ClassVar[Kind] = Kind(GATEWAY_GROUP, "v1", "TLSRoute", "tlsroutes")
    fallback_versions: ClassVar[tuple[str, ...]] = ("v1alpha3", "v1alpha2")


GATEWAY_ROUTES: tuple[type[GatewayRoute], ...] = (HTTPRoute, GRPCRoute, TLSRoute)


class RouteTarget(Value, frozen=True, kw_only=True):
    """A Service behind a Route, and its share."""

    kind: str = "Service"
    name: str = ""
    weight: int | None = None


class RouteTLS(Value, frozen=True, kw_only=True):
    """How a Route is encrypted."""

    termination: str = ""


class RouteSpec(Value, frozen=True, kw_only=True):
    """Which host leads where."""

    host: str = ""
    path: str = ""
    to: RouteTarget = RouteTarget()
    alternate_backends: tuple[RouteTarget, ...] = ()
    tls: RouteTLS | None = None


class RouteIngress(Value, frozen=True, kw_only=True):
    """What one router made of a Route; some tell their address as a condition's message."""

    host: str = ""
    router_canonical_hostname: str = ""
    conditions: tuple[ObservedCondition, ...] = ()


class RouteStatus(Value, frozen=True, kw_only=True):
    """What routers made of a Route."""

    ingress: tuple[RouteIngress, ...] = ()


class Route(Object, frozen=True, kw_only=True):
    """OpenShift's way into a cluster by host name. We read it and never write it."""

    kind: ClassVar[Kind] = Kind("route.openshift.io", "v1", "Route", "routes")

    spec: RouteSpec = RouteSpec()
    status: RouteStatus = RouteStatus()
