"""StatefulSets over clusters: submitted to the broker, run everywhere, scaled without moves."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from hanse.app import BROKER
from hanse.features.statefulsets.feature import StatefulSets
from hanse.model.facts import Role
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Event, Pod, Service, ServicePort, ServiceSpec
from hanse.model.kinds.hanse import ClusterMember, MemberPhase
from hanse.model.kinds.stateful import StatefulSetShares
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId, Meta
from hanse.model.ownership import OWNER
from hanse.runtime.leaving import leave
from hanse.runtime.workqueue import COALESCE_DEFERRED
from tests.scenarios.statefulsets import StatefulSetsScenario, spec_of
from tests.support.faults import LinkFaults
from tests.support.scenario import Check, describe_writes

AT_BROKER = [w for w in StatefulSets(BROKER_NAMESPACE).watches if w.role is Role.BROKER]


async def test_the_designs_example_runs_as_four_four_and_three(sets: StatefulSetsScenario) -> None:
    scenario = sets.scenario
    await sets.launch(11)

    await scenario.eventually(sets.shares(bergen=4, hamburg=4, lubeck=3))
    submitted = await scenario.eventually(sets.is_ready(11))

    assert (submitted.status.replicas, submitted.status.updated_replicas) == (11, 11)
    assert submitted.status.current_revision == submitted.status.update_revision
    await scenario.eventually(sets.has_conditions(Valid="Valid", Placed="Placed", Ready="AllReady"))
    assert set(await sets.pods("lubeck")) == {f"store-lubeck-{n}" for n in range(3)}
    assert await sets.claims("lubeck") == {f"etcd-store-store-lubeck-{n}" for n in range(3)}
    copy = await sets.found("hamburg", StatefulSet, "store-hamburg")
    assert copy is not None
    assert copy.spec.service_name == "etcd"


async def test_scaling_moves_no_replica_goes_to_zero_and_back_and_keeps_claims(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(4)
    await scenario.eventually(sets.shares(bergen=2, hamburg=1, lubeck=1))
    before = {c: set(await sets.pods(c)) for c in scenario.names}

    await sets.scale(7)
    await scenario.eventually(sets.shares(bergen=3, hamburg=2, lubeck=2))
    for cluster in scenario.names:
        assert before[cluster] < set(await sets.pods(cluster))

    await sets.scale(2)
    await scenario.eventually(sets.shares(bergen=1, hamburg=1))
    await sets.scale(0)
    await scenario.eventually(sets.shares())
    await scenario.eventually(sets.is_ready(0))
    assert await sets.claims("lubeck") == {f"etcd-store-store-lubeck-{n}" for n in range(2)}

    await sets.scale(3)
    await scenario.eventually(sets.shares(bergen=1, hamburg=1, lubeck=1))
    await scenario.eventually(sets.is_ready(3))


@pytest.mark.virtual
async def test_a_scaling_does_not_wait_for_a_delayed_status(
    sets: StatefulSetsScenario,
) -> None:
    scenario, time = sets.scenario, asyncio.get_running_loop().time
    await sets.launch(3)
    await scenario.eventually(sets.is_ready(3))
    await scenario.settled()
    took: list[float] = []

    for replicas in (6, 9, 12):
        began = time()
        await sets.scale(replicas)
        await scenario.eventually(copies(sets, replicas // 3))
        took.append(time() - began)

    assert max(took) < COALESCE_DEFERRED / 2


async def test_a_dead_cluster_keeps_its_share_through_a_scaling_and_comes_back_to_it(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(5)
    await scenario.eventually(sets.is_ready(5))

    await scenario.kill_agent("hamburg")
    conditions = await scenario.eventually(sets.has_conditions(Ready="ClustersAway"))
    assert "hamburg" in conditions["Ready"]
    await scenario.eventually(sets.is_ready(3, wanted=5))
    await sets.scale(8)
    await scenario.eventually(sets.shares(bergen=3, hamburg=2, lubeck=3))
    await scenario.start_agent("hamburg")

    await scenario.eventually(sets.is_ready(8))
    await sets.shares(bergen=3, hamburg=2, lubeck=3)()
    await scenario.eventually(sets.has_said("Placed", "ClustersAway", "AllReady"))


async def test_a_cluster_that_missed_a_scaling_down_catches_up(sets: StatefulSetsScenario) -> None:
    scenario = sets.scenario
    await sets.launch(6)
    await scenario.eventually(sets.is_ready(6))

    scenario.cut_off_from_broker("lubeck")
    await scenario.eventually(sets.has_conditions(Ready="ClustersAway"))
    await sets.scale(1)
    conditions = await scenario.eventually(sets.has_conditions(Placed="NotAsWished"))
    assert "too many replicas in clusters that are away" in conditions["Placed"]
    await scenario.eventually(sets.shares(bergen=1, lubeck=2))
    scenario.network.heal("lubeck", BROKER)

    await scenario.eventually(sets.shares(bergen=1))
    await scenario.eventually(sets.has_conditions(Placed="Placed", Ready="AllReady"))


async def test_each_replica_gets_a_load_balancer_that_is_copied_to_the_broker(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(4, balanced=True)

    found = await scenario.eventually(balanced_everywhere(sets, 4))
    names = ["store-bergen-0", "store-bergen-1", "store-hamburg-0", "store-lubeck-0"]
    assert sorted(found) == names
    at_door = await sets.found(BROKER, Service, "store-lubeck-0")
    assert at_door is not None
    assert at_door.metadata.annotations["statefulsets.hanse.dev/cluster"] == "lubeck"

    async def listed() -> None:
        headless = await sets.found(BROKER, Service, "etcd")
        assert headless is not None
        annotations = headless.metadata.annotations
        assert annotations.get("federation.kubernetes.io/statefulset-lb-needed") == "true"
        assert annotations.get("federation.kubernetes.io/stateful-replica-list") == ", ".join(names)

    await scenario.eventually(listed)
    await scenario.eventually(selected(sets, "lubeck"))

    await sets.admin("lubeck").delete(Pod, "store-lubeck-0", scenario.namespace)
    await scenario.eventually(selected(sets, "lubeck"))
    off = {"federation.kubernetes.io/statefulset-lb-needed": "false"}
    await sets.edit({"metadata": {"annotations": off}})

    async def nowhere() -> None:
        for cluster in (*scenario.names, BROKER):
            assert await sets.balancers(cluster) == {}
        headless = await sets.found(BROKER, Service, "etcd")
        assert headless is not None
        replicas = "federation.kubernetes.io/stateful-replica-list"
        assert replicas not in headless.metadata.annotations

    await scenario.eventually(nowhere)


def balanced_everywhere(
    sets: StatefulSetsScenario, count: int
) -> Check[dict[str, tuple[str, ...]]]:
    """That each replica has an address, in its cluster and at the broker; returns all."""

    async def check() -> dict[str, tuple[str, ...]]:
        together: dict[str, tuple[str, ...]] = {}
        for cluster in sets.scenario.names:
            together |= await sets.balancers(cluster)
        assert len(together) == count
        assert all(together.values()), together
        assert await sets.balancers(BROKER) == together
        return together

    return check


def copies(sets: StatefulSetsScenario, replicas: int) -> Check[None]:
    """That each cluster's own set is to have so many replicas."""

    async def check() -> None:
        for cluster in sets.scenario.names:
            own = await sets.found(cluster, StatefulSet, f"store-{cluster}")
            assert own is not None
            assert own.spec.replicas == replicas, (cluster, own.spec.replicas)

    return check


def selected(sets: StatefulSetsScenario, cluster: str) -> Check[None]:
    """That the load balancer of every replica selects the replica's pod, and no other."""

    async def check() -> None:
        pods = await sets.pods(cluster)
        assert pods
        assert (await sets.balancers(cluster)).keys() == pods.keys()
        for name in pods:
            balancer = await sets.found(cluster, Service, name)
            assert balancer is not None
            terms = balancer.spec.selector.items()
            chosen = [n for n, pod in pods.items() if terms <= pod.metadata.labels.items()]
            assert chosen == [name]

    return check


async def test_a_users_service_with_a_replicas_name_is_overwritten_with_an_event(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    for cluster, address in (("bergen", ""), ("hamburg", "None")):
        spec = ServiceSpec(cluster_ip=address, ports=(ServicePort(port=9),))
        meta = Meta(name=f"store-{cluster}-0", namespace=scenario.namespace)
        await sets.admin(cluster).create(Service(metadata=meta, spec=spec))

    await sets.launch(3, balanced=True)

    async def overwritten() -> None:
        for cluster in ("bergen", "hamburg"):
            assert set(await sets.balancers(cluster)) == {f"store-{cluster}-0"}
        events = await sets.listed("bergen", Event)
        assert "Overwritten" in {e.reason for e in events}

    await scenario.eventually(overwritten)


async def test_hand_edits_in_a_member_are_repaired_and_a_foreign_set_is_a_conflict(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    meta = Meta(name="store-lubeck", namespace=scenario.namespace)
    labels = {"app": "mine"}
    spec = replace(
        spec_of(1),
        service_name="mine",
        selector={"matchLabels": labels},
        template={"metadata": {"labels": labels}, "spec": spec_of().template["spec"]},
    )
    await sets.admin("lubeck").create(StatefulSet(metadata=meta, spec=spec))
    await sets.launch(3)

    conditions = await scenario.eventually(sets.has_conditions(Trouble="InClusters"))
    assert "store-lubeck exists already" in conditions["Trouble"]
    mine = await sets.found("lubeck", StatefulSet, "store-lubeck")
    assert mine is not None
    assert mine.spec.service_name == "mine"

    bergen, hamburg = ("bergen", "store-bergen"), ("hamburg", "store-hamburg")
    await scenario.eventually(lambda: sets.edit({"spec": {"replicas": 5}}, *bergen))
    await scenario.eventually(
        lambda: sets.admin(hamburg[0]).delete(StatefulSet, hamburg[1], scenario.namespace)
    )
    await sets.admin("lubeck").delete(StatefulSet, "store-lubeck", scenario.namespace)

    await scenario.eventually(sets.shares(bergen=1, hamburg=1, lubeck=1))
    await scenario.eventually(sets.has_conditions(Trouble="NoTrouble", Ready="AllReady"))


async def test_deleting_cascades_and_claims_stay(sets: StatefulSetsScenario) -> None:
    scenario = sets.scenario
    await sets.launch(3, balanced=True)
    await scenario.eventually(sets.is_ready(3))

    await sets.admin(BROKER).delete(StatefulSet, "store", scenario.namespace)

    await scenario.eventually(sets.is_gone())
    assert await sets.claims("lubeck") == {"etcd-store-store-lubeck-0"}


@pytest.mark.parametrize("late", ["", pytest.param("statefulsets", marks=pytest.mark.virtual)])
async def test_an_orphaned_set_runs_on_in_every_cluster_and_is_taken_up_again(
    sets: StatefulSetsScenario, late: str
) -> None:
    scenario = sets.scenario
    lag = LinkFaults(lags=late, lag=timedelta(seconds=2 if late else 0))
    for cluster in scenario.names:  # agents see that shares are orphans before the deletion
        await restart_with(sets, cluster, lag)
    await sets.launch(3)
    await scenario.eventually(sets.is_ready(3))
    await sets.delete_orphaning()

    async def freed() -> None:
        for cluster in scenario.names:
            own = await sets.found(cluster, StatefulSet, f"store-{cluster}")
            assert own is not None
            assert OWNER not in own.metadata.labels
        assert await sets.listed(BROKER, StatefulSetShares) == []

    await scenario.eventually(freed)
    uids = {c: {p.metadata.uid for p in (await sets.pods(c)).values()} for c in scenario.names}

    meta = Meta(name="store", namespace=scenario.namespace)
    await sets.admin(BROKER).create(StatefulSet(metadata=meta, spec=spec_of(3)))

    await scenario.eventually(sets.is_ready(3))
    for cluster in scenario.names:
        assert {p.metadata.uid for p in (await sets.pods(cluster)).values()} == uids[cluster]


async def test_a_template_goes_cluster_by_cluster_and_halts_where_it_does_not_run(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    annotations = {"statefulsets.hanse.dev/update": "cluster-by-cluster"}
    await sets.launch(3, marks=annotations)
    await scenario.eventually(sets.is_ready(3))
    bad = {"nodeSelector": {"disk": "of-no-node"}}

    await sets.edit({"spec": {"template": {"spec": bad}}})

    await scenario.eventually(sets.runs_selecting("bergen", bad["nodeSelector"]))
    conditions = await scenario.eventually(sets.has_conditions(Updated="RollingOut"))
    assert "bergen" in conditions["Updated"]
    for cluster in ("hamburg", "lubeck"):
        await sets.runs_selecting(cluster, {})()
    await sets.edit({"spec": {"template": {"spec": {"nodeSelector": None}}}})
    await scenario.eventually(sets.has_conditions(Updated="UpToDate"))


@pytest.mark.parametrize("late", ["", pytest.param("statefulsetshares", marks=pytest.mark.virtual)])
async def test_what_cannot_be_done_is_reported_and_changes_nothing(
    sets: StatefulSetsScenario, late: str
) -> None:
    scenario = sets.scenario
    lag = LinkFaults(lags=late, lag=timedelta(seconds=2 if late else 0))
    await restart_with(sets, "hamburg", lag)  # it sees that others follow a wish before its shares
    await scenario.eventually(sets.all_have_joined())
    await sets.launch(3)
    await scenario.eventually(sets.is_ready(3))

    lb = {"federation.kubernetes.io/statefulset-lb-needed": "yes"}
    await sets.edit({"metadata": {"annotations": lb}, "spec": {"replicas": 9}})
    conditions = await scenario.eventually(sets.has_conditions(Valid="Invalid"))
    assert "'yes' is not 'true' or 'false'" in conditions["Valid"]
    await sets.shares(bergen=1, hamburg=1, lubeck=1)()

    wish = '{"clusters": {"bergen": {"maxReplicas": 2}, "lubeck": {"maxReplicas": 1}, "riga": {}}}'
    annotations = {
        "federation.kubernetes.io/statefulset-lb-needed": None,
        "federation.kubernetes.io/statefulset-preferences": wish,
    }
    await sets.edit({"metadata": {"annotations": annotations}})
    conditions = await scenario.eventually(sets.has_conditions(Valid="Valid", Placed="Unplaced"))
    assert "5 of 9 replicas have no place" in conditions["Placed"]
    assert "no cluster riga" in conditions["Placed"]
    await scenario.eventually(sets.shares(bergen=2, hamburg=1, lubeck=1))

    await sets.annotate(rebalance="now")
    await scenario.eventually(sets.shares(bergen=2, lubeck=1))


async def test_a_missing_namespace_is_made_and_a_restart_writes_nothing(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await scenario.delete_namespace("lubeck", scenario.namespace)
    await scenario.eventually(scenario.has_no_namespace("lubeck", scenario.namespace))
    await sets.launch(3, balanced=True)
    await scenario.eventually(sets.shares(bergen=1, hamburg=1, lubeck=1))
    await scenario.eventually(balanced_everywhere(sets, 3))
    await scenario.eventually(sets.has_conditions(Ready="AllReady"))
    await scenario.lengthen_leases()  # a slow start is no death
    await scenario.settled()

    start = len(scenario.network.sent)
    await scenario.restart_agents()
    await scenario.settled()

    assert describe_writes(scenario.writes_since(start)) == []


@pytest.mark.virtual
async def test_a_restart_writes_nothing_whatever_of_the_broker_is_read_last(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(3, balanced=True)
    await scenario.eventually(balanced_everywhere(sets, 3))
    await scenario.settled()
    at_broker = {w.kind.kind.plural for w in AT_BROKER}

    for late in sorted(at_broker):
        start = len(scenario.network.sent)
        for cluster in scenario.names:
            scenario.network.link(cluster, BROKER).faults = LinkFaults(late=late)
            await scenario.kill_agent(cluster)
            await scenario.start_agent(cluster)
        await scenario.settled()
        assert (late, describe_writes(scenario.writes_since(start))) == (late, [])


async def restart_with(sets: StatefulSetsScenario, cluster: ClusterId, faults: LinkFaults) -> None:
    """Restart an agent with faults on its link to the broker, which its watches have from then."""
    sets.scenario.network.link(cluster, BROKER).faults = faults
    await sets.scenario.restart_agent(cluster)


async def _set_phase(sets: StatefulSetsScenario, cluster: ClusterId, phase: MemberPhase) -> None:
    """Write the phase of a member's record, as `hanse leave` and `hanse join` do."""
    place, change = (ClusterMember, cluster, BROKER_NAMESPACE), {"status": {"phase": phase}}
    await sets.admin(BROKER).patch(*place, change, subresource="status")


async def test_who_leaves_keeps_what_runs_and_who_joins_gets_only_growth(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.add_record("bergen")
    await sets.launch(4)
    await scenario.eventually(sets.is_ready(4))
    await leave(scenario.agent("bergen").reconciler, BROKER)

    async def runs_on_as_nobodys() -> None:
        left = await sets.found("bergen", StatefulSet, "store-bergen")
        assert left is not None
        assert OWNER not in left.metadata.labels

    await scenario.eventually(runs_on_as_nobodys)
    await scenario.kill_agent("bergen")
    await sets.annotate(on_leave="redistribute")
    await sets.admin(BROKER).delete(Lease, "bergen", BROKER_NAMESPACE)
    conditions = await scenario.eventually(sets.has_conditions(Ready="ClustersAway"))
    assert "bergen cannot be heard" in conditions["Ready"]
    await scenario.settled()
    await sets.shares(bergen=2, hamburg=1, lubeck=1)()  # a missing Lease is no departure

    await _set_phase(sets, "bergen", "Left")
    await scenario.eventually(sets.shares(bergen=2, hamburg=2, lubeck=2))  # which left with two
    await scenario.eventually(sets.is_ready(4))

    await _set_phase(sets, "bergen", "Joining")
    await scenario.start_agent("bergen")
    await scenario.eventually(sets.all_have_joined())
    await scenario.eventually(sets.shares(hamburg=2, lubeck=2))  # its own two were too many
    await scenario.eventually(sets.has_conditions(Placed="Placed"))
    await sets.scale(5)
    await scenario.eventually(sets.shares(bergen=1, hamburg=2, lubeck=2))
    await scenario.eventually(sets.is_ready(5))
