"""ConfigMaps that pods of a set refer to come along with it."""

from hanse.app import BROKER
from hanse.model.acceptance import CREATED_BY
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.objects import Meta
from tests.scenarios.statefulsets import StatefulSetsScenario, headless, spec_of
from tests.support.scenario import Check

NAME = "etcd-config"


async def test_a_config_map_comes_along_with_its_set_and_goes_with_it(
    sets: StatefulSetsScenario,
) -> None:
    scenario, broker = sets.scenario, sets.admin(BROKER)
    await broker.create(config(scenario.namespace, size="1"))
    await submit_with_config(sets, 3)
    await scenario.eventually(sets.is_ready(3))
    await copies(sets, bergen="1", hamburg="1", lubeck="1")()

    await broker.patch(ConfigMap, NAME, scenario.namespace, {"data": {"size": "2"}})
    await scenario.eventually(copies(sets, bergen="2", hamburg="2", lubeck="2"))

    await broker.delete(StatefulSet, "store", scenario.namespace)
    await scenario.eventually(copies(sets))
    await scenario.eventually(sets.is_gone())


async def test_somebody_elses_config_map_is_not_read_by_a_set_of_that_cluster(
    sets: StatefulSetsScenario,
) -> None:
    scenario, bergen = sets.scenario, sets.admin("bergen")
    marks = {CREATED_BY: "statefulsets"}
    space = Meta(name=scenario.namespace, annotations=marks)
    await scenario.make_namespace("bergen", scenario.namespace)
    await bergen.patch(Namespace, space.name, "", {"metadata": {"annotations": marks}})
    await bergen.create(config(scenario.namespace, size="private"))
    await sets.admin(BROKER).create(config(scenario.namespace, size="1"))

    await submit_with_config(sets, 2)

    told = await scenario.eventually(sets.has_conditions(Accepted="Refused"))
    assert "bergen: spec.template.spec.containers[0].envFrom[0].configMapRef" in told["Accepted"]
    await scenario.eventually(sets.shares(hamburg=1, lubeck=1))
    await copies(sets, bergen="private", hamburg="1", lubeck="1")()


async def test_a_config_map_that_comes_after_its_set_has_it_placed(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await submit_with_config(sets, 3)
    told = await scenario.eventually(sets.has_conditions(Accepted="Refused", Placed="Unplaced"))
    assert "create it at the broker, beside the set" in told["Accepted"]

    await sets.admin(BROKER).create(config(scenario.namespace, size="1"))

    await scenario.eventually(sets.is_ready(3))  # in which clusters depends on who is first
    await scenario.eventually(sets.has_conditions(Accepted="Accepted"))


def config(namespace: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=Meta(name=NAME, namespace=namespace), data=data)


def sees_config(sets: StatefulSetsScenario) -> Check[None]:
    """That every agent has seen the ConfigMap, if the broker has it."""
    place = (ConfigMap, NAME, sets.scenario.namespace)

    async def check() -> None:
        submitted = await sets.found(BROKER, ConfigMap, NAME) is not None
        for name, running in sets.scenario.agents.items():
            seen = running.agent.reconciler.snapshot().get(BROKER, *place) is not None
            assert seen == submitted, name

    return check


async def submit_with_config(sets: StatefulSetsScenario, replicas: int) -> None:
    """Submit a set whose containers read their environment from the ConfigMap."""
    broker, namespace = sets.admin(BROKER), sets.scenario.namespace
    await broker.create(headless("etcd", namespace))
    await sets.scenario.eventually(sees_config(sets))
    spec = spec_of(replicas)
    spec.template["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": NAME}}]
    await broker.create(StatefulSet(metadata=Meta(name="store", namespace=namespace), spec=spec))


def copies(sets: StatefulSetsScenario, **sizes: str) -> Check[None]:
    """That these clusters have the ConfigMap with these values, and no others do."""

    async def check() -> None:
        for cluster in sets.scenario.names:
            found = await sets.found(cluster, ConfigMap, NAME)
            size = found.data["size"] if found is not None else None
            assert size == sizes.get(cluster), (cluster, size)

    return check
