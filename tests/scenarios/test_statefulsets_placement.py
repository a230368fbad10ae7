"""Clusters are chosen by the labels of their ClusterMembers, and update in the order users say."""

import pytest

from hanse.app import BROKER
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.naming import BROKER_NAMESPACE
from tests.scenarios.replica_watch import replica_watch
from tests.scenarios.statefulsets import StatefulSetsScenario, template
from tests.scenarios.test_statefulsets_budget import counts, has_rolled_out

REGION = "topology.kubernetes.io/region"


@pytest.fixture
async def regions(sets: StatefulSetsScenario) -> StatefulSetsScenario:
    """A fleet whose ClusterMembers have the labels of an administrator."""
    labels = {"bergen": "north", "hamburg": "north", "lubeck": "south"}
    for cluster, region in labels.items():
        await sets.add_record(cluster, {REGION: region})
    return sets


async def test_replicas_are_spread_over_regions_and_updates_begin_where_users_say(
    regions: StatefulSetsScenario,
) -> None:
    sets, scenario = regions, regions.scenario
    marks = {"spread-by": REGION, "update-order": "hamburg"}
    await sets.launch(4, marks={f"statefulsets.hanse.dev/{k}": v for k, v in marks.items()})
    await scenario.eventually(sets.shares(bergen=1, hamburg=1, lubeck=2))

    async with replica_watch(sets) as watch:
        await scenario.eventually(counts(watch, 4))
        watch.start_counting()
        await sets.edit({"spec": {"template": template("etcd:3.7")}})
        await scenario.eventually(has_rolled_out(sets, 4))
        assert watch.taken[0] == "store-hamburg-0"
        assert watch.least == 3

    await sets.annotate(cluster_selector=f"{REGION}=north", rebalance="now", spread_by=None)
    await scenario.eventually(sets.shares(bergen=2, hamburg=2))

    away = {"metadata": {"labels": {REGION: "east"}}}
    for cluster in ("bergen", "hamburg"):
        await sets.admin(BROKER).patch(ClusterMember, cluster, BROKER_NAMESPACE, away)
    await sets.scale(5)
    told = await scenario.eventually(sets.has_conditions(Placed="Unplaced"))
    assert "no cluster has the labels" in told["Placed"]
    await sets.shares(bergen=2, hamburg=2)()
