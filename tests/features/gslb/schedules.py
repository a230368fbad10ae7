"""Random schedules of leaders, partitions, crashes and edits, and the laws that must hold after.

`python -m tests.features.gslb.schedules SEED` replays one.
"""

import asyncio
import sys
from datetime import timedelta
from random import Random

import msgspec

from hanse.features.gslb.deletion import REPLICATED_KINDS
from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.names import site_of
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import NAMESPACE, AMKOCluster
from hanse.model.objects import Object
from tests.support.gslb_sites import HOST, GslbScenario, form_gslb
from tests.support.scenario import Scenario
from tests.support.testbed_embedded import embedded_testbed
from tinykube.virtual_time import run

STEPS = 12
ADDRESSES = {"lubeck": "192.0.2.11", "hamburg": "192.0.2.12", "bergen": "192.0.2.13"}


class Schedule:
    """Random actions of users and faults; then everything heals and the laws are checked."""

    def __init__(self, sites: GslbScenario, scenario: Scenario, seed: int) -> None:
        self.sites = sites
        self.scenario = scenario
        self.random = Random(seed)
        self.served = False

    async def act(self) -> None:
        """Perform a random action, and let some time pass."""
        random = self.random
        act = random.choice(
            (
                *(self.cut, self.heal, self.crash, self.start, self.promote, self.demote),
                *(self.edit, self.drift, self.restart),
            )
        )
        await act(random.choice(self.scenario.names))
        await asyncio.sleep(random.choice((0.05, 1, 5, 40)))
        self.check_answers()

    async def cut(self, cluster: str) -> None:
        other = self.random.choice(self.scenario.names)
        self.scenario.network.cut(cluster, site_of(other))

    async def heal(self, cluster: str) -> None:
        other = self.random.choice(self.scenario.names)
        self.scenario.network.heal(cluster, site_of(other))

    async def crash(self, cluster: str) -> None:
        if cluster in self.scenario.agents:
            await self.scenario.kill_agent(cluster)

    async def start(self, cluster: str) -> None:
        if cluster not in self.scenario.agents:
            await self.scenario.start_agent(cluster)

    async def promote(self, cluster: str) -> None:
        await self.sites.lead(cluster)

    async def demote(self, cluster: str) -> None:
        await self.sites.lead(cluster, False)

    async def edit(self, cluster: str) -> None:
        """Somebody edits the policy where it is, be it the leader or not."""
        ttl = self.random.randrange(1, 1000)
        listed = await self.sites.admin(cluster).list(REPLICATED_KINDS[1], namespace=NAMESPACE)
        for policy in listed.objects:
            change = {"spec": {"ttl": ttl}}
            await self.sites.admin(cluster).patch(
                REPLICATED_KINDS[1], policy.metadata.name, NAMESPACE, change
            )

    async def drift(self, cluster: str) -> None:
        """Somebody deletes a follower's copy of the policy."""
        leader = await self.sites.admin(cluster).read(AMKOCluster, "amkocluster", NAMESPACE)
        if not leader.spec.is_leader and cluster != "lubeck":
            listed = await self.sites.admin(cluster).list(REPLICATED_KINDS[1], namespace=NAMESPACE)
            for policy in listed.objects:
                await self.sites.admin(cluster).delete(
                    REPLICATED_KINDS[1], policy.metadata.name, NAMESPACE
                )

    async def restart(self, cluster: str) -> None:
        await self.scenario.testbed.restart_server(cluster)

    def check_answers(self) -> None:
        """Every agent that has listed its cluster answers a host that was ever served."""
        for name in self.scenario.agents:
            snapshot = self.scenario.agent(name).reconciler.snapshot()
            if self.served and snapshot.listed(name, GlobalService):
                assert self.sites.ask(name), f"{name} has no answer any more"

    async def heal_all(self) -> str:
        """Heal all links, start all agents, and leave one leader, which is returned."""
        self.scenario.network.heal_all()
        for name in self.scenario.names:
            await self.start(name)
        await asyncio.sleep(60)
        with_policy = [n for n in self.scenario.names if await self._has_policy(n)]
        leader = self.random.choice(with_policy)
        for name in self.scenario.names:
            if name != leader:
                await self.sites.lead(name, False)
        await asyncio.sleep(5)
        await self.sites.lead(leader)
        await self.scenario.settled(timedelta(minutes=30))
        return leader

    async def _has_policy(self, cluster: str) -> bool:
        listed = await self.sites.admin(cluster).list(REPLICATED_KINDS[1], namespace=NAMESPACE)
        return bool(listed.objects)

    async def check_laws(self, leader: str) -> None:
        """One cluster leads, all have its configuration, and all answers are the same."""
        conditions = await self.sites.conditions(leader)
        assert conditions["GDP Federation"][0].startswith("federated to all"), (leader, conditions)
        expected = await self._list_specs(leader)
        assert len(expected) >= 2, expected
        for name in self.scenario.names:
            assert await self._list_specs(name) == expected, f"{name} is not in step with {leader}"
            assert set(await self._answers(name)) == set(ADDRESSES.values()), name
        epochs = [
            (
                await self.sites.admin(n).read(AMKOCluster, "amkocluster", NAMESPACE)
            ).metadata.annotations.get("gslb.hanse.dev/epoch")
            for n in self.scenario.names
            if n != leader
        ]
        assert epochs == [None, None], "a follower has no epoch"

    async def _list_specs(self, cluster: str) -> dict[str, object]:
        found: dict[str, object] = {}
        kinds: tuple[type[Object], ...] = (*REPLICATED_KINDS, GlobalService)
        for kind in kinds:
            listed = await self.sites.admin(cluster).list(kind, namespace=NAMESPACE)
            for obj in listed.objects:
                name = f"{kind.kind.name} {obj.metadata.name}"
                found[name] = msgspec.to_builtins(getattr(obj, "spec", None))
        return found

    async def _answers(self, cluster: str) -> list[str]:
        return [a for _ in range(12) for a in self.sites.ask(cluster, HOST)]


async def _play(seed: int) -> None:
    async with (
        embedded_testbed() as testbed,
        Scenario(testbed, "shop", lambda: (Gslb(),)) as scenario,
    ):
        sites = await form_gslb(scenario)
        await sites.policy("lubeck", controlPlaneHmOnly=True)
        for cluster, address in ADDRESSES.items():
            await sites.serve(cluster, address)
        await scenario.start_agents()
        for name in scenario.names:
            await scenario.eventually(sites.answers(name, *ADDRESSES.values()))
        schedule = Schedule(sites, scenario, seed)
        schedule.served = True
        for _ in range(STEPS):
            await schedule.act()
        await schedule.check_laws(await schedule.heal_all())


def play(seed: int) -> None:
    """Run one schedule; a failure has the command that replays it."""
    try:
        run(_play(seed))
    except AssertionError as error:
        error.add_note(f"python -m tests.features.gslb.schedules {seed}")
        raise


if __name__ == "__main__":
    play(int(sys.argv[1]))
