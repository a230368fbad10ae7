"""A host's API server asks its agent about FederatedStatefulSets before it takes them."""

from itertools import count
from typing import Any

import msgspec
import pytest

from hanse.app import BROKER
from hanse.cli.apply import apply, remove
from hanse.features.statefulsets.admission_policies import (
    autoscaler_policy,
    immutable_fields_policy,
)
from hanse.features.statefulsets.feature import StatefulSets
from hanse.features.statefulsets.names import LB_NEEDED
from hanse.features.statefulsets.webhooks import AutoscalerWebhook, FederatedStatefulSetWebhook
from hanse.kube.errors import ApiError
from hanse.kube.optional_reads import read_or_none
from hanse.kube.transport import Request
from hanse.model.admission import AdmissionHook
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.hanse import (
    FederatedStatefulSet,
    FederatedStatefulSetSpec,
    StatefulSetTemplate,
)
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterObjectRef, Meta, Wire, object_ref
from hanse.runtime.preview import preview
from tests.scenarios.networks import refusal
from tests.scenarios.statefulsets import StatefulSetsScenario, headless, spec_of
from tests.support.scenario import Features, Scenario

HOST = "hamburg"


@pytest.fixture
def features() -> Features:
    return lambda: (StatefulSets(BROKER_NAMESPACE),)


@pytest.fixture
def hooks() -> tuple[AdmissionHook, ...]:
    return (FederatedStatefulSetWebhook(BROKER_NAMESPACE), AutoscalerWebhook())


@pytest.fixture
async def guarded(scenario: Scenario) -> StatefulSetsScenario:
    """A fleet whose hosts ask: what must be refused is refused already."""
    sets = StatefulSetsScenario(scenario)
    await sets.open()
    await start_guarding(sets)
    return sets


async def start_guarding(sets: StatefulSetsScenario) -> None:
    """Start the agents, and wait until the host asks its own."""
    scenario = sets.scenario
    await scenario.start_agents()
    await scenario.eventually(sets.all_have_joined())

    async def asked() -> None:
        bad = sets.admin(HOST).create(submitted(scenario, "no.label"), dry_run=True)
        assert "cannot be part of its pods' host names" in await refusal(bad)

    await scenario.eventually(asked)


def submitted(scenario: Scenario, name: str = "store", **annotations: str) -> FederatedStatefulSet:
    template = StatefulSetTemplate(spec=msgspec.to_builtins(spec_of(3)))
    notes = {
        f"federation.kubernetes.io/statefulset-{n.replace('_', '-')}": v
        for n, v in annotations.items()
    }
    meta = Meta(name=name, namespace=scenario.namespace, annotations=notes)
    return FederatedStatefulSet(metadata=meta, spec=FederatedStatefulSetSpec(template=template))


async def test_an_invalid_set_from_before_its_webhook_can_be_labelled_and_deleted(
    scenario: Scenario,
) -> None:
    sets = StatefulSetsScenario(scenario)
    await sets.open()
    admin = sets.admin(HOST)
    await admin.create(submitted(scenario, lb_needed="yes"))
    await start_guarding(sets)

    async def change(metadata: Wire) -> FederatedStatefulSet:
        patch = {"metadata": metadata}
        return await admin.patch(FederatedStatefulSet, "store", scenario.namespace, patch)

    labelled = await change({"labels": {"tier": "gold"}, "finalizers": ["example.com/a"]})
    assert labelled.metadata.labels == {"tier": "gold"}
    with pytest.raises(ApiError, match="'no' is not 'true' or 'false'"):
        await change({"annotations": {LB_NEEDED: "no"}})
    await admin.delete(FederatedStatefulSet, "store", scenario.namespace)
    await change({"finalizers": None})

    async def gone() -> None:
        assert await read_or_none(admin, FederatedStatefulSet, "store", scenario.namespace) is None

    await scenario.eventually(gone)


async def test_what_no_cluster_could_run_is_denied_and_existing_sets_go_on(
    guarded: StatefulSetsScenario,
) -> None:
    scenario, admin = guarded.scenario, guarded.admin(HOST)
    with pytest.raises(ApiError, match="'yes' is not 'true' or 'false'"):
        await admin.create(submitted(scenario, lb_needed="yes"))
    with pytest.raises(ApiError, match="52 leave room for the revision"):
        await admin.create(submitted(scenario, "a" * 50))
    await admin.create(headless("etcd", scenario.namespace))
    await admin.create(submitted(scenario))
    await scenario.eventually(guarded.shares(bergen=1, hamburg=1, lubeck=1))

    async def edit(**spec: Any) -> None:
        change = {"spec": {"template": {"spec": spec}}}
        await admin.patch(FederatedStatefulSet, "store", scenario.namespace, change)

    with pytest.raises(ApiError, match="updates to statefulset spec for fields other than"):
        await edit(serviceName="other")
    await edit(replicas=4)

    await scenario.eventually(guarded.shares(bergen=2, hamburg=1, lubeck=1))


async def test_the_broker_denies_what_no_statefulset_could_follow(scenario: Scenario) -> None:
    sets = StatefulSetsScenario(scenario)
    await sets.open()
    broker, namespace = sets.admin(BROKER), scenario.namespace
    policies = immutable_fields_policy(namespace)
    await apply(broker, policies)
    await broker.create(submitted(scenario))

    others = (f"other-{number}" for number in count())

    async def denied() -> None:
        change = {"spec": {"template": {"spec": {"serviceName": next(others)}}}}
        edit = broker.patch(FederatedStatefulSet, "store", namespace, change)
        assert "updates to statefulset spec for fields other than" in await refusal(edit)

    await scenario.eventually(denied)  # an API server takes up policies a moment later
    change = {"spec": {"template": {"spec": {"replicas": 4}}}}
    await broker.patch(FederatedStatefulSet, "store", namespace, change)
    await remove(broker, policies)


@pytest.mark.needs("autoscaling")
async def test_the_broker_denies_autoscalers_of_sets(scenario: Scenario) -> None:
    broker, namespace = scenario.admin(BROKER), scenario.namespace
    await scenario.make_namespace(BROKER, namespace)
    policies = autoscaler_policy(namespace)
    await apply(broker, policies)
    request = autoscaler(namespace, "apps/v1", "StatefulSet", "store")

    async def denied() -> None:
        assert "sees the pods of one cluster only" in await refusal(broker.send(request))

    await scenario.eventually(denied)  # an API server takes up policies a moment later
    await remove(broker, policies)


@pytest.mark.needs("autoscaling")
async def test_a_host_denies_autoscalers_of_sets_and_of_its_part_of_one(
    guarded: StatefulSetsScenario,
) -> None:
    scenario, admin = guarded.scenario, guarded.admin(HOST)
    await admin.create(headless("etcd", scenario.namespace))
    await admin.create(submitted(scenario))
    await scenario.eventually(guarded.shares(bergen=1, hamburg=1, lubeck=1))

    for version, kind, name in (
        ("hanse.dev/v1alpha1", "FederatedStatefulSet", "store"),
        ("apps/v1", "StatefulSet", f"store-{HOST}"),
    ):
        request = autoscaler(scenario.namespace, version, kind, name)

        async def denied(request: Request = request) -> None:
            assert "sees the pods of one cluster only" in await refusal(admin.send(request))

        await scenario.eventually(denied)
    await admin.send(autoscaler(scenario.namespace, "apps/v1", "StatefulSet", "of-somebody-else"))


def autoscaler(namespace: str, version: str, kind: str, name: str) -> Request:
    """The creation of a HorizontalPodAutoscaler, without effect."""
    target = {"apiVersion": version, "kind": kind, "name": name}
    scaler: Wire = {
        "kind": "HorizontalPodAutoscaler",
        "apiVersion": "autoscaling/v2",
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": target, "maxReplicas": 9},
    }
    path = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers"
    return Request("POST", path, (("dryRun", "All"),), body=msgspec.json.encode(scaler))


@pytest.mark.virtual
async def test_the_errors_of_a_set_are_shown_before_it_is_submitted(
    guarded: StatefulSetsScenario,
) -> None:
    wish = {"federation.kubernetes.io/statefulset-preferences": "lubeck"}
    meta = Meta(name="store", namespace=guarded.scenario.namespace, annotations=wish)
    bad = StatefulSet(metadata=meta, spec=spec_of(3))

    would = preview(guarded.scenario.agent("bergen").reconciler, [(BROKER, bad)])

    assert "JSON is malformed" in would.warnings[ClusterObjectRef(BROKER, object_ref(bad))]
