"""Under load agents are killed, servers restart and a backup is restored; then one looks around.

`HANSE_SEED` replays the choices of a run, though not its timing.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from random import Random

import msgspec
import pytest

from hanse.app import BROKER
from hanse.local.real.fleet import RealFleet
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import ClusterId
from tests.real.agent_process import AgentProcesses, agent_processes
from tests.scenarios.toy_offers import shop_of
from tests.support.toy import HOME, OFFER

NAMES = tuple(f"ware-{n}" for n in range(10))
OPERATION_INTERVAL = timedelta(milliseconds=150)
RECOVERY_TIMEOUT = timedelta(minutes=2)
QUIET_PERIOD = timedelta(seconds=8)

Offers = dict[ClusterId, dict[str, str]]
"""What people offer in each cluster, and for which price."""


class Load:
    """People who create, edit and delete offers, one deed after the other, in every cluster."""

    def __init__(self, agents: AgentProcesses, random: Random) -> None:
        self.agents = agents
        self.random = random
        self.offers: Offers = {cluster: {} for cluster in agents.scenario.names}
        self.operations = 0
        self._locks: dict[ClusterId, asyncio.Lock] = {c: asyncio.Lock() for c in self.offers}

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            cluster = self.random.choice(self.agents.scenario.names)
            if not self._locks[cluster].locked():
                async with self._locks[cluster]:
                    await self._operate(cluster, self.random.choice(NAMES))
            await asyncio.sleep(OPERATION_INTERVAL.total_seconds())

    def lock(self, cluster: ClusterId) -> asyncio.Lock:
        """Nobody does anything in a cluster while this is held."""
        return self._locks[cluster]

    async def _operate(self, cluster: ClusterId, name: str) -> None:
        toy_offers, here = self.agents.toy_offers, self.offers[cluster]
        price = str(self.random.randint(1, 10_000))
        if name not in here:
            await toy_offers.offer(cluster, name, price)
            here[name] = price
        elif self.random.random() < 0.6:
            await toy_offers.reprice(cluster, name, price)
            here[name] = price
        else:
            await toy_offers.withdraw(cluster, name)
            del here[name]
        self.operations += 1


class FaultInjector:
    """All that goes wrong, one thing after the other."""

    def __init__(self, agents: AgentProcesses, load: Load, random: Random) -> None:
        self.agents = agents
        self.load = load
        self.random = random
        self.log: list[str] = []

    async def kill_agents(self, times: int) -> None:
        """Kill agents wherever they are, and start them again."""
        for _ in range(times):
            await self._random_sleep(0.2, 5.0)
            cluster = self.random.choice(self.agents.scenario.names)
            await self.agents.processes[cluster].kill()
            self.log.append(f"the agent of {cluster} was killed")
            await self._random_sleep(0.0, 1.0)
            await self.agents.start(cluster)

    async def restart_server(self, cluster: ClusterId) -> None:
        """Restart an API server; people wait meanwhile, agents do not."""
        lock = self.load.lock(cluster) if cluster != BROKER else asyncio.Lock()
        async with lock:
            await self.agents.scenario.testbed.restart_server(cluster)
        self.log.append(f"the API server of {cluster} was restarted")

    async def restore(self, cluster: ClusterId) -> None:
        """Take a cluster back to what it held a few seconds ago, with all that people made then."""
        testbed = self.agents.scenario.testbed
        async with self.load.lock(cluster):
            backup = await testbed.back_up(cluster)
            then = dict(self.load.offers[cluster])
        await self.kill_agents(1)
        await self._random_sleep(2.0, 4.0)
        async with self.load.lock(cluster):
            await testbed.restore(cluster, backup)
            self.load.offers[cluster] = then
        self.log.append(f"{cluster} was restored from a backup")

    async def _random_sleep(self, least: float, most: float) -> None:
        await asyncio.sleep(self.random.uniform(least, most))


@pytest.fixture
async def agents(
    real_clusters: RealFleet, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[AgentProcesses]:
    async with agent_processes(real_clusters, shop_of(request.node.nodeid), tmp_path) as made:
        await made.start_all()
        yield made


@pytest.fixture
def random() -> Random:
    seed = int(os.environ.get("HANSE_SEED") or secrets.randbelow(1_000_000))
    print(f"HANSE_SEED={seed}")  # noqa: T201 - shown when the test fails
    return Random(seed)


async def test_whatever_is_killed_nothing_is_lost_nothing_comes_back_and_all_agree_in_the_end(
    agents: AgentProcesses, random: Random
) -> None:
    load = Load(agents, random)
    faults = FaultInjector(agents, load, random)
    restored, restarted = random.sample(agents.scenario.names, 2)

    async with asyncio.TaskGroup() as group:
        people = group.create_task(load.run(), name="people")
        await faults.kill_agents(4)
        await faults.restart_server(restarted)
        await faults.kill_agents(3)
        await faults.restore(restored)
        await faults.kill_agents(3)
        await faults.restart_server(BROKER)
        await faults.kill_agents(2)
        people.cancel()

    told = "\n".join(faults.log)
    assert load.operations > 50, "there was no load to speak of"
    await agents.scenario.eventually(
        lambda: _check_consistent(agents, load.offers, told), within=RECOVERY_TIMEOUT
    )
    await agents.scenario.eventually(lambda: _check_no_writes(agents), within=RECOVERY_TIMEOUT)
    await _check_consistent(agents, load.offers, told)


async def _check_consistent(agents: AgentProcesses, offers: Offers, log: str) -> None:
    """Every cluster holds what its people made, and a copy of what all of them made; no more."""
    wanted: dict[str, dict[ClusterId, str]] = {}
    for cluster, here in offers.items():
        for name, price in here.items():
            wanted.setdefault(f"copy-of-{name}", {})[cluster] = price
    for cluster, here in offers.items():
        found = await _objects(agents, cluster, agents.scenario.namespace)
        made = {n: o.data.get("price", "") for n, o in found.items() if OFFER in o.metadata.labels}
        assert made == here, f"{cluster} holds other offers than its people made\n{log}"
        copies = {n: _prices(o) for n, o in found.items() if n.startswith("copy-of-")}
        assert copies == wanted, f"{cluster} holds other copies than there are offers\n{log}"
    records = set(await _objects(agents, BROKER, HOME)) - {"kube-root-ca.crt"}
    namespace = agents.scenario.namespace
    assert {r for r in records if not r.startswith("sum.")} == {
        f"{namespace}.{name}.{cluster}" for cluster, here in offers.items() for name in here
    }


async def _check_no_writes(agents: AgentProcesses) -> None:
    """Nothing of ours is written for a while, and no agent had to be started again."""
    before = await _versions(agents)
    await asyncio.sleep(QUIET_PERIOD.total_seconds())
    after = await _versions(agents)
    changed = {
        place for place in before.keys() | after.keys() if before.get(place) != after.get(place)
    }
    assert not changed, f"a settled fleet wrote {sorted(changed)}"
    assert all(process.running for process in agents.processes.values())


async def _versions(agents: AgentProcesses) -> dict[tuple[str, str], str]:
    """The version of every object of the scenario, by cluster and name."""
    places = [(cluster, agents.scenario.namespace) for cluster in agents.scenario.names] + [
        (BROKER, HOME)
    ]
    return {
        (cluster, name): obj.metadata.resource_version
        for cluster, space in places
        for name, obj in (await _objects(agents, cluster, space)).items()
    }


async def _objects(agents: AgentProcesses, cluster: ClusterId, space: str) -> dict[str, ConfigMap]:
    listed = await agents.scenario.admin(cluster).list(ConfigMap, namespace=space)
    return {obj.metadata.name: obj for obj in listed.objects}


def _prices(copy: ConfigMap) -> dict[str, str]:
    return {c: msgspec.json.decode(told)["price"] for c, told in copy.data.items()}
