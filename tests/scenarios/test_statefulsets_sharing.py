"""Several sets with one headless Service: it serves all of them and is deleted with the last."""

import msgspec
import pytest

from hanse.app import BROKER
from hanse.kube.transport import Request
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Service
from hanse.model.kinds.hanse import (
    FederatedStatefulSet,
    FederatedStatefulSetSpec,
    StatefulSetTemplate,
)
from hanse.model.objects import Meta
from hanse.model.ownership import OWNER
from tests.scenarios.statefulsets import StatefulSetsScenario, headless, spec_of
from tests.support.scenario import Check

HOST = "hamburg"


@pytest.mark.virtual
@pytest.mark.parametrize("names", [("alpha", "store"), ("store", "alpha")], ids=["before", "after"])
async def test_two_sets_share_a_service_and_the_last_takes_it_along(
    sets: StatefulSetsScenario, names: tuple[str, str]
) -> None:
    scenario = sets.scenario
    await sets.admin(BROKER).create(headless("etcd", scenario.namespace))
    for name in names:
        await submit(sets, name)
        await scenario.eventually(reports_ready(sets, name))
    service = await uids(sets)

    await sets.admin(BROKER).delete(StatefulSet, names[0], scenario.namespace)
    await scenario.eventually(has_no_set(sets, names[0]))
    await scenario.settled()
    assert await uids(sets) == service, "it was never away"
    await reports_ready(sets, names[1])()

    await sets.admin(BROKER).delete(StatefulSet, names[1], scenario.namespace)
    await scenario.eventually(sets.is_gone())
    for cluster in scenario.names:
        assert await sets.found(cluster, Service, "etcd") is None


@pytest.mark.virtual
async def test_a_set_that_is_let_go_of_leaves_the_service_to_the_other(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.admin(BROKER).create(headless("etcd", scenario.namespace))
    for name in ("alpha", "store"):
        await submit(sets, name)
        await scenario.eventually(reports_ready(sets, name))

    path = f"/apis/apps/v1/namespaces/{scenario.namespace}/statefulsets/alpha"
    body = msgspec.json.encode({"propagationPolicy": "Orphan"})
    await sets.admin(BROKER).send(Request("DELETE", path, body=body))

    async def let_go() -> None:
        for cluster in scenario.names:
            own = await sets.found(cluster, StatefulSet, f"alpha-{cluster}")
            assert own is not None
            assert OWNER not in own.metadata.labels
            service = await sets.found(cluster, Service, "etcd")
            assert service is not None
            assert service.metadata.labels["statefulsets.hanse.dev/set"] == "store"
            assert OWNER in service.metadata.labels

    await scenario.eventually(let_go)


@pytest.mark.virtual
async def test_two_sets_of_a_host_share_a_service(sets: StatefulSetsScenario) -> None:
    scenario, host = sets.scenario, sets.admin(HOST)
    await host.create(headless("etcd", scenario.namespace))
    for name in ("alpha", "store"):
        template = StatefulSetTemplate(spec=msgspec.to_builtins(spec_of(3)))
        meta = Meta(name=name, namespace=scenario.namespace)
        spec = FederatedStatefulSetSpec(template=template)
        await host.create(FederatedStatefulSet(metadata=meta, spec=spec))
        await scenario.eventually(runs_everywhere(sets, name))
    there = await sets.admin(BROKER).read(Service, "etcd", scenario.namespace)

    await host.delete(FederatedStatefulSet, "alpha", scenario.namespace)
    await scenario.eventually(has_no_set(sets, "alpha"))
    await scenario.settled()

    still = await sets.admin(BROKER).read(Service, "etcd", scenario.namespace)
    assert still.metadata.uid == there.metadata.uid, "it was never away"
    await runs_everywhere(sets, "store")()
    await host.delete(FederatedStatefulSet, "store", scenario.namespace)
    await scenario.eventually(has_no_set(sets, "store"))
    await scenario.settled()
    assert await sets.found(BROKER, Service, "etcd") is None


async def submit(sets: StatefulSetsScenario, name: str) -> None:
    meta = Meta(name=name, namespace=sets.scenario.namespace)
    await sets.admin(BROKER).create(StatefulSet(metadata=meta, spec=spec_of(3)))


async def uids(sets: StatefulSetsScenario) -> dict[str, str]:
    """The headless Service of every cluster."""
    names = sets.scenario.names
    found = {c: await sets.found(c, Service, "etcd") for c in names}
    return {c: s.metadata.uid for c, s in found.items() if s is not None}


def reports_ready(sets: StatefulSetsScenario, name: str) -> Check[None]:
    """That all replicas of a set are ready and nothing is in their way."""

    async def check() -> None:
        submitted = await sets.admin(BROKER).read(StatefulSet, name, sets.scenario.namespace)
        conditions = {c.type: c for c in submitted.status.conditions}
        assert "Ready" in conditions
        assert conditions["Ready"].status == "True", conditions
        assert "Trouble" not in conditions, conditions["Trouble"].message

    return check


def runs_everywhere(sets: StatefulSetsScenario, name: str) -> Check[None]:
    """That every cluster runs one replica of a set."""

    async def check() -> None:
        for cluster in sets.scenario.names:
            own = await sets.found(cluster, StatefulSet, f"{name}-{cluster}")
            assert own is not None
            assert own.status.ready_replicas == 1

    return check


def has_no_set(sets: StatefulSetsScenario, name: str) -> Check[None]:
    """That no cluster runs anything of a set."""

    async def check() -> None:
        for cluster in sets.scenario.names:
            assert await sets.found(cluster, StatefulSet, f"{name}-{cluster}") is None

    return check
