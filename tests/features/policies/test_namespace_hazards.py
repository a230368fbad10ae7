"""Hazards of namespaces and kinds that are deleted and created again, a scenario for each."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from hanse.features.policies.ledger import record_name
from hanse.model.kinds.acceptance import (
    AcceptancePolicy,
    AcceptancePolicySpec,
    NamespaceAcceptance,
)
from hanse.model.kinds.antrea import AntreaClusterNetworkPolicy, AntreaNetworkPolicy
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import Meta
from hanse.model.plan import Key
from tests.features.policies.federation import (
    DENY,
    SETTLE_TIME,
    create_deny_everywhere,
    everywhere,
    federation,
    read_phase,
)
from tests.features.policies.fleet import (
    BERGEN,
    CLUSTERS,
    HAMBURG,
    LUBECK,
    SHOP,
    PolicyFleet,
    acnp,
    anp,
)
from tests.support.faults import LinkFaults
from tinykube.virtual_time import ON_VIRTUAL_TIME

MakePolicy = Callable[..., AntreaClusterNetworkPolicy | AntreaNetworkPolicy]
DEFINITION = "clusternetworkpolicies.crd.antrea.io"
DENY_RECORD = record_name(Key("anp", "deny", SHOP))
LONG_AFTER = timedelta(minutes=5).total_seconds()


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


def delay_watches_of(fleet: PolicyFleet, resource: str) -> None:
    """Changes of one resource in bergen are observed long after all others."""
    late = LinkFaults(lag=timedelta(seconds=9), lags=resource)
    fleet.network.link(LUBECK, BERGEN).faults = late


async def delete_namespace(fleet: PolicyFleet) -> None:
    """A user deletes the namespace in bergen; returns when its objects are gone."""
    await fleet.client(BERGEN).delete(Namespace, SHOP, "")
    while await namespace_exists(fleet):  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0.1)


async def namespace_exists(fleet: PolicyFleet) -> bool:
    found = (await fleet.client(BERGEN).list(Namespace)).objects
    return SHOP in {namespace.metadata.name for namespace in found}


async def make_namespace(fleet: PolicyFleet) -> None:
    await fleet.client(BERGEN).create(Namespace(metadata=Meta(name=SHOP)))


async def test_namespace_later_deleted_and_recreated() -> None:
    async with federation() as fleet:
        bergen = fleet.client(BERGEN)
        await bergen.delete(Namespace, SHOP, "")
        await asyncio.sleep(SETTLE_TIME)
        await fleet.create(LUBECK, anp("deny", 3))
        await asyncio.sleep(SETTLE_TIME)
        assert await fleet.priorities(anp("deny")) == {**everywhere(3), BERGEN: None}
        assert await read_phase(fleet, BERGEN, anp("deny")) == ("Blocked", "NamespaceMissing")

        for _ in range(2):
            await bergen.create(Namespace(metadata=Meta(name=SHOP)))
            await asyncio.sleep(SETTLE_TIME)
            assert await fleet.priorities(anp("deny")) == everywhere(3)
            await bergen.delete(Namespace, SHOP, "")
            await asyncio.sleep(SETTLE_TIME)
            assert await fleet.priorities(anp("deny")) == {**everywhere(3), BERGEN: None}


async def test_a_member_takes_no_version_of_others_in_an_excluded_namespace() -> None:
    async with federation() as fleet:
        bergen = fleet.client(BERGEN)
        await fleet.create(LUBECK, anp("deny", 3))
        await asyncio.sleep(SETTLE_TIME)
        spec = AcceptancePolicySpec(policies=NamespaceAcceptance(exclude=(SHOP,)))
        await bergen.create(AcceptancePolicy(metadata=Meta(name="default"), spec=spec))
        await asyncio.sleep(SETTLE_TIME)

        await fleet.edit(LUBECK, anp("deny"), {"spec": {"priority": 4}})
        await fleet.create(LUBECK, anp("new", 7))
        await asyncio.sleep(SETTLE_TIME)
        assert await fleet.priorities(anp("deny")) == {**everywhere(4), BERGEN: 3}
        assert await fleet.priorities(anp("new")) == {**everywhere(7), BERGEN: None}
        assert await read_phase(fleet, BERGEN, anp("new")) == ("Blocked", "Refused")
        await fleet.delete(LUBECK, anp("deny"))
        await asyncio.sleep(SETTLE_TIME)
        assert await fleet.priorities(anp("deny")) == {**everywhere(None), BERGEN: 3}

        await bergen.delete(AcceptancePolicy, "default", "")
        await asyncio.sleep(SETTLE_TIME)
        assert await fleet.priorities(anp("new")) == everywhere(7)
        assert await fleet.priorities(anp("deny")) == everywhere(None)


async def test_a_namespace_replaced_before_its_policies_are_observed_to_go_deletes_nothing() -> (
    None
):
    """Watches of one cluster may lag behind each other."""
    async with federation() as fleet:
        await fleet.create(LUBECK, anp("deny", 3))
        await asyncio.sleep(SETTLE_TIME)
        delay_watches_of(fleet, "networkpolicies")

        await delete_namespace(fleet)
        await make_namespace(fleet)
        await asyncio.sleep(2 * SETTLE_TIME)

        assert await fleet.priorities(anp("deny")) == everywhere(3)


async def test_a_namespace_replaced_unobserved_is_no_deletion() -> None:
    async with federation() as fleet:
        await fleet.create(LUBECK, anp("deny", 3))
        await asyncio.sleep(SETTLE_TIME)
        await fleet.kill_agent(LUBECK)
        await fleet.client(BERGEN).delete(Namespace, SHOP, "")
        await asyncio.sleep(SETTLE_TIME)
        await fleet.client(BERGEN).create(Namespace(metadata=Meta(name=SHOP)))

        fleet.start_agent(LUBECK)
        for name in CLUSTERS:
            fleet.assign_leader(LUBECK, name)
        await asyncio.sleep(SETTLE_TIME)

        assert await fleet.priorities(anp("deny")) == everywhere(3)


@pytest.mark.parametrize("watched", [True, False])
async def test_crd_uninstalled(watched: bool) -> None:
    async with federation() as fleet:
        await create_deny_everywhere(fleet)
        bergen = fleet.client(BERGEN)
        if not watched:
            await fleet.kill_agent(LUBECK)
        await bergen.delete(CustomResourceDefinition, DEFINITION, "")
        await asyncio.sleep(SETTLE_TIME)
        if watched:
            assert await read_phase(fleet, BERGEN) == ("Blocked", "NotServed")
        assert (await fleet.find(LUBECK, DENY)) is not None
        await fleet.define(BERGEN, DEFINITION)
        if not watched:
            fleet.start_agent(LUBECK)
            for name in CLUSTERS:
                fleet.assign_leader(LUBECK, name)

        await asyncio.sleep(3 * SETTLE_TIME)

        assert await fleet.priorities(DENY) == everywhere(5)


async def remake_the_namespace(fleet: PolicyFleet) -> None:
    delay_watches_of(fleet, "namespaces")
    await delete_namespace(fleet)
    await make_namespace(fleet)


async def remake_the_kind(fleet: PolicyFleet) -> None:
    delay_watches_of(fleet, "customresourcedefinitions")
    await fleet.client(BERGEN).delete(CustomResourceDefinition, DEFINITION, "")
    await fleet.define(BERGEN, DEFINITION)


REMADE: dict[str, tuple[MakePolicy, Callable[[PolicyFleet], Awaitable[None]]]] = {
    "namespace": (anp, remake_the_namespace),
    "kind": (acnp, remake_the_kind),
}
"""What may be replaced before that is observed, and a policy that belongs to it."""


@pytest.mark.parametrize("home", REMADE)
async def test_a_deletion_counts_after_a_copy_returned_before_its_parents_were_observed(
    home: str,
) -> None:
    policy, remake = REMADE[home]
    async with federation() as fleet:
        await fleet.create(LUBECK, policy("deny", 3))
        await asyncio.sleep(SETTLE_TIME)
        await remake(fleet)
        await asyncio.sleep(LONG_AFTER)
        assert await fleet.priorities(policy("deny")) == everywhere(3)

        await fleet.delete(BERGEN, policy("deny"))
        await asyncio.sleep(SETTLE_TIME)

        assert await fleet.priorities(policy("deny")) == everywhere(None)


async def test_a_namespace_that_goes_a_moment_after_a_deletion_in_it_deletes_nothing_else() -> None:
    """That it stood when it was read for one policy says nothing about the end of another."""
    async with federation() as fleet:
        for name in ("deny", "allow"):
            await fleet.create(LUBECK, anp(name, 3))
        await asyncio.sleep(SETTLE_TIME)
        delay_watches_of(fleet, "namespaces")
        await fleet.delete(BERGEN, anp("allow"))
        await asyncio.sleep(1)

        await delete_namespace(fleet)
        await asyncio.sleep(SETTLE_TIME)
        await make_namespace(fleet)
        await asyncio.sleep(2 * SETTLE_TIME)

        assert await fleet.priorities(anp("allow")) == everywhere(None)
        assert await fleet.priorities(anp("deny")) == everywhere(3)


async def test_a_plain_policy_in_a_namespace_made_anew_is_not_the_end_of_its_namesake() -> None:
    """All that happens while the leader is busy, and of the namespace it hears last."""
    async with federation() as fleet:
        await fleet.create(LUBECK, anp("deny", 3))
        await asyncio.sleep(SETTLE_TIME)
        delay_watches_of(fleet, "namespaces")
        fleet.network.link(LUBECK, HAMBURG).faults = LinkFaults(delay=timedelta(seconds=1))
        await fleet.client(HAMBURG).delete(ConfigMap, DENY_RECORD, SYSTEM)
        await asyncio.sleep(0.1)

        await delete_namespace(fleet)
        await make_namespace(fleet)
        await fleet.create(BERGEN, anp("deny", 1, federated=False))
        await asyncio.sleep(2 * SETTLE_TIME)

        assert await fleet.priorities(anp("deny")) == {**everywhere(3), BERGEN: 1}
        assert await read_phase(fleet, BERGEN, anp("deny")) == ("Blocked", "PlainPolicy")
