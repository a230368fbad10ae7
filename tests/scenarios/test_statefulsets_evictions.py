"""A PodDisruptionBudget at the broker: nodes of several clusters are drained, one replica goes."""

from hanse.app import BROKER
from hanse.model.kinds.policy import PodDisruptionBudget
from hanse.model.objects import ClusterId
from tests.scenarios.replica_watch import replica_watch
from tests.scenarios.statefulsets import StatefulSetsScenario
from tests.scenarios.test_statefulsets_budget import counts
from tests.support.scenario import Check

DRAINED = ("bergen", "hamburg")


async def test_nodes_of_two_clusters_are_drained_and_one_replica_is_down_at_a_time(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.protect()
    await sets.launch(3)
    await scenario.eventually(sets.is_ready(3))
    await scenario.eventually(allow(sets, bergen=0, hamburg=0, lubeck=0))
    before = {cluster: (await pod_of(sets, cluster)) for cluster in DRAINED}
    for cluster in DRAINED:
        assert not await sets.evict(cluster, before[cluster][0]), "no node is drained"

    async with replica_watch(sets) as watch:
        await scenario.eventually(counts(watch, 3))
        watch.start_counting()
        for cluster, (_, node) in before.items():
            await sets.cordon(cluster, node)
        try:
            await scenario.eventually(all_moved(sets, before))
        finally:
            for cluster, (_, node) in before.items():
                await sets.cordon(cluster, node, cordoned=False)
        await scenario.eventually(counts(watch, 3))

        assert watch.least == 2
        assert sorted(watch.taken) == ["store-bergen-0", "store-hamburg-0"]
    await scenario.eventually(allow(sets, bergen=0, hamburg=0, lubeck=0))


async def pod_of(sets: StatefulSetsScenario, cluster: ClusterId) -> tuple[str, str]:
    """The uid and the node of a cluster's only replica."""
    pod = (await sets.pods(cluster))[f"store-{cluster}-0"]
    return pod.metadata.uid, pod.spec.node_name


def all_moved(sets: StatefulSetsScenario, before: dict[ClusterId, tuple[str, str]]) -> Check[None]:
    """Drain on: that every replica is another pod now, on another node."""

    async def check() -> None:
        found = {c: (await sets.pods(c)).get(f"store-{c}-0") for c in before}
        for cluster, pod in found.items():  # each is drained, whichever has the permit
            if pod is not None and pod.metadata.uid == before[cluster][0]:
                await sets.evict(cluster, pod.metadata.uid)
        for cluster, (uid, _) in before.items():
            pod = found[cluster]
            assert pod is not None, cluster
            assert pod.metadata.uid != uid, cluster
            assert pod.ready, cluster

    return check


def allow(sets: StatefulSetsScenario, **most: int) -> Check[None]:
    """That the clusters' own budgets allow so many evictions."""

    async def check() -> None:
        for cluster, evictions in most.items():
            found = await sets.found(cluster, PodDisruptionBudget, f"store-{cluster}")
            assert found is not None, cluster
            assert found.spec.max_unavailable == evictions, (cluster, found.spec)

    return check


async def test_without_the_budget_at_the_broker_no_cluster_keeps_one(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.protect()
    await sets.launch(3)
    await scenario.eventually(sets.is_ready(3))
    await scenario.eventually(allow(sets, bergen=0, hamburg=0, lubeck=0))

    for budget in (
        await sets.admin(BROKER).list(PodDisruptionBudget, namespace=scenario.namespace)
    ).objects:
        await sets.admin(BROKER).delete(PodDisruptionBudget, budget.name, scenario.namespace)

    async def none_left() -> None:
        for cluster in scenario.names:
            found = await sets.admin(cluster).list(
                PodDisruptionBudget, namespace=scenario.namespace
            )
            assert found.objects == (), cluster

    await scenario.eventually(none_left)
