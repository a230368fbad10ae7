"""No operation takes more replicas than it may, counted from the events of pods in all clusters."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from hanse.app import BROKER
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Node, Pod
from hanse.model.kinds.stateful import StatefulSetShares
from hanse.model.objects import Meta
from tests.scenarios.replica_watch import ReplicaWatch, replica_watch
from tests.scenarios.statefulsets import (
    UNSCHEDULABLE,
    StatefulSetsScenario,
    headless,
    spec_of,
    template,
)
from tests.support.scenario import Check

A_WHILE = timedelta(seconds=5)


@asynccontextmanager
async def launched(sets: StatefulSetsScenario, replicas: int) -> AsyncIterator[ReplicaWatch]:
    """A set of so many ready replicas; from here on is counted what becomes of them."""
    await sets.launch(replicas)
    await sets.scenario.eventually(sets.is_ready(replicas))
    async with replica_watch(sets) as watch:
        await sets.scenario.eventually(counts(watch, replicas))
        watch.start_counting()
        yield watch


async def test_a_roll_out_takes_one_replica_at_a_time_and_a_bad_template_only_one(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    async with launched(sets, 4) as watch:
        await sets.edit({"spec": {"template": template("etcd:3.7")}})
        await scenario.eventually(has_rolled_out(sets, 4))
        await scenario.eventually(counts(watch, 4))

        assert watch.least == 3
        assert watch.taken == [
            "store-lubeck-0",
            "store-hamburg-0",
            "store-bergen-1",
            "store-bergen-0",
        ]
        watch.start_counting()

        await sets.edit({"spec": {"template": template("etcd:3.8", **UNSCHEDULABLE)}})
        await scenario.eventually(counts(watch, 3))
        await scenario.always(counts(watch, 3), A_WHILE)
        assert watch.taken == ["store-lubeck-0"]
        door = await sets.door()
        assert (door.status.updated_replicas, door.status.ready_replicas) == (1, 3)


async def test_what_is_surplus_goes_while_a_roll_out_stands_still(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    async with launched(sets, 4) as watch:
        await sets.edit({"spec": {"template": template("etcd:3.8", **UNSCHEDULABLE)}})
        await scenario.eventually(counts(watch, 3))
        await scenario.always(counts(watch, 3), A_WHILE)

        await sets.scale(2)
        await scenario.eventually(lambda: is_absent(sets, "lubeck"))
        await scenario.eventually(sets.runs("hamburg", "etcd:3.8"))
        # Whether the second of bergen goes before the template comes to hamburg is nobody's wish;
        # if it does not, it stays, since two are wanted and no others are ready.
        await scenario.eventually(has_lost(watch, "store-lubeck-0", "store-hamburg-0"))

        await sets.edit({"spec": {"template": template("etcd:3.6")}})
        await scenario.eventually(has_rolled_out(sets, 2))
        await scenario.eventually(sets.shares(bergen=1, hamburg=1))
        await scenario.eventually(
            has_lost(watch, "store-lubeck-0", "store-hamburg-0", "store-bergen-1")
        )
        assert watch.least >= 1
        assert len(watch.taken) == 3


async def test_a_share_of_zero_goes_from_the_highest_replica_on_and_then_the_object(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await submit_ordered(sets, 6)
    await scenario.eventually(sets.is_ready(6))
    async with replica_watch(sets) as watch:
        await scenario.eventually(counts(watch, 6))
        watch.start_counting()

        await sets.scale(1)
        await scenario.eventually(sets.shares(bergen=1))
        await scenario.eventually(counts(watch, 1))

    for cluster in scenario.names:
        taken = [name for name in watch.taken if cluster in name]
        assert taken == sorted(taken, reverse=True)
    assert len(watch.taken) == 5
    assert watch.least == 1
    await scenario.eventually(lambda: has_claims(sets, {"bergen": {"etcd-store-store-bergen-0"}}))


async def test_a_rebalance_grows_first_and_shrinks_when_what_is_new_is_ready(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    wishes = "federation.kubernetes.io/statefulset-preferences"
    await sets.launch(6, marks={wishes: '{"clusters": {"bergen": {}}}'})
    await scenario.eventually(sets.shares(bergen=6))
    async with replica_watch(sets) as watch:
        await scenario.eventually(counts(watch, 6))
        watch.start_counting()

        change = {wishes: '{"rebalance": true, "clusters": {"*": {}}}'}
        await sets.edit({"metadata": {"annotations": change}})
        await scenario.eventually(sets.shares(bergen=2, hamburg=2, lubeck=2))
        await scenario.eventually(sets.is_ready(6))

        assert watch.least == 6
        assert sorted(watch.taken) == [f"store-bergen-{n}" for n in (2, 3, 4, 5)]


async def test_the_living_are_not_taken_because_the_dead_count(sets: StatefulSetsScenario) -> None:
    scenario = sets.scenario
    await sets.launch(6)
    await scenario.eventually(sets.is_ready(6))
    scenario.cut_off_from_broker("hamburg")
    await scenario.eventually(sets.has_conditions(Ready="ClustersAway"))

    await sets.scale(2)
    await scenario.eventually(sets.shares(bergen=1, hamburg=2, lubeck=1))
    await scenario.always(sets.shares(bergen=1, hamburg=2, lubeck=1), A_WHILE)

    scenario.network.heal("hamburg", BROKER)
    await scenario.eventually(sets.shares(bergen=1, lubeck=1))
    await scenario.eventually(sets.is_ready(2))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        ("hanse.dev/max-unavailable", "2"),
        # the same objects and requests, but for one annotation of the set
        pytest.param("hanse.dev/disrupt-without", "hamburg", marks=pytest.mark.virtual),
    ],
)
async def test_a_replica_whose_node_is_lost_for_ever_costs_no_other(
    sets: StatefulSetsScenario, annotation: str, value: str
) -> None:
    scenario, hamburg = sets.scenario, sets.admin("hamburg")
    await sets.launch(3)
    await scenario.eventually(sets.is_ready(3))
    nodes = [node.metadata.name for node in (await hamburg.list(Node)).objects]
    for node in nodes:  # no other can take its volume
        await sets.cordon("hamburg", node)
    try:
        async with replica_watch(sets) as watch:
            await scenario.eventually(counts(watch, 3))
            await hamburg.delete(Pod, "store-hamburg-0", scenario.namespace)
            await scenario.eventually(counts(watch, 2))
            await scenario.eventually(sets.is_ready(2, 3))  # which those who update know, too
            watch.start_counting()

            await sets.edit({"spec": {"template": template("etcd:3.7")}})
            told = await scenario.eventually(sets.has_conditions(Updated="RollingOut"))
            await scenario.always(counts(watch, 2), A_WHILE)
            assert watch.taken == []
            assert "lubeck" in told["Updated"]

            await sets.edit({"metadata": {"annotations": {annotation: value}}})
            await scenario.eventually(has_lost(watch, "store-lubeck-0", "store-bergen-0"))
            await scenario.eventually(counts(watch, 2))
            assert (watch.least, len(watch.taken)) == (1, 2)
    finally:
        for node in nodes:
            await sets.cordon("hamburg", node, cordoned=False)
    await scenario.eventually(has_rolled_out(sets, 3))


async def test_a_roll_out_waits_for_a_cluster_that_is_away_unless_users_say_otherwise(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(3)
    await scenario.eventually(sets.is_ready(3))
    scenario.cut_off_from_broker("bergen")
    await scenario.eventually(sets.has_conditions(Ready="ClustersAway"))

    await sets.edit({"spec": {"template": template("etcd:3.7")}})
    told = await scenario.eventually(sets.has_conditions(Updated="Halted"))
    assert "bergen" in told["Updated"]
    await scenario.always(sets.runs("lubeck", "etcd:3.6"), A_WHILE)

    go_on = {"metadata": {"annotations": {"hanse.dev/disrupt-while-away": "true"}}}
    await sets.edit(go_on)
    await scenario.eventually(sets.runs("lubeck", "etcd:3.7"))
    await scenario.eventually(sets.runs("hamburg", "etcd:3.7"))


@pytest.mark.virtual
@pytest.mark.parametrize("moment", range(1, 12, 3))
async def test_an_agent_that_dies_at_any_request_of_a_roll_out_takes_no_more(
    sets: StatefulSetsScenario, moment: int
) -> None:
    scenario = sets.scenario
    async with launched(sets, 5) as watch:
        crash = scenario.network.crash_at(moment)
        await sets.edit({"spec": {"template": template("etcd:3.7")}})
        await scenario.eventually(lambda: happened(crash.done()))
        await scenario.kill_agent(crash.result())
        await scenario.start_agents()

        await scenario.eventually(has_rolled_out(sets, 5), timedelta(minutes=5))
        assert watch.least == 4


async def test_more_at_a_time_if_users_say_so_and_a_partition_counts_all_clusters(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(6, marks={"hanse.dev/max-unavailable": "2"})
    await scenario.eventually(sets.is_ready(6))
    async with replica_watch(sets) as watch:
        await scenario.eventually(counts(watch, 6))
        watch.start_counting()
        await sets.edit({"spec": {"template": template("etcd:3.7")}})
        await scenario.eventually(has_rolled_out(sets, 6))
        assert watch.least >= 4
        watch.start_counting()

        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 5}}
        await sets.edit({"spec": {"updateStrategy": strategy, "template": template("etcd:3.8")}})
        await scenario.eventually(has_lost(watch, "store-lubeck-1"))
        await scenario.eventually(counts(watch, 6))
        await scenario.always(counts(watch, 6), A_WHILE)
        assert watch.taken == ["store-lubeck-1"]
        assert (await sets.door()).status.updated_replicas == 1

        strategy["rollingUpdate"] = {"partition": 0}
        bad = template("etcd:3.9", **UNSCHEDULABLE)
        await sets.edit({"spec": {"updateStrategy": strategy, "template": bad}})
        await scenario.eventually(counts(watch, 4))
        await scenario.always(counts(watch, 4), A_WHILE)


async def test_cluster_by_cluster_a_partition_ends_the_roll_out_where_it_says(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(4, marks={"statefulsets.hanse.dev/update": "cluster-by-cluster"})
    await scenario.eventually(sets.is_ready(4))
    async with replica_watch(sets) as watch:
        await scenario.eventually(counts(watch, 4))
        watch.start_counting()
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        await sets.edit({"spec": {"updateStrategy": strategy, "template": template("etcd:3.7")}})
        updated = ["store-bergen-1", "store-bergen-0", "store-hamburg-0"]
        await scenario.eventually(has_lost(watch, *updated))
        await scenario.eventually(counts(watch, 4))
        await scenario.always(counts(watch, 4), A_WHILE)
        assert watch.taken == updated

        await sets.edit({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
        await scenario.eventually(has_rolled_out(sets, 4))
        assert watch.taken == [*updated, "store-lubeck-0"]
        assert watch.least == 3


async def test_another_first_ordinal_comes_to_one_cluster_after_the_other(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    async with launched(sets, 3) as watch:
        await sets.edit({"spec": {"ordinals": {"start": 5}}})

        await scenario.eventually(has_rolled_out(sets, 3))
        assert watch.least >= 2
        assert watch.taken == [f"store-{c}-0" for c in ("lubeck", "hamburg", "bergen")]


async def submit_ordered(sets: StatefulSetsScenario, replicas: int) -> None:
    """Submit a set whose replicas start and end in order, their claims with them."""
    broker, namespace = sets.admin(BROKER), sets.scenario.namespace
    await broker.create(headless("etcd", namespace))
    claims = {"whenDeleted": "Retain", "whenScaled": "Delete"}
    spec = spec_of(
        replicas,
        pod_management_policy="OrderedReady",
        persistent_volume_claim_retention_policy=claims,
    )
    meta = Meta(name="store", namespace=namespace)
    await broker.create(StatefulSet(metadata=meta, spec=spec))


def counts(watch: ReplicaWatch, ready: int) -> Check[None]:
    """That so many replicas are ready now."""

    async def check() -> None:
        assert watch.ready == ready, (watch.ready, watch.taken)

    return check


def has_lost(watch: ReplicaWatch, *replicas: str) -> Check[None]:
    """That these replicas are among those that were taken."""

    async def check() -> None:
        assert set(replicas) <= set(watch.taken), watch.taken

    return check


async def has_claims(sets: StatefulSetsScenario, expected: dict[str, set[str]]) -> None:
    """Check the claims of every cluster."""
    for cluster in sets.scenario.names:
        assert await sets.claims(cluster) == expected.get(cluster, set()), cluster


async def is_absent(sets: StatefulSetsScenario, cluster: str) -> None:
    """Check that a cluster has no StatefulSet of the set."""
    assert await sets.found(cluster, StatefulSet, f"store-{cluster}") is None


def has_rolled_out(sets: StatefulSetsScenario, replicas: int) -> Check[None]:
    """What `kubectl rollout status` waits for, and that nobody holds a permit any more."""

    async def check() -> None:
        door = await sets.door()
        status = door.status
        assert status.observed_generation == door.metadata.generation
        assert status.update_revision == status.current_revision, status
        assert (status.updated_replicas, status.ready_replicas) == (replicas, replicas), status
        record = await sets.admin(BROKER).read(StatefulSetShares, "store", sets.scenario.namespace)
        assert not record.spec.permitted(door.metadata.uid), record.spec.permits

    return check


async def happened(it: bool) -> None:
    assert it
