"""A set that the broker has lost: only what was observed to be deleted is deleted."""

from datetime import timedelta

import pytest

from hanse.app import BROKER
from hanse.kube.errors import NotFound
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Event, Namespace
from hanse.model.kinds.stateful import StatefulSetPart
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import Meta
from tests.scenarios.statefulsets import StatefulSetsScenario, headless, spec_of
from tests.support.faults import LinkFaults
from tests.support.scenario import Check


async def test_a_broker_restored_from_before_a_set_existed_costs_no_replica(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    backup = await scenario.testbed.back_up(BROKER)
    await sets.launch(4, balanced=True)
    await scenario.eventually(sets.is_ready(4))
    pods = await uids(sets)
    await sets.scale(3)
    await scenario.eventually(sets.is_ready(3))
    for cluster in scenario.names:
        await scenario.kill_agent(cluster)
    await scenario.testbed.restore(BROKER, backup)
    await scenario.start_agents()  # none of them can know of another past than this

    await scenario.eventually(reports_lost(sets))
    await scenario.settled()
    await sets.shares(bergen=1, hamburg=1, lubeck=1)()

    await resubmit(sets, 5)
    await scenario.eventually(sets.is_ready(5))
    await sets.shares(bergen=2, hamburg=2, lubeck=1)()
    now = await uids(sets)
    assert {name: now[name] for name in now.keys() & pods.keys() if "-0" in name} == {
        name: uid for name, uid in pods.items() if "-0" in name
    }
    await sets.admin(BROKER).delete(StatefulSet, "store", scenario.namespace)
    await scenario.eventually(sets.is_gone())


@pytest.mark.virtual
async def test_agents_that_saw_the_restore_keep_what_runs_for_good_and_its_shares(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    backup = await scenario.testbed.back_up(BROKER)
    await sets.launch(3)
    await scenario.eventually(sets.is_ready(3))
    await sets.edit({"metadata": {"annotations": WISH}})
    await sets.scale(6)
    await scenario.eventually(sets.shares(bergen=4, hamburg=1, lubeck=1))

    await scenario.testbed.restore(BROKER, backup)
    unchanged = sets.shares(bergen=4, hamburg=1, lubeck=1)
    await scenario.always(unchanged, timedelta(minutes=5))

    await resubmit(sets, 6)
    await scenario.always(unchanged, timedelta(minutes=5))
    await scenario.eventually(sets.is_ready(6))
    with pytest.raises(AssertionError):
        await reports_lost(sets)()


async def test_a_set_deleted_while_an_agent_was_away_goes_when_it_is_back(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(3, balanced=True)
    await scenario.eventually(sets.is_ready(3))
    await scenario.kill_agent("lubeck")

    await sets.admin(BROKER).delete(StatefulSet, "store", scenario.namespace)
    await scenario.eventually(has_none(sets, "bergen", "hamburg"))
    assert await sets.found("lubeck", StatefulSet, "store-lubeck") is not None
    await scenario.start_agent("lubeck")

    await scenario.eventually(sets.is_gone())


@pytest.mark.virtual
async def test_it_goes_too_where_the_broker_is_slowly_read(sets: StatefulSetsScenario) -> None:
    scenario = sets.scenario
    await sets.launch(3)
    await scenario.eventually(sets.is_ready(3))
    await scenario.kill_agent("lubeck")
    await sets.admin(BROKER).delete(StatefulSet, "store", scenario.namespace)
    await scenario.eventually(has_none(sets, "bergen", "hamburg"))

    scenario.network.link("lubeck", BROKER).faults = LinkFaults(late="nodes")
    await scenario.start_agent("lubeck")

    await scenario.eventually(sets.is_gone())


@pytest.mark.virtual
@pytest.mark.parametrize("moment", range(1, 9))
async def test_a_set_goes_though_the_agent_dies_at_any_request_of_its_beginning_or_end(
    sets: StatefulSetsScenario, moment: int
) -> None:
    scenario = sets.scenario
    crash = scenario.network.crash_at(moment)
    await sets.launch(3)
    await scenario.eventually(lambda: _happened(crash.done()))
    await scenario.kill_agent(crash.result())
    await sets.admin(BROKER).delete(StatefulSet, "store", scenario.namespace)
    crash = scenario.network.crash_at(moment)
    await scenario.start_agents()
    await scenario.eventually(lambda: _happened(crash.done()))
    await scenario.kill_agent(crash.result())
    await scenario.start_agents()

    await scenario.eventually(sets.is_gone())


@pytest.mark.virtual
async def test_what_a_lost_set_left_goes_when_users_delete_it(sets: StatefulSetsScenario) -> None:
    scenario = sets.scenario
    await sets.launch(3, balanced=True)
    await scenario.eventually(sets.is_ready(3))
    for cluster in scenario.names:
        await scenario.kill_agent(cluster)
    broker = sets.admin(BROKER)
    await broker.delete(StatefulSet, "store", scenario.namespace)
    for part in await parts(sets):
        await broker.delete(StatefulSetPart, part.metadata.name, BROKER_NAMESPACE)
    await scenario.start_agents()
    await scenario.eventually(reports_lost(sets))

    for cluster in scenario.names:
        await sets.admin(cluster).delete(StatefulSet, f"store-{cluster}", scenario.namespace)

    await scenario.eventually(sets.is_gone())


@pytest.mark.virtual
async def test_a_set_stands_where_the_end_of_the_brokers_namespace_is_seen_last(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(4, balanced=True)
    await scenario.eventually(sets.is_ready(4))
    await scenario.settled()
    pods, start = await uids(sets), len(scenario.network.sent)
    for cluster in scenario.names:
        late = LinkFaults(lag=timedelta(seconds=10), lags="namespaces")
        scenario.network.link(cluster, BROKER).faults = late

    await sets.admin(BROKER).delete(Namespace, BROKER_NAMESPACE, "")
    await scenario.always(sets.shares(bergen=2, hamburg=1, lubeck=1), timedelta(minutes=1))

    assert await uids(sets) == pods
    assert {s.target for s in scenario.writes_since(start)} <= {BROKER}


WISH = {
    "federation.kubernetes.io/statefulset-preferences": '{"clusters": {"bergen": {}, '
    '"hamburg": {"maxReplicas": 1}, "lubeck": {"maxReplicas": 1}}}'
}


async def resubmit(sets: StatefulSetsScenario, replicas: int) -> None:
    """Submit the set again, and its Service where that was lost too."""
    namespace, broker = sets.scenario.namespace, sets.admin(BROKER)
    try:
        await broker.read(type(headless("etcd", namespace)), "etcd", namespace)
    except NotFound:
        await broker.create(headless("etcd", namespace))
    meta = Meta(name="store", namespace=namespace)
    await broker.create(StatefulSet(metadata=meta, spec=spec_of(replicas)))


async def parts(sets: StatefulSetsScenario) -> list[StatefulSetPart]:
    """What clusters report of the set."""
    found = (await sets.admin(BROKER).list(StatefulSetPart)).objects
    return [p for p in found if p.spec.namespace == sets.scenario.namespace]


async def uids(sets: StatefulSetsScenario) -> dict[str, str]:
    """Every pod of the set in all clusters, by name."""
    return {
        name: pod.metadata.uid
        for cluster in sets.scenario.names
        for name, pod in (await sets.pods(cluster)).items()
    }


def reports_lost(sets: StatefulSetsScenario) -> Check[None]:
    """That every cluster reports to the broker, and by an Event, what runs on."""

    async def check() -> None:
        reported = {p.spec.cluster: p.spec.trouble for p in await parts(sets)}
        assert reported.keys() == set(sets.scenario.names), reported
        for cluster, trouble in reported.items():
            assert f"StatefulSet store-{cluster} runs on" in trouble, trouble
            events = await sets.listed(cluster, Event)
            assert "Lost" in {e.reason for e in events}

    return check


def has_none(sets: StatefulSetsScenario, *clusters: str) -> Check[None]:
    """That these clusters have no StatefulSet of the set any more."""

    async def check() -> None:
        for cluster in clusters:
            assert await sets.found(cluster, StatefulSet, f"store-{cluster}") is None

    return check


async def _happened(it: bool) -> None:
    assert it
