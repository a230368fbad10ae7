"""Shares that a member forges at the broker are followed by nobody, told, and computed anew."""

import pytest

from hanse.app import BROKER
from hanse.model.kinds.stateful import StatefulSetShares
from tests.scenarios.statefulsets import StatefulSetsScenario

FORGED = [
    pytest.param({"bergen": 6}, id="all in one cluster"),
    pytest.param({}, id="none"),
    pytest.param({"bergen": 2, "hamburg": 2, "lubeck": 90}, id="ninety in one"),
    pytest.param({"nowhere": 1000, "bergen": 2}, id="in a cluster that does not exist"),
]


@pytest.mark.parametrize("shares", FORGED)
async def test_forged_shares_take_no_pod_and_add_none(
    sets: StatefulSetsScenario, shares: dict[str, int]
) -> None:
    scenario = sets.scenario
    await sets.launch(6)
    await scenario.eventually(sets.is_ready(6))
    before = await pods_of(sets)

    for _ in range(3):
        forged = [{"name": name, "replicas": n} for name, n in shares.items()]
        change = {"spec": {"shares": forged, "told": "forged", "rebalanced": "now"}}
        await sets.admin(BROKER).patch(StatefulSetShares, "store", scenario.namespace, change)
        await scenario.settled()

    await sets.shares(bergen=2, hamburg=2, lubeck=2)()
    assert await pods_of(sets) == before, "the very same pods"
    record = await sets.admin(BROKER).read(StatefulSetShares, "store", scenario.namespace)
    assert record.spec.told == "bergen 2, hamburg 2, lubeck 2"
    await scenario.eventually(sets.has_said("ShareDisputed"))


async def test_a_set_scales_after_shares_were_forged_and_deleted(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(6)
    await scenario.eventually(sets.is_ready(6))
    forged = {"spec": {"shares": [{"name": "bergen", "replicas": 6}]}}

    await sets.admin(BROKER).patch(StatefulSetShares, "store", scenario.namespace, forged)
    await sets.scale(9)
    await scenario.eventually(sets.shares(bergen=3, hamburg=3, lubeck=3))
    await sets.admin(BROKER).delete(StatefulSetShares, "store", scenario.namespace)
    await sets.scale(3)

    await scenario.eventually(sets.shares(bergen=1, hamburg=1, lubeck=1))


async def pods_of(sets: StatefulSetsScenario) -> dict[str, str]:
    """The pods of all clusters with their uids."""
    return {
        name: pod.metadata.uid
        for cluster in sets.scenario.names
        for name, pod in (await sets.pods(cluster)).items()
    }
