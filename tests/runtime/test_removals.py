"""Events that go with another write, and removals that spare what was edited meanwhile."""

import asyncio
from collections.abc import Iterable

import pytest

from hanse.kube.errors import NotFound
from hanse.model.facts import Role
from hanse.model.kinds.core import ConfigMap, Event
from hanse.model.objects import ClusterObjectRef, object_ref
from hanse.model.plan import CreateOnly, Desired, EventRequest, Key, Patch, Plan, Removal
from hanse.model.snapshot import Change, Snapshot, Watch, Writes
from hanse.runtime.actions import Delete
from hanse.runtime.diff import diff
from tests.support.builders import cluster, configmap, namespace, snapshot, stored
from tests.support.world import World
from tinykube.virtual_time import ON_VIRTUAL_TIME

SHOP = "shop"
HOME = "lubeck"


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


class RemovalFeature:
    """Makes a ConfigMap where an order says so, and tells of one that it only records."""

    name = "giver"
    watches = (Watch(Role.LOCAL, ConfigMap, writes=Writes.OBJECTS),)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        return [Key("gift")]

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        order = snapshot.get(snapshot.local, ConfigMap, "order", SHOP)
        if order is None:
            return Plan()
        gift = configmap("gift", SHOP, of=order.data["of"])
        note = ClusterObjectRef(snapshot.local, object_ref(order))
        change = {"metadata": {"annotations": {"noted": "yes"}}}
        return Plan(
            (Desired(gift, snapshot.local, step=1, ownership=CreateOnly()),),
            patches=(Patch(note, change),),
            events=(
                EventRequest(
                    ClusterObjectRef(snapshot.local, object_ref(gift)),
                    "Made",
                    "made it",
                    recorded_with=note,
                ),
                EventRequest(
                    ClusterObjectRef(snapshot.local, object_ref(configmap("missing", SHOP))),
                    "Missing",
                    "it is not there",
                    recorded_with=note,
                ),
            ),
        )


async def test_a_notice_goes_with_the_write_of_another_object_even_about_what_is_absent() -> None:
    world = World((HOME,), lambda: (RemovalFeature(),))
    admin = world.client(HOME)
    await admin.create(namespace(SHOP))
    async with world.agents_running():
        await admin.create(configmap("order", SHOP, of="bread"))
        await asyncio.sleep(5)

    events = {e.reason: e.involved_object.name for e in (await admin.list(Event)).objects}
    assert events == {"Made": "gift", "Missing": "missing"}


async def test_a_removal_as_seen_spares_what_was_edited_meanwhile() -> None:
    world = World((HOME,), lambda: ())
    admin = world.client(HOME)
    await admin.create(namespace(SHOP))
    observed = await admin.create(configmap("gift", SHOP, of="bread"))
    await admin.patch(ConfigMap, "gift", SHOP, {"data": {"of": "salt"}})

    reconciler = world.reconciler(HOME)
    deleting = [
        Delete(HOME, observed, "deleted elsewhere", 0, as_seen=True),
        Delete(HOME, observed, "deleted elsewhere", 0, as_seen=False),
    ]
    first = await reconciler._writer.apply(deleting[:1])
    assert [w.result for w in first] == ["Failed"]
    assert (await admin.read(ConfigMap, "gift", SHOP)).data == {"of": "salt"}

    second = await reconciler._writer.apply(deleting[1:])
    assert [w.result for w in second] == ["Done"]
    with pytest.raises(NotFound):
        await admin.read(ConfigMap, "gift", SHOP)


def test_a_removal_says_whether_it_must_be_as_seen() -> None:
    gift = stored(configmap("gift", SHOP))
    observed = snapshot(RemovalFeature(), HOME, [cluster(HOME, Role.LOCAL)], {HOME: [gift]})
    removal = Removal(
        ClusterObjectRef(HOME, object_ref(gift)), gift.metadata.uid, "gone", as_seen=True
    )

    wanted = diff("giver", Key("gift"), Plan(removals=(removal,)), (), observed)

    assert [a.as_seen for a in wanted.actions if isinstance(a, Delete)] == [True]
