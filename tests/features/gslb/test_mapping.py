"""Global names that HostRules give to local hosts, and the state of the configuration."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.features.gslb.avi import configured_refresh_interval
from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.mapping import global_names, local_names
from hanse.features.gslb.names import WITHDRAWN
from hanse.features.gslb.options import GslbOptions
from hanse.model.kinds.ako import (
    AkoHostRule,
    AkoHostRuleSpec,
    AkoHostRuleStatus,
    GlobalName,
    VirtualHost,
)
from hanse.model.kinds.globalservice import GlobalService, GlobalServiceSpec
from hanse.model.kinds.gslb import NAMESPACE, GSLBConfig
from hanse.model.objects import Meta, Object
from hanse.model.plan import Key
from hanse.model.snapshot import ObjectChange, Snapshot
from tests.features.gslb import fleet
from tests.features.gslb.fleet import LOCAL, amko, backends, ingress, leader_snapshot, policy
from tests.support.builders import stored

LEADER = amko("lubeck", "hamburg", leads=True, epoch=1)
GLOBAL = "shop.example.org"
HERE, THERE = "shop.lubeck.example.org", "shop.hamburg.example.org"


def config_with(**spec: Any) -> GSLBConfig:
    created = fleet.config("lubeck", "hamburg")
    return replace(created, spec=replace(created.spec, **spec))


MAPPED = config_with(use_custom_global_fqdn=True)


def maps(
    local: str,
    to: str = GLOBAL,
    name: str = "rule",
    *,
    age: float = 10,
    status: str = "",
    **more: Any,
) -> AkoHostRule:
    host = VirtualHost(fqdn=local, gslb=GlobalName(fqdn=to), **more)
    created = AkoHostRule(
        metadata=Meta(name=name, namespace="shop"),
        spec=AkoHostRuleSpec(virtualhost=host),
        status=AkoHostRuleStatus(status=status),
    )
    return stored(created, age=age)


def snapshot_of(
    here: list[Object], snapshot: list[Object], config: GSLBConfig = MAPPED
) -> Snapshot:
    local = [LEADER, config, policy("lubeck", "hamburg"), *here]
    return leader_snapshot(local, {"hamburg": [amko("hamburg"), *snapshot]})


def members(snapshot: Snapshot, host: str = GLOBAL) -> list[tuple[str, str]]:
    desired = Gslb().plan(Key("host", host), snapshot).desired
    found = [d.object for d in desired if d.where == LOCAL and isinstance(d.object, GlobalService)]
    return [(m.cluster, m.address) for service in found for m in service.spec.members]


def two_names(*more: Object, config: GSLBConfig = MAPPED) -> Snapshot:
    """One application under another name in each cluster, and rules that give both the same."""
    here = [ingress("10.1.0.1", host=HERE), maps(HERE), *more]
    return snapshot_of(here, [ingress("10.2.0.1", host=THERE), maps(THERE.upper())], config)


def test_hosts_of_other_names_serve_the_global_one_that_rules_give_them() -> None:
    assert members(two_names()) == [("lubeck", "10.1.0.1"), ("hamburg", "10.2.0.1")]


def test_a_host_that_no_rule_maps_is_not_balanced_under_its_own_name() -> None:
    assert members(two_names(), HERE) == []


def test_rules_mean_nothing_unless_the_configuration_says_so() -> None:
    snapshot = two_names(config=config_with())

    assert (members(snapshot), members(snapshot, HERE)) == ([], [("lubeck", "10.1.0.1")])


# -- aliases

PLAIN = config_with()


def aliased(snapshot: Snapshot, host: str = GLOBAL) -> tuple[str, ...]:
    desired = Gslb().plan(Key("host", host), snapshot).desired
    (found,) = [
        d.object for d in desired if d.where == LOCAL and isinstance(d.object, GlobalService)
    ]
    return found.spec.aliases


def names(*aliases: str, local: str = GLOBAL, include: bool = False, to: str = "") -> AkoHostRule:
    rule = maps(local, to, name=f"rule-{aliases[0].lower()}", aliases=aliases)
    host = replace(rule.spec.virtualhost, gslb=GlobalName(fqdn=to, include_aliases=include))
    return replace(rule, spec=AkoHostRuleSpec(virtualhost=host))


def test_a_host_has_the_aliases_of_its_rules_in_all_clusters() -> None:
    here = [ingress("10.1.0.1", host=GLOBAL), names("Buy.example.org", "no host")]
    there = [ingress("10.2.0.1", host=GLOBAL), names("order.example.org")]
    snapshot = snapshot_of(here, there, PLAIN)

    assert aliased(snapshot) == ("buy.example.org", "order.example.org")
    keys = Gslb().keys_for(ObjectChange(LOCAL, None, here[1]), snapshot)
    assert Key("host", GLOBAL) in set(keys)


@pytest.mark.parametrize("include", [True, False])
def test_with_custom_names_rules_have_to_include_their_aliases(include: bool) -> None:
    rule = names("buy.example.org", local=HERE, include=include, to=GLOBAL)
    snapshot = snapshot_of([ingress("10.1.0.1", host=HERE), rule], [])

    assert aliased(snapshot) == (("buy.example.org",) if include else ())


OTHER = "other.example.org"
TAKEN: list[Any] = [
    pytest.param([ingress("10.1.0.9", host="buy.example.org", name="buy")], id="a host"),
    pytest.param(
        [ingress("10.1.0.9", host=OTHER, name="other"), names("buy.example.org", local=OTHER)],
        id="another's alias",
    ),
]


@pytest.mark.parametrize("more", TAKEN)
def test_a_name_that_is_somebody_elses_is_no_alias_and_the_policy_says_so(
    more: list[Object],
) -> None:
    rule = replace(names("buy.example.org"), metadata=Meta(name="rule", namespace="shop"))
    here = [ingress("10.1.0.1", host=GLOBAL), rule, *more]
    before = snapshot_of(here, [], PLAIN)
    desired = Gslb().plan(Key("host", GLOBAL), before).desired
    service = next(d.object for d in desired if isinstance(d.object, GlobalService))

    snapshot = snapshot_of([*here, service], [], PLAIN)

    assert aliased(snapshot) == ()
    assert Key("host", GLOBAL) in set(
        Gslb().keys_for(ObjectChange(LOCAL, None, more[-1]), snapshot)
    )
    patches = Gslb().plan(Key("policy"), snapshot).patches
    told = [w for p in patches for w in p.change["status"].get("warnings") or ()]
    assert any(f"buy.example.org is no alias of {GLOBAL}" in text for text in told)


@pytest.mark.parametrize("where", [LOCAL, "hamburg"])
def test_a_host_of_any_cluster_that_has_the_name_of_an_alias_concerns_the_aliased_host(
    where: str,
) -> None:
    rule, buy = names("buy.example.org"), ingress("10.9.0.1", host="buy.example.org", name="buy")
    here: list[Object] = [ingress("10.1.0.1", host=GLOBAL), rule]
    there: list[Object] = []
    (here if where == LOCAL else there).append(buy)
    snapshot = snapshot_of(here, there, PLAIN)

    assert aliased(snapshot) == ()
    assert Key("host", GLOBAL) in set(Gslb().keys_for(ObjectChange(where, None, buy), snapshot))


def test_a_global_service_that_has_the_name_of_an_alias_concerns_the_aliased_host() -> None:
    """It stands before its members, or without them: another leader has written it."""
    here = [ingress("10.1.0.1", host=GLOBAL), names("buy.example.org")]
    buy = GlobalService(
        metadata=Meta(name="buy.example.org", namespace=NAMESPACE),
        spec=GlobalServiceSpec(host="buy.example.org"),
    )
    meta = replace(buy.metadata, annotations={WITHDRAWN: "true"})
    withdrawn = replace(buy, metadata=meta)
    before, after = snapshot_of(here, [], PLAIN), snapshot_of([*here, buy], [], PLAIN)

    assert (aliased(before), aliased(after)) == (("buy.example.org",), ())
    assert aliased(snapshot_of([*here, withdrawn], [], PLAIN)) == ("buy.example.org",)
    for change in (
        ObjectChange(LOCAL, None, buy),
        ObjectChange(LOCAL, buy, withdrawn),
        ObjectChange(LOCAL, buy, None),
    ):
        assert Key("host", GLOBAL) in set(Gslb().keys_for(change, after))


def test_a_rule_of_another_namespace_gives_no_alias() -> None:
    rule = replace(names("buy.example.org"), metadata=Meta(name="rule", namespace="evil"))
    snapshot = snapshot_of([ingress("10.1.0.1", host=GLOBAL), rule], [], PLAIN)

    assert aliased(snapshot) == ()


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(maps(HERE, status="Rejected"), id="rejected"),
        pytest.param(maps(HERE, fqdn_type="Wildcard"), id="no single host"),
        pytest.param(maps(HERE, ""), id="no global name"),
        pytest.param(maps(HERE, "a..b"), id="no name"),
        pytest.param(maps("other.example.org"), id="another host"),
    ],
)
def test_a_rule_that_maps_nothing_brings_no_member(rule: AkoHostRule) -> None:
    assert members(snapshot_of([ingress("10.1.0.1", host=HERE), rule], [])) == []


def test_of_two_rules_for_a_local_name_the_older_counts_and_the_other_is_reported() -> None:
    old, young = maps(HERE, age=60), maps(HERE, "other.example.org", "a-young", age=1)
    snapshot = snapshot_of([ingress("10.1.0.1", host=HERE), old, young], [])

    (warning,) = warnings(snapshot)

    assert members(snapshot) == [("lubeck", "10.1.0.1")]
    assert members(snapshot, "other.example.org") == []
    assert warning == (
        f"lubeck: HostRule shop/a-young: spec.virtualhost.fqdn: {HERE} has HostRule shop/rule "
        "already; delete one"
    )


def test_an_invalid_global_name_is_reported() -> None:
    (warning,) = warnings(snapshot_of([], [maps(THERE, "*.example.org")]))

    assert warning.startswith(
        "hamburg: HostRule shop/rule: spec.virtualhost.gslb.fqdn: '*.example.org' is no name"
    )


def warnings(snapshot: Snapshot) -> list[str]:
    (patch,) = [
        p for p in Gslb().plan(Key("policy"), snapshot).patches if "warnings" in p.change["status"]
    ]
    return patch.change["status"]["warnings"] or []


def test_a_change_requeues_the_global_host() -> None:
    snapshot = two_names()
    key = Key("host", GLOBAL)
    rule, way_in = maps(HERE), ingress("10.1.0.9", host=HERE)

    assert key in set(Gslb().keys_for(ObjectChange(LOCAL, None, way_in), snapshot))
    assert key in set(Gslb().keys_for(ObjectChange(LOCAL, rule, None), snapshot_of([], [])))
    assert key in set(Gslb().keys_for(ObjectChange(LOCAL, config_with(), MAPPED), snapshot))
    assert key not in set(
        Gslb().keys_for(ObjectChange(LOCAL, None, backends("db", True)), snapshot)
    )


NAMES = st.sampled_from(["a.example.org", "b.example.org", "c.example.org"])


@given(st.lists(st.tuples(NAMES, NAMES, st.integers(0, 3)), max_size=6))
@settings(max_examples=40, deadline=None)
def test_both_ways_of_looking_at_rules_agree(rules: list[tuple[str, str, int]]) -> None:
    created = [maps(local, to, f"rule-{n}", age=age) for n, (local, to, age) in enumerate(rules)]
    snapshot = snapshot_of([*created], [])
    names = ["a.example.org", "b.example.org", "c.example.org"]

    for local in names:
        given_to = list(global_names(local, LOCAL, snapshot))
        assert len(given_to) <= 1, "a local host has one global name"
        assert [g for g in names if local in local_names(g, LOCAL, snapshot)] == given_to


# -- other settings

STATES: list[Any] = [
    pytest.param({}, (), "success: the configuration is in use", id="nothing set"),
    pytest.param(
        {"use_custom_global_fqdn": True},
        (),
        "global host names are those that HostRules of ako.vmware.com give",
        id="global names",
    ),
    pytest.param(
        {"log_level": "DEBUG"},
        (),
        "spec.logLevel holds for all that `hanse agent` logs here",
        id="log",
    ),
    pytest.param(
        {"refresh_interval": 60},
        (),
        "spec.refreshInterval is for provider avi alone: all else is seen at once",
        id="refresh",
    ),
]


@pytest.mark.parametrize(("spec", "providers", "state"), STATES)
def test_the_configuration_says_what_of_it_is_used(
    spec: dict[str, Any], providers: tuple[Any, ...], state: str
) -> None:
    options = GslbOptions(providers=providers or ("dns",))
    plan = Gslb(options).plan(Key("policy"), snapshot_of([], [], config_with(**spec)))

    statuses = [p.change["status"] for p in plan.patches if p.subresource == "status"]
    (found,) = [status["state"] for status in statuses if "state" in status]

    assert found.startswith("success: the configuration is in use")
    assert found.endswith(state)


def test_how_often_a_controller_is_read_is_as_the_configuration_says() -> None:
    assert configured_refresh_interval(
        snapshot_of([], [], config_with(refresh_interval=90))
    ) == timedelta(seconds=90)
    assert configured_refresh_interval(snapshot_of([], [], config_with(refresh_interval=0))) is None
    assert configured_refresh_interval(snapshot_of([], [], config_with())) is None
