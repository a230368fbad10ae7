"""What serves a host in a cluster: all objects, their paths, listeners and owners."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from hanse.features.gslb.backends import list_objects_for
from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.health import member_probes
from hanse.features.gslb.keys import all_keys, keys_for_change
from hanse.features.gslb.names import WITHDRAWN
from hanse.model.facts import Fact
from hanse.model.kinds.core import Namespace, ObservedCondition, Service
from hanse.model.kinds.gateways import (
    GATEWAY_ROUTES,
    BackendReference,
    Gateway,
    GatewayAddress,
    GatewayReference,
    GatewayRoute,
    GatewayRouteSpec,
    GatewayRouteStatus,
    GatewaySpec,
    GatewayStatus,
    GRPCRoute,
    HTTPRoute,
    Listener,
    MethodMatch,
    Route,
    RouteIngress,
    RouteMatch,
    RouteParentStatus,
    RouteRule,
    RouteSpec,
    RouteStatus,
    RouteTarget,
    TLSRoute,
)
from hanse.model.kinds.globalservice import GlobalMember, GlobalService, Monitor
from hanse.model.kinds.gslb import NAMESPACE, GlobalDeploymentPolicy, GSLBHostRule, GSLBHostRuleSpec
from hanse.model.kinds.networking import (
    Ingress,
    IngressBackend,
    IngressPath,
    IngressPaths,
    IngressRule,
    IngressService,
)
from hanse.model.objects import Meta, Object
from hanse.model.plan import Key, Patch
from hanse.model.probes import ProbeTarget, TargetHealth
from hanse.model.snapshot import ObjectChange
from tests.features.gslb.fleet import (
    HOST,
    LABELS,
    amko,
    backends,
    config,
    ingress,
    leader_snapshot,
    policy,
    shop,
)
from tests.support.builders import stored
from tinykube.virtual_time import EPOCH

KEY = Key("host", HOST)
LEADER = amko("lubeck", leads=True, epoch=1)


def balanced(*objects: Object, facts: Iterable[Fact] = ()) -> GlobalService:
    """The service that the leader writes for the host."""
    local = [LEADER, config("lubeck"), policy("lubeck"), shop(), *objects]
    desired = Gslb().plan(KEY, leader_snapshot(local, facts=facts)).desired
    (service,) = [d.object for d in desired if isinstance(d.object, GlobalService)]
    return service


def member_of(*objects: Object) -> GlobalMember:
    (member,) = balanced(*objects).spec.members
    return member


def to_service(obj: Ingress, **paths: str) -> Ingress:
    """An Ingress whose paths, by name of the Service behind each, are these."""
    rules = tuple(
        IngressPath(path=path, backend=IngressBackend(service=IngressService(name=name)))
        for name, path in paths.items()
    )
    spec = replace(obj.spec, rules=(IngressRule(host=HOST, http=IngressPaths(paths=rules)),))
    return replace(obj, spec=spec)


def service(name: str) -> Service:
    return Service(metadata=Meta(name=name, namespace="shop"))


def test_a_second_ingress_with_nothing_ready_behind_it_takes_no_cluster_out() -> None:
    main = to_service(ingress("10.1.0.1", name="web"), web="/")
    second = to_service(ingress("10.1.0.1", name="admin"), admin="/admin")

    member = member_of(second, main, backends("web", True), backends("admin", False))

    assert member.ready
    assert member.monitors == (Monitor(type="HTTP", port=80, path="/"),)
    assert [(p.path, p.ready) for p in member.paths] == [("/", True), ("/admin", False)]


def test_the_primary_path_decides() -> None:
    both = to_service(ingress("10.1.0.1"), web="/", admin="/admin")

    member = member_of(both, backends("web", False), backends("admin", True))

    assert not member.ready


def test_every_path_is_probed_and_shown_and_only_the_primary_one_decides() -> None:
    both = to_service(ingress("10.1.0.1"), web="/", admin="/admin")
    targets = [ProbeTarget("HTTP", "10.1.0.1", 80, HOST, path) for path in ("/", "/admin")]
    facts = (
        TargetHealth(targets[0], True, EPOCH),
        TargetHealth(targets[1], False, EPOCH, "HTTP status 503"),
    )

    service = balanced(both, backends("web", True), backends("admin", True), facts=facts)

    assert [p.target for p in member_probes(service, every_path=True)] == targets
    assert [p.target for p in member_probes(service)] == targets[:1]
    (health,) = service.status.members
    assert health.up
    assert [(p.path, p.up, p.reason) for p in health.paths] == [
        ("/", True, ""),
        ("/admin", False, "HTTP status 503"),
    ]


def test_without_a_root_the_shortest_path_is_the_primary_one() -> None:
    both = to_service(ingress("10.1.0.1"), long="/shop/cart", short="/shop")

    member = member_of(both, backends("long", False), backends("short", True))

    assert member.ready
    assert member.monitors[0].path == "/shop"


def test_a_deleted_service_is_not_ready_and_one_without_slices_is() -> None:
    source = to_service(ingress("10.1.0.1"), web="/")

    assert not member_of(source).ready
    assert member_of(source, service("web")).ready


@pytest.mark.parametrize(("weight", "ready"), [(1, True), (0, False), (None, True)])
def test_alternate_backends_of_a_route_count_by_their_weight(
    weight: int | None, ready: bool
) -> None:
    admitted = ObservedCondition(type="Admitted", status="True", message="10.1.0.1")
    route = Route(
        metadata=Meta(name="web", namespace="shop", labels=LABELS),
        spec=RouteSpec(
            host=HOST,
            to=RouteTarget(name="web"),
            alternate_backends=(RouteTarget(name="canary", weight=weight),),
        ),
        status=RouteStatus(ingress=(RouteIngress(host=HOST, conditions=(admitted,)),)),
    )

    member = member_of(route, backends("web", False), backends("canary", True))

    assert member.ready == ready


def gateway(*listeners: Listener) -> Gateway:
    return Gateway(
        metadata=Meta(name="edge", namespace="shop"),
        spec=GatewaySpec(listeners=listeners),
        status=GatewayStatus(addresses=(GatewayAddress(value="10.1.0.1"),)),
    )


def http_route(
    section: str = "",
    kind: type[GatewayRoute] = HTTPRoute,
    hostnames: tuple[str, ...] = (HOST,),
    matches: tuple[RouteMatch, ...] = (),
    port: int | None = None,
) -> GatewayRoute:
    ref = GatewayReference(name="edge", section_name=section, port=port)
    accepted = ObservedCondition(type="Accepted", status="True")
    return kind(
        metadata=Meta(name="web", namespace="shop", labels=LABELS),
        spec=GatewayRouteSpec(
            parent_refs=(ref,),
            hostnames=hostnames,
            rules=(RouteRule(matches=matches, backend_refs=(BackendReference(name="web"),)),),
        ),
        status=GatewayRouteStatus(
            parents=(RouteParentStatus(parent_ref=ref, conditions=(accepted,)),)
        ),
    )


@pytest.mark.parametrize(
    ("section", "monitor"),
    [
        ("", Monitor(type="HTTP", port=8080, path="/")),
        ("secure", Monitor(type="HTTPS", port=8443, path="/")),
    ],
)
def test_a_route_is_probed_at_the_listener_that_it_is_bound_to(
    section: str, monitor: Monitor
) -> None:
    listeners = gateway(
        Listener(name="secure", port=8443, protocol="HTTPS"),
        Listener(name="other", port=80, protocol="HTTP", hostname="*.example.com"),
        Listener(name="plain", port=8080, protocol="HTTP"),
    )

    assert member_of(http_route(section), listeners).monitors == (monitor,)


CART = RouteMatch(method=MethodMatch(service="shop.v1.Cart"))
LISTENERS = (
    Listener(name="secure", port=8443, protocol="HTTPS"),
    Listener(name="plain", port=8080, protocol="HTTP"),
    Listener(name="through", port=9443, protocol="TLS"),
)


@pytest.mark.parametrize(
    ("route", "monitor"),
    [
        (http_route(kind=GRPCRoute), Monitor(type="GRPC", port=8080)),
        (http_route("secure", GRPCRoute), Monitor(type="GRPCS", port=8443)),
        (http_route(kind=GRPCRoute, port=8443), Monitor(type="GRPCS", port=8443)),
        (http_route(kind=GRPCRoute, matches=(CART,)), Monitor(type="TCP", port=8080)),
        (http_route(kind=TLSRoute), Monitor(type="TLS", port=9443, server_name=HOST)),
    ],
    ids=["grpc", "grpcs", "port", "only one service", "tls"],
)
def test_routes_of_every_protocol_are_probed_by_it(route: GatewayRoute, monitor: Monitor) -> None:
    assert member_of(route, gateway(*LISTENERS)).monitors == (monitor,)


@pytest.mark.parametrize("hostnames", [(), ("*.example.org",)], ids=["none", "wildcard"])
@pytest.mark.parametrize("kind", GATEWAY_ROUTES)
def test_a_route_has_the_host_of_its_listener(
    kind: type[GatewayRoute], hostnames: tuple[str, ...]
) -> None:
    listeners = [replace(listener, hostname=HOST) for listener in LISTENERS]
    route, edge = http_route(kind=kind, hostnames=hostnames), gateway(*listeners)
    snapshot = leader_snapshot([LEADER, config("lubeck"), policy("lubeck"), shop(), route, edge])

    assert member_of(route, edge).address == "10.1.0.1"
    assert KEY in set(all_keys(snapshot))
    for obj in (route, edge):
        assert KEY in set(keys_for_change(ObjectChange("lubeck", None, obj), snapshot))
    (patch,) = [p for p in Gslb().plan(Key("policy"), snapshot).patches if _is_policy(p)]
    assert patch.change["status"]["warnings"] is None


def test_a_route_of_two_gateways_with_its_host_is_one_object() -> None:
    route = http_route(hostnames=())
    (ref,), (status,) = route.spec.parent_refs, route.status.parents
    far = replace(ref, name="far")
    route = replace(
        route,
        spec=replace(route.spec, parent_refs=(ref, far)),
        status=GatewayRouteStatus(parents=(status, replace(status, parent_ref=far))),
    )
    edge = gateway(*(replace(listener, hostname=HOST) for listener in LISTENERS))
    other = replace(edge, metadata=replace(edge.metadata, name="far"))
    snapshot = leader_snapshot([LEADER, config("lubeck"), policy("lubeck"), route, edge, other])

    found = list(list_objects_for(HOST, "", "lubeck", snapshot))

    assert [one.name for one in found] == [route.name]


def test_a_route_without_any_host_is_reported() -> None:
    route, edge = http_route(hostnames=()), gateway(*LISTENERS)
    snapshot = leader_snapshot([LEADER, config("lubeck"), policy("lubeck"), shop(), route, edge])

    (patch,) = [p for p in Gslb().plan(Key("policy"), snapshot).patches if _is_policy(p)]

    (warning,) = patch.change["status"]["warnings"]
    assert warning.startswith("lubeck: HTTPRoute shop/web: neither spec.hostnames nor a listener")


def _is_policy(patch: Patch) -> bool:
    return patch.target.ref.kind == GlobalDeploymentPolicy.kind


# -- owners


def squatter(address: str = "10.6.6.6", age: int = 0) -> Ingress:
    made = ingress(address, name="steal", namespace="evil")
    return stored(made, age=age)


def owned(address: str = "10.1.0.1") -> Ingress:
    made = ingress(address)
    return stored(made, age=1)


def test_a_host_belongs_to_the_first_namespace_that_claimed_it() -> None:
    service = balanced(squatter(), owned())

    assert service.spec.owners == ("shop",)
    assert [m.address for m in service.spec.members] == ["10.1.0.1"]
    assert service.status.refused == ("lubeck: Ingress evil/steal",)


def test_an_ingress_that_is_made_anew_finds_its_host_again() -> None:
    before = balanced(squatter(age=0), owned())
    gone = balanced(squatter(age=0), before)

    assert WITHDRAWN in gone.metadata.annotations
    assert gone.spec.owners == ("shop",)

    younger = ingress("10.1.0.2")
    again = balanced(squatter(age=0), younger, gone)
    assert [m.address for m in again.spec.members] == ["10.1.0.2"]
    assert WITHDRAWN not in again.metadata.annotations


def test_a_namespace_that_is_gone_everywhere_owns_nothing() -> None:
    before = balanced(squatter(), owned())
    going = replace(shop(), metadata=replace(shop().metadata, deletion_timestamp=EPOCH))

    taken = balanced(squatter(), before, Namespace(metadata=Meta(name="evil")), going)

    assert taken.spec.owners == ("evil",)


def test_a_rule_names_the_owners() -> None:
    rule = GSLBHostRule(
        metadata=Meta(name="rule", namespace=NAMESPACE),
        spec=GSLBHostRuleSpec(fqdn=HOST, owners=("shop", "evil")),
    )

    service = balanced(squatter(), owned(), rule)

    assert [m.address for m in service.spec.members] == ["10.1.0.1", "10.6.6.6"]
    assert service.status.refused == ()


def test_what_two_namespaces_served_before_owners_were_recorded_is_served_on() -> None:
    before = balanced(squatter(), owned())
    members = (
        replace(before.spec.members[0], source="Ingress.networking.k8s.io shop/web"),
        replace(before.spec.members[0], address="10.6.6.6", source="Ingress.x evil/steal"),
    )
    unrecorded = replace(before, spec=replace(before.spec, owners=(), members=members))

    other = Namespace(metadata=Meta(name="evil"))
    assert balanced(squatter(), owned(), other, unrecorded).spec.owners == ("evil", "shop")


def test_the_policy_warns_of_refused_claims_by_event_and_status() -> None:
    service = balanced(squatter(), owned())
    local = [LEADER, config("lubeck"), policy("lubeck"), squatter(), owned(), service]

    plan = Gslb().plan(Key("policy"), leader_snapshot(local))

    (event,) = plan.events
    assert event.target.ref.namespace == "evil"
    assert "belongs to namespace shop" in event.message
    assert "spec.owners" in event.message
