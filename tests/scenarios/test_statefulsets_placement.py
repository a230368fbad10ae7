"""Clusters are chosen by the labels of their ClusterMembers, and update in the order users say."""

import msgspec
import pytest

from hanse.app import BROKER
from hanse.model.kinds.core import Service
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.naming import BROKER_NAMESPACE
from tests.scenarios.replica_watch import replica_watch
from tests.scenarios.statefulsets import StatefulSetsScenario, template
from tests.scenarios.test_statefulsets_budget import counts, has_rolled_out
from tests.support.scenario import Check

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


async def test_preferences_that_change_nothing_are_told_until_a_rebalance(
    sets: StatefulSetsScenario,
) -> None:
    scenario, wishes = sets.scenario, "federation.kubernetes.io/statefulset-preferences"
    await sets.launch(6)
    await scenario.eventually(sets.shares(bergen=2, hamburg=2, lubeck=2))
    await scenario.eventually(sets.has_conditions(Placed="Placed"))

    change = {wishes: '{"clusters": {"bergen": {"weight": 4}, "*": {}}}'}
    await sets.edit({"metadata": {"annotations": change}})

    async def told() -> None:
        message = (await sets.has_conditions(Placed="Placed")())["Placed"]
        assert "bergen 2, hamburg 2, lubeck 2; the preferences alone give bergen 4" in message
        assert "annotate statefulsets.hanse.dev/rebalance" in message

    await scenario.eventually(told)
    await scenario.settled()
    await sets.shares(bergen=2, hamburg=2, lubeck=2)()

    await sets.annotate(rebalance="now")
    await scenario.eventually(sets.shares(bergen=4, hamburg=1, lubeck=1))


async def test_load_balancers_of_a_cluster_have_its_annotations_and_class(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(3, balanced=True, marks=balanced_in_lubeck("internal"))

    await scenario.eventually(has_balancer(sets, "lubeck", "example.com/inner", "internal"))
    await scenario.eventually(has_balancer(sets, "hamburg", "", None))

    await sets.edit({"metadata": {"annotations": balanced_in_lubeck("other")}})
    await scenario.eventually(has_balancer(sets, "lubeck", "example.com/inner", "other"))


def balanced_in_lubeck(scheme: str) -> dict[str, str]:
    """The annotation of a set whose load balancers in lubeck differ from others."""
    inner = {"class": "example.com/inner", "annotations": {"example.com/scheme": scheme}}
    text = msgspec.json.encode({"lubeck": {"loadBalancer": inner}}).decode()
    return {"statefulsets.hanse.dev/overrides": text}


def has_balancer(
    sets: StatefulSetsScenario, cluster: str, class_name: str, scheme: str | None
) -> Check[None]:
    """That the load balancer of a cluster's replica is of a class, and annotated."""

    async def check() -> None:
        found = await sets.found(cluster, Service, f"store-{cluster}-0")
        assert found is not None
        assert found.spec.type == "LoadBalancer"
        assert found.spec.load_balancer_class == class_name
        assert found.metadata.annotations.get("example.com/scheme") == scheme

    return check
