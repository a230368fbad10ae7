"""What happens to a reader in the middle of a disaster: it restarts, or is cut off from others."""

import asyncio
from typing import Literal

import pytest

from hanse.model.objects import ClusterId
from tests.support.scenario import Scenario

Disturbance = Literal["", "restarted", "cut"]

CUT = 20.0
"""Seconds for which a reader is cut off: longer than its Lease lasts."""

EACH = (
    "",
    pytest.param("restarted", marks=pytest.mark.virtual),
    pytest.param("cut", marks=pytest.mark.virtual),
)
"""Undisturbed on every engine, and disturbed on virtual time."""


async def disturb(
    scenario: Scenario, how: Disturbance, cluster: ClusterId, *others: ClusterId
) -> None:
    """Disturb the agent of a cluster, and undo it; it is cut off from `others`, or the broker."""
    targets = others or (scenario.broker,)
    match how:
        case "restarted":
            await scenario.kill_agent(cluster)
            await scenario.start_agent(cluster)
        case "cut":
            for target in targets:
                scenario.network.cut(cluster, target)
            await asyncio.sleep(CUT)
            for target in targets:
                scenario.network.heal(cluster, target)
        case _:
            return
