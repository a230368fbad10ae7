"""Answers under the disasters that global load balancing exists for, at every name server.

Each name server is asked all the time. After a fault a member dies: no answer names it for longer
than its probes allow, and no answer is empty.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial

import pytest
from msgspec import Struct

from hanse.app.outside_view import OutsideView
from hanse.dns.compiler import Compiler
from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.names import HOSTS, LEADER_LEASE, site_of
from hanse.features.gslb.zone import GlobalZone
from hanse.model.dns.zones import View
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.objects import Meta
from tests.scenarios.test_gslb_hosts import BERGEN, HAMBURG, LUBECK, QUICK
from tests.support.federation import create_or_patch
from tests.support.gslb_sites import HOST, ROUNDS, ZONE, GslbScenario, form_gslb
from tests.support.name_server import AnswerTable
from tests.support.scenario import Features, Scenario

pytestmark = pytest.mark.anyio

RULE = timedelta(seconds=int(QUICK["down"]) * int(QUICK["interval"]) + int(QUICK["timeout"]))
"""After so long a dead member is in no answer."""
CLIENT = "203.0.113.1"


class Asked(Struct, frozen=True):
    """One answer, and when it was given."""

    at: float
    cluster: str
    code: str
    addresses: list[str]


class Client:
    """Asks every running name server about the host, all the time."""

    def __init__(self, sites: GslbScenario) -> None:
        self._sites = sites
        self.answers: list[Asked] = []

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._ask(), name="client")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _ask(self) -> None:
        while True:
            for cluster, names in self._sites.name_servers.items():
                found = names.ask(HOST, CLIENT)
                now = asyncio.get_running_loop().time()
                self.answers.append(Asked(now, cluster, found.code, found.addresses))
            await asyncio.sleep(0.1)

    def unanswered(self) -> list[Asked]:
        return [a for a in self.answers if a.code != "NOERROR" or not a.addresses]

    def naming(self, address: str, after: float) -> list[Asked]:
        return [a for a in self.answers if a.at > after and address in a.addresses]


@pytest.fixture
def features() -> Features:
    return lambda: (Gslb(),)


@pytest.fixture
async def sites(scenario: Scenario) -> AsyncIterator[GslbScenario]:
    """One host in three clusters, each with a name server; lubeck leads."""
    made = await form_gslb(scenario)
    quick = ConfigMap(metadata=Meta(name="quick", namespace=NAMESPACE), data=QUICK)
    await create_or_patch(made.admin("lubeck"), quick)
    await made.policy("lubeck", healthMonitorTemplate="quick")
    for cluster, address in zip(made.members, (LUBECK, HAMBURG, BERGEN), strict=True):
        await made.serve(cluster, address)
    await scenario.start_agents()
    for cluster in made.members:
        await scenario.eventually(made.answers(cluster, LUBECK, HAMBURG, BERGEN))
    yield made
    for running in list(scenario.agents):
        await scenario.kill_agent(running)


Fault = Callable[[GslbScenario, Scenario], Awaitable[None]]


async def leader_api_dead(sites: GslbScenario, scenario: Scenario) -> None:
    """Nobody reaches the API server of the leader's cluster; what it serves goes on."""
    for source in ("lubeck", "dns-lubeck"):
        scenario.network.cut(source, "lubeck")
    for source in ("hamburg", "bergen"):
        scenario.network.cut(source, site_of("lubeck"))


async def leader_site_dead(sites: GslbScenario, scenario: Scenario) -> None:
    """The whole site of the leader is gone."""
    await leader_api_dead(sites, scenario)
    await scenario.kill_agent("lubeck")
    await sites.stop_names("lubeck")
    sites.hosts.down.add(LUBECK)


async def two_leaders(sites: GslbScenario, scenario: Scenario) -> None:
    """Hamburg was promoted while lubeck was away, which comes back and leads, too."""
    await scenario.kill_agent("lubeck")
    scenario.network.cut("hamburg", site_of("lubeck"))
    await sites.lead("hamburg")
    await scenario.eventually(sites.has_conditions("hamburg", current="valid AMKOCluster object"))
    scenario.network.heal_all()
    await scenario.start_agent("lubeck")
    bad = {"member cluster validation": "validation of member clusters failed"}
    await scenario.eventually(sites.has_conditions("lubeck", **bad))


async def version_skew(sites: GslbScenario, scenario: Scenario) -> None:
    """One follower has another version of AMKO, as during an upgrade."""
    await sites.amko("hamburg", version="1.6.0")
    bad = {"member cluster validation": "error in validating some member clusters"}
    await scenario.eventually(sites.has_conditions("lubeck", **bad))


async def leader_cut_off_from_half(sites: GslbScenario, scenario: Scenario) -> None:
    """The leader does not reach one of its followers, nor the members there."""
    scenario.network.cut("lubeck", site_of("bergen"))
    sites.hosts.cut_off.add("lubeck")


async def restarted_without_api(sites: GslbScenario, scenario: Scenario) -> None:
    """Agent and name server of a follower restart while its API server is away."""
    await scenario.kill_agent("hamburg")
    for source in ("hamburg", "dns-hamburg"):
        scenario.network.cut(source, "hamburg")
    await sites.start_names("hamburg")
    await scenario.start_agent("hamburg")
    await asyncio.sleep(0.5)


async def namespace_deleted(sites: GslbScenario, scenario: Scenario) -> None:
    """Somebody deletes the namespace of all GSLB objects in a follower and in the leader."""
    for cluster in ("hamburg", "lubeck"):
        await scenario.delete_namespace(cluster, NAMESPACE)
    for cluster in ("hamburg", "lubeck"):
        await scenario.eventually(scenario.has_no_namespace(cluster, NAMESPACE))


FAULTS = (
    leader_api_dead,
    leader_site_dead,
    two_leaders,
    version_skew,
    leader_cut_off_from_half,
    restarted_without_api,
    namespace_deleted,
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: str(fault.__name__))
async def test_no_answer_names_a_dead_member_and_none_is_empty(
    sites: GslbScenario, scenario: Scenario, fault: Fault
) -> None:
    client = Client(sites)
    async with client.asking():
        await fault(sites, scenario)
        died_at = asyncio.get_running_loop().time()
        sites.hosts.down.add(BERGEN)
        judging = [c for c in sites.name_servers if c not in sites.hosts.cut_off]
        served = {LUBECK, HAMBURG} - sites.hosts.down
        for cluster in judging:
            await scenario.eventually(sites.answers(cluster, *served), RULE)
        await asyncio.sleep(RULE.total_seconds())

    named = client.naming(BERGEN, died_at + (RULE + scenario.testbed.slack).total_seconds())
    assert [a for a in named if a.cluster in judging] == []
    assert client.unanswered() == []


@pytest.mark.virtual
async def test_readiness_alone_counts_only_while_the_leader_can_tell(
    sites: GslbScenario, scenario: Scenario
) -> None:
    await sites.policy("lubeck", controlPlaneHmOnly=True)
    sites.hosts.down.add(BERGEN)

    await scenario.always(sites.answers("hamburg", LUBECK, HAMBURG, BERGEN), RULE * 3)
    scenario.network.cut("lubeck", site_of("bergen"))
    for cluster in sites.members:
        await scenario.eventually(sites.answers(cluster, LUBECK, HAMBURG))

    scenario.network.heal_all()
    for cluster in sites.members:
        whole = sites.answers(cluster, LUBECK, HAMBURG, BERGEN)
        await scenario.eventually(whole, timedelta(minutes=2))
    await scenario.kill_agent("lubeck")
    for cluster in sites.members:
        await scenario.eventually(sites.answers(cluster, LUBECK, HAMBURG))


@pytest.mark.virtual
async def test_a_name_server_that_reaches_nobody_keeps_its_answers(
    sites: GslbScenario, scenario: Scenario
) -> None:
    sites.hosts.cut_off.add("bergen")

    await scenario.always(sites.answers("bergen", LUBECK, HAMBURG, BERGEN), RULE * 3)


@pytest.mark.virtual
async def test_an_earlier_leader_that_writes_is_not_served(
    sites: GslbScenario, scenario: Scenario
) -> None:
    """A copy that an old term overwrote is ignored until the latest leader repairs it."""
    names = sites.name_servers["bergen"]
    await scenario.kill_agent("lubeck")
    service = {
        "metadata": {"annotations": {"gslb.hanse.dev/leader": "0/paris"}},
        "spec": {"members": [{"cluster": "paris", "address": "192.0.2.99"}]},
    }
    await sites.admin("bergen").patch(GlobalService, HOST, NAMESPACE, service)
    await asyncio.sleep(1)

    assert "192.0.2.99" not in {a for _ in range(9) for a in names.ask(HOST, CLIENT).addresses}


@pytest.mark.virtual
async def test_the_last_member_stays_and_a_withdrawn_host_goes(
    sites: GslbScenario, scenario: Scenario
) -> None:
    for address in (LUBECK, HAMBURG, BERGEN):
        sites.hosts.down.add(address)
        await asyncio.sleep(2 * RULE.total_seconds())
    await scenario.eventually(sites.answers("hamburg", BERGEN))

    for cluster in sites.members:
        await sites.stop_serving(cluster)
    for cluster in sites.members:
        await scenario.eventually(sites.answers(cluster))
    assert sites.name_servers["hamburg"].ask(HOST, CLIENT).code == "NXDOMAIN"


async def test_a_host_that_ends_unseen_ends_when_its_name_server_sees_again(
    sites: GslbScenario, scenario: Scenario
) -> None:
    scenario.network.cut("dns-hamburg", "hamburg")
    for cluster in sites.members:
        await sites.stop_serving(cluster)
    for cluster in ("lubeck", "bergen"):
        await scenario.eventually(sites.answers(cluster))
    for cluster in sites.members:
        await scenario.eventually(sites.has(cluster, GlobalService))
    assert sites.ask("hamburg"), "who sees nothing goes on"

    scenario.network.heal_all()
    await scenario.eventually(sites.answers("hamburg"), timedelta(minutes=3))
    assert sites.name_servers["hamburg"].ask(HOST, CLIENT).code == "NXDOMAIN"

    await sites.start_names("hamburg")
    await scenario.always(sites.answers("hamburg"), timedelta(seconds=2))


@pytest.mark.virtual
async def test_a_leader_names_its_hosts_only_while_it_decides_about_them(
    sites: GslbScenario, scenario: Scenario
) -> None:
    async def names_hosts(*, expected: bool) -> None:
        lease = await sites.admin("hamburg").read(Lease, LEADER_LEASE, NAMESPACE)
        assert (HOSTS in lease.metadata.annotations) == expected

    await scenario.eventually(partial(names_hosts, expected=True))
    await sites.policy("lubeck", matchClusters=[{"cluster": "paris"}])
    await scenario.eventually(partial(names_hosts, expected=False))
    await scenario.always(sites.answers("hamburg", LUBECK, HAMBURG, BERGEN), RULE)


@pytest.mark.virtual  # `hanse up` alone has this view; its answers do not depend on the engine
async def test_the_view_of_clients_outside_follows_whichever_cluster_is_left(
    sites: GslbScenario, scenario: Scenario
) -> None:
    compiler = Compiler(view := View("all", global_zones=(ZONE,)), [GlobalZone(view)])
    outside, server = OutsideView(compiler, sites.members), AnswerTable(compiler)

    async def answers(*addresses: str) -> None:
        found = {a for _ in range(ROUNDS) for a in server.ask(HOST, CLIENT).addresses}
        assert found == set(addresses)

    async with AsyncExitStack() as feeding:
        for cluster in reversed(sites.members):
            agent = scenario.agent(cluster)
            await feeding.enter_async_context(outside.feeding_from(agent, server))
        await scenario.eventually(partial(answers, LUBECK, HAMBURG, BERGEN))

        await leader_api_dead(sites, scenario)
        await sites.lead("hamburg")
        await scenario.eventually(
            sites.has_conditions("hamburg", current="valid AMKOCluster object")
        )
        await sites.stop_serving("bergen")
        await sites.serve("bergen", moved := "192.0.2.23")
        await scenario.eventually(partial(answers, LUBECK, HAMBURG, moved))

    await answers(LUBECK, HAMBURG, moved)
