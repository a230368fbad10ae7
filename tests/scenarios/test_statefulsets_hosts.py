"""A FederatedStatefulSet in a host cluster behaves like a set at the broker."""

from datetime import timedelta

import msgspec
import pytest

from hanse.app import BROKER
from hanse.kube.transport import Request
from hanse.model.conditions import find_condition
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Namespace, Service
from hanse.model.kinds.hanse import (
    ClusterPreference,
    FederatedStatefulSet,
    FederatedStatefulSetSpec,
    Placement,
    StatefulSetTemplate,
    TemplateMeta,
)
from hanse.model.kinds.stateful import StatefulSetShares
from hanse.model.objects import Meta
from hanse.model.ownership import OWNER
from tests.scenarios.statefulsets import StatefulSetsScenario, headless, spec_of
from tests.support.faults import LinkFaults
from tests.support.scenario import Check

HOST = "hamburg"


async def submit(
    sets: StatefulSetsScenario, replicas: int = 3, *, balanced: bool = False, **placement: int
) -> None:
    """Submit the design's example to the host cluster."""
    namespace, host = sets.scenario.namespace, sets.admin(HOST)
    await host.create(headless("etcd", namespace))
    annotations = {"federation.kubernetes.io/statefulset-lb-needed": "true"} if balanced else {}
    template = StatefulSetTemplate(
        spec=msgspec.to_builtins(spec_of(replicas)), metadata=TemplateMeta(annotations=annotations)
    )
    preferences = tuple(ClusterPreference(name=c, weight=w) for c, w in placement.items())
    spec = FederatedStatefulSetSpec(template=template, placement=Placement(clusters=preferences))
    await host.create(
        FederatedStatefulSet(metadata=Meta(name="store", namespace=namespace), spec=spec)
    )


def is_ready(sets: StatefulSetsScenario, ready: int) -> Check[FederatedStatefulSet]:
    """That the host's set says so, and from which clusters."""

    async def check() -> FederatedStatefulSet:
        found = await sets.found(HOST, FederatedStatefulSet, "store")
        assert found is not None
        assert found.status.observed_generation == found.metadata.generation, found.status
        assert (found.replicas, found.status.ready_replicas) == (ready, ready), found.status
        return found

    return check


async def test_a_hosts_set_is_placed_scaled_and_has_its_status_at_the_host(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await submit(sets, 4, balanced=True, bergen=2)

    await scenario.eventually(sets.shares(bergen=2, hamburg=1, lubeck=1))
    hosted = await scenario.eventually(is_ready(sets, 4))
    assert {c.name: c.ready_replicas for c in hosted.status.clusters} == {
        "bergen": 2,
        "hamburg": 1,
        "lubeck": 1,
    }
    assert hosted.status.selector == "app=etcd"

    async def all_at_home() -> None:
        found = await sets.balancers(HOST)
        assert set(found) == {
            f"store-{n}" for n in ("bergen-0", "bergen-1", "hamburg-0", "lubeck-0")
        }
        assert found["store-lubeck-0"] == (await sets.balancers("lubeck"))["store-lubeck-0"]

    await scenario.eventually(all_at_home)
    sets_path = f"/apis/hanse.dev/v1alpha1/namespaces/{scenario.namespace}/federatedstatefulsets"
    path = f"{sets_path}/store/scale"
    body = msgspec.json.encode({"spec": {"replicas": 8}})
    content = "application/merge-patch+json"
    await sets.admin(HOST).send(Request("PATCH", path, body=body, content_type=content))

    await scenario.eventually(sets.shares(bergen=4, hamburg=2, lubeck=2))
    await scenario.eventually(is_ready(sets, 8))
    await scenario.eventually(sets.has_said("Placed", where=HOST))

    await sets.admin(HOST).delete(FederatedStatefulSet, "store", scenario.namespace)
    await scenario.eventually(sets.is_gone())
    assert (await sets.found(HOST, Service, "etcd")) is not None, "it is the user's own"


@pytest.mark.parametrize(
    "late", ["", pytest.param("federatedstatefulsets", marks=pytest.mark.virtual)]
)
async def test_a_hosts_orphan_runs_on_everywhere(sets: StatefulSetsScenario, late: str) -> None:
    scenario = sets.scenario
    lag = LinkFaults(lags=late, lag=timedelta(seconds=2 if late else 0))
    scenario.network.link(HOST, HOST).faults = lag  # its agent sees orphans before the deletion
    await scenario.restart_agent(HOST)
    await submit(sets, 3)
    await scenario.eventually(is_ready(sets, 3))
    path = f"/apis/hanse.dev/v1alpha1/namespaces/{scenario.namespace}/federatedstatefulsets/store"
    body = msgspec.json.encode({"propagationPolicy": "Orphan"})
    await sets.admin(HOST).send(Request("DELETE", path, body=body))

    async def freed() -> None:
        for cluster in scenario.names:
            own = await sets.found(cluster, StatefulSet, f"store-{cluster}")
            assert own is not None
            assert OWNER not in own.metadata.labels
        for where in (BROKER, HOST):
            assert await sets.listed(where, StatefulSetShares) == []
            assert await sets.listed(where, FederatedStatefulSet) == []

    await scenario.eventually(freed)


async def test_two_sets_of_one_name_are_a_conflict_that_is_reported(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    meta = Meta(name="store", namespace=scenario.namespace)
    template = StatefulSetTemplate(spec=msgspec.to_builtins(spec_of(1)))
    other = FederatedStatefulSet(metadata=meta, spec=FederatedStatefulSetSpec(template=template))
    await sets.admin(BROKER).create(other)
    await submit(sets, 3)

    async def conflict_is_reported() -> None:
        found = await sets.found(HOST, FederatedStatefulSet, "store")
        assert found is not None
        reasons = {c.type: (c.reason, c.message) for c in found.status.conditions}
        reason, message = reasons.get("Valid", ("", ""))
        assert reason == "NotPassedOn", reasons
        assert "was not made by Hanse" in message

    await scenario.eventually(conflict_is_reported)
    await scenario.eventually(sets.shares(bergen=1))


async def test_a_namespace_that_the_broker_lacks_is_reported_and_created_by_people_alone(
    sets: StatefulSetsScenario,
) -> None:
    namespace = f"{sets.scenario.namespace}-host"
    host, broker = sets.admin(HOST), sets.admin(BROKER)
    await host.create(Namespace(metadata=Meta(name=namespace)))
    template = StatefulSetTemplate(spec=msgspec.to_builtins(spec_of(1)))
    spec = FederatedStatefulSetSpec(template=template)
    await host.create(
        FederatedStatefulSet(metadata=Meta(name="store", namespace=namespace), spec=spec)
    )

    async def reported() -> None:
        found = await host.read(FederatedStatefulSet, "store", namespace)
        valid = find_condition(found.status.conditions, "Valid")
        assert valid is not None
        assert valid.reason == "NotPassedOn"
        assert f"it has no namespace {namespace}" in valid.message

    async def passed_on() -> None:
        found = (await broker.list(FederatedStatefulSet, namespace=namespace)).objects
        assert [one.name for one in found] == ["store"]

    await sets.scenario.eventually(reported)
    assert namespace not in {n.name for n in (await broker.list(Namespace)).objects}
    await broker.create(Namespace(metadata=Meta(name=namespace)))
    await sets.scenario.eventually(passed_on)
