"""AMKO federation: copies, conditions, failures, and the three disasters."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import msgspec
import pytest

from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.known import is_withdrawn
from hanse.features.gslb.names import ALL_MEMBERS, SECRET, SECRET_KEY, site_of
from hanse.features.gslb.tokens import site_tokens
from hanse.kube.client import Client
from hanse.kube.errors import Invalid, NotFound
from hanse.kube.transport import Request
from hanse.model.kinds.core import Secret
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import (
    NAMESPACE,
    AMKOCluster,
    GlobalDeploymentPolicy,
    GSLBConfig,
    GSLBHostRule,
)
from tests.support.federation import CRDS, create_or_patch, install_crds
from tests.support.gslb_sites import HOST, GslbScenario, form_gslb
from tests.support.scenario import Check, Features, Scenario, describe_writes

pytestmark = pytest.mark.anyio

CALM = timedelta(seconds=3)
SECONDS = timedelta(seconds=5)
FEDERATED = "federated to all valid clusters successfully"
GOOD = {
    "current": "valid AMKOCluster object",
    "member cluster initialisation": "all cluster clients fetched",
    "member cluster validation": "validated all member clusters",
    "GSLBConfig": FEDERATED,
    "GDP": FEDERATED,
}


@pytest.fixture
def features() -> Features:
    return lambda: (Gslb(),)


@pytest.fixture
async def sites(scenario: Scenario) -> AsyncIterator[GslbScenario]:
    """Lubeck leads hamburg and bergen; every cluster has its agent."""
    made = await form_gslb(scenario)
    await made.policy("lubeck", controlPlaneHmOnly=True)
    await scenario.start_agents()
    yield made
    for running in list(scenario.agents):
        await scenario.kill_agent(running)


async def test_followers_get_all_that_the_leader_has_and_it_says_so(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await sites.rule("lubeck", ttl=9)

    for follower in ("hamburg", "bergen"):
        await scenario.eventually(sites.has(follower, GSLBConfig, "gc-1"))
        await scenario.eventually(sites.has(follower, GlobalDeploymentPolicy, "gdp"))
        (rule,) = await scenario.eventually(sites.has(follower, GSLBHostRule, "rule"))
        assert rule.spec.ttl == 9
    await scenario.eventually(sites.has_conditions("lubeck", **GOOD))
    await scenario.eventually(sites.has_conditions("hamburg", current="won't federate objects"))


async def test_a_settled_federation_writes_nothing_and_neither_does_a_restart(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await sites.serve("lubeck", "192.0.2.11")
    await scenario.eventually(sites.has_conditions("lubeck", **GOOD))
    await scenario.eventually(sites.answers("lubeck", "192.0.2.11"))
    await scenario.settled()

    await scenario.kill_agent("lubeck")
    await scenario.kill_agent("hamburg")
    start = len(scenario.network.sent)
    await scenario.start_agents()
    await scenario.settled()

    assert describe_writes(scenario.writes_since(start)) == []


async def test_drift_is_repaired_strays_go_and_deletions_follow(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await scenario.eventually(sites.has("hamburg", GSLBConfig, "gc-1"))
    admin = sites.admin("hamburg")

    await admin.patch(GSLBConfig, "gc-1", NAMESPACE, {"spec": {"logLevel": "DEBUG"}})
    await create_or_patch(admin, sites.config("stray"))
    await sites.rule("hamburg", "stray-rule")

    async def repaired() -> None:
        (config,) = await sites.has("hamburg", GSLBConfig, "gc-1")()
        assert config.spec.log_level == "INFO"

    await scenario.eventually(repaired)
    await scenario.eventually(sites.has("hamburg", GSLBHostRule))

    await sites.admin("lubeck").delete(GlobalDeploymentPolicy, "gdp", NAMESPACE)

    for follower in ("hamburg", "bergen"):
        await scenario.eventually(sites.has(follower, GlobalDeploymentPolicy))


async def test_what_goes_with_its_kind_where_it_was_made_stays_with_the_followers(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await sites.serve("bergen", "192.0.2.3")
    await scenario.eventually(sites.has_conditions("lubeck", **GOOD))
    await scenario.eventually(sites.answers("hamburg", "192.0.2.3"))

    paths = [f"{CRDS}/{k.kind.plural}.{k.kind.group}" for k in (GSLBConfig, GlobalDeploymentPolicy)]
    for path in paths:
        await sites.admin("lubeck").send(Request("DELETE", path))

    reasons = await scenario.eventually(
        sites.has_conditions("lubeck", current="invalid AMKOCluster object")
    )
    assert "followers keep what they have" in reasons["current AMKOCluster Validation"]
    for path in paths:
        await scenario.eventually(_gone(sites.admin("lubeck"), path))
    for kind in (GSLBConfig, GlobalDeploymentPolicy):
        await install_crds(scenario, "lubeck", kind)

    async def is_told() -> None:
        reasons = await sites.has_conditions("lubeck", GSLBConfig="failure in federation")()
        assert "gc-1, which nobody deleted here: create it here" in reasons["GSLBConfig Federation"]

    await scenario.eventually(is_told)
    for follower in ("hamburg", "bergen"):
        await sites.has(follower, GSLBConfig, "gc-1")()
        await sites.has(follower, GlobalDeploymentPolicy, "gdp")()
        await sites.answers(follower, "192.0.2.3")()

    await create_or_patch(sites.admin("lubeck"), sites.config())
    await sites.policy("lubeck", controlPlaneHmOnly=True)

    await scenario.eventually(sites.has_conditions("lubeck", **GOOD))
    await scenario.eventually(sites.answers("hamburg", "192.0.2.3"))


def _gone(admin: Client, path: str) -> Check[None]:
    async def check() -> None:
        try:
            await admin.send(Request("GET", path))
        except NotFound:
            return
        raise AssertionError(f"{path} is there")

    return check


async def test_two_configurations_are_an_error_and_nothing_is_copied_or_deleted(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await scenario.eventually(sites.has_conditions("lubeck", **GOOD))

    await create_or_patch(sites.admin("lubeck"), sites.config("second"))

    reasons = await scenario.eventually(
        sites.has_conditions("lubeck", GSLBConfig="failure in federation")
    )
    assert "gc-1, second" in reasons["GSLBConfig Federation"]
    await sites.has("hamburg", GSLBConfig, "gc-1")()
    await sites.admin("lubeck").delete(GSLBConfig, "gc-1", NAMESPACE)
    await scenario.eventually(sites.has("hamburg", GSLBConfig, "second"))
    await scenario.eventually(sites.has_conditions("lubeck", **GOOD))


async def test_a_member_with_another_version_is_left_out_until_it_is_upgraded(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await scenario.eventually(sites.has_conditions("lubeck", **GOOD))
    await sites.amko("hamburg", version="1.4.2")
    some = "error in validating some member clusters"
    reasons = await scenario.eventually(
        sites.has_conditions("lubeck", **{"member cluster validation": some})
    )
    assert reasons["member cluster validation"] == (
        "version mismatch, current AMKO: 1.5.1, AMKO in cluster hamburg: 1.4.2"
    )

    await sites.rule("lubeck")

    await scenario.eventually(sites.has("bergen", GSLBHostRule, "rule"))
    await sites.has("hamburg", GSLBHostRule)()
    await sites.amko("hamburg")
    await scenario.eventually(sites.has("hamburg", GSLBHostRule, "rule"))


async def test_an_unreachable_member_is_reported_and_catches_up(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await scenario.eventually(sites.has_conditions("lubeck", **GOOD))
    scenario.network.cut("lubeck", site_of("hamburg"))
    some = "some member cluster clients couldn't be fetched"
    reasons = await scenario.eventually(
        sites.has_conditions("lubeck", **{"member cluster initialisation": some})
    )
    assert reasons["member cluster initialisation"].startswith("cluster hamburg cannot be reached")
    await sites.rule("lubeck")
    await scenario.eventually(sites.has("bergen", GSLBHostRule, "rule"))

    scenario.network.heal("lubeck", site_of("hamburg"))

    await scenario.eventually(sites.has("hamburg", GSLBHostRule, "rule"))
    await scenario.eventually(sites.has_conditions("lubeck", **GOOD))


async def test_a_secret_that_was_rotated_counts_without_a_restart(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await scenario.eventually(sites.has_conditions("lubeck", **GOOD))
    await create_or_patch(
        sites.admin("lubeck"), await sites.contexts("hamburg", "bergen", broken=["bergen"])
    )
    some = "some member cluster clients couldn't be fetched"
    reasons = await scenario.eventually(
        sites.has_conditions("lubeck", **{"member cluster initialisation": some})
    )
    assert "exec is refused" in reasons["member cluster initialisation"]

    await create_or_patch(sites.admin("lubeck"), await sites.contexts("hamburg", "bergen"))

    await scenario.eventually(sites.has_conditions("lubeck", **GOOD))


async def test_a_cluster_that_refuses_a_copy_is_reported_and_gets_it_later(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await scenario.eventually(sites.has_conditions("lubeck", **GOOD))

    async with AsyncExitStack() as stack:
        for follower, status in (
            ("hamburg", "error in federating to some clusters"),
            ("bergen", "failure in federation"),
        ):
            await stack.enter_async_context(_taking_one_member_only(sites, follower))
            await scenario.eventually(_refuses(sites, follower))
            await sites.admin(follower).delete(GSLBConfig, "gc-1", NAMESPACE)
            reasons = await scenario.eventually(sites.has_conditions("lubeck", GSLBConfig=status))
            assert f"cluster {follower}: " in reasons["GSLBConfig Federation"]
            assert "memberClusters" in reasons["GSLBConfig Federation"]

    await scenario.eventually(sites.has_conditions("lubeck", **GOOD))
    await sites.has("hamburg", GSLBConfig, "gc-1")()


@asynccontextmanager
async def _taking_one_member_only(sites: GslbScenario, cluster: str) -> AsyncIterator[None]:
    """Let a cluster's definition of GSLBConfig be stricter for a while."""
    field = "spec/properties/memberClusters/maxItems"
    path = f"/spec/versions/0/schema/openAPIV3Schema/properties/{field}"

    async def allow(most: int) -> None:
        body = msgspec.json.encode([{"op": "replace", "path": path, "value": most}])
        name = "gslbconfigs.amko.vmware.com"
        content = "application/json-patch+json"
        request = Request("PATCH", f"{CRDS}/{name}", body=body, content_type=content)
        await sites.admin(cluster).send(request)

    await allow(1)
    try:
        yield
    finally:
        await allow(100)


def _refuses(sites: GslbScenario, cluster: str) -> Check[None]:
    async def check() -> None:
        try:
            await sites.admin(cluster).create(sites.config("probe"))
        except Invalid:
            return
        await sites.admin(cluster).delete(GSLBConfig, "probe", NAMESPACE)
        raise AssertionError(f"{cluster} takes it still")

    return check


# -- the disasters of the seed


async def test_site_failure_another_cluster_leads_with_another_controller(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await sites.serve("hamburg", "192.0.2.12")
    await scenario.eventually(sites.has_conditions("lubeck", **GOOD))
    await scenario.eventually(sites.answers("hamburg", "192.0.2.12"))
    await scenario.kill_agent("lubeck")
    for other in ("hamburg", "bergen"):
        scenario.network.cut(other, site_of("lubeck"))

    leader = {"spec": {"gslbLeader": {"controllerIP": "10.9.9.9"}}}
    await sites.admin("hamburg").patch(GSLBConfig, "gc-1", NAMESPACE, leader)
    await sites.lead("hamburg")

    async def follows() -> None:
        (config,) = await sites.has("bergen", GSLBConfig, "gc-1")()
        assert config.spec.gslb_leader.controller_ip == "10.9.9.9"

    await scenario.eventually(follows)
    reasons = await scenario.eventually(
        sites.has_conditions("hamburg", current="valid AMKOCluster object", GSLBConfig=FEDERATED)
    )
    assert "lubeck cannot be reached" in reasons["member cluster initialisation"]
    await sites.answers("hamburg", "192.0.2.12")()


async def test_cluster_failure_a_follower_takes_over_and_answers_never_stop(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await sites.serve("hamburg", "192.0.2.12")
    await sites.serve("bergen", "192.0.2.13")
    both = sites.answers("hamburg", "192.0.2.12", "192.0.2.13")
    await scenario.eventually(both)
    await scenario.kill_agent("lubeck")
    scenario.network.cut("hamburg", site_of("lubeck"))

    await sites.lead("hamburg")
    await scenario.always(both, CALM)

    await sites.policy("hamburg", ttl=3)
    (copy,) = await scenario.eventually(sites.has("bergen", GlobalDeploymentPolicy, "gdp"))
    await scenario.eventually(_ttl_of(sites, "bergen", 3))
    assert copy.metadata.annotations["gslb.hanse.dev/leader"].endswith("/hamburg")


async def test_a_cluster_outside_the_federation_set_is_balanced_and_gets_no_configuration(
    sites: GslbScenario, scenario: Scenario
) -> None:
    """`spec.clusters` may be a subset of the member clusters: bergen serves and follows nobody."""
    await sites.serve("hamburg", "192.0.2.12")
    await scenario.eventually(sites.has_conditions("lubeck", **GOOD))
    await scenario.eventually(sites.has("bergen", GlobalService, HOST))
    for cluster in ("lubeck", "hamburg"):
        await sites.amko(cluster, leads=cluster == "lubeck", clusters=("lubeck", "hamburg"))
    await scenario.settled()
    for kind, name in (
        (GSLBConfig, "gc-1"),
        (GlobalDeploymentPolicy, "gdp"),
        (AMKOCluster, "amkocluster"),
    ):
        await sites.admin("bergen").delete(kind, name, NAMESPACE)

    await sites.serve("bergen", "192.0.2.13")

    await scenario.eventually(sites.has_conditions("lubeck", **GOOD))
    for cluster in sites.members:  # what bergen had is kept current
        await scenario.eventually(sites.answers(cluster, "192.0.2.12", "192.0.2.13"))
    await sites.admin("bergen").delete(GlobalService, HOST, NAMESPACE)
    await sites.lead("lubeck", False)
    await sites.lead("hamburg")
    await scenario.eventually(sites.has_conditions("hamburg", **GOOD))
    await scenario.settled()
    for empty in (GSLBConfig, GlobalDeploymentPolicy, GlobalService):
        await sites.has("bergen", empty)()
    await sites.stop_serving("bergen")
    await scenario.eventually(sites.answers("lubeck", "192.0.2.12"))


def _ttl_of(sites: GslbScenario, cluster: str, ttl: int) -> Check[None]:
    async def check() -> None:
        (found,) = await sites.has(cluster, GlobalDeploymentPolicy, "gdp")()
        assert found.spec.ttl == ttl

    return check


async def test_old_leader_boots_up_configuration_stops_and_traffic_does_not(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await sites.serve("bergen", "192.0.2.13")
    await scenario.eventually(sites.has_conditions("lubeck", **GOOD))
    await scenario.eventually(sites.answers("bergen", "192.0.2.13"))
    await scenario.kill_agent("lubeck")
    scenario.network.cut("hamburg", site_of("lubeck"))
    await sites.lead("hamburg")
    await scenario.eventually(sites.has_conditions("hamburg", GSLBConfig=FEDERATED))

    scenario.network.heal("hamburg", site_of("lubeck"))
    await scenario.start_agent("lubeck")

    stopped = {"member cluster validation": "validation of member clusters failed"}
    for leader, other in (("lubeck", "hamburg"), ("hamburg", "lubeck")):
        reasons = await scenario.eventually(sites.has_conditions(leader, **stopped))
        assert reasons["member cluster validation"] == (
            f"AMKO in cluster {other} is also a leader, conflicting state"
        )
    await sites.policy("lubeck", ttl=77)
    await sites.serve("hamburg", "192.0.2.12")
    await scenario.eventually(sites.answers("bergen", "192.0.2.13", "192.0.2.12"))
    await scenario.settled()
    (copy,) = await sites.has("bergen", GlobalDeploymentPolicy, "gdp")()
    assert copy.spec.ttl is None

    await sites.lead("lubeck", False)

    await scenario.eventually(sites.has_conditions("hamburg", **GOOD))
    await scenario.eventually(sites.has_conditions("lubeck", current="won't federate objects"))

    async def term_is_over() -> None:
        (config,) = await sites.has("lubeck", AMKOCluster, "amkocluster")()
        assert "gslb.hanse.dev/epoch" not in config.metadata.annotations

    await scenario.eventually(term_is_over)


@pytest.mark.parametrize("others", [("bergen",), ()], ids=["bergen has it", "only lubeck has it"])
async def test_who_is_promoted_before_it_got_anything_ends_nothing(
    sites: GslbScenario, scenario: Scenario, others: tuple[str, ...]
) -> None:
    await sites.serve("bergen", "192.0.2.13")
    await scenario.eventually(sites.has_conditions("lubeck", **GOOD))
    await scenario.eventually(sites.has("hamburg", GlobalService, HOST))
    await scenario.eventually(sites.answers("bergen", "192.0.2.13"))
    await scenario.kill_agent("lubeck")
    scenario.network.cut("hamburg", site_of("lubeck"))
    for cluster in ("hamburg", "bergen"):
        if cluster not in others:  # as if never copied
            await sites.admin(cluster).delete(GSLBConfig, "gc-1", NAMESPACE)
            await sites.admin(cluster).delete(GlobalDeploymentPolicy, "gdp", NAMESPACE)
    await sites.admin("hamburg").delete(GlobalService, HOST, NAMESPACE)
    await scenario.settled()

    async def is_served() -> None:
        (service,) = await sites.has("bergen", GlobalService, HOST)()
        assert not is_withdrawn(service)
        await sites.answers("bergen", "192.0.2.13")()

    await sites.lead("hamburg")
    await scenario.eventually(
        sites.has_conditions("hamburg", **{"member cluster validation": ALL_MEMBERS})
    )
    await scenario.always(is_served, CALM)
    scenario.network.heal("hamburg", site_of("lubeck"))
    await scenario.start_agent("lubeck")
    await sites.lead("lubeck", False)

    async def is_told() -> None:
        reasons = await sites.has_conditions("hamburg", GDP="failure in federation")()
        assert "cluster lubeck keeps gdp" in reasons["GDP Federation"]

    await scenario.eventually(is_told)
    await scenario.always(is_served, CALM)
    await sites.has("lubeck", GSLBConfig, "gc-1")()
    await sites.has("lubeck", GlobalDeploymentPolicy, "gdp")()
    await _configure_and_serve(sites, "hamburg")


async def _configure_and_serve(sites: GslbScenario, leader: str) -> None:
    """Create a leader's configuration: it is good then, and a new member is answered."""
    await create_or_patch(sites.admin(leader), sites.config())
    await sites.policy(leader, controlPlaneHmOnly=True)
    await sites.serve(leader, "192.0.2.12")
    await sites.scenario.eventually(sites.has_conditions(leader, **GOOD))
    for cluster in sites.members:
        await sites.scenario.eventually(sites.answers(cluster, "192.0.2.12", "192.0.2.13"))


async def test_an_old_leader_that_sees_only_a_follower_does_not_write_either(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await scenario.eventually(sites.has_conditions("lubeck", **GOOD))
    await scenario.kill_agent("lubeck")
    scenario.network.cut("hamburg", site_of("lubeck"))
    await sites.lead("hamburg")
    await scenario.eventually(sites.has_conditions("hamburg", GSLBConfig=FEDERATED))
    await sites.policy("hamburg", ttl=5)
    await scenario.eventually(_ttl_of(sites, "bergen", 5))

    scenario.network.cut("lubeck", site_of("hamburg"))
    await scenario.start_agent("lubeck")

    stopped = {"member cluster validation": "validation of member clusters failed"}
    reasons = await scenario.eventually(sites.has_conditions("lubeck", **stopped))
    assert "cluster hamburg leads since epoch 2" in reasons["member cluster validation"]
    await scenario.always(_ttl_of(sites, "bergen", 5), CALM)


async def test_who_leads_and_follows_by_turns_says_so_within_seconds_every_time(
    sites: GslbScenario, scenario: Scenario
) -> None:
    async def follows() -> None:
        (own,) = await sites.has("lubeck", AMKOCluster, "amkocluster")()
        assert [c.status for c in own.status.conditions] == ["won't federate objects"]
        assert "gslb.hanse.dev/epoch" not in own.metadata.annotations

    for _ in range(12):
        await scenario.eventually(sites.has_conditions("lubeck", **GOOD), within=SECONDS)
        await sites.lead("lubeck", False)
        await scenario.eventually(follows, within=SECONDS)
        await sites.lead("lubeck")


async def test_however_often_a_user_changes_the_leader_it_is_reported_at_once(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await scenario.eventually(sites.has_conditions("lubeck", **GOOD))
    bad = {"member cluster validation": "validation of member clusters failed"}

    for _ in range(9):
        await sites.lead("hamburg")
        await scenario.eventually(sites.has_conditions("lubeck", **bad), SECONDS)
        await sites.lead("hamburg", False)
        await scenario.eventually(sites.has_conditions("lubeck", **GOOD), SECONDS)
        follows = sites.has_conditions("hamburg", current="won't federate objects")
        await scenario.eventually(follows, SECONDS)


@pytest.mark.virtual
async def test_the_leader_and_its_followers_renew_their_tokens_for_sites(
    sites: GslbScenario, scenario: Scenario
) -> None:
    """Whoever is promoted after months needs tokens that are valid."""

    async def kubeconfigs() -> dict[str, bytes]:
        found = {c: await sites.admin(c).read(Secret, SECRET, NAMESPACE) for c in sites.members}
        return {cluster: secret.data[SECRET_KEY] for cluster, secret in found.items()}

    for cluster in sites.members:
        others = [one for one in sites.members if one != cluster]
        short = await sites.contexts(*others, lifetime=timedelta(minutes=10))
        await create_or_patch(sites.admin(cluster), short)
    before = await kubeconfigs()
    await asyncio.sleep(timedelta(minutes=7).total_seconds())  # of ten
    renewed = await kubeconfigs()
    await asyncio.sleep(timedelta(minutes=7).total_seconds())  # the first ones have ended

    for cluster, text in renewed.items():
        tokens, former = set(site_tokens(text)), set(site_tokens(before[cluster]))
        assert len(tokens) == len(former) == 2
        assert tokens.isdisjoint(former)
        assert len(text) - len(before[cluster]) in range(-9, 10), "nothing else changed"
    await sites.rule("lubeck", ttl=9)
    await scenario.eventually(sites.has("bergen", GSLBHostRule, "rule"))
