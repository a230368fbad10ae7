"""Global services: their members, traffic shares, monitors and records."""

from typing import Any

import pytest
from msgspec.structs import replace

from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.health import UNREADY, UNTRIED, probe_target
from hanse.features.gslb.known import is_withdrawn
from hanse.features.gslb.names import WITHDRAWN, site_of
from hanse.features.gslb.options import GslbOptions
from hanse.model.facts import Phase, Role
from hanse.model.kinds.core import (
    ConfigMap,
    ObservedCondition,
    Secret,
    Service,
    ServiceSpec,
)
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.kinds.gateways import (
    BackendReference,
    Gateway,
    GatewayAddress,
    GatewayReference,
    GatewayRouteSpec,
    GatewayRouteStatus,
    GatewaySpec,
    GatewayStatus,
    HTTPRoute,
    Listener,
    PathMatch,
    Route,
    RouteIngress,
    RouteMatch,
    RouteParentStatus,
    RouteRule,
    RouteSpec,
    RouteStatus,
)
from hanse.model.kinds.globalservice import GlobalMember, GlobalService, Monitor
from hanse.model.kinds.gslb import (
    NAMESPACE,
    DownResponse,
    GlobalDeploymentPolicy,
    GSLBHostRule,
    LabelMatch,
    MatchCluster,
    MatchRules,
    PoolAlgorithm,
    PublicAddress,
    ThirdPartyMember,
    TrafficOverride,
    TrafficSplit,
)
from hanse.model.objects import Meta, Object
from hanse.model.plan import Key
from hanse.model.probes import TargetHealth
from hanse.model.snapshot import ObjectChange, Snapshot
from tests.features.gslb.fleet import (
    HOST,
    LABELS,
    LOCAL,
    amko,
    backends,
    balancer,
    config,
    ingress,
    leader_copy,
    leader_snapshot,
    policy,
    rule,
    shop,
)
from tests.support.builders import annotated, cluster, stored
from tinykube.virtual_time import EPOCH

LEADER = amko("lubeck", "hamburg", leads=True, epoch=1)
CONFIG = config("lubeck", "hamburg")
FOLLOWER = amko("hamburg")
BOTH = ("lubeck", "hamburg")
KEY = Key("host", HOST)


def service_in(
    snapshot: Snapshot, host: str = HOST, options: GslbOptions | None = None
) -> GlobalService:
    """The one service that is planned for a host at home."""
    plan = Gslb(options or GslbOptions()).plan(Key("host", host), snapshot)
    (found,) = [
        d.object for d in plan.desired if isinstance(d.object, GlobalService) and d.where == LOCAL
    ]
    assert isinstance(found, GlobalService)
    return found


def planned(snapshot: Snapshot) -> list[Object]:
    return [d.object for d in Gslb().plan(KEY, snapshot).desired]


def two_clusters(*more: Object, gdp: GlobalDeploymentPolicy | None = None) -> Snapshot:
    """The same host in two clusters."""
    local = [LEADER, CONFIG, gdp or policy(*BOTH), ingress("10.1.0.1"), *more]
    return leader_snapshot(local, {"hamburg": [FOLLOWER, ingress("10.2.0.1")]})


def test_members_come_from_all_matched_clusters_with_the_defaults() -> None:
    service = service_in(two_clusters())

    assert [(m.cluster, m.address, m.weight, m.priority) for m in service.spec.members] == [
        ("lubeck", "10.1.0.1", 1, 10),
        ("hamburg", "10.2.0.1", 1, 10),
    ]


def test_it_is_written_here_and_to_every_follower() -> None:
    plan = Gslb().plan(KEY, two_clusters())

    assert [d.where for d in plan.desired] == [LOCAL, site_of("hamburg")]
    assert all(d.object == plan.desired[0].object for d in plan.desired)


def test_a_cluster_that_is_not_matched_gives_no_members() -> None:
    assert [m.cluster for m in service_in(two_clusters(gdp=policy("hamburg"))).spec.members] == [
        "hamburg"
    ]


def test_no_selector_selects_nothing() -> None:
    assert planned(two_clusters(gdp=policy(*BOTH, match_rules=MatchRules()))) == []


def test_every_label_of_a_selector_must_match() -> None:
    two = LabelMatch(label={**LABELS, "tier": "front"})

    assert planned(two_clusters(gdp=policy(*BOTH, match_rules=MatchRules(app_selector=two)))) == []


@pytest.mark.parametrize(("labels", "selected"), [({"ns": "prod"}, True), ({"ns": "dev"}, False)])
def test_application_and_namespace_must_both_match(labels: dict[str, str], selected: bool) -> None:
    rules = MatchRules(
        app_selector=LabelMatch(label=LABELS), namespace_selector=LabelMatch(label={"ns": "prod"})
    )
    gdp = policy("lubeck", match_rules=rules)
    snapshot = leader_snapshot(
        [amko("lubeck", leads=True, epoch=1), CONFIG, gdp, ingress("10.1.0.1"), shop(**labels)]
    )

    assert bool(planned(snapshot)) is selected


def test_a_namespace_selector_alone_is_enough() -> None:
    rules = MatchRules(namespace_selector=LabelMatch(label={"ns": "prod"}))
    leader = amko("lubeck", leads=True, epoch=1)
    bare = ingress("10.1.0.1", labels={})

    snapshot = leader_snapshot(
        [leader, CONFIG, policy("lubeck", match_rules=rules), bare, shop(ns="prod")]
    )

    assert planned(snapshot)


def test_the_rule_goes_before_the_policy_and_the_policy_before_the_defaults() -> None:
    split = (TrafficSplit(cluster="lubeck", weight=5, priority=20),)
    leader = (
        TrafficOverride(cluster="lubeck", weight=7),
        TrafficOverride(cluster="hamburg", priority=3),
    )
    snapshot = two_clusters(rule(traffic_split=leader), gdp=policy(*BOTH, traffic_split=split))

    assert [(m.weight, m.priority) for m in service_in(snapshot).spec.members] == [(7, 20), (1, 3)]


def test_a_rule_brings_public_addresses_and_third_parties() -> None:
    host_rule = rule(
        public_ip=(PublicAddress(cluster="lubeck", ip="192.0.2.1"),),
        third_party_members=(ThirdPartyMember(vip="198.51.100.1", site="oslo"),),
    )

    members = service_in(two_clusters(host_rule)).spec.members

    assert [(m.cluster, m.advertised_address, m.third_party) for m in members] == [
        ("lubeck", "192.0.2.1", False),
        ("hamburg", "10.2.0.1", False),
        ("oslo", "198.51.100.1", True),
    ]


def test_a_cluster_has_a_public_address_of_each_family() -> None:
    host_rule = rule(
        public_ip=(
            PublicAddress(cluster="lubeck", ip="2001:db8::1"),
            PublicAddress(cluster="lubeck", ip="192.0.2.1"),
        )
    )
    snapshot = _alone(ingress("10.1.0.1", "fd00::1"), host_rule)

    members = service_in(snapshot).spec.members

    assert [(m.address, m.advertised_address) for m in members] == [
        ("10.1.0.1", "192.0.2.1"),
        ("fd00::1", "2001:db8::1"),
    ]


def test_the_rule_says_how_long_by_which_algorithm_and_what_when_all_are_down() -> None:
    host_rule = rule(
        ttl=7,
        pool_algorithm_settings=PoolAlgorithm(
            lb_algorithm="GSLB_ALGORITHM_CONSISTENT_HASH", hash_mask=24
        ),
        down_response=DownResponse(
            type="GSLB_SERVICE_DOWN_RESPONSE_FALLBACK_IP", fallback_ip="192.0.2.9"
        ),
    )

    spec = service_in(two_clusters(host_rule, gdp=policy(*BOTH, ttl=60))).spec

    assert (spec.ttl, spec.algorithm, spec.hash_mask) == (7, "GSLB_ALGORITHM_CONSISTENT_HASH", 24)
    assert (spec.when_down, spec.fallback_ip) == (
        "GSLB_SERVICE_DOWN_RESPONSE_FALLBACK_IP",
        "192.0.2.9",
    )


def test_the_service_of_the_last_member_is_withdrawn_everywhere_and_then_deleted() -> None:
    service = _existing_service(("lubeck", "10.1.0.1"))
    local, site = [LEADER, CONFIG, policy(*BOTH)], site_of("hamburg")

    def planned_in(here: list[Object], there: list[Object]) -> dict[str, Object]:
        view = leader_snapshot([*local, *here], {"hamburg": [FOLLOWER, *there]})
        return {d.where: d.object for d in Gslb().plan(KEY, view).desired}

    marked = planned_in([service], [])  # as after a restore of hamburg
    here, there = marked["lubeck"], marked[site]

    for each in (here, there):
        assert isinstance(each, GlobalService)
        assert is_withdrawn(each)
        assert each.spec == service.spec
    assert planned_in([here], []).keys() == {"lubeck", site}, "not all have the mark"
    assert planned_in([here], [service]).keys() == {"lubeck", site}, "not all have the mark"
    assert planned_in([here], [there]).keys() == {site}, "the service here goes first"
    assert planned_in([], [there]) == {}


def test_nobody_waits_for_a_follower_that_cannot_be_told_of_a_withdrawn_host() -> None:
    service = _existing_service(("lubeck", "10.1.0.1"))
    local = [LEADER, CONFIG, policy(*BOTH)]
    away = {"hamburg": Phase.UNREACHABLE}
    (here,) = planned(leader_snapshot([*local, service], {"hamburg": [FOLLOWER]}, phases=away))

    left = leader_snapshot([*local, here], {"hamburg": [FOLLOWER]}, phases=away)

    assert planned(left) == []


def test_an_unread_cluster_keeps_the_members_that_it_had() -> None:
    local = [
        amko("lubeck", leads=True, epoch=1),
        CONFIG,
        policy(*BOTH),
        ingress("10.1.0.1"),
        _existing_service(("lubeck", "10.1.0.1"), ("hamburg", "10.2.0.1")),
    ]
    snapshot = leader_snapshot(local, {"hamburg": []}, phases={"hamburg": Phase.CONNECTING})

    assert [m.cluster for m in service_in(snapshot).spec.members] == ["lubeck", "hamburg"]


@pytest.mark.parametrize(
    ("recovering", "marked", "members"),
    [(True, False, ["lubeck"]), (False, False, []), (True, True, [])],
)
def test_a_restored_leader_keeps_members_by_the_copy_of_a_follower(
    recovering: bool, marked: bool, members: list[str]
) -> None:
    copy = _existing_service(("lubeck", "10.1.0.1"))
    if marked:
        copy = annotated(copy, {WITHDRAWN: "true"})
    restored = replace(cluster(LOCAL, Role.LOCAL), recovering=recovering)
    snapshot = leader_snapshot(
        [LEADER, CONFIG, policy(*BOTH)], {"hamburg": [FOLLOWER, copy]}, facts=[restored]
    )

    services = [o for o in planned(snapshot) if isinstance(o, GlobalService)]
    served = [service for service in services if not is_withdrawn(service)]

    assert [m.cluster for s in served[:1] for m in s.spec.members] == members


# -- inputs


def _alone(*objects: Object, gdp: GlobalDeploymentPolicy | None = None) -> Snapshot:
    leader = amko("lubeck", leads=True, epoch=1)
    return leader_snapshot([leader, CONFIG, gdp or policy("lubeck"), *objects])


def test_a_service_is_named_by_its_annotation_and_watched_at_its_lowest_port() -> None:
    service = service_in(_alone(balancer("10.1.0.9", 8443, 5432, hostname=HOST)))

    (member,) = service.spec.members
    assert member.monitors == (Monitor(type="TCP", port=5432),)


def test_a_service_without_a_name_gets_one_in_the_default_domain() -> None:
    snapshot = _alone(balancer("10.1.0.9", 80), gdp=policy("lubeck", default_domain="example.org"))

    assert service_in(snapshot, "db.shop.example.org").spec.members[0].address == "10.1.0.9"


def test_what_speaks_udp_is_not_tried() -> None:
    snapshot = _alone(balancer("10.1.0.9", 53, hostname=HOST, protocol="UDP"))

    service = service_in(snapshot)

    assert service.spec.members[0].monitors == ()
    assert service.status.up == "1/1"


@pytest.mark.parametrize(
    ("tls", "monitor"),
    [
        (False, Monitor(type="HTTP", port=80, path="/cart")),
        (True, Monitor(type="HTTPS", port=443, path="/cart")),
    ],
)
def test_an_ingress_is_asked_for_its_path(tls: bool, monitor: Monitor) -> None:
    service = service_in(_alone(ingress("10.1.0.1", path="/cart", tls=tls)))

    assert service.spec.members[0].monitors == (monitor,)


def test_a_route_has_the_address_of_the_router_that_admitted_it() -> None:
    admitted = ObservedCondition(type="Admitted", status="True", message="10.1.0.7")
    route = Route(
        metadata=Meta(name="web", namespace="shop", labels=LABELS),
        spec=RouteSpec(host=HOST, path="/a"),
        status=RouteStatus(ingress=(RouteIngress(host=HOST, conditions=(admitted,)),)),
    )

    (member,) = service_in(_alone(route)).spec.members

    assert (member.address, member.monitors[0].path) == ("10.1.0.7", "/a")


def test_an_http_route_has_the_addresses_of_the_gateway_that_accepted_it() -> None:
    ref = GatewayReference(name="front")
    accepted = ObservedCondition(type="Accepted", status="True")
    gateway = Gateway(
        metadata=Meta(name="front", namespace="shop"),
        spec=GatewaySpec(listeners=(Listener(name="tls", port=443, protocol="HTTPS"),)),
        status=GatewayStatus(addresses=(GatewayAddress(value="10.1.0.8"),)),
    )
    route = HTTPRoute(
        metadata=Meta(name="web", namespace="shop", labels=LABELS),
        spec=GatewayRouteSpec(
            parent_refs=(ref,),
            hostnames=(HOST,),
            rules=(
                RouteRule(
                    matches=(RouteMatch(path=PathMatch(value="/b")),),
                    backend_refs=(BackendReference(name="web"),),
                ),
            ),
        ),
        status=GatewayRouteStatus(
            parents=(RouteParentStatus(parent_ref=ref, conditions=(accepted,)),)
        ),
    )

    (member,) = service_in(_alone(route, gateway)).spec.members

    assert member.address == "10.1.0.8"
    assert member.monitors == (Monitor(type="HTTPS", port=443, path="/b"),)


# -- health


def _health(member: GlobalMember, up: bool, host: str = HOST) -> TargetHealth:
    return TargetHealth(
        probe_target(member, member.monitors[0], host), up, EPOCH, "" if up else "refused"
    )


def test_a_member_is_down_until_its_probes_have_passed() -> None:
    service = service_in(_alone(ingress("10.1.0.1")))

    assert (service.status.up, service.status.members[0].reason) == ("0/1", UNTRIED)


def test_a_member_whose_probes_pass_is_up() -> None:
    snapshot = _alone(ingress("10.1.0.1"))
    member = service_in(snapshot).spec.members[0]
    leader = amko("lubeck", leads=True, epoch=1)
    snapshot = leader_snapshot(
        [leader, CONFIG, policy("lubeck"), ingress("10.1.0.1")], facts=[_health(member, True)]
    )

    assert service_in(snapshot).status.up == "1/1"


def test_a_member_that_served_before_serves_until_its_probes_fail() -> None:
    current = _existing_service(("lubeck", "10.1.0.1"), up=True)

    assert service_in(_alone(ingress("10.1.0.1"), current)).status.up == "1/1"


def test_nothing_ready_behind_it_takes_a_member_down_whatever_probes_say() -> None:
    snapshot = _alone(
        balancer("10.1.0.9", 80, hostname=HOST),
        backends("db", False),
        gdp=policy("lubeck", control_plane_hm_only=True),
    )

    service = service_in(snapshot)

    assert service.spec.members[0].control_plane_only
    assert service.status.members[0].reason == UNREADY


def test_a_cluster_that_gives_its_addresses_only_is_judged_by_probes_alone() -> None:
    match = (MatchCluster(cluster="lubeck", sync_vip_only=True),)
    snapshot = _alone(
        balancer("10.1.0.9", 80, hostname=HOST),
        backends("db", False),
        gdp=policy("lubeck", match_clusters=match),
    )

    assert service_in(snapshot).spec.members[0].ready


def test_a_template_says_how_members_are_watched() -> None:
    template = ConfigMap(
        metadata=Meta(name="quick", namespace=NAMESPACE),
        data={"type": "HTTP", "port": "8080", "path": "/healthz", "interval": "2", "up": "1"},
    )
    snapshot = _alone(
        ingress("10.1.0.1"), template, gdp=policy("lubeck", health_monitor_template="quick")
    )

    assert service_in(snapshot).spec.members[0].monitors == (
        Monitor(type="HTTP", port=8080, path="/healthz", interval=2, up=1),
    )


def test_probes_are_kept_from_api_servers_wherever_they_are_named() -> None:
    text = b"""
        clusters: [{name: a, cluster: {server: "https://192.0.2.1:6443"}}]
        {"server": "https://[2001:db8::1]:6443"} server: https://127.0.0.1:6443
    """
    secret = Secret(
        metadata=Meta(name="gslb-config-secret", namespace=NAMESPACE), data={"gslb-members": text}
    )
    api = Service(
        metadata=Meta(name="kubernetes", namespace="default"),
        spec=ServiceSpec(cluster_ip="10.96.0.1", cluster_ips=("10.96.0.1",)),
    )

    assert Gslb().forbidden(_alone(secret, api)) == {"192.0.2.1", "2001:db8::1", "10.96.0.1"}


# -- what makes no sense changes nothing

BAD_POLICIES: list[Any] = [
    pytest.param(
        {"traffic_split": (TrafficSplit(cluster="paris"),)},
        "spec.trafficSplit[0].cluster: paris",
        id="split",
    ),
    pytest.param(
        {"traffic_split": (TrafficSplit(cluster="lubeck", weight=21),)},
        "spec.trafficSplit[0].weight: 21",
        id="weight",
    ),
    pytest.param(
        {"traffic_split": (TrafficSplit(cluster="lubeck", priority=101),)},
        "spec.trafficSplit[0].priority: 101",
        id="priority",
    ),
    pytest.param(
        {"match_clusters": (MatchCluster(cluster="paris"),)},
        "spec.matchClusters[0].cluster: paris",
        id="match",
    ),
    pytest.param(
        {"match_clusters": (MatchCluster(cluster="lubeck"),) * 2},
        "spec.matchClusters: lubeck is named twice",
        id="twice",
    ),
    pytest.param({"ttl": 90000}, "spec.ttl: 90000", id="ttl"),
    pytest.param({"default_domain": "a..b"}, "spec.defaultDomain: 'a..b'", id="domain"),
    pytest.param(
        {"match_rules": MatchRules(app_selector=LabelMatch())},
        "spec.matchRules.appSelector.label",
        id="selector",
    ),
    pytest.param(
        {"pool_algorithm_settings": PoolAlgorithm(lb_algorithm="GSLB_ALGORITHM_CONSISTENT_HASH")},
        "spec.poolAlgorithmSettings.hashMask",
        id="mask",
    ),
    pytest.param(
        {"down_response": DownResponse(type="GSLB_SERVICE_DOWN_RESPONSE_FALLBACK_IP")},
        "spec.downResponse.fallbackIP",
        id="fallback",
    ),
    pytest.param(
        {"health_monitor_refs": ("a",), "health_monitor_template": "b"},
        "spec.healthMonitorTemplate",
        id="monitors",
    ),
    pytest.param(
        {"health_monitor_template": "absent"},
        "spec.healthMonitorTemplate: there is no ConfigMap absent",
        id="template",
    ),
]


@pytest.mark.parametrize(("wrong", "error"), BAD_POLICIES)
def test_an_invalid_policy_is_reported_and_services_stay(wrong: dict[str, Any], error: str) -> None:
    current = _existing_service(("lubeck", "10.1.0.5"), up=True)
    snapshot = _alone(ingress("10.1.0.1"), current, gdp=policy("lubeck", **wrong))

    (patch,) = [
        p
        for p in Gslb().plan(Key("policy"), snapshot).patches
        if "errorStatus" in p.change["status"]
    ]

    assert patch.change["status"]["errorStatus"].startswith(error)
    assert service_in(snapshot).spec == current.spec


def test_two_policies_are_an_error_on_both_and_change_nothing() -> None:
    current = _existing_service(("lubeck", "10.1.0.5"), up=True)
    snapshot = _alone(current, policy("lubeck", name="second"))

    errors = [
        p.change["status"]["errorStatus"]
        for p in Gslb().plan(Key("policy"), snapshot).patches
        if "errorStatus" in p.change["status"]
    ]

    assert (
        errors
        == ["more than one GlobalDeploymentPolicy in avi-system: gdp, second; delete all but one"]
        * 2
    )
    assert service_in(snapshot).spec == current.spec


def test_however_many_errors_there_are_the_status_is_short_enough() -> None:
    many = [policy("lubeck", name=f"{n}{'x' * 240}") for n in range(30)]
    objects = [config("lubeck", name=f"{n}{'x' * 240}") for n in range(30)]

    statuses = [
        p.change["status"] for p in Gslb().plan(Key("policy"), _alone(*many, *objects)).patches
    ]

    assert max(len(status["errorStatus"]) for status in statuses if "errorStatus" in status) == 4096
    assert max(len(status["state"]) for status in statuses if "state" in status) == 1024


BAD_RULES: list[Any] = [
    pytest.param(
        {"third_party_members": (ThirdPartyMember(vip="here"),)},
        "spec.thirdPartyMembers[0].vip: 'here'",
        id="vip",
    ),
    pytest.param(
        {"third_party_members": (ThirdPartyMember(vip="224.0.0.1"),)},
        "spec.thirdPartyMembers[0].vip: 224.0.0.1 is no address that clients can be sent to",
        id="vip of many",
    ),
    pytest.param(
        {"third_party_members": (ThirdPartyMember(vip="192.0.2.1", public_ip="fe80::1"),)},
        "spec.thirdPartyMembers[0].publicIP: fe80::1 is no address",
        id="public ip of a link",
    ),
    pytest.param(
        {
            "down_response": DownResponse(
                type="GSLB_SERVICE_DOWN_RESPONSE_FALLBACK_IP", fallback_ip="0.0.0.0"
            )
        },
        "spec.downResponse.fallbackIP: 0.0.0.0 is no address",
        id="fallback of nobody",
    ),
    pytest.param(
        {"public_ip": (PublicAddress(cluster="paris", ip="192.0.2.1"),)},
        "spec.publicIP[0].cluster: paris",
        id="public cluster",
    ),
    pytest.param(
        {"public_ip": (PublicAddress(cluster="lubeck", ip="x"),)},
        "spec.publicIP[0].ip: 'x'",
        id="public ip",
    ),
    pytest.param(
        {
            "public_ip": (
                PublicAddress(cluster="lubeck", ip="192.0.2.1"),
                PublicAddress(cluster="lubeck", ip="192.0.2.2"),
            )
        },
        "spec.publicIP: lubeck with IPv4 is named twice; give one address of each family",
        id="two public ips of a family",
    ),
    pytest.param(
        {"traffic_split": (TrafficOverride(cluster="lubeck", weight=0),)},
        "spec.trafficSplit[0].weight: 0",
        id="weight",
    ),
]


@pytest.mark.parametrize(("wrong", "error"), BAD_RULES)
def test_a_bad_rule_is_rejected_and_what_serves_goes_on(wrong: dict[str, Any], error: str) -> None:
    current = _existing_service(("lubeck", "10.1.0.5"), up=True)
    snapshot = _alone(ingress("10.1.0.1"), current, rule(**wrong))

    (patch,) = Gslb().plan(Key("rule", "rule", NAMESPACE), snapshot).patches

    assert patch.change["status"]["status"] == "Rejected"
    assert patch.change["status"]["error"].startswith(error)
    assert service_in(snapshot).spec == current.spec


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        pytest.param(
            {"traffic_split": (TrafficOverride(cluster="paris", weight=2),)},
            "spec.trafficSplit[0].cluster: paris is no member cluster",
            id="split",
        ),
        pytest.param(
            {"public_ip": (PublicAddress(cluster="paris", ip="192.0.2.1"),)},
            "spec.publicIP[0].cluster: paris is no member cluster",
            id="public ip",
        ),
    ],
)
def test_clusters_of_a_rule_are_unknown_to_a_configuration_without_members(
    wrong: dict[str, Any], error: str
) -> None:
    local = [LEADER, config(), policy(), rule(**wrong)]
    snapshot = leader_snapshot(local, {"hamburg": [FOLLOWER]})

    (patch,) = Gslb().plan(Key("rule", "rule", NAMESPACE), snapshot).patches

    assert patch.change["status"]["error"].startswith(error)


WRONG: list[Any] = [
    pytest.param([policy("lubeck", ttl=-1)], id="policy"),
    pytest.param([policy("lubeck"), policy("lubeck", name="second")], id="two policies"),
    pytest.param([policy("lubeck"), rule(ttl=-1)], id="rule"),
]


@pytest.mark.parametrize("wrong", WRONG)
def test_readiness_counts_while_the_configuration_is_invalid(wrong: list[Object]) -> None:
    split = (TrafficSplit(cluster="lubeck", weight=7),)
    serving = [LEADER, CONFIG, balancer("10.1.0.9", 80, hostname=HOST)]
    before = [*serving, policy("lubeck", traffic_split=split), backends("db", True)]
    current = service_in(leader_snapshot(before, {"hamburg": [FOLLOWER]}))

    def now(*behind: bool) -> GlobalService:
        local = [*serving, current, backends("db", *behind), *wrong]
        return service_in(leader_snapshot(local, {"hamburg": [FOLLOWER]}))

    assert now(True).spec == current.spec
    assert [(m.ready, m.weight) for m in now(False).spec.members] == [(False, 7)]
    assert now(False).status.members[0].reason == UNREADY


def test_a_member_that_is_gone_is_not_ready_while_the_configuration_is_invalid() -> None:
    before = [LEADER, CONFIG, policy("lubeck"), balancer("10.1.0.9", 80, hostname=HOST)]
    current = service_in(leader_snapshot(before, {"hamburg": [FOLLOWER]}))

    snapshot = _alone(current, rule(ttl=-1))

    assert [m.ready for m in service_in(snapshot).spec.members] == [False]


def test_a_change_of_a_members_source_requeues_its_host_even_after_a_rename() -> None:
    leader = balancer("10.1.0.9", 80)
    named = policy("lubeck", default_domain="example.org")
    current = service_in(_alone(leader, gdp=named), "db.shop.example.org")
    snapshot = _alone(leader, current, gdp=policy("lubeck"))

    change = ObjectChange(LOCAL, None, backends("db", False))

    assert Key("host", "db.shop.example.org") in set(Gslb().keys_for(change, snapshot))


def test_of_two_rules_for_a_host_the_older_has_the_say() -> None:
    old: GSLBHostRule = stored(rule(name="old", ttl=5), age=60)
    young: GSLBHostRule = stored(rule(name="a-young", ttl=9), age=1)
    snapshot = _alone(ingress("10.1.0.1"), old, young)

    (patch,) = Gslb().plan(Key("rule", "a-young", NAMESPACE), snapshot).patches

    assert patch.change["status"]["error"].startswith(f"spec.fqdn: {HOST} has rule old already")
    assert service_in(snapshot).spec.ttl == 5


# -- who does not lead changes nothing


def test_a_follower_leaves_the_copies_it_has_alone() -> None:
    current = _existing_service(("lubeck", "10.1.0.5"), up=True)
    snapshot = leader_snapshot([amko("lubeck"), current])

    assert service_in(snapshot).spec == current.spec


@pytest.mark.parametrize(("other", "changes"), [(0, True), (1, False), (2, False)])
def test_of_two_leaders_only_the_one_of_the_latest_term_changes_what_serves(
    other: int, changes: bool
) -> None:
    current = _existing_service(("lubeck", "10.1.0.5"), up=True)
    local = [LEADER, CONFIG, policy(*BOTH), ingress("10.1.0.1"), current]
    rival = amko("hamburg", leads=True, epoch=other)
    snapshot = leader_snapshot(local, {"hamburg": [rival]})

    assert (service_in(snapshot).spec != current.spec) == changes


def test_copies_go_to_followers_of_every_version() -> None:
    old = amko("hamburg", version="1.4.2")
    local = [LEADER, CONFIG, policy(*BOTH), ingress("10.1.0.1")]

    plan = Gslb().plan(KEY, leader_snapshot(local, {"hamburg": [old]}))

    assert {d.where for d in plan.desired} == {"lubeck", "gslb/hamburg"}


def test_a_new_leader_without_any_policy_does_not_end_what_another_served() -> None:
    inherited = leader_copy(_existing_service(("lubeck", "10.1.0.5"), up=True), "1/paris")
    own = leader_copy(_existing_service(("lubeck", "10.1.0.5"), up=True), "2/lubeck")
    leader = amko("lubeck", leads=True, epoch=2)

    kept = leader_snapshot([leader, CONFIG, inherited])
    ended = leader_snapshot([leader, CONFIG, own])

    assert service_in(kept).spec == inherited.spec
    assert service_in(kept).metadata.annotations == inherited.metadata.annotations
    assert all(WITHDRAWN in o.metadata.annotations for o in planned(ended))


@pytest.mark.parametrize(("reached", "kept"), [(False, True), (True, False)])
def test_a_new_leader_without_policy_and_service_ends_nothing_while_another_may_have_them(
    reached: bool, kept: bool
) -> None:
    copy = leader_copy(_existing_service(("lubeck", "10.1.0.5"), up=True), "1/paris")
    leader = amko("lubeck", "hamburg", "paris", leads=True, epoch=2)
    sites: dict[str, list[Object]] = {"hamburg": [FOLLOWER, copy], "paris": [amko("paris")]}
    phases = {} if reached else {"paris": Phase.UNREACHABLE}

    snapshot = leader_snapshot([leader, CONFIG], sites, phases=phases)

    (found,) = planned(snapshot)
    assert isinstance(found, GlobalService)
    assert is_withdrawn(found) == (not kept)
    assert found.spec == copy.spec


@pytest.mark.parametrize(
    ("local", "there", "places"),
    [
        pytest.param([policy(*BOTH)], [], [LOCAL, site_of("hamburg")], id="no configuration"),
        pytest.param([CONFIG], [policy(*BOTH)], [site_of("hamburg")], id="no policy"),
    ],
)
def test_a_new_leader_that_lacks_a_service_does_not_delete_it_while_it_cannot_decide(
    local: list[Object], there: list[Object], places: list[str]
) -> None:
    copy = leader_copy(_existing_service(("lubeck", "10.1.0.5"), up=True), "1/hamburg")
    leader = amko("lubeck", "hamburg", leads=True, epoch=2)
    snapshot = leader_snapshot([leader, *local], {"hamburg": [FOLLOWER, *there, copy]})

    desired = Gslb().plan(KEY, snapshot).desired

    assert [d.where for d in desired] == places
    for each in desired:
        assert isinstance(each.object, GlobalService)
        assert not is_withdrawn(each.object)
        assert [m.address for m in each.object.spec.members] == ["10.1.0.5"]


# -- records for others to publish

PUBLISHING = GslbOptions(providers=("dns", "externaldns"))


def _records(snapshot: Snapshot, options: GslbOptions = PUBLISHING) -> list[Any]:
    desired = Gslb(options).plan(KEY, snapshot).desired
    (found,) = [d.object for d in desired if isinstance(d.object, DNSEndpoint)]
    return [
        (r.record_type, r.targets, r.record_ttl, r.set_identifier) for r in found.spec.endpoints
    ]


def _published(*members: tuple[str, str], **more: Any) -> Snapshot:
    inputs = [ingress(address, name=f"web-{address}") for _, address in members]
    leader = amko("lubeck", leads=True, epoch=1)
    gdp = policy("lubeck", control_plane_hm_only=True, **more)
    return leader_snapshot([leader, CONFIG, gdp, *inputs], options=PUBLISHING)


def test_all_members_of_the_first_priority_are_one_record() -> None:
    snapshot = _published(
        ("lubeck", "10.1.0.2"), ("lubeck", "10.1.0.1"), ("lubeck", "fd00::1"), ttl=9
    )

    assert _records(snapshot) == [
        ("A", ("10.1.0.1", "10.1.0.2"), 9, ""),
        ("AAAA", ("fd00::1",), 9, ""),
    ]


def test_weights_are_published_if_the_provider_supports_them() -> None:
    weighted = replace(PUBLISHING, weighted_records=True)

    assert _records(_published(("lubeck", "10.1.0.1")), weighted) == [
        ("A", ("10.1.0.1",), 30, "lubeck-10.1.0.1")
    ]


def test_records_of_a_provider_that_is_no_longer_used_stay_until_they_are_to_go() -> None:
    current = DNSEndpoint(metadata=Meta(name=HOST, namespace=NAMESPACE))
    leader = amko("lubeck", leads=True, epoch=1)
    local = [leader, CONFIG, policy("lubeck"), ingress("10.1.0.1"), current]
    snapshot = leader_snapshot(local, options=PUBLISHING)

    kept = Gslb(GslbOptions()).plan(KEY, snapshot)
    withdrawn = Gslb(GslbOptions(withdraw=("externaldns",))).plan(KEY, snapshot)

    assert any(isinstance(d.object, DNSEndpoint) for d in kept.desired)
    assert not any(isinstance(d.object, DNSEndpoint) for d in withdrawn.desired)


def _existing_service(*members: tuple[str, str], up: bool = False) -> GlobalService:
    """A service as it was written before."""
    from hanse.model.kinds.globalservice import (
        GlobalServiceSpec,
        GlobalServiceStatus,
        MemberHealth,
    )

    specs = tuple(
        GlobalMember(cluster=c, address=a, monitors=(Monitor(type="HTTP", port=80, path="/"),))
        for c, a in members
    )
    health = tuple(MemberHealth(cluster=c, address=a, up=up, since=EPOCH) for c, a in members)
    return GlobalService(
        metadata=Meta(name=HOST, namespace=NAMESPACE),
        spec=GlobalServiceSpec(host=HOST, members=specs),
        status=GlobalServiceStatus(members=health),
    )
