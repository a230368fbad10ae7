"""Agents as processes, each with an account that holds the generated rights and no other."""

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
    async with agent_processes(real_clusters, shop_of(request.node.nodeid), tmp_path) as made:
        yield made


async def test_agents_do_all_that_the_toy_needs_with_the_rights_that_are_generated(
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


async def test_an_agent_may_do_nothing_else(agents: AgentProcesses) -> None:
    await agents.create_accounts("hamburg")
    at_home = HttpTransport(StaticCredentials(agents.access["hamburg", "hamburg"]))
    at_broker = HttpTransport(StaticCredentials(agents.access["hamburg", BROKER]))
    mark = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mark"}}

    try:
        for way in (at_home, at_broker):
            for forbidden in ("/api/v1/secrets", "/api/v1/namespaces/kube-system/secrets"):
                with pytest.raises(Forbidden):
                    await get(way, forbidden)
        for space in ("default", "kube-system"):
            with pytest.raises(Forbidden):
                await post(at_broker, f"/api/v1/namespaces/{space}/configmaps", mark)
        with pytest.raises(Forbidden):
            await post(at_home, "/api/v1/namespaces", {**mark, "kind": "Namespace"})
    finally:
        await at_home.close()
        await at_broker.close()


def without(verb: str, resource: str) -> Rules:
    """All that is generated but one verb of one resource."""

    def only(rule: RbacRule) -> RbacRule:
        if rule.resource != resource:
            return rule
        return replace(rule, verbs=tuple(one for one in rule.verbs if one != verb))

    return only


async def test_without_one_verb_what_needs_it_does_not_happen_and_nothing_else_suffers(
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


async def test_of_two_processes_one_works_and_the_other_takes_over_when_it_is_killed(
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
        held = lease.spec.holder_identity
        assert held.startswith(holder), f"{held} works in {cluster}"

    return check


Use = tuple[str, str, str]
"""Who used which verb of which resource."""

VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete", "PUT": "update"}


class Observed:
    """A transport that notes which rights its requests use, and which were missing."""

    def __init__(self, account: str, inner: Transport, used: set[Use], refused: list[str]) -> None:
        self._account = account
        self._inner = inner
        self._used = used
        self._refused = refused

    async def send(self, request: Request) -> Response:
        self._note(request, "list")
        answer = await self._inner.send(request)
        if answer.status == 403:
            self._refused.append(f"{self._account}: {request.method} {request.path}")
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        self._note(request, "watch")
        try:
            async with self._inner.stream(request) as lines:
                yield lines
        except Forbidden as error:
            self._refused.append(f"{self._account}: {error}")
            raise

    async def close(self) -> None:
        await self._inner.close()

    def _note(self, request: Request, plural: str) -> None:
        start, *parts = request.path.strip("/").split("/")
        parts = parts[1:] if start == "api" else parts[2:]
        if parts[:1] == ["namespaces"] and len(parts) > 2:
            parts = parts[2:]
        if parts:  # else it is discovery, which everybody may ask for
            verb = VERBS.get(request.method) or (plural if len(parts) == 1 else "get")
            self._used.add((self._account, parts[0], verb))


class Observatory(KubernetesTestbed):
    """Real clusters on which every request of an agent is noted."""

    def __init__(self, fleet: RealFleet, folder: Path) -> None:
        super().__init__(fleet, folder)
        self.used: set[Use] = set()
        self.refused: list[str] = []

    async def agent_transport(self, account: Account, cluster: ClusterId) -> Transport:
        role = Role.BROKER if cluster == BROKER else Role.LOCAL
        inner = await super().agent_transport(account, cluster)
        return Observed(role, inner, self.used, self.refused)


RARE = {
    # a create finds an object that no watch has told of yet, or the same event once more
    *((role, kind, "get") for role in Role for kind in ("configmaps", "events")),
    ("local", "events", "patch"),
    # kinds that are watched are read one by one only in answer to questions
    *((role, "customresourcedefinitions", "get") for role in Role),
    # nobody is told anything on the broker by this feature
    *(("broker", "events", verb) for verb in ("create", "patch")),
    # there is no such kind here
    *(("broker", "clustersets", verb) for verb in ("get", "list")),
    # the sign of life comes a while after the start; other clusters' are looked at by others
    *(("broker", "leases", verb) for verb in ("get", "list", "watch", "create", "patch")),
}
"""Rights for what seldom happens and is not played here."""


async def test_every_right_is_used_and_none_is_missing(
    real_clusters: RealFleet, tmp_path: Path
) -> None:
    testbed = Observatory(real_clusters, tmp_path)
    granted = {
        (role, rule.resource, verb)
        for role in (Role.LOCAL, Role.BROKER)
        for rule in rules_of((Toy(),), "lubeck", role, "rights-system")
        for verb in rule.verbs
    }

    try:
        async with Scenario(testbed, "rights", lambda: (Toy(),)) as scenario:
            await _tour(scenario)
    finally:
        await testbed.delete_roles()
        await testbed.close()

    assert testbed.refused == []
    assert granted - testbed.used - RARE == set()


async def _tour(scenario: Scenario) -> None:
    """All that agents do now and then: start, share, edit, remove, resume after an outage."""
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
