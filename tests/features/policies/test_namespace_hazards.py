"""What may happen to a policy whose namespace or kind goes and comes back, a scenario for each."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from hanse.features.policies.ledger import record_name
from hanse.model.kinds.antrea import AntreaNetworkPolicy, ClusterNetworkPolicy
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import Meta
from hanse.model.plan import Key
from tests.features.policies.federation import (
    A_WHILE,
    DENY,
    deny_stands,
    everywhere,
    federation,
    phase_of,
)
from tests.features.policies.fleet import BERGEN, CLUSTERS, HAMBURG, LUBECK, SHOP, Realm, acnp, anp
from tests.support.faults import LinkFaults
from tinykube.virtual_time import ON_VIRTUAL_TIME

MakePolicy = Callable[..., ClusterNetworkPolicy | AntreaNetworkPolicy]
DEFINITION = "clusternetworkpolicies.crd.antrea.io"
DENY_RECORD = record_name(Key("anp", "deny", SHOP))
LONG_AFTER = timedelta(minutes=5).total_seconds()


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


def seen_late(realm: Realm, resource: str) -> None:
    """What happens in bergen to one resource is seen long after everything else."""
    late = LinkFaults(lag=timedelta(seconds=9), lags=resource)
    realm.network.link(LUBECK, BERGEN).faults = late


async def raze(realm: Realm) -> None:
    """A person deletes the namespace in bergen, and all that was in it is gone."""
    await realm.client(BERGEN).delete(Namespace, SHOP, "")
    while await stands(realm):  # noqa: ASYNC110 - nobody else can tell
        await asyncio.sleep(0.1)


async def stands(realm: Realm) -> bool:
    found = (await realm.client(BERGEN).list(Namespace)).objects
    return SHOP in {one.metadata.name for one in found}


async def make_namespace(realm: Realm) -> None:
    await realm.client(BERGEN).create(Namespace(metadata=Meta(name=SHOP)))


async def test_namespace_later_deleted_and_recreated() -> None:
    async with federation() as realm:
        bergen = realm.client(BERGEN)
        await bergen.delete(Namespace, SHOP, "")
        await asyncio.sleep(A_WHILE)
        await realm.create(LUBECK, anp("deny", 3))
        await asyncio.sleep(A_WHILE)
        assert await realm.priorities(anp("deny")) == {**everywhere(3), BERGEN: None}
        assert await phase_of(realm, BERGEN, anp("deny")) == ("Blocked", "NamespaceMissing")

        for _ in range(2):
            await bergen.create(Namespace(metadata=Meta(name=SHOP)))
            await asyncio.sleep(A_WHILE)
            assert await realm.priorities(anp("deny")) == everywhere(3)
            await bergen.delete(Namespace, SHOP, "")
            await asyncio.sleep(A_WHILE)
            assert await realm.priorities(anp("deny")) == {**everywhere(3), BERGEN: None}


async def test_a_namespace_replaced_before_its_policies_are_seen_to_go_deletes_nothing() -> None:
    """Watches of one cluster may lag behind each other."""
    async with federation() as realm:
        await realm.create(LUBECK, anp("deny", 3))
        await asyncio.sleep(A_WHILE)
        seen_late(realm, "networkpolicies")

        await raze(realm)
        await make_namespace(realm)
        await asyncio.sleep(2 * A_WHILE)

        assert await realm.priorities(anp("deny")) == everywhere(3)


async def test_a_namespace_replaced_while_nobody_looked_is_no_deletion() -> None:
    async with federation() as realm:
        await realm.create(LUBECK, anp("deny", 3))
        await asyncio.sleep(A_WHILE)
        await realm.kill_agent(LUBECK)
        await realm.client(BERGEN).delete(Namespace, SHOP, "")
        await asyncio.sleep(A_WHILE)
        await realm.client(BERGEN).create(Namespace(metadata=Meta(name=SHOP)))

        realm.start_agent(LUBECK)
        for name in CLUSTERS:
            realm.crown(LUBECK, name)
        await asyncio.sleep(A_WHILE)

        assert await realm.priorities(anp("deny")) == everywhere(3)


@pytest.mark.parametrize("watched", [True, False])
async def test_crd_uninstalled(watched: bool) -> None:
    async with federation() as realm:
        await deny_stands(realm)
        bergen = realm.client(BERGEN)
        if not watched:
            await realm.kill_agent(LUBECK)
        await bergen.delete(CustomResourceDefinition, DEFINITION, "")
        await asyncio.sleep(A_WHILE)
        if watched:
            assert await phase_of(realm, BERGEN) == ("Blocked", "NotServed")
        assert (await realm.find(LUBECK, DENY)) is not None
        await realm.define(BERGEN, DEFINITION)
        if not watched:
            realm.start_agent(LUBECK)
            for name in CLUSTERS:
                realm.crown(LUBECK, name)

        await asyncio.sleep(3 * A_WHILE)

        assert await realm.priorities(DENY) == everywhere(5)


async def remake_the_namespace(realm: Realm) -> None:
    seen_late(realm, "namespaces")
    await raze(realm)
    await make_namespace(realm)


async def remake_the_kind(realm: Realm) -> None:
    seen_late(realm, "customresourcedefinitions")
    await realm.client(BERGEN).delete(CustomResourceDefinition, DEFINITION, "")
    await realm.define(BERGEN, DEFINITION)


REMADE: dict[str, tuple[MakePolicy, Callable[[Realm], Awaitable[None]]]] = {
    "namespace": (anp, remake_the_namespace),
    "kind": (acnp, remake_the_kind),
}
"""What may be made anew before that is seen, and the kind of policy that stands in it."""


@pytest.mark.parametrize("home", REMADE)
async def test_a_deletion_counts_after_a_copy_came_back_before_its_home_was_seen(home: str) -> None:
    policy, remake = REMADE[home]
    async with federation() as realm:
        await realm.create(LUBECK, policy("deny", 3))
        await asyncio.sleep(A_WHILE)
        await remake(realm)
        await asyncio.sleep(LONG_AFTER)
        assert await realm.priorities(policy("deny")) == everywhere(3)

        await realm.delete(BERGEN, policy("deny"))
        await asyncio.sleep(A_WHILE)

        assert await realm.priorities(policy("deny")) == everywhere(None)


async def test_a_namespace_that_goes_a_moment_after_a_deletion_in_it_deletes_nothing_else() -> None:
    """That it stood when it was read for one policy says nothing about the end of another."""
    async with federation() as realm:
        for name in ("deny", "allow"):
            await realm.create(LUBECK, anp(name, 3))
        await asyncio.sleep(A_WHILE)
        seen_late(realm, "namespaces")
        await realm.delete(BERGEN, anp("allow"))
        await asyncio.sleep(1)

        await raze(realm)
        await asyncio.sleep(A_WHILE)
        await make_namespace(realm)
        await asyncio.sleep(2 * A_WHILE)

        assert await realm.priorities(anp("allow")) == everywhere(None)
        assert await realm.priorities(anp("deny")) == everywhere(3)


async def test_a_plain_policy_in_a_namespace_made_anew_is_not_the_end_of_its_namesake() -> None:
    """All that happens while the leader is busy, and of the namespace it hears last."""
    async with federation() as realm:
        await realm.create(LUBECK, anp("deny", 3))
        await asyncio.sleep(A_WHILE)
        seen_late(realm, "namespaces")
        realm.network.link(LUBECK, HAMBURG).faults = LinkFaults(delay=timedelta(seconds=1))
        await realm.client(HAMBURG).delete(ConfigMap, DENY_RECORD, SYSTEM)
        await asyncio.sleep(0.1)

        await raze(realm)
        await make_namespace(realm)
        await realm.create(BERGEN, anp("deny", 1, federated=False))
        await asyncio.sleep(2 * A_WHILE)

        assert await realm.priorities(anp("deny")) == {**everywhere(3), BERGEN: 1}
        assert await phase_of(realm, BERGEN, anp("deny")) == ("Blocked", "PlainPolicy")
