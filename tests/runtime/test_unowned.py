"""What is made where it is missing and nobody's from then on, and patches that all agree on."""

import asyncio
from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from hanse.model.facts import Role
from hanse.model.kinds.apps import StatefulSet, StatefulSetSpec
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.objects import ClusterObjectRef, Meta, object_ref
from hanse.model.plan import CreateOnly, Desired, Key, Patch, Plan
from hanse.model.rbac import rbac_rules
from hanse.model.snapshot import Change, ObjectChange, Snapshot, Watch, Writes
from hanse.runtime.compare import object_patch, with_applied_record
from hanse.runtime.diff import diff
from hanse.runtime.ownership import Owner, owner_of, with_owner
from tests.support.builders import cluster, configmap, namespace, snapshot, stored
from tests.support.world import BROKER, World
from tinykube.virtual_time import ON_VIRTUAL_TIME


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


class NamespaceFeature:
    """Founds the namespace that each ConfigMap of `default` names, and greets it on the broker."""

    name = "founder"
    watches: tuple[Watch, ...] = (
        Watch(Role.LOCAL, ConfigMap),
        Watch(Role.LOCAL, Namespace, writes=Writes.MISSING),
        Watch(Role.BROKER, ConfigMap, writes=Writes.FIELDS),
    )

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        return [Key("found", "town")] if isinstance(change, ObjectChange) else []

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        patches: list[Patch] = []
        order = ("lubeck", "hamburg")
        for greeted in snapshot.all(BROKER, ConfigMap):
            place = ClusterObjectRef(BROKER, object_ref(greeted))
            rank = order.index(snapshot.local)
            patches.append(Patch(place, {"data": {"greeted": "yes"}}, rank=rank))
        if snapshot.get(snapshot.local, ConfigMap, key.name, "default") is None:
            return Plan(patches=tuple(patches))
        toy_world = Desired(
            Namespace(metadata=Meta(name=key.name)), snapshot.local, ownership=CreateOnly()
        )
        return Plan((toy_world,), patches=tuple(patches))


async def test_what_is_missing_is_made_and_stays_when_it_is_no_longer_wanted() -> None:
    world = World(("lubeck",), lambda: (NamespaceFeature(),))
    admin = world.client("lubeck")
    async with world.agents_running():
        await admin.create(configmap("town"))
        await world.settle()
        made = await admin.read(Namespace, "town")
        assert owner_of(made) is None

        await admin.delete(ConfigMap, "town", "default")
        await world.settle()

        assert (await admin.read(Namespace, "town")).metadata.uid == made.metadata.uid


async def test_existing_objects_are_left_unchanged() -> None:
    world = World(("lubeck",), lambda: (NamespaceFeature(),))
    admin = world.client("lubeck")
    before = await admin.create(namespace("town"))
    await admin.create(configmap("town"))
    async with world.agents_running():
        await world.settle()

        assert await admin.read(Namespace, "town") == before


async def test_a_patch_that_all_agree_on_is_left_to_the_first_in_the_order() -> None:
    world = World(("lubeck", "hamburg"), lambda: (NamespaceFeature(),))
    async with world.agents_running():
        await world.settle()
        with world.network.counting_writes() as writes:
            await world.client(BROKER).create(configmap("guest"))
            await asyncio.sleep(5)
        assert [w.source for w in writes] == ["lubeck"]

        await world.kill_agent("lubeck")
        await world.client(BROKER).create(configmap("late"))
        await asyncio.sleep(5)

        late = await world.client(BROKER).read(ConfigMap, "late", "default")
        assert late.data == {"greeted": "yes"}


def test_who_makes_what_is_missing_may_not_delete_it() -> None:
    rules = {r.resource: r.verbs for r in rbac_rules(NamespaceFeature.watches, Role.LOCAL)}

    assert rules["namespaces"] == ("create", "get", "list", "watch")


def test_defaults_that_the_server_fills_into_a_list_of_open_parts_are_no_difference() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    filled = {**claim, "apiVersion": "v1", "status": {"phase": "Pending"}}
    owner = Owner("founder", Key("found", "town"), "lubeck")
    meta = Meta(name="store", namespace="shop")
    wanted = with_applied_record(
        with_owner(
            StatefulSet(metadata=meta, spec=StatefulSetSpec(volume_claim_templates=(claim,))), owner
        )
    )
    existing = StatefulSet(
        metadata=wanted.metadata, spec=StatefulSetSpec(volume_claim_templates=(filled,))
    )

    assert object_patch(wanted, stored(existing)) == {}


@pytest.mark.parametrize(("kept", "writes"), [(True, 0), (False, 1)])
def test_what_is_kept_is_neither_written_nor_deleted(kept: bool, writes: int) -> None:
    owner = Owner("founder", Key("found", "town"), "lubeck")
    ours = stored(with_owner(configmap("ours"), owner))
    observed = snapshot(
        NamespaceFeature(), "lubeck", [cluster("lubeck", Role.LOCAL)], {"lubeck": [ours]}
    )
    plan = Plan(kept=(ClusterObjectRef("lubeck", object_ref(ours)),) if kept else ())

    found = diff("founder", owner.key, plan, [("lubeck", owner, ours)], observed)

    assert len(found.actions) == writes


async def test_a_patch_that_is_ours_alone_is_sent_at_once() -> None:
    class Greeter(NamespaceFeature):
        def plan(self, key: Key, snapshot: Snapshot) -> Plan:
            plan = super().plan(key, snapshot)
            return Plan(plan.desired, patches=tuple(replace(p, rank=None) for p in plan.patches))

    world = World(("lubeck",), lambda: (Greeter(),))
    async with world.agents_running():
        await world.settle()
        await world.client(BROKER).create(configmap("guest"))
        await asyncio.sleep(0.1)

        guest = await world.client(BROKER).read(ConfigMap, "guest", "default")
        assert guest.data == {"greeted": "yes"}
