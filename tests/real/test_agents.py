"""Agents as processes, each with an account that has only the generated RBAC rules."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from hanse.app import BROKER
from hanse.kube.client_config import StaticCredentials
from hanse.kube.errors import Forbidden
from hanse.kube.http_transport import HttpTransport
from hanse.kube.transport import Request, Response, Transport
from hanse.local.real.fleet import RealFleet
from hanse.model.facts import Role
from hanse.model.kinds.coordination import Lease
from hanse.model.objects import ClusterId
from hanse.model.rbac import RbacRule
from tests.real.agent_process import AgentProcesses, Rules, agent_processes
from tests.real.api_requests import get, post
from tests.scenarios.toy_offers import OffersScenario, shop_of
from tests.support.agent_accounts import rules_of
from tests.support.scenario import Check, Scenario
from tests.support.service_accounts import Account
from tests.support.testbed_kubernetes import KubernetesTestbed
from tests.support.toy import Toy


@pytest.fixture
async def agents(
    real_clusters: RealFleet, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[AgentProcesses]:
    async with agent_processes(real_clusters, shop_of(request.node.nodeid), tmp_path) as processes:
        yield processes


async def test_generated_rbac_rules_are_enough_for_the_toy_feature(
    agents: AgentProcesses,
) -> None:
    scenario, toy_offers = agents.scenario, agents.toy_offers
    await agents.start_all()

    await toy_offers.offer("lubeck", "bread", "3")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))
    await scenario.eventually(toy_offers.has_conditions("lubeck", "bread", "yes"))
    await toy_offers.reprice("lubeck", "bread", "4")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="4"))
    await toy_offers.remove("hamburg", "copy-of-bread")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="4"))
    await toy_offers.withdraw("lubeck", "bread")
    await scenario.eventually(toy_offers.nowhere("bread"))

    assert all(process.running for process in agents.processes.values())
    for cluster in scenario.names:
        assert "orbidden" not in agents.log_of(cluster)
        assert await agents.processes[cluster].stop() == 0


async def test_an_agent_is_forbidden_everything_else(agents: AgentProcesses) -> None:
    await agents.create_accounts("hamburg")
    at_home = HttpTransport(StaticCredentials(agents.access["hamburg", "hamburg"]))
    at_broker = HttpTransport(StaticCredentials(agents.access["hamburg", BROKER]))
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "forbidden"}}

    try:
        for transport in (at_home, at_broker):
            for forbidden in ("/api/v1/secrets", "/api/v1/namespaces/kube-system/secrets"):
                with pytest.raises(Forbidden):
                    await get(transport, forbidden)
        for namespace in ("default", "kube-system"):
            with pytest.raises(Forbidden):
                await post(at_broker, f"/api/v1/namespaces/{namespace}/configmaps", config_map)
        with pytest.raises(Forbidden):
            await post(at_home, "/api/v1/namespaces", {**config_map, "kind": "Namespace"})
    finally:
        await at_home.close()
        await at_broker.close()


def without(verb: str, resource: str) -> Rules:
    """Drop one verb of one resource from the generated rules."""

    def only(rule: RbacRule) -> RbacRule:
        if rule.resource != resource:
            return rule
        return replace(rule, verbs=tuple(one for one in rule.verbs if one != verb))

    return only


async def test_a_missing_verb_affects_only_the_writes_that_need_it(
    agents: AgentProcesses,
) -> None:
    scenario, toy_offers = agents.scenario, agents.toy_offers
    await agents.create_accounts("hamburg", at_home=without("patch", "configmaps"))
    await agents.create_accounts("bergen", at_home=without("delete", "configmaps"))
    await agents.start_all()
    await toy_offers.offer("lubeck", "bread", "3")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))

    await toy_offers.reprice("lubeck", "bread", "4")
    await scenario.eventually(toy_offers.shows("lubeck", "bread", lubeck="4"))
    await scenario.eventually(toy_offers.shows("bergen", "bread", lubeck="4"))
    await scenario.always(
        toy_offers.shows("hamburg", "bread", lubeck="3"), for_=timedelta(seconds=3)
    )

    await toy_offers.withdraw("lubeck", "bread")
    await scenario.eventually(toy_offers.shows("lubeck", "bread"))
    await scenario.eventually(toy_offers.shows("hamburg", "bread"))
    await scenario.always(
        toy_offers.shows("bergen", "bread", lubeck="4"), for_=timedelta(seconds=3)
    )


async def test_of_two_replicas_the_other_takes_over_when_the_leader_is_killed(
    agents: AgentProcesses,
) -> None:
    scenario, toy_offers = agents.scenario, agents.toy_offers
    await agents.start_all()
    await scenario.eventually(_is_held_by(scenario, "hamburg", "hamburg_hamburg-"))
    await agents.start("hamburg", "other")
    await toy_offers.offer("lubeck", "bread", "3")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))

    await agents.processes["hamburg"].kill()
    await toy_offers.reprice("lubeck", "bread", "4")

    await scenario.eventually(_is_held_by(scenario, "hamburg", "hamburg_hamburg-other"))
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="4"))


def _is_held_by(scenario: Scenario, cluster: ClusterId, holder: str) -> Check[None]:
    async def check() -> None:
        lease = await scenario.admin(cluster).read(Lease, "hanse-agent", scenario.system)
        identity = lease.spec.holder_identity
        assert identity.startswith(holder), f"{identity} works in {cluster}"

    return check


UsedVerb = tuple[str, str, str]
"""Role, resource and verb of a request."""

VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete", "PUT": "update"}


class RecordingTransport:
    """A transport that records the verbs of its requests, and those that are forbidden."""

    def __init__(
        self, account: str, inner: Transport, used: set[UsedVerb], rejected: list[str]
    ) -> None:
        self._account = account
        self._inner = inner
        self._used = used
        self._rejected = rejected

    async def send(self, request: Request) -> Response:
        self._record(request, "list")
        response = await self._inner.send(request)
        if response.status == 403:
            self._rejected.append(f"{self._account}: {request.method} {request.path}")
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        self._record(request, "watch")
        try:
            async with self._inner.stream(request) as lines:
                yield lines
        except Forbidden as error:
            self._rejected.append(f"{self._account}: {error}")
            raise

    async def close(self) -> None:
        await self._inner.close()

    def _record(self, request: Request, plural: str) -> None:
        start, *parts = request.path.strip("/").split("/")
        parts = parts[1:] if start == "api" else parts[2:]
        if parts[:1] == ["namespaces"] and len(parts) > 2:
            parts = parts[2:]
        if parts:  # otherwise it is discovery, which is always allowed
            verb = VERBS.get(request.method) or (plural if len(parts) == 1 else "get")
            self._used.add((self._account, parts[0], verb))


class RecordingTestbed(KubernetesTestbed):
    """Real clusters on which every request of an agent is recorded."""

    def __init__(self, fleet: RealFleet, folder: Path) -> None:
        super().__init__(fleet, folder)
        self.used: set[UsedVerb] = set()
        self.rejected: list[str] = []

    async def agent_transport(self, account: Account, cluster: ClusterId) -> Transport:
        role = Role.BROKER if cluster == BROKER else Role.LOCAL
        inner = await super().agent_transport(account, cluster)
        return RecordingTransport(role, inner, self.used, self.rejected)


NOT_EXERCISED = {
    # a create conflicts with an object that is not in the cache yet, or with a repeated Event
    *((role, kind, "get") for role in Role for kind in ("configmaps", "events")),
    ("local", "events", "patch"),
    # watched kinds are read singly only by status and doctor
    *((role, "customresourcedefinitions", "get") for role in Role),
    # the token for the broker is renewed after half of its life
    *(("local", "secrets", verb) for verb in ("get", "patch")),
    # this feature writes no Events on the broker
    *(("broker", "events", verb) for verb in ("create", "patch")),
    # the CRD is not installed here
    *(("broker", "clustersets", verb) for verb in ("get", "list")),
    # heartbeats start later; other features read those of other clusters
    *(("broker", "leases", verb) for verb in ("get", "list", "watch", "create", "patch")),
}
"""Verbs for rare cases that this test does not reach."""


async def test_every_generated_verb_is_used_and_none_is_missing(
    real_clusters: RealFleet, tmp_path: Path
) -> None:
    testbed = RecordingTestbed(real_clusters, tmp_path)
    granted = {
        (role, rule.resource, verb)
        for role in (Role.LOCAL, Role.BROKER)
        for rule in rules_of((Toy(),), "lubeck", role, "rights-system")
        for verb in rule.verbs
    }

    try:
        async with Scenario(testbed, "rights", lambda: (Toy(),)) as scenario:
            await _exercise_agents(scenario)
    finally:
        await testbed.delete_roles()
        await testbed.close()

    # rights to the record of a member come with a feature that every agent but this one has
    assert [text for text in testbed.rejected if "/clustermembers/" not in text] == []
    assert granted - testbed.used - NOT_EXERCISED == set()


async def _exercise_agents(scenario: Scenario) -> None:
    """Let agents start, share, update, delete, and resume after broken watches."""
    toy_offers = OffersScenario(scenario)
    await toy_offers.open()
    for cluster in scenario.names:
        await scenario.start_agent(cluster, "1")
    await toy_offers.offer("lubeck", "bread", "3")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="3"))
    await toy_offers.reprice("lubeck", "bread", "4")
    await scenario.eventually(toy_offers.everywhere("bread", lubeck="4"))
    for cluster in scenario.names:
        for target in (cluster, BROKER):
            scenario.network.break_watches(f"{cluster}/1", target)
    await toy_offers.withdraw("lubeck", "bread")
    await scenario.eventually(toy_offers.nowhere("bread"))
    await toy_offers.clear()
