"""Convergence under load after killed agents, restarted servers and a restored backup.

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
"""The offers that the load created in each cluster, with their prices."""


class Load:
    """Creates, updates and deletes offers at random in all clusters."""

    def __init__(self, agents: AgentProcesses, random: Random) -> None:
        self.agents = agents
        self.random = random
        self.offers: Offers = {cluster: {} for cluster in agents.scenario.names}
        self.operations = 0
        self._locks: dict[ClusterId, asyncio.Lock] = {c: asyncio.Lock() for c in self.offers}

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            cluster = self.random.choice(self.agents.scenario.names)
            if not self._locks[cluster].locked():
                async with self._locks[cluster]:
                    await self._operate(cluster, self.random.choice(NAMES))
            await asyncio.sleep(OPERATION_INTERVAL.total_seconds())

    def lock(self, cluster: ClusterId) -> asyncio.Lock:
        """While this is held, the load does not write to a cluster."""
        return self._locks[cluster]

    async def _operate(self, cluster: ClusterId, name: str) -> None:
        toy_offers, offers_here = self.agents.toy_offers, self.offers[cluster]
        price = str(self.random.randint(1, 10_000))
        if name not in offers_here:
            await toy_offers.offer(cluster, name, price)
            offers_here[name] = price
        elif self.random.random() < 0.6:
            await toy_offers.reprice(cluster, name, price)
            offers_here[name] = price
        else:
            await toy_offers.withdraw(cluster, name)
            del offers_here[name]
        self.operations += 1


class FaultInjector:
    """Injects faults one after the other, and logs them."""

    def __init__(self, agents: AgentProcesses, load: Load, random: Random) -> None:
        self.agents = agents
        self.load = load
        self.random = random
        self.log: list[str] = []

    async def kill_agents(self, times: int) -> None:
        """Kill random agents, and start them again."""
        for _ in range(times):
            await self._random_sleep(0.2, 5.0)
            cluster = self.random.choice(self.agents.scenario.names)
            await self.agents.processes[cluster].kill()
            self.log.append(f"the agent of {cluster} was killed")
            await self._random_sleep(0.0, 1.0)
            await self.agents.start(cluster)

    async def restart_server(self, cluster: ClusterId) -> None:
        """Restart an API server; the load pauses meanwhile, agents do not."""
        lock = self.load.lock(cluster) if cluster != BROKER else asyncio.Lock()
        async with lock:
            await self.agents.scenario.testbed.restart_server(cluster)
        self.log.append(f"the API server of {cluster} was restarted")

    async def restore(self, cluster: ClusterId) -> None:
        """Restore a cluster from a backup of a few seconds ago, with the offers of that time."""
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
    async with agent_processes(real_clusters, shop_of(request.node.nodeid), tmp_path) as processes:
        await processes.start_all()
        yield processes


@pytest.fixture
def random() -> Random:
    seed = int(os.environ.get("HANSE_SEED") or secrets.randbelow(1_000_000))
    print(f"HANSE_SEED={seed}")  # noqa: T201 - shown when the test fails
    return Random(seed)


async def test_after_random_faults_no_offer_is_lost_or_recreated_and_all_clusters_agree(
    agents: AgentProcesses, random: Random
) -> None:
    load = Load(agents, random)
    faults = FaultInjector(agents, load, random)
    restored, restarted = random.sample(agents.scenario.names, 2)

    async with asyncio.TaskGroup() as group:
        load_task = group.create_task(load.run(), name="load_task")
        await faults.kill_agents(4)
        await faults.restart_server(restarted)
        await faults.kill_agents(3)
        await faults.restore(restored)
        await faults.kill_agents(3)
        await faults.restart_server(BROKER)
        await faults.kill_agents(2)
        load_task.cancel()

    fault_log = "\n".join(faults.log)
    assert load.operations > 50, "there was hardly any load"
    await agents.scenario.eventually(
        lambda: _check_consistent(agents, load.offers, fault_log), within=RECOVERY_TIMEOUT
    )
    await agents.scenario.eventually(lambda: _check_no_writes(agents), within=RECOVERY_TIMEOUT)
    await _check_consistent(agents, load.offers, fault_log)


async def _check_consistent(agents: AgentProcesses, offers: Offers, log: str) -> None:
    """Every cluster has its own offers and copies of all offers, and nothing else."""
    expected: dict[str, dict[ClusterId, str]] = {}
    for cluster, offers_here in offers.items():
        for name, price in offers_here.items():
            expected.setdefault(f"copy-of-{name}", {})[cluster] = price
    for cluster, offers_here in offers.items():
        found = await _objects(agents, cluster, agents.scenario.namespace)
        offers_found = {
            n: o.data.get("price", "") for n, o in found.items() if OFFER in o.metadata.labels
        }
        assert offers_found == offers_here, f"{cluster} has other offers than were created\n{log}"
        copies = {n: _prices(o) for n, o in found.items() if n.startswith("copy-of-")}
        assert copies == expected, f"{cluster} has other copies than there are offers\n{log}"
    records = set(await _objects(agents, BROKER, HOME)) - {"kube-root-ca.crt"}
    namespace = agents.scenario.namespace
    assert {r for r in records if not r.startswith("sum.")} == {
        f"{namespace}.{name}.{cluster}"
        for cluster, offers_here in offers.items()
        for name in offers_here
    }


async def _check_no_writes(agents: AgentProcesses) -> None:
    """No object is written for a while, and all agents still run."""
    before = await _versions(agents)
    await asyncio.sleep(QUIET_PERIOD.total_seconds())
    after = await _versions(agents)
    changed = {
        location
        for location in before.keys() | after.keys()
        if before.get(location) != after.get(location)
    }
    assert not changed, f"a settled fleet wrote {sorted(changed)}"
    assert all(process.running for process in agents.processes.values())


async def _versions(agents: AgentProcesses) -> dict[tuple[str, str], str]:
    """The version of every object of the scenario, by cluster and name."""
    locations = [(cluster, agents.scenario.namespace) for cluster in agents.scenario.names] + [
        (BROKER, HOME)
    ]
    return {
        (cluster, name): obj.metadata.resource_version
        for cluster, namespace in locations
        for name, obj in (await _objects(agents, cluster, namespace)).items()
    }


async def _objects(
    agents: AgentProcesses, cluster: ClusterId, namespace: str
) -> dict[str, ConfigMap]:
    listed = await agents.scenario.admin(cluster).list(ConfigMap, namespace=namespace)
    return {obj.metadata.name: obj for obj in listed.objects}


def _prices(copy: ConfigMap) -> dict[str, str]:
    return {c: msgspec.json.decode(fault_log)["price"] for c, fault_log in copy.data.items()}
