"""A cluster takes only sets that its AcceptancePolicy allows, and keeps what runs already."""

import msgspec
import pytest

from hanse.app import BROKER
from hanse.kube.client import Client
from hanse.model.acceptance import CREATED_BY
from hanse.model.kinds.acceptance import (
    ACCEPT,
    WorkloadLimits,
)
from hanse.model.kinds.apps import StatefulSet, StatefulSetSpec
from hanse.model.kinds.core import Event, Namespace, Pod
from hanse.model.kinds.hanse import FederatedStatefulSet, FederatedStatefulSetSpec
from hanse.model.kinds.hanse import StatefulSetTemplate as Template
from hanse.model.kinds.stateful import StatefulSetPart
from hanse.model.objects import Meta, Wire
from hanse.model.plan import Key
from hanse.runtime.ownership import Owner, with_owner
from tests.scenarios.statefulsets import StatefulSetsScenario, spec_of
from tests.support.scenario import Check, describe_writes

PRIVILEGED: Wire = {
    "metadata": {"labels": {"app": "etcd"}},
    "spec": {
        "hostPID": True,
        "serviceAccountName": "generic-garbage-collector",
        "containers": [
            {"name": "x", "image": "x", "securityContext": {"privileged": True}},
        ],
        "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
    },
}
"""A pod that owns its node."""


async def label(client: Client, namespace: str, value: str | None) -> None:
    await client.patch(Namespace, namespace, "", {"metadata": {"labels": {ACCEPT: value}}})


def attack(namespace: str) -> FederatedStatefulSet:
    """The set of an attacker who writes at the broker."""
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "etcd"}}, "template": PRIVILEGED}
    return FederatedStatefulSet(
        metadata=Meta(name="evil", namespace=namespace),
        spec=FederatedStatefulSetSpec(template=Template(spec=spec)),
    )


def is_refused(sets: StatefulSetsScenario, namespace: str) -> Check[str]:
    """That every cluster has refused the attack; gives the message of the condition."""

    async def check() -> str:
        found = await sets.admin(BROKER).read(FederatedStatefulSet, "evil", namespace)
        conditions = {c.type: c for c in found.status.conditions}
        assert "Accepted" in conditions, conditions
        said = conditions["Accepted"]
        assert (said.status, said.reason) == ("False", "Refused")
        assert all(f"{cluster}: " in said.message for cluster in sets.scenario.names)
        return said.message

    return check


async def runs_nowhere(sets: StatefulSetsScenario, namespace: str) -> None:
    for cluster in sets.scenario.names:
        for kind in (StatefulSet, Pod):
            found = (await sets.admin(cluster).list(kind, namespace=namespace)).objects
            assert [o.metadata.name for o in found if "evil" in o.metadata.name] == []


@pytest.mark.parametrize(
    ("where", "field"),
    [("kube-system", "metadata.namespace"), ("", "spec.template.spec.template.spec.hostPID")],
    ids=["in kube-system", "in a labelled namespace"],
)
async def test_a_broker_that_was_taken_over_runs_no_pod_of_its_own_anywhere(
    sets: StatefulSetsScenario, where: str, field: str
) -> None:
    scenario = sets.scenario
    namespace = where or scenario.namespace
    for cluster in scenario.names:
        await label(sets.admin(cluster), namespace, "true")

    await sets.admin(BROKER).create(attack(namespace))
    message = await scenario.eventually(is_refused(sets, namespace))
    await scenario.settled()

    for cluster in scenario.names:
        assert f"{cluster}: {field}: " in message
    await runs_nowhere(sets, namespace)
    events = (await sets.admin(BROKER).list(Event, namespace=namespace)).objects
    assert "Refused" in {e.reason for e in events if e.involved_object.name == "evil"}
    await sets.admin(BROKER).delete(FederatedStatefulSet, "evil", namespace)
    for cluster in scenario.names:
        await label(sets.admin(cluster), "kube-system", None)

    async def leaves_nothing() -> None:
        parts = (await sets.admin(BROKER).list(StatefulSetPart)).objects
        assert [p.spec for p in parts if p.spec.name == "evil"] == []

    await scenario.eventually(leaves_nothing)


async def test_a_mark_that_the_writer_chooses_gives_no_power(sets: StatefulSetsScenario) -> None:
    scenario, namespace = sets.scenario, sets.scenario.namespace
    marked = with_owner(
        attack(namespace), Owner("statefulsets", Key("mirror", "evil", namespace), "lubeck")
    )

    await sets.admin(BROKER).create(marked)

    async def is_removed() -> None:
        left = (await sets.admin(BROKER).list(FederatedStatefulSet, namespace=namespace)).objects
        assert list(left) == [], "lubeck, which it names, has no such set"

    await scenario.eventually(is_removed)
    await scenario.settled()
    await runs_nowhere(sets, namespace)


async def test_a_good_set_runs_in_labelled_namespaces_and_in_those_made_for_it(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await scenario.delete_namespace("bergen", scenario.namespace)
    await scenario.eventually(scenario.has_no_namespace("bergen", scenario.namespace))

    await sets.launch(3)

    await scenario.eventually(sets.shares(bergen=1, hamburg=1, lubeck=1))
    made = await sets.admin("bergen").read(Namespace, scenario.namespace)
    assert CREATED_BY in made.metadata.annotations
    await sets.scale(6)
    await scenario.eventually(sets.shares(bergen=2, hamburg=2, lubeck=2))


async def test_others_take_the_share_of_a_cluster_that_refuses(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await label(sets.admin("hamburg"), scenario.namespace, None)

    await sets.launch(5)

    await scenario.eventually(sets.shares(bergen=3, lubeck=2))
    said = await scenario.eventually(
        sets.has_conditions(Accepted="Refused", Placed="Placed", Ready="AllReady")
    )
    assert said["Accepted"].startswith("hamburg: workloads.namespaces: ")
    assert f"kubectl label namespace {scenario.namespace} hanse.dev/accept=true" in said["Accepted"]
    assert "refused by hamburg" in said["Placed"]
    await scenario.eventually(sets.has_said("Refused"))

    await label(sets.admin("hamburg"), scenario.namespace, "true")
    await scenario.eventually(sets.has_conditions(Accepted="Accepted"))
    await sets.scale(7)
    await scenario.eventually(sets.shares(bergen=3, lubeck=2, hamburg=2))


async def test_a_set_that_every_cluster_refuses_is_told_as_unplaced(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    for cluster in scenario.names:
        await label(sets.admin(cluster), scenario.namespace, None)

    async def all_know() -> None:
        for cluster, running in scenario.agents.items():
            snapshot = running.agent.reconciler.snapshot()
            found = snapshot.get(cluster, Namespace, scenario.namespace)
            assert found is not None
            assert ACCEPT not in found.metadata.labels

    await scenario.eventually(all_know)
    await sets.launch(4)

    said = await scenario.eventually(sets.has_conditions(Accepted="Refused", Placed="Unplaced"))
    assert "bergen, hamburg, lubeck refused the set" in said["Placed"]
    await sets.shares()()


async def test_what_runs_stays_when_a_policy_is_tightened_and_takes_nothing_new(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(6)
    await scenario.eventually(sets.is_ready(6))
    before = set(await sets.pods("lubeck"))

    await sets.set_policy("lubeck", pod_security="restricted")
    await scenario.eventually(sets.has_conditions(Accepted="Refused"))
    await sets.edit({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 2}}}})
    await sets.scale(9)

    await scenario.eventually(sets.shares(bergen=4, hamburg=3, lubeck=2))
    assert set(await sets.pods("lubeck")) == before
    kept = await sets.found("lubeck", StatefulSet, "store-lubeck")
    assert kept is not None
    assert kept.spec.template["spec"]["terminationGracePeriodSeconds"] == 1

    await sets.scale(3)
    await scenario.eventually(sets.shares(bergen=1, hamburg=1, lubeck=1))
    await sets.scale(0)
    await scenario.eventually(sets.shares())


async def test_a_cluster_runs_no_more_replicas_of_a_set_than_its_limit(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.set_policy("lubeck", limits=WorkloadLimits(replicas_per_set=1))

    await sets.launch(6)

    async def is_limited() -> None:  # which of the others has the third is nobody's wish
        found = [await sets.found(c, StatefulSet, f"store-{c}") for c in ("lubeck", "hamburg")]
        shares = [one.spec.replicas for one in found if one is not None]
        assert shares in ([1, 2], [1, 3]), shares

    await scenario.eventually(sets.is_ready(6))
    await scenario.eventually(is_limited)
    await sets.set_policy("lubeck")

    async def is_unlimited() -> None:
        listed = (await sets.admin(BROKER).list(StatefulSetPart)).objects
        parts = [p.spec for p in listed if p.spec.namespace == scenario.namespace]
        assert [p.most for p in parts if p.cluster == "lubeck"] == [None]

    await scenario.eventually(is_unlimited)
    await sets.scale(8)
    await scenario.eventually(sets.shares(bergen=3, hamburg=3, lubeck=2))


async def test_a_set_of_a_host_runs_where_the_host_is_named(sets: StatefulSetsScenario) -> None:
    scenario = sets.scenario
    await sets.set_policy("hamburg", origins=("broker",))
    spec = {"replicas": 4, **_plain(spec_of(4))}
    hosted = FederatedStatefulSet(
        metadata=Meta(name="store", namespace=scenario.namespace),
        spec=FederatedStatefulSetSpec(template=Template(spec=spec)),
    )

    await sets.admin("lubeck").create(hosted)

    await scenario.eventually(sets.shares(bergen=2, lubeck=2))

    async def told() -> None:
        found = await sets.admin("lubeck").read(FederatedStatefulSet, "store", scenario.namespace)
        conditions = {c.type: c for c in found.status.conditions}
        assert "Accepted" in conditions, conditions
        said = conditions["Accepted"]
        assert (said.status, said.reason) == ("False", "Refused")
        assert said.message == "hamburg: workloads.origins: sets of lubeck are not taken"

    await scenario.eventually(told)


def _plain(spec: StatefulSetSpec) -> Wire:
    wire: Wire = msgspec.to_builtins(spec)
    return wire


async def test_a_settled_refusal_writes_nothing(sets: StatefulSetsScenario) -> None:
    scenario = sets.scenario
    await label(sets.admin("hamburg"), scenario.namespace, None)
    await sets.launch(5)
    await scenario.eventually(sets.has_conditions(Accepted="Refused", Ready="AllReady"))

    await scenario.lengthen_leases()
    await scenario.settled()
    start = len(scenario.network.sent)
    await scenario.kill_agent("hamburg")
    await scenario.start_agent("hamburg")
    await scenario.settled()

    assert describe_writes(scenario.writes_since(start)) == []
