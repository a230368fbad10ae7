"""Names of replicas, queried by real packets of a server beside a cluster.

Packets are real, so time is too, on either engine.
"""

from datetime import timedelta

import pytest

from hanse.app import BROKER
from hanse.features.statefulsets.zone import StatefulSetZone
from hanse.model.dns.zones import View
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Namespace, Service
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import Meta
from tests.scenarios.names import DnsClient, serve_names
from tests.scenarios.statefulsets import (
    UNSCHEDULABLE,
    StatefulSetsScenario,
    headless,
    spec_of,
    template,
)
from tests.support.scenario import Check

HERE = "lubeck"
VIEW = View(HERE, local=HERE)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def zone() -> StatefulSetZone:
    return StatefulSetZone(VIEW, BROKER_NAMESPACE)


async def test_a_set_has_the_names_of_its_own_replicas_and_not_of_one_that_begins_alike(
    sets: StatefulSetsScenario,
) -> None:
    scenario, broker = sets.scenario, sets.admin(BROKER)
    await broker.create(headless("etcd", scenario.namespace))
    for name in ("db", "db-backup"):
        meta = Meta(name=name, namespace=scenario.namespace)
        await broker.create(StatefulSet(metadata=meta, spec=spec_of(3)))
    inside = f"{scenario.namespace}.myfederation.svc.example.com"
    local = f"etcd.{scenario.namespace}.svc.example.com"

    async with serve_names(scenario, HERE, VIEW, zone()) as ask:
        for name in ("db", "db-backup"):
            only = f"0 50 80 {name}-{HERE}-0.{local}."
            await scenario.eventually(ask.answers(f"{name}.{inside}", "SRV", only))
        both = (f"0 50 80 {name}-{HERE}-0.{local}." for name in ("db", "db-backup"))
        await scenario.eventually(ask.answers(f"etcd.{inside}", "SRV", *both))


async def test_names_tell_readiness_and_which_replicas_are_near(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(3, balanced=True)
    await scenario.eventually(sets.is_ready(3))
    name = f"etcd.{scenario.namespace}.myfederation.svc.example.com"
    weights = {"bergen": 5, "hamburg": 5, HERE: 50}

    async with serve_names(scenario, HERE, VIEW, zone()) as ask:
        await scenario.eventually(names_replicas(ask, name, **weights))
        answer = await ask(f"store-bergen-0.{name}")
        assert len(answer.records) == 1, "the address of its load balancer"

        bad = template("etcd:3.7", **UNSCHEDULABLE)
        await sets.edit({"spec": {"template": bad}})  # which takes the last cluster's replica
        await scenario.eventually(names_replicas(ask, name, bergen=5, hamburg=5))

        published = {"spec": {"publishNotReadyAddresses": True}}
        await sets.admin(BROKER).patch(Service, "etcd", scenario.namespace, published)
        await scenario.eventually(names_replicas(ask, name, **weights))


async def test_names_stand_without_the_brokers_namespace_and_with_it_again(
    sets: StatefulSetsScenario,
) -> None:
    scenario = sets.scenario
    await sets.launch(3, balanced=True)
    await scenario.eventually(sets.is_ready(3))
    name = f"etcd.{scenario.namespace}.myfederation.svc.example.com"

    async with serve_names(scenario, HERE, VIEW, zone()) as ask:
        named = names_replicas(ask, name, bergen=5, hamburg=5, lubeck=50)
        await scenario.eventually(named)
        await sets.admin(BROKER).delete(Namespace, BROKER_NAMESPACE, "")
        await scenario.eventually(scenario.has_no_namespace(BROKER, BROKER_NAMESPACE))
        await scenario.always(named, for_=timedelta(seconds=3))

        await scenario.make_namespace(BROKER, BROKER_NAMESPACE, keep=True)
        for cluster in scenario.names:
            await scenario.allow_on_broker(cluster)
        await scenario.eventually(named)


def names_replicas(ask: DnsClient, name: str, **weights: int) -> Check[None]:
    """That SRV records have the first replica of each of these clusters, with these weights."""
    wanted = (f"0 {weight} 80 store-{c}-0.{name}." for c, weight in weights.items())
    expected = sorted(wanted)

    async def check() -> None:
        answer = await ask(name, "SRV")
        assert sorted(answer.records) == expected, answer

    return check
