"""A change that alters the plan, the DNS names or the view of a key enqueues the key.

Everything that agents observe while users act is replayed change by change; then every object and
fact that they know changes once, in every part of it, and back.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from hanse.app.agent import Agent
from hanse.app.views import views
from hanse.model.dns.zones import View
from hanse.model.kinds.hanse import LighthouseVersion
from tests.support.enqueuing import Observed
from tests.support.simulator.fleet import Fleet
from tests.support.simulator.loop import run
from tests.support.simulator.migration import Migration
from tests.support.simulator.migration import Step as MigrationStep
from tests.support.simulator.names import GLOBAL_ZONE
from tests.support.simulator.runner import Run
from tests.support.simulator.schedule import Step, do
from tests.support.testbed_embedded import embedded_testbed
from tinykube.virtual_time import EPOCH

LATER = EPOCH + timedelta(days=1)
"""When everything is old enough to be judged."""

SERVICES = (
    do("services.offer", "lubeck", "web", False),
    do("services.offer", "bergen", "web", True),
    do("services.offer", "hamburg", "db", False),
    do("services.set_profile", "kep-1645"),
    do("federated.join", "lubeck", "shop-web"),
    do("federated.join", "bergen", "shop-web"),
    do("policies.create", "hamburg", "deny"),
)
WORKLOADS = (
    do("statefulsets.launch", 3),
    do("gslb.serve", "hamburg"),
    do("gslb.serve", "bergen"),
    do("networks.build", "lab"),
    do("networks.build", "field"),
    do("networks.run", "p1", "field"),
)


class ObservedFleet(Fleet):
    """A fleet that keeps what each of its agents observes."""

    observed: list[Observed]

    async def start_agent(self, cluster: str, replica: str = "", *, home: str = "") -> Agent:
        agent = await super().start_agent(cluster, replica, home=home)
        features = tuple(agent.reconciler.features.values())
        zones = self.zone_sources(View(cluster, cluster, global_zones=(GLOBAL_ZONE,)))
        self.observed.append(Observed(agent.reconciler, features, zones, views()))
        return agent


async def _play(steps: Sequence[Step]) -> list[Observed]:
    async with embedded_testbed() as testbed, ObservedFleet(testbed, "shop") as fleet:
        fleet.observed = []
        game = Run(fleet)
        for part in game.parts.values():
            await part.open()
        await fleet.start_agents()
        await asyncio.sleep(game.pace.start)
        for step in steps:
            await game._perform(step)
        await asyncio.sleep(game.pace.start)
        return fleet.observed


async def _migrate(version: LighthouseVersion) -> list[Observed]:
    async with embedded_testbed() as testbed, ObservedFleet(testbed, "shop") as fleet:
        fleet.observed = []
        migration = Migration(fleet, version)
        await migration.open()
        await migration.begin()
        await migration.play(MigrationStep("upgrade", "lubeck"))
        return fleet.observed


def _check(observed: Sequence[Observed]) -> None:
    unnoticed = [str(one) for agent in observed for one in agent.unnoticed(LATER)]
    assert not unnoticed, f"{len(unnoticed)} changes went unnoticed:\n" + "\n".join(unnoticed[:5])


@pytest.mark.parametrize("steps", [SERVICES, WORKLOADS], ids=["services", "workloads"])
def test_what_alters_a_plan_enqueues_it(steps: Sequence[Step]) -> None:
    _check(run(_play(steps)))


@pytest.mark.parametrize("version", ["0.14", "0.15"])
def test_what_lighthouse_agents_publish_enqueues_the_plans_that_read_it(
    version: LighthouseVersion,
) -> None:
    _check(run(_migrate(version)))
