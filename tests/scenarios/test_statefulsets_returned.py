"""A cluster restored to before a set was deleted: what was decided since is done again there."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hanse.app import BROKER
from hanse.features.statefulsets.names import part_name
from hanse.kube.transport import Request
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Event, Service
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetPartSpec
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import Meta
from hanse.model.ownership import OWNER
from tests.scenarios.statefulsets import StatefulSetsScenario, headless, spec_of
from tests.support.scenario import Check

HERE = "lubeck"


async def test_a_cluster_restored_to_before_a_set_was_deleted_takes_it_away_again(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(3, balanced=True)
    await scenario.eventually(sets.is_ready(3))
    claims = await sets.claims(HERE)
    backup = await scenario.testbed.back_up(HERE)
    await sets.admin(BROKER).delete(StatefulSet, "store", scenario.namespace)
    await scenario.eventually(sets.is_gone())
    await scenario.kill_agent(HERE)

    await scenario.testbed.restore(HERE, backup)
    assert await sets.found(HERE, StatefulSet, "store-lubeck") is not None
    await scenario.start_agent(HERE)

    await scenario.eventually(sets.is_gone())
    await scenario.eventually(has_said(sets, "Returned"))
    assert await sets.claims(HERE) == claims, "storage is the cluster's own"


@pytest.mark.virtual
async def test_an_agent_that_saw_the_restore_does_the_same_and_then_writes_nothing(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(3)
    await scenario.eventually(sets.is_ready(3))
    backup = await scenario.testbed.back_up(HERE)
    await sets.admin(BROKER).delete(StatefulSet, "store", scenario.namespace)
    await scenario.eventually(sets.is_gone())

    await scenario.testbed.restore(HERE, backup)

    await scenario.eventually(has_said(sets, "Returned"))
    await scenario.eventually(sets.is_gone())
    await scenario.settled()
    assert not await scenario.writes_during(timedelta(minutes=10))


@pytest.mark.virtual
async def test_a_part_that_was_scaled_away_before_the_set_was_deleted_is_known_too(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(3)
    await scenario.eventually(sets.is_ready(3))
    backup = await scenario.testbed.back_up(HERE)
    await sets.scale(2)
    await scenario.eventually(sets.shares(bergen=1, hamburg=1))
    await sets.admin(BROKER).delete(StatefulSet, "store", scenario.namespace)
    await scenario.eventually(sets.is_gone())

    await scenario.testbed.restore(HERE, backup)

    await scenario.eventually(has_said(sets, "Returned"))
    await scenario.eventually(sets.is_gone())


@pytest.mark.virtual
async def test_what_users_create_again_on_purpose_runs_on_and_is_reported(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(3)
    await scenario.eventually(sets.is_ready(3))
    saved = await sets.admin(HERE).read(StatefulSet, "store-lubeck", scenario.namespace)
    await sets.admin(BROKER).delete(StatefulSet, "store", scenario.namespace)
    await scenario.eventually(sets.is_gone())

    meta = replace(saved.metadata, uid="", resource_version="")  # as backup tools put it back
    made = await sets.admin(HERE).create(replace(saved, metadata=meta))

    await scenario.eventually(has_said(sets, "Lost"))
    await scenario.always(runs_on(sets, made.metadata.uid), timedelta(minutes=5))
    message = (await report(sets)).trouble
    assert f"kubectl -n {scenario.namespace} delete statefulset store-lubeck" in message
    await sets.admin(HERE).delete(StatefulSet, "store-lubeck", scenario.namespace)
    await scenario.eventually(sets.is_gone())


@pytest.mark.virtual
async def test_who_deletes_the_record_keeps_what_came_back_and_a_new_set_takes_it_up(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await scenario.lengthen_leases()  # no cluster counts as dead meanwhile
    await sets.launch(3)
    await scenario.eventually(sets.is_ready(3))
    backup = await scenario.testbed.back_up(HERE)
    await sets.admin(BROKER).delete(StatefulSet, "store", scenario.namespace)
    await scenario.eventually(sets.is_gone())
    await scenario.kill_agent(HERE)
    await scenario.testbed.restore(HERE, backup)
    back = await sets.admin(HERE).read(StatefulSet, "store-lubeck", scenario.namespace)

    name = part_name(scenario.namespace, "store", HERE)
    await sets.admin(BROKER).delete(StatefulSetPart, name, BROKER_NAMESPACE)
    await scenario.start_agent(HERE)
    await scenario.eventually(has_said(sets, "Lost"))
    await scenario.always(runs_on(sets, back.metadata.uid), timedelta(minutes=5))

    await sets.admin(BROKER).delete(Service, "etcd", scenario.namespace)
    await sets.launch(3)
    await scenario.eventually(sets.is_ready(3))
    await runs_on(sets, back.metadata.uid)()


@pytest.mark.virtual
async def test_what_was_let_go_of_is_let_go_of_again(sets: StatefulSetsScenario) -> None:
    scenario = sets.scenario
    await sets.launch(3)
    await scenario.eventually(sets.is_ready(3))
    backup = await scenario.testbed.back_up(HERE)
    path = f"/apis/apps/v1/namespaces/{scenario.namespace}/statefulsets/store"
    body = msgspec.json.encode({"propagationPolicy": "Orphan"})
    await sets.admin(BROKER).send(Request("DELETE", path, body=body))
    await scenario.eventually(is_nobodys(sets))

    await scenario.testbed.restore(HERE, backup)

    await scenario.eventually(is_nobodys(sets))
    await scenario.settled()
    await is_nobodys(sets)()


@pytest.mark.virtual
async def test_a_set_whose_claims_would_be_deleted_is_left_to_users(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.admin(BROKER).create(headless("etcd", scenario.namespace))
    policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    await submit(sets, persistent_volume_claim_retention_policy=policy)
    await scenario.eventually(sets.is_ready(3))
    backup = await scenario.testbed.back_up(HERE)
    await sets.admin(BROKER).delete(StatefulSet, "store", scenario.namespace)
    await scenario.eventually(sets.is_gone())
    await scenario.kill_agent(HERE)

    await scenario.testbed.restore(HERE, backup)
    back = await sets.admin(HERE).read(StatefulSet, "store-lubeck", scenario.namespace)
    await scenario.start_agent(HERE)

    await scenario.eventually(has_said(sets, "Returned"))
    await scenario.always(runs_on(sets, back.metadata.uid), timedelta(minutes=5))
    message = (await report(sets)).trouble
    assert "its claims would go with it" in message
    assert f"kubectl -n {scenario.namespace} delete statefulset store-lubeck" in message
    await sets.admin(HERE).delete(StatefulSet, "store-lubeck", scenario.namespace)
    await scenario.eventually(sets.is_gone())


async def submit(sets: StatefulSetsScenario, **fields: Any) -> None:
    """Submit three replicas with more of a spec than usual."""
    meta = Meta(name="store", namespace=sets.scenario.namespace)
    await sets.admin(BROKER).create(StatefulSet(metadata=meta, spec=spec_of(3, **fields)))


async def report(sets: StatefulSetsScenario) -> StatefulSetPartSpec:
    """What the cluster says of its part."""
    name = part_name(sets.scenario.namespace, "store", HERE)
    return (await sets.admin(BROKER).read(StatefulSetPart, name, BROKER_NAMESPACE)).spec


def has_said(sets: StatefulSetsScenario, reason: str) -> Check[None]:
    """That an Event about the cluster's StatefulSet had this reason."""

    async def check() -> None:
        about = [
            e for e in await sets.listed(HERE, Event) if e.involved_object.name == "store-lubeck"
        ]
        assert reason in {e.reason for e in about}, [(e.reason, e.message) for e in about]

    return check


def runs_on(sets: StatefulSetsScenario, uid: str) -> Check[None]:
    """That the cluster's StatefulSet is the very one."""

    async def check() -> None:
        own = await sets.found(HERE, StatefulSet, "store-lubeck")
        assert own is not None
        assert own.metadata.uid == uid
        assert own.metadata.deletion_timestamp is None

    return check


def is_nobodys(sets: StatefulSetsScenario) -> Check[None]:
    """That every cluster's StatefulSet runs and none is ours."""

    async def check() -> None:
        for cluster in sets.scenario.names:
            own = await sets.found(cluster, StatefulSet, f"store-{cluster}")
            assert own is not None
            assert OWNER not in own.metadata.labels

    return check
