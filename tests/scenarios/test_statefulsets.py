"""StatefulSets over clusters: submitted at the door, run everywhere, scaled without a move."""

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from hanse.app import BROKER
from hanse.features.services.feature import BROKER_NAMESPACE
from hanse.features.statefulsets.feature import StatefulSets
from hanse.kube.request import Request
from hanse.model.facts import Role
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Event, Pod, Service, ServicePort, ServiceSpec
from hanse.model.kinds.stateful import StatefulSetShares
from hanse.model.labels import OWNER
from hanse.model.objects import Meta
from hanse.runtime.leaving import leave
from hanse.runtime.workqueue import UNHURRIED
from tests.scenarios.shipyard import Shipyard, spec_of
from tests.support.faults import Weather
from tests.support.stage import Check
from tests.support.stage import told as told_writes

AT_BROKER = [w for w in StatefulSets(BROKER_NAMESPACE).watches if w.role is Role.BROKER]


async def test_the_designs_example_runs_as_four_four_and_three(shipyard: Shipyard) -> None:
    stage = shipyard.stage
    await shipyard.launch(11)

    await stage.eventually(shipyard.shares(bergen=4, hamburg=4, lubeck=3))
    door = await stage.eventually(shipyard.is_ready(11))

    assert (door.status.replicas, door.status.updated_replicas) == (11, 11)
    assert door.status.current_revision == door.status.update_revision
    await stage.eventually(shipyard.is_told(Valid="Valid", Placed="Placed", Ready="AllReady"))
    assert set(await shipyard.pods("lubeck")) == {f"store-lubeck-{n}" for n in range(3)}
    assert await shipyard.claims("lubeck") == {f"etcd-store-store-lubeck-{n}" for n in range(3)}
    copy = await shipyard.found("hamburg", StatefulSet, "store-hamburg")
    assert copy is not None
    assert copy.spec.service_name == "etcd"


async def test_scaling_moves_nobody_goes_to_zero_and_back_and_keeps_claims(
    shipyard: Shipyard,
) -> None:
    stage = shipyard.stage
    await shipyard.launch(4)
    await stage.eventually(shipyard.shares(bergen=2, hamburg=1, lubeck=1))
    before = {c: set(await shipyard.pods(c)) for c in stage.names}

    await shipyard.scale(7)
    await stage.eventually(shipyard.shares(bergen=3, hamburg=2, lubeck=2))
    for cluster in stage.names:
        assert before[cluster] < set(await shipyard.pods(cluster))

    await shipyard.scale(2)
    await stage.eventually(shipyard.shares(bergen=1, hamburg=1))
    await shipyard.scale(0)
    await stage.eventually(shipyard.shares())
    await stage.eventually(shipyard.is_ready(0))
    assert await shipyard.claims("lubeck") == {f"etcd-store-store-lubeck-{n}" for n in range(2)}

    await shipyard.scale(3)
    await stage.eventually(shipyard.shares(bergen=1, hamburg=1, lubeck=1))
    await stage.eventually(shipyard.is_ready(3))


@pytest.mark.virtual
async def test_a_scaling_waits_for_no_status_that_is_about_to_be_told(shipyard: Shipyard) -> None:
    stage, time = shipyard.stage, asyncio.get_running_loop().time
    await shipyard.launch(3)
    await stage.eventually(shipyard.is_ready(3))
    await stage.settled()
    took: list[float] = []

    for replicas in (6, 9, 12):
        began = time()
        await shipyard.scale(replicas)
        await stage.eventually(copies(shipyard, replicas // 3))
        took.append(time() - began)

    assert max(took) < UNHURRIED / 2


async def test_a_dead_cluster_keeps_its_share_through_a_scaling_and_comes_back_to_it(
    shipyard: Shipyard,
) -> None:
    stage = shipyard.stage
    await shipyard.launch(5)
    await stage.eventually(shipyard.is_ready(5))

    await stage.kill_agent("hamburg")
    told = await stage.eventually(shipyard.is_told(Ready="ClustersAway"))
    assert "hamburg" in told["Ready"]
    await stage.eventually(shipyard.is_ready(3, wanted=5))
    await shipyard.scale(8)
    await stage.eventually(shipyard.shares(bergen=3, hamburg=2, lubeck=3))
    await stage.start_agent("hamburg")

    await stage.eventually(shipyard.is_ready(8))
    await shipyard.shares(bergen=3, hamburg=2, lubeck=3)()
    await stage.eventually(shipyard.has_said("Placed", "ClustersAway", "AllReady"))


async def test_a_cluster_that_missed_a_scaling_down_catches_up(shipyard: Shipyard) -> None:
    stage = shipyard.stage
    await shipyard.launch(6)
    await stage.eventually(shipyard.is_ready(6))

    stage.cut_off_from_broker("lubeck")
    await stage.eventually(shipyard.is_told(Ready="ClustersAway"))
    await shipyard.scale(1)
    told = await stage.eventually(shipyard.is_told(Placed="NotAsWished"))
    assert "too many" in told["Placed"]
    await stage.eventually(shipyard.shares(lubeck=2))
    stage.network.heal("lubeck", BROKER)

    await stage.eventually(shipyard.shares(lubeck=1))
    await stage.eventually(shipyard.is_told(Placed="Placed", Ready="AllReady"))


async def test_each_replica_gets_a_balancer_that_stands_at_the_door_too(
    shipyard: Shipyard,
) -> None:
    stage = shipyard.stage
    await shipyard.launch(4, balanced=True)

    found = await stage.eventually(balanced_everywhere(shipyard, 4))
    names = ["store-bergen-0", "store-bergen-1", "store-hamburg-0", "store-lubeck-0"]
    assert sorted(found) == names
    at_door = await shipyard.found(BROKER, Service, "store-lubeck-0")
    assert at_door is not None
    assert at_door.metadata.annotations["statefulsets.hanse.dev/cluster"] == "lubeck"

    async def listed() -> None:
        headless = await shipyard.found(BROKER, Service, "etcd")
        assert headless is not None
        marks = headless.metadata.annotations
        assert marks.get("federation.kubernetes.io/statefulset-lb-needed") == "true"
        assert marks.get("federation.kubernetes.io/stateful-replica-list") == ", ".join(names)

    await stage.eventually(listed)
    await stage.eventually(labelled(shipyard, "lubeck"))

    await shipyard.person("lubeck").delete(Pod, "store-lubeck-0", stage.shop)
    await stage.eventually(labelled(shipyard, "lubeck"))
    off = {"federation.kubernetes.io/statefulset-lb-needed": "false"}
    await shipyard.edit({"metadata": {"annotations": off}})

    async def nowhere() -> None:
        for cluster in (*stage.names, BROKER):
            assert await shipyard.balancers(cluster) == {}
        headless = await shipyard.found(BROKER, Service, "etcd")
        assert headless is not None
        replicas = "federation.kubernetes.io/stateful-replica-list"
        assert replicas not in headless.metadata.annotations

    await stage.eventually(nowhere)


def balanced_everywhere(shipyard: Shipyard, count: int) -> Check[dict[str, tuple[str, ...]]]:
    """That each replica has an address, in its cluster and at the door; gives all."""

    async def check() -> dict[str, tuple[str, ...]]:
        together: dict[str, tuple[str, ...]] = {}
        for cluster in shipyard.stage.names:
            together |= await shipyard.balancers(cluster)
        assert len(together) == count
        assert all(together.values()), together
        assert await shipyard.balancers(BROKER) == together
        return together

    return check


def copies(shipyard: Shipyard, replicas: int) -> Check[None]:
    """That each cluster's own set is to have so many replicas."""

    async def check() -> None:
        for cluster in shipyard.stage.names:
            own = await shipyard.found(cluster, StatefulSet, f"store-{cluster}")
            assert own is not None
            assert own.spec.replicas == replicas, (cluster, own.spec.replicas)

    return check


def labelled(shipyard: Shipyard, cluster: str) -> Check[None]:
    """That every pod bears its own name as the design's label."""

    async def check() -> None:
        pods = await shipyard.pods(cluster)
        assert pods
        for name, pod in pods.items():
            assert pod.metadata.labels.get("federated-statefulset") == name, pod.metadata.labels

    return check


async def test_somebodys_service_with_a_replicas_name_is_overwritten_with_an_event(
    shipyard: Shipyard,
) -> None:
    stage = shipyard.stage
    for cluster, address in (("bergen", ""), ("hamburg", "None")):
        spec = ServiceSpec(cluster_ip=address, ports=(ServicePort(port=9),))
        meta = Meta(name=f"store-{cluster}-0", namespace=stage.shop)
        await shipyard.person(cluster).create(Service(metadata=meta, spec=spec))

    await shipyard.launch(3, balanced=True)

    async def overwritten() -> None:
        for cluster in ("bergen", "hamburg"):
            assert set(await shipyard.balancers(cluster)) == {f"store-{cluster}-0"}
        events = await shipyard.listed("bergen", Event)
        assert "Overwritten" in {e.reason for e in events}

    await stage.eventually(overwritten)


async def test_hand_edits_in_a_member_are_repaired_and_a_foreign_set_is_a_conflict(
    shipyard: Shipyard,
) -> None:
    stage = shipyard.stage
    meta = Meta(name="store-lubeck", namespace=stage.shop)
    labels = {"app": "mine"}
    spec = replace(
        spec_of(1),
        service_name="mine",
        selector={"matchLabels": labels},
        template={"metadata": {"labels": labels}, "spec": spec_of().template["spec"]},
    )
    await shipyard.person("lubeck").create(StatefulSet(metadata=meta, spec=spec))
    await shipyard.launch(3)

    told = await stage.eventually(shipyard.is_told(Trouble="InClusters"))
    assert "store-lubeck exists already" in told["Trouble"]
    mine = await shipyard.found("lubeck", StatefulSet, "store-lubeck")
    assert mine is not None
    assert mine.spec.service_name == "mine"

    await shipyard.edit({"spec": {"replicas": 5}}, "bergen", "store-bergen")
    await shipyard.person("hamburg").delete(StatefulSet, "store-hamburg", stage.shop)
    await shipyard.person("lubeck").delete(StatefulSet, "store-lubeck", stage.shop)

    await stage.eventually(shipyard.shares(bergen=1, hamburg=1, lubeck=1))
    await stage.eventually(shipyard.is_told(Trouble="NoTrouble", Ready="AllReady"))


async def test_deleting_cascades_and_claims_stay(shipyard: Shipyard) -> None:
    stage = shipyard.stage
    await shipyard.launch(3, balanced=True)
    await stage.eventually(shipyard.is_ready(3))

    await shipyard.person(BROKER).delete(StatefulSet, "store", stage.shop)

    await stage.eventually(shipyard.is_gone())
    assert await shipyard.claims("lubeck") == {"etcd-store-store-lubeck-0"}


async def test_an_orphaned_set_runs_on_in_every_cluster_and_is_taken_up_again(
    shipyard: Shipyard,
) -> None:
    stage = shipyard.stage
    await shipyard.launch(3)
    await stage.eventually(shipyard.is_ready(3))
    path = f"/apis/apps/v1/namespaces/{stage.shop}/statefulsets/store"
    body = msgspec.json.encode({"propagationPolicy": "Orphan"})
    await shipyard.person(BROKER).send(Request("DELETE", path, body=body))

    async def freed() -> None:
        for cluster in stage.names:
            own = await shipyard.found(cluster, StatefulSet, f"store-{cluster}")
            assert own is not None
            assert OWNER not in own.metadata.labels
        assert await shipyard.listed(BROKER, StatefulSetShares) == []

    await stage.eventually(freed)
    uids = {c: {p.metadata.uid for p in (await shipyard.pods(c)).values()} for c in stage.names}

    meta = Meta(name="store", namespace=stage.shop)
    await shipyard.person(BROKER).create(StatefulSet(metadata=meta, spec=spec_of(3)))

    await stage.eventually(shipyard.is_ready(3))
    for cluster in stage.names:
        assert {p.metadata.uid for p in (await shipyard.pods(cluster)).values()} == uids[cluster]


async def test_a_template_goes_cluster_by_cluster_and_halts_where_it_does_not_run(
    shipyard: Shipyard,
) -> None:
    stage = shipyard.stage
    marks = {"statefulsets.hanse.dev/update": "cluster-by-cluster"}
    await shipyard.launch(3, marks=marks)
    await stage.eventually(shipyard.is_told(Updated="UpToDate"))
    stage.cut_off_from_broker("hamburg")
    await stage.eventually(shipyard.is_told(Ready="ClustersAway"))

    await shipyard.edit({"spec": {"template": spec_of(3, image="etcd:3.7").template}})

    told = await stage.eventually(shipyard.is_told(Updated="Halted"))
    await stage.eventually(shipyard.runs("bergen", "etcd:3.7"))
    assert "hamburg" in told["Updated"]
    await shipyard.runs("lubeck", "etcd:3.6")()
    stage.network.heal("hamburg", BROKER)
    await stage.eventually(shipyard.is_told(Updated="UpToDate"))
    for cluster in stage.names:
        await shipyard.runs(cluster, "etcd:3.7")()


async def test_what_cannot_be_done_is_told_and_changes_nothing(shipyard: Shipyard) -> None:
    stage = shipyard.stage
    await shipyard.launch(3)
    await stage.eventually(shipyard.is_ready(3))

    lb = {"federation.kubernetes.io/statefulset-lb-needed": "yes"}
    await shipyard.edit({"metadata": {"annotations": lb}, "spec": {"replicas": 9}})
    told = await stage.eventually(shipyard.is_told(Valid="Invalid"))
    assert "'yes' is not 'true' or 'false'" in told["Valid"]
    await shipyard.shares(bergen=1, hamburg=1, lubeck=1)()

    wish = '{"clusters": {"bergen": {"maxReplicas": 2}, "lubeck": {"maxReplicas": 1}, "riga": {}}}'
    marks = {
        "federation.kubernetes.io/statefulset-lb-needed": None,
        "federation.kubernetes.io/statefulset-preferences": wish,
    }
    await shipyard.edit({"metadata": {"annotations": marks}})
    told = await stage.eventually(shipyard.is_told(Valid="Valid", Placed="Unplaced"))
    assert "5 of 9 replicas have no place" in told["Placed"]
    assert "no cluster riga" in told["Placed"]
    await stage.eventually(shipyard.shares(bergen=2, hamburg=1, lubeck=1))

    await shipyard.annotate(rebalance="now")
    await stage.eventually(shipyard.shares(bergen=2, lubeck=1))


async def test_a_missing_namespace_is_made_and_a_restart_writes_nothing(
    shipyard: Shipyard,
) -> None:
    stage = shipyard.stage
    await stage.delete_namespace("lubeck", stage.shop)
    await stage.eventually(stage.has_no_namespace("lubeck", stage.shop))
    await shipyard.launch(3, balanced=True)
    await stage.eventually(shipyard.shares(bergen=1, hamburg=1, lubeck=1))
    await stage.eventually(balanced_everywhere(shipyard, 3))
    await stage.eventually(shipyard.is_told(Ready="AllReady"))
    await shipyard.lengthen_leases()  # a slow start is no death
    await stage.settled()

    start = len(stage.network.sent)
    for cluster in stage.names:
        await stage.kill_agent(cluster)
        await stage.start_agent(cluster)
    await stage.settled()

    assert told_writes(stage.writes_since(start)) == []


@pytest.mark.virtual
async def test_a_restart_writes_nothing_whatever_of_the_broker_is_read_last(
    shipyard: Shipyard,
) -> None:
    stage = shipyard.stage
    await shipyard.launch(3, balanced=True)
    await stage.eventually(balanced_everywhere(shipyard, 3))
    await stage.settled()
    at_broker = {w.kind.kind.plural for w in AT_BROKER}

    for late in sorted(at_broker):
        start = len(stage.network.sent)
        for cluster in stage.names:
            stage.network.link(cluster, BROKER).weather = Weather(late=late)
            await stage.kill_agent(cluster)
            await stage.start_agent(cluster)
        await stage.settled()
        assert (late, told_writes(stage.writes_since(start))) == (late, [])


async def test_who_leaves_keeps_what_runs_and_who_joins_gets_only_growth(
    shipyard: Shipyard,
) -> None:
    stage = shipyard.stage
    await shipyard.launch(4)
    await stage.eventually(shipyard.is_ready(4))
    await leave(stage.agent("bergen").engine, BROKER)

    async def runs_on_as_nobodys() -> None:
        left = await shipyard.found("bergen", StatefulSet, "store-bergen")
        assert left is not None
        assert OWNER not in left.metadata.labels

    await stage.eventually(runs_on_as_nobodys)
    await stage.kill_agent("bergen")
    await shipyard.person(BROKER).delete(Lease, "bergen", BROKER_NAMESPACE)
    told = await stage.eventually(shipyard.is_told(Placed="NotAsWished"))
    assert "bergen left the fleet with a share" in told["Placed"]
    await shipyard.annotate(on_leave="redistribute")
    await stage.eventually(shipyard.shares(bergen=2, hamburg=2, lubeck=2))  # which left with two
    await stage.eventually(shipyard.is_ready(4))

    await stage.start_agent("bergen")
    await stage.eventually(shipyard.all_have_joined())
    await stage.eventually(shipyard.is_told(Placed="Placed"))
    await shipyard.scale(5)
    await stage.eventually(shipyard.shares(bergen=1, hamburg=2, lubeck=2))
    await stage.eventually(shipyard.is_ready(5))
