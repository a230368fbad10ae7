"""Load balancers with a name and no address, and invalid names: backends and warnings."""

from typing import Any

import pytest
from msgspec.structs import replace

from hanse.features.gslb.backends import list_hosts
from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.names import WITHDRAWN, site_of
from hanse.model.facts import Answer, Fact, WriteOutcome
from hanse.model.kinds.core import LoadBalancerIngress, LoadBalancerStatus, ObservedCondition
from hanse.model.kinds.gateways import (
    Gateway,
    GatewayAddress,
    GatewayReference,
    GatewayRouteSpec,
    GatewayRouteStatus,
    GatewayStatus,
    HTTPRoute,
    Route,
    RouteIngress,
    RouteParentStatus,
    RouteSpec,
    RouteStatus,
)
from hanse.model.kinds.globalservice import GlobalService, GlobalServiceSpec
from hanse.model.kinds.gslb import NAMESPACE, GlobalDeploymentPolicy, PolicyStatus
from hanse.model.objects import ClusterObjectRef, Meta, Object, ObjectRef
from hanse.model.plan import Call, Key, Plan
from hanse.model.questions import host_lookup
from hanse.model.snapshot import FactChange, ObjectChange, Snapshot
from tests.features.gslb.fleet import (
    HOST,
    LABELS,
    LOCAL,
    amko,
    balancer,
    config,
    ingress,
    leader_snapshot,
    policy,
)
from tests.support.builders import stored
from tinykube.virtual_time import EPOCH

NAME = "lb-1.elb.example.com"
LEADER = amko("lubeck", leads=True, epoch=1)
CONFIG = config("lubeck")
KEY = Key("host", HOST)
ACCEPTED = ObservedCondition(type="Accepted", status="True")
ADMITTED = ObservedCondition(type="Admitted", status="True", message="as planned")


def named(obj: Any, *names: str) -> Any:
    """An object whose load balancers have but names."""
    entries = tuple(LoadBalancerIngress(hostname=name) for name in names)
    return replace(
        obj, status=replace(obj.status, load_balancer=LoadBalancerStatus(ingress=entries))
    )


def route() -> Route:
    entry = RouteIngress(
        host=HOST, router_canonical_hostname=NAME.upper() + ".", conditions=(ADMITTED,)
    )
    return Route(
        metadata=Meta(name="web", namespace="shop", labels=LABELS),
        spec=RouteSpec(host=HOST),
        status=RouteStatus(ingress=(entry,)),
    )


def behind_gateway() -> tuple[Object, ...]:
    ref = GatewayReference(name="front")
    parents = (RouteParentStatus(parent_ref=ref, conditions=(ACCEPTED,)),)
    return (
        Gateway(
            metadata=Meta(name="front", namespace="shop"),
            status=GatewayStatus(addresses=(GatewayAddress(type="Hostname", value=NAME),)),
        ),
        HTTPRoute(
            metadata=Meta(name="web", namespace="shop", labels=LABELS),
            spec=GatewayRouteSpec(parent_refs=(ref,), hostnames=(HOST,)),
            status=GatewayRouteStatus(parents=parents),
        ),
    )


def answer(*addresses: str, name: str = NAME, ttl: int = 60, error: str = "") -> Answer:
    value = None if error else {"addresses": list(addresses), "ttl": ttl}
    return Answer(Call("resolve", (("host", name),)).id, value, error, EPOCH)


def snapshot_of(
    *objects: Object, facts: tuple[Fact, ...] = (), gdp: GlobalDeploymentPolicy | None = None
) -> Snapshot:
    return leader_snapshot([LEADER, CONFIG, gdp or policy("lubeck"), *objects], facts=facts)


def host_plan(snapshot: Snapshot) -> Plan:
    return Gslb().plan(KEY, snapshot)


def service_in(plan: Plan) -> GlobalService:
    (found,) = [d.object for d in plan.desired if isinstance(d.object, GlobalService)]
    return found


def members(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(m.address, m.hostname) for m in service_in(host_plan(snapshot)).spec.members]


KINDS: list[Any] = [
    pytest.param((named(balancer("", 443, hostname=HOST), NAME),), id="Service"),
    pytest.param((named(ingress(), NAME),), id="Ingress"),
    pytest.param((route(),), id="Route"),
    pytest.param(behind_gateway(), id="HTTPRoute"),
]


@pytest.mark.parametrize("objects", KINDS)
def test_a_load_balancer_that_has_but_a_name_is_looked_up(objects: tuple[Object, ...]) -> None:
    asking = host_plan(snapshot_of(*objects))
    answered = snapshot_of(*objects, facts=(answer("192.0.2.1", "2001:db8::1"),))

    assert asking.desired == ()
    assert asking.questions == (host_lookup(NAME, nothing_to_look_up()).question,)
    assert members(answered) == [("192.0.2.1", NAME), ("2001:db8::1", NAME)]


def nothing_to_look_up() -> Snapshot:
    return snapshot_of()


def test_a_name_is_looked_up_again_when_its_records_are_old() -> None:
    plan = host_plan(snapshot_of(named(ingress(), NAME), facts=(answer("192.0.2.1", ttl=20),)))

    assert plan.requeue_after is not None
    assert plan.requeue_after.total_seconds() == 20
    assert [q.max_age for q in plan.questions] == [plan.requeue_after]


def test_while_a_name_cannot_be_looked_up_it_has_the_addresses_that_it_had() -> None:
    source = named(ingress(), NAME)
    before = service_in(host_plan(snapshot_of(source, facts=(answer("192.0.2.1"),))))

    restarted = snapshot_of(source, before)
    failing = snapshot_of(source, before, facts=(answer(error="timed out"),))

    assert members(restarted) == members(failing) == [("192.0.2.1", NAME)]


def test_a_name_that_does_not_exist_any_more_has_no_members() -> None:
    source = named(ingress(), NAME)
    before = service_in(host_plan(snapshot_of(source, facts=(answer("192.0.2.1"),))))

    plan = host_plan(snapshot_of(source, before, facts=(answer(),)))

    assert WITHDRAWN in service_in(plan).metadata.annotations
    assert plan.questions, "it may be given again"


def test_a_load_balancer_that_moves_to_another_address_goes_on_serving() -> None:
    source = named(ingress(), NAME)
    created = service_in(host_plan(snapshot_of(source, facts=(answer("192.0.2.1"),))))
    up = replace(created.status.members[0], up=True)
    serving = replace(created, status=replace(created.status, members=(up,)))

    moved = service_in(host_plan(snapshot_of(source, serving, facts=(answer("192.0.2.2"),))))

    assert [(h.address, h.up) for h in moved.status.members] == [("192.0.2.2", True)]


def test_addresses_that_no_client_can_be_sent_to_are_left_out() -> None:
    expected = answer("127.0.0.1", "169.254.169.254", "192.0.2.1")

    assert members(snapshot_of(named(ingress(), NAME), facts=(expected,))) == [("192.0.2.1", NAME)]


def test_a_host_is_not_looked_up_by_its_own_name() -> None:
    plan = host_plan(snapshot_of(named(ingress(), HOST), facts=(answer("192.0.2.1", name=HOST),)))

    assert (plan.desired, plan.questions) == ((), ())


def test_a_name_is_looked_up_once_the_global_host_of_that_name_is_withdrawn() -> None:
    meta = Meta(name=NAME, namespace=NAMESPACE)
    other = GlobalService(metadata=meta, spec=GlobalServiceSpec(host=NAME))
    ended = replace(other, metadata=replace(meta, annotations={WITHDRAWN: "true"}))
    source, facts = named(ingress(), NAME), (answer("192.0.2.1"),)

    served = host_plan(snapshot_of(source, stored(other), facts=facts))

    assert (served.desired, served.questions) == ((), ())
    assert members(snapshot_of(source, stored(ended), facts=facts)) == [("192.0.2.1", NAME)]


@pytest.mark.parametrize("objects", KINDS)
def test_a_global_host_that_comes_or_ends_concerns_hosts_with_load_balancers_of_its_name(
    objects: tuple[Object, ...],
) -> None:
    meta = Meta(name=NAME, namespace=NAMESPACE)
    other = GlobalService(metadata=meta, spec=GlobalServiceSpec(host=NAME))
    ended = replace(other, metadata=replace(meta, annotations={WITHDRAWN: "true"}))
    seen = snapshot_of(*objects)

    for before, after in ((None, other), (other, ended), (other, None)):
        assert KEY in set(Gslb().keys_for(ObjectChange(LOCAL, before, after), seen))
    assert KEY not in set(Gslb().keys_for(ObjectChange(LOCAL, ended, None), seen))


# -- warnings


def warnings(snapshot: Snapshot) -> list[str] | None:
    (patch,) = [
        p for p in Gslb().plan(Key("policy"), snapshot).patches if "warnings" in p.change["status"]
    ]
    found: list[str] | None = patch.change["status"]["warnings"]
    return found


def test_what_cannot_be_written_for_a_host_is_reported_on_the_policy() -> None:
    place = ClusterObjectRef(LOCAL, ObjectRef(GlobalService.kind, HOST, NAMESPACE))
    expected = f"{place.ref} exists already and it was not made by Hanse"
    foreign = WriteOutcome(place, "Foreign", expected, EPOCH)
    pending = WriteOutcome(replace(place, where=site_of("hamburg")), "Held", "too many", EPOCH)

    snapshot = snapshot_of(ingress("192.0.2.1"), facts=(foreign, pending))

    assert warnings(snapshot) == [f"lubeck: {expected}; delete it"]
    enqueued = list(Gslb().keys_for(FactChange(foreign, None), snapshot))
    assert enqueued == [Key("policy"), Key("lease", "lubeck")]


PROBLEMS: list[Any] = [
    pytest.param(
        (named(ingress(), NAME), answer()),
        f"Ingress shop/web: its load balancer has no address but the name {NAME}, and that has no",
        id="nobody has it",
    ),
    pytest.param(
        (named(balancer("", 443, hostname=HOST), NAME), answer(error="timed out")),
        f"Service shop/db: its load balancer has no address but the name {NAME}, and that cannot",
        id="it cannot be looked up",
    ),
    pytest.param(
        (named(ingress(), HOST), answer()),
        f"Ingress shop/web: its load balancer has no address but the name {HOST}, and that is a",
        id="it is the host itself",
    ),
    pytest.param(
        (named(ingress(), "a_b.example.com"), answer()),
        "Ingress shop/web: its load balancer has no address but the name a_b.example.com, and that"
        " is no name",
        id="it is no name",
    ),
    pytest.param(
        (ingress("192.0.2.1", host="*.example.org"), answer()),
        "Ingress shop/web: spec.rules[0].host: '*.example.org' is no name of one host, so it is",
        id="a wildcard",
    ),
    pytest.param(
        (balancer("192.0.2.1", 80, hostname="not a host!"), answer()),
        "Service shop/db: annotation external-dns.alpha.kubernetes.io/hostname: 'not a host!' is",
        id="a Service's name",
    ),
    pytest.param(
        (balancer("192.0.2.1", 80, hostname=f"{'a' * 64}.example.org"), answer()),
        f"Service shop/db: annotation external-dns.alpha.kubernetes.io/hostname: '{'a' * 64}.",
        id="a label that DNS does not have",
    ),
    pytest.param(
        (replace(route(), spec=RouteSpec(host="a..b")), answer("192.0.2.1")),
        "Route shop/web: spec.host: 'a..b' is no name of one host",
        id="a Route's name",
    ),
    pytest.param(
        (
            HTTPRoute(
                metadata=Meta(name="web", namespace="shop", labels=LABELS),
                spec=GatewayRouteSpec(hostnames=(HOST, "*.example.org")),
            ),
            answer(),
        ),
        "HTTPRoute shop/web: spec.hostnames[1]: '*.example.org' is no name of one host",
        id="an HTTPRoute's name",
    ),
]


@pytest.mark.parametrize(("objects", "expected"), PROBLEMS)
def test_what_is_selected_and_not_balanced_is_reported_on_the_policy_and_in_an_event(
    objects: tuple[Object, Fact], expected: str
) -> None:
    snapshot = snapshot_of(objects[0], facts=objects[1:])

    (warning,) = warnings(snapshot) or []

    assert warning.startswith(f"lubeck: {expected}")
    (notice,) = Gslb().plan(Key("policy"), snapshot).events
    assert (notice.target.ref.name, notice.message) == (objects[0].metadata.name, warning)


def test_what_is_balanced_or_not_selected_is_not_reported() -> None:
    other = ingress("192.0.2.1", host="*.example.org", name="other", labels={})
    found = answer("192.0.2.1")

    assert warnings(snapshot_of(named(ingress(), NAME), other, facts=(found,))) is None
    assert warnings(snapshot_of(named(ingress(), NAME))) is None, "not asked yet"


def test_an_event_is_sent_once() -> None:
    wild = ingress("192.0.2.1", host="*.example.org")
    first = warnings(snapshot_of(wild)) or []
    expected = replace(policy("lubeck"), status=PolicyStatus(warnings=tuple(first)))

    again = Gslb().plan(Key("policy"), snapshot_of(wild, gdp=expected))

    assert again.events == ()
    assert warnings(snapshot_of(wild, gdp=expected)) == first


def test_the_number_of_warnings_is_limited() -> None:
    many = [ingress("192.0.2.1", host="*.example.org", name=f"web-{n}") for n in range(120)]

    expected = warnings(snapshot_of(*many)) or []

    assert (len(expected), expected[-1]) == (101, "and 20 more")


def test_who_no_longer_leads_takes_warnings_back() -> None:
    warned = replace(policy("lubeck"), status=PolicyStatus(warnings=("lubeck: something",)))

    (patch,) = Gslb().plan(Key("policy"), leader_snapshot([amko("lubeck"), warned])).patches

    assert patch.change == {"status": {"warnings": None}}


def test_a_lookup_that_starts_or_stops_failing_requeues_the_policy() -> None:
    snapshot = snapshot_of(named(ingress(), NAME))
    good, bad = answer("192.0.2.1"), answer(error="timed out")

    assert Key("policy") in Gslb().keys_for(FactChange(good, bad), snapshot)
    assert Key("policy") in Gslb().keys_for(FactChange(bad, good), snapshot)
    assert Key("policy") not in Gslb().keys_for(FactChange(None, good), snapshot)


@pytest.mark.parametrize(
    "host", ["*.example.org", "under_score.org", "a..b", "192.0.2.7", "x" * 64 * 4]
)
def test_what_is_no_name_of_one_host_gets_no_service(host: str) -> None:
    assert list(list_hosts(stored(ingress("10.1.0.1", host=host)))) == []
