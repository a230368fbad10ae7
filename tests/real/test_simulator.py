"""The simulator on real clusters: users and faults for minutes, and the same laws.

`HANSE_SEED=7 pytest -m real --engine kubernetes tests/real/test_simulator.py` plays another
schedule, drawn at random from that seed; its timing is that of the machine.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from hanse.local.real.fleet import RealFleet
from tests.support.simulator.faults import Faults
from tests.support.simulator.fleet import Fleet
from tests.support.simulator.part import Part
from tests.support.simulator.runner import REAL, Run
from tests.support.simulator.schedule import Schedule, Step, do, draw_schedule, steps_of
from tests.support.simulator.services import Services
from tests.support.simulator.signals import Signals
from tests.support.simulator.statefulsets import StatefulSets
from tests.support.testbed_kubernetes import kubernetes_testbed

PARTS: tuple[type[Part], ...] = (Faults, Signals, Services, StatefulSets)

STEPS = (
    do("services.offer", "lubeck", "web", False),
    do("services.offer", "hamburg", "web", False),
    do("services.offer", "bergen", "db", True),
    do("statefulsets.launch", 3, pause=8),
    do("faults.back_up", "broker"),
    do("faults.cut", "bergen", "broker"),
    do("services.pods", "hamburg", "web", 3, True, pause=2),
    do("signals.freeze", "broker", 15),
    do("faults.heal_links"),
    do("statefulsets.scale", 4, pause=3),
    do("faults.restart", "hamburg"),
    do("services.unexport", "lubeck", "web", pause=3),
    do("faults.restart_server", "lubeck"),
    do("faults.storm", "lubeck", "broker", pause=3),
    do("faults.restore", "broker", 0, pause=5),
    do("services.export", "lubeck", "web"),
    do("faults.kill", "bergen"),
    do("statefulsets.update", "2", pause=5),
    do("signals.freeze", "hamburg", 5),
)


def chosen_steps() -> Sequence[Step]:
    """The steps above, or those of the seed in the environment."""
    seed = os.environ.get("HANSE_SEED")
    if not seed:
        return STEPS
    kinds = {part.name: list(steps_of(part)) for part in PARTS}
    faults = [*kinds.pop(Signals.name), *kinds[Faults.name]]
    return draw_schedule(int(seed), {**kinds, Faults.name: faults}).steps


async def test_every_law_holds_on_real_clusters(binaries: dict[str, Path], tmp_path: Path) -> None:
    """On a fleet of its own: a broker that goes back to a backup leaves things behind."""
    async with (
        RealFleet(tmp_path / "fleet", binaries) as clusters,
        kubernetes_testbed(clusters, tmp_path) as testbed,
        Fleet(testbed, "shop") as fleet,
        asyncio.TaskGroup() as group,
    ):
        provisioners = group.create_task(clusters.run_provisioners(), name="provide")
        try:
            game = Run(fleet, PARTS, REAL)
            await game.start()
            await game.play(Schedule(tuple(chosen_steps())))
        except* AssertionError:
            print("\n".join(fleet.log))  # noqa: T201 - shown when the test fails
            raise
        finally:
            provisioners.cancel()
