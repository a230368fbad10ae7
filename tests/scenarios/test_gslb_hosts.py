"""Global services as clients see them: weights, failover, algorithms, rules, bad policies."""

from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.names import site_of
from hanse.model.kinds.ako import AkoHostRule, AkoHostRuleSpec, GlobalName, VirtualHost
from hanse.model.kinds.core import ConfigMap, Event
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import (
    NAMESPACE,
    GlobalDeploymentPolicy,
    GlobalDeploymentPolicySpec,
    GSLBConfig,
    GSLBConfigSpec,
    GSLBHostRule,
    GSLBHostRuleSpec,
)
from hanse.model.objects import Meta
from tests.support.federation import create_or_patch, install_crds
from tests.support.gslb_sites import HOST, GslbScenario, form_gslb
from tests.support.scenario import Check, Features, Scenario

pytestmark = pytest.mark.anyio

QUICK = {"type": "TCP", "port": "80", "interval": "1", "timeout": "1", "up": "1", "down": "2"}
LUBECK, HAMBURG, BERGEN = "192.0.2.11", "192.0.2.12", "192.0.2.13"
CALM = timedelta(seconds=3)
OTHERS = "others"


@pytest.fixture
def features() -> Features:
    return lambda: (Gslb(),)


@pytest.fixture
async def sites(scenario: Scenario) -> AsyncIterator[GslbScenario]:
    """One host in three clusters; lubeck leads and watches them every second."""
    made = await form_gslb(scenario)
    quick = ConfigMap(metadata=Meta(name="quick", namespace=NAMESPACE), data=QUICK)
    await create_or_patch(made.admin("lubeck"), quick)
    await made.policy("lubeck", healthMonitorTemplate="quick")
    for cluster, address in zip(made.members, (LUBECK, HAMBURG, BERGEN), strict=True):
        await made.serve(cluster, address)
    await scenario.start_agents()
    await scenario.eventually(made.answers("lubeck", LUBECK, HAMBURG, BERGEN))
    yield made
    for running in list(scenario.agents):
        await scenario.kill_agent(running)


async def test_weights_are_met_and_every_cluster_answers_alike(
    sites: GslbScenario, scenario: Scenario
) -> None:
    split = [{"cluster": "lubeck", "weight": 3}, {"cluster": "hamburg", "weight": 1}]
    split.append({"cluster": "bergen", "weight": 1, "priority": 1})
    await sites.policy("lubeck", healthMonitorTemplate="quick", trafficSplit=split)

    for cluster in ("lubeck", "bergen"):
        await scenario.eventually(sites.answers(cluster, LUBECK, HAMBURG))
        counted = Counter(answer for _ in range(400) for answer in sites.ask(cluster)[:1])
        assert counted == {LUBECK: 300, HAMBURG: 100}


async def test_the_next_priority_serves_when_all_above_it_are_down_and_gives_way_again(
    sites: GslbScenario, scenario: Scenario
) -> None:
    split = [{"cluster": "lubeck", "priority": 20}]
    await sites.policy("lubeck", healthMonitorTemplate="quick", trafficSplit=split)
    await scenario.eventually(sites.answers("hamburg", LUBECK))

    sites.hosts.down.add(LUBECK)
    await scenario.eventually(sites.answers("hamburg", HAMBURG, BERGEN))

    async def told() -> None:
        (service,) = await sites.has("hamburg", GlobalService, HOST)()
        down = {h.cluster: h.reason for h in service.status.members if not h.up}
        assert list(down) == ["lubeck"]
        assert "Connection refused" in down["lubeck"]

    await scenario.eventually(told)

    sites.hosts.down.clear()
    await scenario.eventually(sites.answers("hamburg", LUBECK))


async def test_a_new_leader_watches_members_as_the_old_one_did(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await scenario.eventually(_has_monitor(sites, "hamburg"))
    await scenario.kill_agent("lubeck")
    scenario.network.cut("hamburg", site_of("lubeck"))
    await sites.lead("hamburg")

    sites.hosts.down.add(BERGEN)

    await scenario.eventually(sites.answers("hamburg", LUBECK, HAMBURG))
    (found,) = await sites.has("hamburg", GlobalDeploymentPolicy, "gdp")()
    assert found.status.error_status == ""


def _has_monitor(sites: GslbScenario, cluster: str) -> Check[None]:
    async def check() -> None:
        found = await sites.admin(cluster).read(ConfigMap, "quick", NAMESPACE)
        assert found.data == QUICK

    return check


async def test_a_member_that_comes_back_for_a_moment_is_not_trusted_yet(
    sites: GslbScenario, scenario: Scenario
) -> None:
    slow = {**QUICK, "up": "5", "interval": "1"}
    await create_or_patch(
        sites.admin("lubeck"),
        ConfigMap(metadata=Meta(name="slow", namespace=NAMESPACE), data=slow),
    )
    await sites.policy("lubeck", healthMonitorTemplate="slow")
    sites.hosts.down.add(BERGEN)
    await scenario.eventually(sites.answers("lubeck", LUBECK, HAMBURG))

    sites.hosts.down.clear()

    await scenario.always(sites.answers("lubeck", LUBECK, HAMBURG), timedelta(seconds=2))
    await scenario.eventually(sites.answers("lubeck", LUBECK, HAMBURG, BERGEN))


async def test_a_consistent_hash_gives_a_client_always_the_same(
    sites: GslbScenario, scenario: Scenario
) -> None:
    settings = {"lbAlgorithm": "GSLB_ALGORITHM_CONSISTENT_HASH", "hashMask": 24}
    await sites.policy("lubeck", healthMonitorTemplate="quick", poolAlgorithmSettings=settings)

    async def always_one() -> None:
        clients = [f"203.0.{n}.7" for n in range(30)]
        chosen = {
            client: {answer for _ in range(4) for answer in sites.ask("bergen", client=client)[:1]}
            for client in clients
        }
        assert all(len(answers) == 1 for answers in chosen.values()), chosen
        assert set().union(*chosen.values()) == {LUBECK, HAMBURG, BERGEN}

    await scenario.eventually(always_one)


async def test_clients_get_the_cluster_near_to_them(
    sites: GslbScenario, scenario: Scenario
) -> None:
    sites.regions = (("198.51.100.0/24", "bergen"),)
    await sites.start_names("lubeck")
    settings = {"lbAlgorithm": "GSLB_ALGORITHM_GEO"}
    await sites.policy("lubeck", healthMonitorTemplate="quick", poolAlgorithmSettings=settings)

    await scenario.eventually(sites.answers("lubeck", BERGEN, client="198.51.100.7"))
    await sites.answers("lubeck", LUBECK, HAMBURG, BERGEN, client="203.0.113.1")()


async def test_a_rule_changes_one_host_and_reports_that_it_is_in_use(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await sites.rule(
        "lubeck",
        publicIP=[{"cluster": "lubeck", "ip": "192.0.2.1"}],
        thirdPartyMembers=[{"vip": "198.51.100.1", "site": "oslo"}],
        trafficSplit=[{"cluster": "hamburg", "priority": 1}],
    )

    await scenario.eventually(sites.answers("lubeck", "192.0.2.1", BERGEN, "198.51.100.1"))
    await scenario.eventually(_rule_says(sites, "Accepted", ""))

    await sites.admin("lubeck").delete(GSLBHostRule, "rule", NAMESPACE)
    await scenario.eventually(sites.answers("lubeck", LUBECK, HAMBURG, BERGEN))


async def test_invalid_configuration_is_reported_and_only_readiness_changes_answers(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await sites.policy("lubeck", healthMonitorTemplate="quick", trafficSplit=[{"cluster": "paris"}])

    async def policy_is_rejected() -> None:
        found = await sites.admin("lubeck").read(GlobalDeploymentPolicy, "gdp", NAMESPACE)
        assert found.status.error_status.startswith("spec.trafficSplit[0].cluster: paris")

    await scenario.eventually(policy_is_rejected)
    await scenario.always(sites.answers("lubeck", LUBECK, HAMBURG, BERGEN), CALM)
    await sites.stop_serving("bergen")
    await scenario.eventually(sites.answers("lubeck", LUBECK, HAMBURG))

    mended = {"spec": {"trafficSplit": None}}
    await sites.admin("lubeck").patch(GlobalDeploymentPolicy, "gdp", NAMESPACE, mended)

    await scenario.eventually(sites.answers("lubeck", LUBECK, HAMBURG))
    await sites.rule("lubeck", publicIP=[{"cluster": "paris", "ip": "192.0.2.1"}])
    await scenario.eventually(_rule_says(sites, "Rejected", "spec.publicIP[0].cluster: paris"))
    await sites.answers("lubeck", LUBECK, HAMBURG)()
    await sites.stop_serving("hamburg")
    await scenario.eventually(sites.answers("lubeck", LUBECK))
    await sites.serve("hamburg", HAMBURG)
    await scenario.eventually(sites.answers("lubeck", LUBECK, HAMBURG))


async def test_configuration_in_another_namespace_says_that_it_is_not_used(
    sites: GslbScenario, scenario: Scenario
) -> None:
    admin, space = sites.admin("hamburg"), scenario.namespace
    meta = Meta(name="stray", namespace=space)
    stray = (
        GSLBConfig(metadata=meta, spec=GSLBConfigSpec()),
        GlobalDeploymentPolicy(metadata=meta, spec=GlobalDeploymentPolicySpec()),
        GSLBHostRule(metadata=meta, spec=GSLBHostRuleSpec(fqdn=HOST)),
    )
    for obj in stray:
        await create_or_patch(admin, obj)

    async def told() -> None:
        config = await admin.read(GSLBConfig, "stray", space)
        policy = await admin.read(GlobalDeploymentPolicy, "stray", space)
        rule = await admin.read(GSLBHostRule, "stray", space)
        for text in (config.status.state, policy.status.error_status, rule.status.error):
            assert f"in {space} is not used; create it in avi-system" in text

    await scenario.eventually(told)
    for obj in stray:
        await admin.delete(type(obj), "stray", space)


async def test_a_squatter_gets_no_traffic_and_is_told_also_when_the_owner_starts_anew(
    sites: GslbScenario, scenario: Scenario
) -> None:
    squatter = "192.0.2.66"
    await scenario.make_namespace("bergen", OTHERS)
    await sites.serve("bergen", squatter, name="squatter", namespace=OTHERS)

    async def refused() -> None:
        found = await sites.admin("lubeck").read(GlobalService, HOST, NAMESPACE)
        assert found.status.refused == (f"bergen: Ingress {OTHERS}/squatter",)
        policy = await sites.admin("lubeck").read(GlobalDeploymentPolicy, "gdp", NAMESPACE)
        assert any("belongs to namespace" in text for text in policy.status.warnings)

    await scenario.eventually(refused)
    for cluster in sites.members:
        await sites.stop_serving(cluster)
    for cluster in sites.members:
        await scenario.eventually(sites.answers(cluster))
    await scenario.always(sites.answers("bergen"), CALM)
    await sites.serve("hamburg", HAMBURG)
    await scenario.eventually(sites.answers("bergen", HAMBURG))

    await sites.rule("lubeck", owners=[OTHERS, scenario.namespace])
    await scenario.eventually(sites.answers("bergen", HAMBURG, squatter))


def _rule_says(sites: GslbScenario, status: str, error: str) -> Check[None]:
    async def check() -> None:
        rule = await sites.admin("lubeck").read(GSLBHostRule, "rule", NAMESPACE)
        assert rule.status.status == status, rule.status
        assert rule.status.error.startswith(error), rule.status

    return check


async def test_an_unobserved_cluster_keeps_its_members_through_a_restart(
    sites: GslbScenario, scenario: Scenario
) -> None:
    scenario.network.cut("lubeck", site_of("bergen"))
    await scenario.kill_agent("lubeck")
    await scenario.start_agent("lubeck")

    await scenario.eventually(sites.answers("lubeck", LUBECK, HAMBURG, BERGEN))
    await sites.stop_serving("hamburg")

    await scenario.eventually(sites.answers("lubeck", LUBECK, BERGEN))
    await scenario.always(sites.answers("lubeck", LUBECK, BERGEN), CALM)


async def test_the_last_member_takes_the_service_with_it_everywhere(
    sites: GslbScenario, scenario: Scenario
) -> None:
    for cluster in sites.members:
        await sites.stop_serving(cluster)

    for cluster in sites.members:
        await scenario.eventually(sites.has(cluster, GlobalService))


DOWN = "GSLB_SERVICE_DOWN_RESPONSE_"
RESPONSES: tuple[tuple[dict[str, str | None], list[str]], ...] = (
    ({"type": f"{DOWN}ALL_RECORDS"}, [LUBECK, HAMBURG, BERGEN]),
    ({"type": f"{DOWN}FALLBACK_IP", "fallbackIP": "192.0.2.9"}, ["192.0.2.9"]),
    ({"type": f"{DOWN}EMPTY", "fallbackIP": None}, []),
)


async def test_when_all_are_down_the_answer_is_as_configured(
    sites: GslbScenario, scenario: Scenario
) -> None:
    sites.hosts.down |= {LUBECK, HAMBURG, BERGEN}

    async def all_down() -> None:
        (service,) = await sites.has("lubeck", GlobalService, HOST)()
        assert service.status.up == "0/3"

    await scenario.eventually(all_down)
    for response, answer in RESPONSES:
        change = {"spec": {"downResponse": response}}
        await sites.admin("lubeck").patch(GlobalDeploymentPolicy, "gdp", NAMESPACE, change)
        await scenario.eventually(sites.answers("hamburg", *answer))


async def test_a_load_balancer_that_has_but_a_name_serves_wherever_that_leads(
    sites: GslbScenario, scenario: Scenario
) -> None:
    sites.names.addresses["lb.example.com"] = [BERGEN]
    await sites.stop_serving("bergen")
    await scenario.eventually(sites.answers("lubeck", LUBECK, HAMBURG))
    await sites.serve("bergen", "lb.example.com")
    await scenario.eventually(sites.answers("lubeck", LUBECK, HAMBURG, BERGEN))

    sites.names.addresses["lb.example.com"] = ["192.0.2.14"]
    await scenario.eventually(sites.answers("hamburg", LUBECK, HAMBURG, "192.0.2.14"))

    sites.names.silent = True
    await scenario.eventually(_warned(sites, "and that cannot be looked up now"))
    await sites.answers("hamburg", LUBECK, HAMBURG, "192.0.2.14")()

    sites.names.silent = False
    sites.names.addresses.clear()
    await scenario.eventually(sites.answers("hamburg", LUBECK, HAMBURG))
    await scenario.eventually(_warned(sites, "and that has no address"))


async def test_an_invalid_host_name_is_reported_on_its_object_and_on_the_policy(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await sites.serve("bergen", BERGEN, host="*.global.test", name="wild")

    await scenario.eventually(_warned(sites, "spec.rules[0].host: '*.global.test' is no name"))

    async def is_reported() -> None:
        listed = await sites.admin("bergen").list(Event, namespace=scenario.namespace)
        events = [e for e in listed.objects if e.involved_object.name == "wild"]
        assert [(e.reason, e.type) for e in events] == [("NotBalanced", "Warning")]

    await scenario.eventually(is_reported)
    await sites.stop_serving("bergen", "wild")
    await scenario.eventually(_warned(sites))


async def test_hosts_of_other_names_serve_the_global_name_that_rules_give_them(
    sites: GslbScenario, scenario: Scenario
) -> None:
    everywhere, alias = "everywhere.global.test", "also.global.test"
    for cluster, address in (("lubeck", "192.0.2.21"), ("bergen", "192.0.2.23")):
        local = f"local.{cluster}.test"
        await install_crds(scenario, cluster, AkoHostRule)
        await sites.serve(cluster, address, host=local, name="local")
        names = GlobalName(fqdn=everywhere, include_aliases=cluster == "lubeck")
        host = VirtualHost(fqdn=local, gslb=names, aliases=(alias,))
        rule = AkoHostRule(
            metadata=Meta(name="local", namespace=scenario.namespace),
            spec=AkoHostRuleSpec(virtualhost=host),
        )
        await create_or_patch(sites.admin(cluster), rule)
    mapped = {"spec": {"useCustomGlobalFqdn": True}}
    await sites.admin("lubeck").patch(GSLBConfig, "gc-1", NAMESPACE, mapped)

    for name in (everywhere, alias):
        both = sites.answers("hamburg", "192.0.2.21", "192.0.2.23", host=name)
        await scenario.eventually(both)
    await scenario.eventually(sites.answers("hamburg"))

    await sites.admin("bergen").delete(AkoHostRule, "local", scenario.namespace)
    await scenario.eventually(sites.answers("hamburg", "192.0.2.21", host=everywhere))
    await sites.admin("lubeck").patch(
        AkoHostRule,
        "local",
        scenario.namespace,
        {"spec": {"virtualhost": {"aliases": ["else.global.test"]}}},
    )
    await scenario.eventually(sites.answers("hamburg", host=alias))
    await sites.answers("hamburg", "192.0.2.21", host="else.global.test")()


def _warned(sites: GslbScenario, *words: str) -> Check[None]:
    async def check() -> None:
        found = await sites.admin("lubeck").read(GlobalDeploymentPolicy, "gdp", NAMESPACE)
        warnings = found.status.warnings
        assert len(warnings) == len(words), warnings
        assert all(word in warning for word, warning in zip(words, warnings, strict=True)), warnings
        assert all(warning.startswith("bergen: Ingress ") for warning in warnings), warnings

    return check
