"""Informers: late answers, restored versions, changed roles, overlapping selections, relists."""

import asyncio
from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from hanse.kube.store import Store
from hanse.kube.watch_events import Applied, Deleted, Listed
from hanse.model.facts import ClusterDeparted, Leadership, Role
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import Meta
from hanse.model.ownership import OWNER
from hanse.model.plan import Desired, Key, Plan
from hanse.model.snapshot import Change, FactChange, Index, ObjectChange, Snapshot, Watch, Writes
from hanse.runtime.handover import disconnect_released
from hanse.runtime.ownership import Owner, with_owner
from tests.runtime.toy_world import (
    SHOP,
    LeaderFeature,
    find_configmap,
    get_configmap,
    offer,
    toy_world,
)
from tests.support.builders import configmap
from tests.support.faults import LinkFaults
from tests.support.toy import HOME, Toy
from tests.support.world import BROKER
from tinykube.virtual_time import ON_VIRTUAL_TIME


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


def version(name: str, number: int, uid: str = "u") -> ConfigMap:
    meta = Meta(name=name, namespace=SHOP, uid=uid, resource_version=str(number))
    return ConfigMap(metadata=meta)


def test_a_late_answer_does_not_bring_back_what_the_watch_saw_go() -> None:
    store: Store[ConfigMap] = Store()
    store.apply_event(Listed((), "5"))
    store.apply_event(Applied(version("bread", 10)))
    store.apply_event(Deleted(version("bread", 11)))

    store.put(version("bread", 10))  # the answer to our create comes last

    assert store.get(SHOP, "bread") is None


def test_an_answer_that_is_ahead_of_the_watch_is_kept() -> None:
    store: Store[ConfigMap] = Store()
    store.apply_event(Listed((), "5"))

    store.put(version("bread", 10))

    assert store.get(SHOP, "bread") is not None


@pytest.mark.parametrize(
    "restored",
    [
        pytest.param(version("bread", 13, uid="another"), id="another object"),
        pytest.param(replace(version("bread", 13), data={"x": "y"}), id="other content"),
    ],
)
def test_a_version_that_a_restored_server_gave_twice_is_noticed(restored: ConfigMap) -> None:
    store: Store[ConfigMap] = Store()
    store.apply_event(Listed((version("bread", 13),), "14"))

    store.apply_event(Listed((restored,), "14"))
    gone = store.apply_event(
        Deleted(replace(restored, metadata=replace(restored.metadata, resource_version="15")))
    )

    assert store.rewinds == 1
    assert list(gone)
    assert store.get(SHOP, "bread") is None


BY_COLOUR = Index(ConfigMap, "colour", lambda c: [c.data.get("colour", "")])


class RedNamesFeature:
    """Looks at members, and by colour at those it leads."""

    name = "painter"
    watches = (
        Watch(Role.LOCAL, ConfigMap, writes=Writes.OBJECTS),
        Watch(Role.MEMBER, ConfigMap),
        Watch(Role.LED, ConfigMap, indexes=(BY_COLOUR,), writes=Writes.OBJECTS),
    )

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        return [Key("count")] if isinstance(change, FactChange) else []

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        red = [
            o.metadata.name
            for c in snapshot.clusters(Role.LED)
            for o in snapshot.by(c, BY_COLOUR, "red")
        ]
        names = configmap("red", SHOP, names=",".join(red))
        return Plan((Desired(names, snapshot.local),))


async def test_a_new_role_finds_by_its_indexes_what_was_known_before() -> None:
    async with toy_world("lubeck", "child", features=(RedNamesFeature(),), agents=False) as world:
        await world.client("child").create(configmap("barn", SHOP, colour="red"))
        reconciler = world.reconciler("lubeck")
        reconciler.informers.join("child", {Role.MEMBER}, world.api("lubeck", "child"))
        async with reconciler.running():
            await asyncio.sleep(5)

            reconciler.informers.set_roles("child", {Role.MEMBER, Role.LED})
            await asyncio.sleep(5)

            assert (await get_configmap(world, "lubeck", "red")).data == {"names": "barn"}


async def test_what_is_watched_can_change_while_informers_run() -> None:
    async with toy_world("lubeck", agents=False) as world:
        for namespace in (SHOP, "default"):
            await world.client("lubeck").create(configmap("barn", namespace))
        reconciler = world.reconciler("lubeck")
        informers = reconciler.informers
        async with reconciler.running():
            informers.set_watches(Role.LOCAL, [Watch(Role.LOCAL, ConfigMap, SHOP)])
            await asyncio.sleep(5)
            assert _namespaces(informers.snapshot()) == {SHOP}

            informers.set_watches(Role.LOCAL, [Watch(Role.LOCAL, ConfigMap, "default")])
            assert not informers.snapshot().listed("lubeck", ConfigMap)
            await asyncio.sleep(5)
            assert _namespaces(informers.snapshot()) == {"default"}


def _namespaces(snapshot: Snapshot) -> set[str]:
    return {o.metadata.namespace for o in snapshot.all("lubeck", ConfigMap)}


class CopyFeature:
    """Copies every ConfigMap of those it leads to its own cluster; wakes by objects alone."""

    name = "keeper"
    watches: tuple[Watch, ...] = (
        Watch(Role.LOCAL, ConfigMap, writes=Writes.OBJECTS),
        Watch(Role.LED, ConfigMap),
    )

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        if isinstance(change, ObjectChange) and change.where != snapshot.local:
            yield Key("copy", change.object.metadata.name)

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        led = snapshot.clusters(Role.LED)
        here = [c for c in led if snapshot.get(c, ConfigMap, key.name, SHOP) is not None]
        copy = configmap(f"kept-{key.name}", SHOP, of=",".join(here))
        return Plan((Desired(copy, snapshot.local),) if here else ())


class MemberCopyFeature(CopyFeature):
    """Watches members, so that a lead opens no new stream."""

    name = "onlooker"
    watches = (Watch(Role.MEMBER, ConfigMap),)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        return []


async def test_a_new_role_enqueues_keys_for_the_objects_already_in_the_store() -> None:
    features = (CopyFeature(), MemberCopyFeature())
    async with toy_world("lubeck", "child", features=features, agents=False) as world:
        await world.client("child").create(configmap("barn", SHOP))
        reconciler = world.reconciler("lubeck")
        reconciler.informers.join("child", {Role.MEMBER}, world.api("lubeck", "child"))
        async with reconciler.running():
            await asyncio.sleep(5)

            reconciler.informers.set_roles("child", {Role.MEMBER, Role.LED})
            await asyncio.sleep(5)

            assert (await get_configmap(world, "lubeck", "kept-barn")).data == {"of": "child"}


class FactlessLeaderFeature(LeaderFeature):
    """A crown that wakes by its own cluster's objects alone, and watches members all the time."""

    watches = (
        Watch(Role.MEMBER, ConfigMap, writes=Writes.OBJECTS),
        Watch(Role.LOCAL, ConfigMap),
    )

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        return (
            [Key("crown")]
            if isinstance(change, ObjectChange) and change.where == snapshot.local
            else []
        )


async def test_a_new_leader_withdraws_what_nobody_wanted_while_nobody_led() -> None:
    async with toy_world(
        "lubeck", "child", features=(FactlessLeaderFeature(),), agents=False
    ) as world:
        owner = Owner("crown", Key("crown"), "child", led=True)
        await world.client("child").create(with_owner(configmap("law", SHOP), owner))
        reconciler = world.reconciler("lubeck")
        reconciler.informers.join("child", {Role.MEMBER}, world.api("lubeck", "child"))
        reconciler.set_fence(OpenFence())
        async with reconciler.running():
            await asyncio.sleep(60)

            reconciler.informers.put_fact(Leadership("child", "lubeck_1", 3, ours=True))
            await asyncio.sleep(5)

            assert await find_configmap(world, "child", "law") is None


class OpenFence:
    """A fence that is open."""

    def may_write(self, member: str | None) -> bool:
        return True


async def test_a_replica_that_takes_over_reads_the_facts_observed_on_standby() -> None:
    class Courtier(FactlessLeaderFeature):
        def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
            led = isinstance(change, FactChange) and isinstance(change.after, Leadership)
            return [Key("crown")] if led else []

    async with toy_world("lubeck", "child", features=(Courtier(),), agents=False) as world:
        await world.client("lubeck").create(configmap("law", SHOP, of="lubeck"))
        reconciler = world.reconciler("lubeck")
        reconciler.informers.join("child", {Role.MEMBER}, world.api("lubeck", "child"))
        reconciler.set_fence(OpenFence())
        async with reconciler.running(active=False):
            await asyncio.sleep(5)
            reconciler.informers.put_fact(Leadership("child", "lubeck_1", 3, ours=True))
            await asyncio.sleep(5)

            reconciler.activate()
            await asyncio.sleep(5)

            assert (await get_configmap(world, "child", "law")).data == {"of": "lubeck"}


class TwoSelectionsToy(Toy):
    """Watches the broker by two selections that overlap."""

    watches = (
        *(w for w in Toy.watches if w.role is Role.LOCAL),
        replace(Toy.watches[2], labels=OWNER),
        replace(Toy.watches[2], labels="flag"),
    )


async def test_what_leaves_one_selection_and_stays_in_another_is_still_ours() -> None:
    async with toy_world("lubeck", features=(TwoSelectionsToy(),)) as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        reconciler = world.agents["lubeck"].reconciler
        record = "shop.bread.lubeck"
        flag = {"metadata": {"labels": {"flag": "up"}}}
        await world.client(BROKER).patch(ConfigMap, record, HOME, flag)
        await world.settle()
        flagged = next(
            s for s in reconciler.informers.connections[BROKER].informers if s.labels == "flag"
        )
        (known,) = reconciler.informers.connections[BROKER].informers[flagged].store.all()

        reconciler.on_change(ObjectChange(BROKER, known, None))  # as if that informer saw it last
        await world.client("lubeck").delete(ConfigMap, "bread", SHOP)
        await world.settle()

        assert await find_configmap(world, BROKER, record, HOME) is None


async def test_a_second_look_does_not_wait_for_clusters_that_are_gone_or_dead() -> None:
    async with toy_world(
        "lubeck", "child", "wreck", features=(RedNamesFeature(),), agents=False
    ) as world:
        reconciler = world.reconciler("lubeck")
        for name in ("child", "wreck"):
            reconciler.informers.join(name, {Role.MEMBER}, world.api("lubeck", name))
        async with reconciler.running():
            await asyncio.sleep(5)
            world.network.cut("lubeck", "wreck")
            await asyncio.sleep(60)
            world.network.cut("lubeck", "child")
            look = asyncio.create_task(reconciler.informers.relists.relist_all())
            await asyncio.sleep(60)
            waiting = not look.done()

            await reconciler.informers.disconnect("child")
            await asyncio.wait_for(look, 60)

            assert waiting, "a cluster that went down meanwhile was not waited for"


async def test_clusters_that_are_handed_over_are_disconnected_all_at_once() -> None:
    """Else one that is named again in between is connected, and then disconnected for ever."""
    async with toy_world("lubeck", "child", "other", agents=False) as world:
        reconciler = world.reconciler("lubeck")
        for name in ("child", "other"):
            reconciler.informers.join(name, {Role.MEMBER}, world.api("lubeck", name))
        async with reconciler.running():
            await asyncio.sleep(5)

            disconnect_released(reconciler.informers, ["child", "other"])

            assert not {"child", "other"} & reconciler.informers.connections.keys()
            assert list(reconciler.informers.facts.all(ClusterDeparted)) == []


async def test_a_reconciler_ends_although_a_second_list_waits() -> None:
    async with toy_world("lubeck", agents=False) as world:
        reconciler = world.reconciler("lubeck")
        async with asyncio.timeout(600):
            async with reconciler.running():
                await asyncio.sleep(5)
                world.network.link("lubeck", BROKER).faults = LinkFaults(refused=1.0)
                reconciler.start_background(
                    reconciler.mass_deletion.confirm(BROKER, "toy"), "second look"
                )
                await asyncio.sleep(30)
