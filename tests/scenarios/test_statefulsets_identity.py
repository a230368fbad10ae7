"""Names are reused, uids are not: whose report, whose replica, whose Service."""

from datetime import timedelta

import msgspec
import pytest

from hanse.app import BROKER
from hanse.features.statefulsets.names import ACCEPTED, part_name
from hanse.model.facts import HolderState
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec
from hanse.model.kinds.core import Namespace, Service
from hanse.model.kinds.hanse import (
    FederatedStatefulSet,
    FederatedStatefulSetSpec,
    StatefulSetTemplate,
)
from hanse.model.kinds.stateful import StatefulSetPart
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import Meta
from tests.scenarios.statefulsets import StatefulSetsScenario, headless, spec_of
from tests.scenarios.test_statefulsets_lost import resubmit, uids
from tests.support.scenario import Check

LB_NEEDED = "federation.kubernetes.io/statefulset-lb-needed"


async def test_a_set_submitted_again_while_a_cluster_is_away_owes_nothing_to_the_deleted_one(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(3)
    await scenario.eventually(sets.is_ready(3))
    before = await uids(sets)
    scenario.cut_off_from_broker("hamburg")
    await scenario.eventually(sets.has_conditions(Ready="ClustersAway"))

    await sets.admin(BROKER).delete(StatefulSet, "store", scenario.namespace)
    await scenario.eventually(has_only(sets, "hamburg"))
    await resubmit(sets, 3)
    await scenario.eventually(sets.is_ready(3))
    await sets.shares(bergen=2, hamburg=1, lubeck=1)()

    scenario.network.heal("hamburg", BROKER)
    await scenario.eventually(sets.shares(bergen=2, lubeck=1))
    await scenario.eventually(sets.is_ready(3))

    async def none_of_the_deleted_set() -> None:
        assert not {*before.values()} & {*(await uids(sets)).values()}

    await scenario.eventually(none_of_the_deleted_set)
    await scenario.eventually(sets.all_count("hamburg"))
    await sets.scale(4)
    await scenario.eventually(sets.shares(bergen=2, hamburg=1, lubeck=1))


@pytest.mark.virtual
async def test_an_orphaned_set_is_taken_up_also_where_a_cluster_was_away(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(3)
    await scenario.eventually(sets.is_ready(3))
    before = await uids(sets)
    await scenario.always(sets.is_ready(3), timedelta(seconds=5))
    scenario.cut_off_from_broker("hamburg")

    await sets.delete_orphaning()
    await scenario.always(has_all(sets, before), timedelta(seconds=10))
    await resubmit(sets, 3)
    await scenario.always(has_all(sets, before), timedelta(minutes=2))
    scenario.network.heal("hamburg", BROKER)

    await scenario.eventually(sets.is_ready(3))
    await scenario.always(has_all(sets, before), timedelta(minutes=2))


async def test_two_sets_of_one_service_list_the_replicas_of_those_with_load_balancers(
    sets: StatefulSetsScenario,
) -> None:
    scenario, broker = sets.scenario, sets.admin(BROKER)
    await broker.create(headless("etcd", scenario.namespace))
    for name, notes in (("alpha", {}), ("store", {LB_NEEDED: "true"})):
        meta = Meta(name=name, namespace=scenario.namespace, annotations=notes)
        await broker.create(StatefulSet(metadata=meta, spec=spec_of(2)))
    await scenario.eventually(sets.is_ready(2))

    await scenario.settled()

    service = await broker.read(Service, "etcd", scenario.namespace)
    assert service.metadata.annotations[LB_NEEDED] == "true"
    listed = service.metadata.annotations["federation.kubernetes.io/stateful-replica-list"]
    assert listed == "store-bergen-0, store-hamburg-0"


async def test_a_set_does_not_take_over_an_older_one_of_another_kind(
    sets: StatefulSetsScenario,
) -> None:
    scenario, broker = sets.scenario, sets.admin(BROKER)
    template = StatefulSetTemplate(spec=msgspec.to_builtins(spec_of(3)))
    await broker.create(headless("etcd", scenario.namespace))
    meta = Meta(name="store", namespace=scenario.namespace)
    spec = FederatedStatefulSetSpec(template=template)
    await broker.create(FederatedStatefulSet(metadata=meta, spec=spec))
    await scenario.eventually(sets.shares(bergen=1, hamburg=1, lubeck=1))
    before = await uids(sets)
    await scenario.always(has_all(sets, before), timedelta(seconds=5))

    await broker.create(StatefulSet(metadata=meta, spec=spec_of(1, image="other:1")))

    told = await scenario.eventually(sets.has_conditions(Valid="NameTaken"))
    assert "older FederatedStatefulSet" in told["Valid"]
    await scenario.settled()
    assert await uids(sets) == before


async def test_a_set_whose_replicas_would_have_the_names_of_others_is_refused(
    sets: StatefulSetsScenario,
) -> None:
    scenario, broker = sets.scenario, sets.admin(BROKER)
    await sets.launch(3)
    await scenario.eventually(sets.shares(bergen=1, hamburg=1, lubeck=1))
    member = LeaseMeta(name="eu-lubeck", namespace=BROKER_NAMESPACE)
    spec = LeaseSpec(holder_identity="eu-lubeck", lease_duration_seconds=3)
    await broker.create(Lease(metadata=member, spec=spec))
    await scenario.eventually(sets.all_count("eu-lubeck", *HolderState))

    meta = Meta(name="store-eu", namespace=scenario.namespace)
    await broker.create(StatefulSet(metadata=meta, spec=spec_of(3)))

    async def told() -> None:
        younger = await broker.read(StatefulSet, "store-eu", scenario.namespace)
        valid = {c.type: c.message for c in younger.status.conditions if c.status == "False"}
        assert "'store-eu-lubeck-0'" in valid.get("Valid", ""), younger.status

    await scenario.eventually(told)
    for cluster in scenario.names:
        assert await sets.found(cluster, StatefulSet, f"store-eu-{cluster}") is None


async def test_a_rebuilt_cluster_starts_no_replica_with_an_empty_volume_untold(
    sets: StatefulSetsScenario,
) -> None:
    scenario, broker = sets.scenario, sets.admin(BROKER)
    await sets.launch(3)
    await scenario.eventually(sets.is_ready(3))
    await scenario.kill_agent("hamburg")
    report = part_name(scenario.namespace, "store", "hamburg")
    other = {"spec": {"clusterUID": "of-the-cluster-before"}}
    await broker.patch(StatefulSetPart, report, BROKER_NAMESPACE, other)
    await sets.admin("hamburg").delete(StatefulSet, "store-hamburg", scenario.namespace)

    await scenario.start_agents()
    told = await scenario.eventually(sets.has_conditions(Trouble="InClusters"))
    assert "hanse statefulsets accept" in told["Trouble"]
    await scenario.always(has_only(sets, "bergen", "lubeck"), timedelta(seconds=5))

    uid = (await sets.admin("hamburg").read(Namespace, "kube-system")).metadata.uid
    accepted = {"metadata": {"annotations": {ACCEPTED: uid}}}  # as `statefulsets accept` does
    await broker.patch(StatefulSetPart, report, BROKER_NAMESPACE, accepted)
    await scenario.eventually(sets.is_ready(3))


def has_only(sets: StatefulSetsScenario, *clusters: str) -> Check[None]:
    """That only these clusters run something."""

    async def check() -> None:
        for cluster in sets.scenario.names:
            own = await sets.found(cluster, StatefulSet, f"store-{cluster}")
            assert (own is not None) == (cluster in clusters), cluster

    return check


def has_all(sets: StatefulSetsScenario, before: dict[str, str]) -> Check[None]:
    """That the very same pods run."""

    async def check() -> None:
        assert await uids(sets) == before

    return check
