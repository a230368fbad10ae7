"""A cluster restored to before a set was deleted: what was decided since is done again there."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hanse.app import BROKER
from hanse.features.services.feature import BROKER_NAMESPACE
from hanse.features.statefulsets.names import part_name
from hanse.kube.request import Request
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Event, Service
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetPartSpec
from hanse.model.labels import OWNER
from hanse.model.objects import Meta
from tests.scenarios.shipyard import Shipyard, headless, spec_of
from tests.support.stage import Check

HERE = "lubeck"


async def test_a_cluster_restored_to_before_a_set_was_deleted_takes_it_away_again(
    shipyard: Shipyard,
) -> None:
    stage = shipyard.stage
    await shipyard.launch(3, balanced=True)
    await stage.eventually(shipyard.is_ready(3))
    claims = await shipyard.claims(HERE)
    backup = await stage.ground.back_up(HERE)
    await shipyard.person(BROKER).delete(StatefulSet, "store", stage.shop)
    await stage.eventually(shipyard.is_gone())
    await stage.kill_agent(HERE)

    await stage.ground.restore(HERE, backup)
    assert await shipyard.found(HERE, StatefulSet, "store-lubeck") is not None
    await stage.start_agent(HERE)

    await stage.eventually(shipyard.is_gone())
    await stage.eventually(has_said(shipyard, "Returned"))
    assert await shipyard.claims(HERE) == claims, "storage is the cluster's own"


@pytest.mark.virtual
async def test_an_agent_that_saw_the_restore_does_the_same_and_then_writes_nothing(
    shipyard: Shipyard,
) -> None:
    stage = shipyard.stage
    await shipyard.launch(3)
    await stage.eventually(shipyard.is_ready(3))
    backup = await stage.ground.back_up(HERE)
    await shipyard.person(BROKER).delete(StatefulSet, "store", stage.shop)
    await stage.eventually(shipyard.is_gone())

    await stage.ground.restore(HERE, backup)

    await stage.eventually(has_said(shipyard, "Returned"))
    await stage.eventually(shipyard.is_gone())
    await stage.settled()
    assert not await stage.writes_during(timedelta(minutes=10))


@pytest.mark.virtual
async def test_a_part_that_was_scaled_away_before_the_set_was_deleted_is_known_too(
    shipyard: Shipyard,
) -> None:
    stage = shipyard.stage
    await shipyard.launch(3)
    await stage.eventually(shipyard.is_ready(3))
    backup = await stage.ground.back_up(HERE)
    await shipyard.scale(2)
    await stage.eventually(shipyard.shares(bergen=1, hamburg=1))
    await shipyard.person(BROKER).delete(StatefulSet, "store", stage.shop)
    await stage.eventually(shipyard.is_gone())

    await stage.ground.restore(HERE, backup)

    await stage.eventually(has_said(shipyard, "Returned"))
    await stage.eventually(shipyard.is_gone())


@pytest.mark.virtual
async def test_what_people_make_again_on_purpose_runs_on_and_is_told(shipyard: Shipyard) -> None:
    stage = shipyard.stage
    await shipyard.launch(3)
    await stage.eventually(shipyard.is_ready(3))
    saved = await shipyard.person(HERE).read(StatefulSet, "store-lubeck", stage.shop)
    await shipyard.person(BROKER).delete(StatefulSet, "store", stage.shop)
    await stage.eventually(shipyard.is_gone())

    meta = replace(saved.metadata, uid="", resource_version="")  # as backup tools put it back
    made = await shipyard.person(HERE).create(replace(saved, metadata=meta))

    await stage.eventually(has_said(shipyard, "Lost"))
    await stage.always(runs_on(shipyard, made.metadata.uid), timedelta(minutes=5))
    told = (await report(shipyard)).trouble
    assert f"kubectl -n {stage.shop} delete statefulset store-lubeck" in told
    await shipyard.person(HERE).delete(StatefulSet, "store-lubeck", stage.shop)
    await stage.eventually(shipyard.is_gone())


@pytest.mark.virtual
async def test_who_deletes_the_record_keeps_what_came_back_and_a_new_set_takes_it_up(
    shipyard: Shipyard,
) -> None:
    stage = shipyard.stage
    await shipyard.lengthen_leases()  # no cluster counts as dead meanwhile
    await shipyard.launch(3)
    await stage.eventually(shipyard.is_ready(3))
    backup = await stage.ground.back_up(HERE)
    await shipyard.person(BROKER).delete(StatefulSet, "store", stage.shop)
    await stage.eventually(shipyard.is_gone())
    await stage.kill_agent(HERE)
    await stage.ground.restore(HERE, backup)
    back = await shipyard.person(HERE).read(StatefulSet, "store-lubeck", stage.shop)

    name = part_name(stage.shop, "store", HERE)
    await shipyard.person(BROKER).delete(StatefulSetPart, name, BROKER_NAMESPACE)
    await stage.start_agent(HERE)
    await stage.eventually(has_said(shipyard, "Lost"))
    await stage.always(runs_on(shipyard, back.metadata.uid), timedelta(minutes=5))

    await shipyard.person(BROKER).delete(Service, "etcd", stage.shop)
    await shipyard.launch(3)
    await stage.eventually(shipyard.is_ready(3))
    await runs_on(shipyard, back.metadata.uid)()


@pytest.mark.virtual
async def test_what_was_let_go_of_is_let_go_of_again(shipyard: Shipyard) -> None:
    stage = shipyard.stage
    await shipyard.launch(3)
    await stage.eventually(shipyard.is_ready(3))
    backup = await stage.ground.back_up(HERE)
    path = f"/apis/apps/v1/namespaces/{stage.shop}/statefulsets/store"
    body = msgspec.json.encode({"propagationPolicy": "Orphan"})
    await shipyard.person(BROKER).send(Request("DELETE", path, body=body))
    await stage.eventually(is_nobodys(shipyard))

    await stage.ground.restore(HERE, backup)

    await stage.eventually(is_nobodys(shipyard))
    await stage.settled()
    await is_nobodys(shipyard)()


@pytest.mark.virtual
async def test_what_would_take_its_claims_along_is_left_to_people(shipyard: Shipyard) -> None:
    stage = shipyard.stage
    await shipyard.person(BROKER).create(headless("etcd", stage.shop))
    policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    await submit(shipyard, persistent_volume_claim_retention_policy=policy)
    await stage.eventually(shipyard.is_ready(3))
    backup = await stage.ground.back_up(HERE)
    await shipyard.person(BROKER).delete(StatefulSet, "store", stage.shop)
    await stage.eventually(shipyard.is_gone())
    await stage.kill_agent(HERE)

    await stage.ground.restore(HERE, backup)
    back = await shipyard.person(HERE).read(StatefulSet, "store-lubeck", stage.shop)
    await stage.start_agent(HERE)

    await stage.eventually(has_said(shipyard, "Returned"))
    await stage.always(runs_on(shipyard, back.metadata.uid), timedelta(minutes=5))
    told = (await report(shipyard)).trouble
    assert "its claims would go with it" in told
    assert f"kubectl -n {stage.shop} delete statefulset store-lubeck" in told
    await shipyard.person(HERE).delete(StatefulSet, "store-lubeck", stage.shop)
    await stage.eventually(shipyard.is_gone())


async def submit(shipyard: Shipyard, **fields: Any) -> None:
    """Submit three replicas with more of a spec than usual."""
    meta = Meta(name="store", namespace=shipyard.stage.shop)
    await shipyard.person(BROKER).create(StatefulSet(metadata=meta, spec=spec_of(3, **fields)))


async def report(shipyard: Shipyard) -> StatefulSetPartSpec:
    """What the cluster says of its part."""
    name = part_name(shipyard.stage.shop, "store", HERE)
    return (await shipyard.person(BROKER).read(StatefulSetPart, name, BROKER_NAMESPACE)).spec


def has_said(shipyard: Shipyard, reason: str) -> Check[None]:
    """That an Event about the cluster's StatefulSet had this reason."""

    async def check() -> None:
        about = [
            e
            for e in await shipyard.listed(HERE, Event)
            if e.involved_object.name == "store-lubeck"
        ]
        assert reason in {e.reason for e in about}, [(e.reason, e.message) for e in about]

    return check


def runs_on(shipyard: Shipyard, uid: str) -> Check[None]:
    """That the cluster's StatefulSet is the very one."""

    async def check() -> None:
        own = await shipyard.found(HERE, StatefulSet, "store-lubeck")
        assert own is not None
        assert own.metadata.uid == uid
        assert own.metadata.deletion_timestamp is None

    return check


def is_nobodys(shipyard: Shipyard) -> Check[None]:
    """That every cluster's StatefulSet runs and none is ours."""

    async def check() -> None:
        for cluster in shipyard.stage.names:
            own = await shipyard.found(cluster, StatefulSet, f"store-{cluster}")
            assert own is not None
            assert OWNER not in own.metadata.labels

    return check
