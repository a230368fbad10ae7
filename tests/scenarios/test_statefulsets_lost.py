"""A set that the broker has lost: only what was seen to be deleted is deleted where it runs."""

from datetime import timedelta

import pytest

from hanse.app import BROKER
from hanse.features.services.feature import BROKER_NAMESPACE
from hanse.kube.errors import NotFound
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Event
from hanse.model.kinds.stateful import StatefulSetPart
from hanse.model.objects import Meta
from tests.scenarios.shipyard import Shipyard, headless, spec_of
from tests.support.faults import Weather
from tests.support.stage import Check


async def test_a_broker_restored_from_before_a_set_existed_costs_no_replica(
    shipyard: Shipyard,
) -> None:
    stage = shipyard.stage
    backup = await stage.ground.back_up(BROKER)
    await shipyard.launch(4, balanced=True)
    await stage.eventually(shipyard.is_ready(4))
    pods = await uids(shipyard)
    await shipyard.scale(3)
    await stage.eventually(shipyard.is_ready(3))
    for cluster in stage.names:
        await stage.kill_agent(cluster)
    await stage.ground.restore(BROKER, backup)
    await stage.start_agents()  # none of them can know of another past than this

    await stage.eventually(is_told_lost(shipyard))
    await stage.settled()
    await shipyard.shares(bergen=1, hamburg=1, lubeck=1)()

    await resubmit(shipyard, 5)
    await stage.eventually(shipyard.is_ready(5))
    await shipyard.shares(bergen=2, hamburg=2, lubeck=1)()
    now = await uids(shipyard)
    assert {name: now[name] for name in now.keys() & pods.keys() if "-0" in name} == {
        name: uid for name, uid in pods.items() if "-0" in name
    }
    await shipyard.person(BROKER).delete(StatefulSet, "store", stage.shop)
    await stage.eventually(shipyard.is_gone())


@pytest.mark.virtual
async def test_agents_that_saw_the_restore_keep_what_runs_for_good_and_its_shares(
    shipyard: Shipyard,
) -> None:
    stage = shipyard.stage
    backup = await stage.ground.back_up(BROKER)
    await shipyard.launch(3)
    await stage.eventually(shipyard.is_ready(3))
    await shipyard.edit({"metadata": {"annotations": WISH}})
    await shipyard.scale(6)
    await stage.eventually(shipyard.shares(bergen=4, hamburg=1, lubeck=1))

    await stage.ground.restore(BROKER, backup)
    standing = shipyard.shares(bergen=4, hamburg=1, lubeck=1)
    await stage.always(standing, timedelta(minutes=5))

    await resubmit(shipyard, 6)
    await stage.always(standing, timedelta(minutes=5))
    await stage.eventually(shipyard.is_ready(6))
    with pytest.raises(AssertionError):
        await is_told_lost(shipyard)()


async def test_a_set_deleted_while_an_agent_was_away_goes_when_it_is_back(
    shipyard: Shipyard,
) -> None:
    stage = shipyard.stage
    await shipyard.launch(3, balanced=True)
    await stage.eventually(shipyard.is_ready(3))
    await stage.kill_agent("lubeck")

    await shipyard.person(BROKER).delete(StatefulSet, "store", stage.shop)
    await stage.eventually(has_none(shipyard, "bergen", "hamburg"))
    assert await shipyard.found("lubeck", StatefulSet, "store-lubeck") is not None
    await stage.start_agent("lubeck")

    await stage.eventually(shipyard.is_gone())


@pytest.mark.virtual
async def test_it_goes_too_where_the_broker_is_slowly_read(shipyard: Shipyard) -> None:
    stage = shipyard.stage
    await shipyard.launch(3)
    await stage.eventually(shipyard.is_ready(3))
    await stage.kill_agent("lubeck")
    await shipyard.person(BROKER).delete(StatefulSet, "store", stage.shop)
    await stage.eventually(has_none(shipyard, "bergen", "hamburg"))

    stage.network.link("lubeck", BROKER).weather = Weather(late="nodes")
    await stage.start_agent("lubeck")

    await stage.eventually(shipyard.is_gone())


@pytest.mark.virtual
@pytest.mark.parametrize("moment", range(1, 9))
async def test_a_set_goes_though_the_agent_dies_at_any_request_of_its_beginning_or_end(
    shipyard: Shipyard, moment: int
) -> None:
    stage = shipyard.stage
    crash = stage.network.crash_at(moment)
    await shipyard.launch(3)
    await stage.eventually(lambda: _happened(crash.done()))
    await stage.kill_agent(crash.result())
    await shipyard.person(BROKER).delete(StatefulSet, "store", stage.shop)
    crash = stage.network.crash_at(moment)
    await stage.start_agents()
    await stage.eventually(lambda: _happened(crash.done()))
    await stage.kill_agent(crash.result())
    await stage.start_agents()

    await stage.eventually(shipyard.is_gone())


@pytest.mark.virtual
async def test_what_a_lost_set_left_goes_when_people_delete_it(shipyard: Shipyard) -> None:
    stage = shipyard.stage
    await shipyard.launch(3, balanced=True)
    await stage.eventually(shipyard.is_ready(3))
    for cluster in stage.names:
        await stage.kill_agent(cluster)
    door = shipyard.person(BROKER)
    await door.delete(StatefulSet, "store", stage.shop)
    for part in await parts(shipyard):
        await door.delete(StatefulSetPart, part.metadata.name, BROKER_NAMESPACE)
    await stage.start_agents()
    await stage.eventually(is_told_lost(shipyard))

    for cluster in stage.names:
        await shipyard.person(cluster).delete(StatefulSet, f"store-{cluster}", stage.shop)

    await stage.eventually(shipyard.is_gone())


WISH = {
    "federation.kubernetes.io/statefulset-preferences": '{"clusters": {"bergen": {}, '
    '"hamburg": {"maxReplicas": 1}, "lubeck": {"maxReplicas": 1}}}'
}


async def resubmit(shipyard: Shipyard, replicas: int) -> None:
    """Submit the set again, and its Service where that was lost too."""
    shop, door = shipyard.stage.shop, shipyard.person(BROKER)
    try:
        await door.read(type(headless("etcd", shop)), "etcd", shop)
    except NotFound:
        await door.create(headless("etcd", shop))
    meta = Meta(name="store", namespace=shop)
    await door.create(StatefulSet(metadata=meta, spec=spec_of(replicas)))


async def parts(shipyard: Shipyard) -> list[StatefulSetPart]:
    """What clusters report of the set."""
    found = (await shipyard.person(BROKER).list(StatefulSetPart)).objects
    return [p for p in found if p.spec.namespace == shipyard.stage.shop]


async def uids(shipyard: Shipyard) -> dict[str, str]:
    """Every pod of the set in all clusters, by name."""
    return {
        name: pod.metadata.uid
        for cluster in shipyard.stage.names
        for name, pod in (await shipyard.pods(cluster)).items()
    }


def is_told_lost(shipyard: Shipyard) -> Check[None]:
    """That every cluster says at the broker, and by an Event at home, what it runs on."""

    async def check() -> None:
        told = {p.spec.cluster: p.spec.trouble for p in await parts(shipyard)}
        assert told.keys() == set(shipyard.stage.names), told
        for cluster, trouble in told.items():
            assert f"StatefulSet store-{cluster} runs on" in trouble, trouble
            events = await shipyard.listed(cluster, Event)
            assert "Lost" in {e.reason for e in events}

    return check


def has_none(shipyard: Shipyard, *clusters: str) -> Check[None]:
    """That these clusters have no StatefulSet of the set any more."""

    async def check() -> None:
        for cluster in clusters:
            assert await shipyard.found(cluster, StatefulSet, f"store-{cluster}") is None

    return check


async def _happened(it: bool) -> None:
    assert it
