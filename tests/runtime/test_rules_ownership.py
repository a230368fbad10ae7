"""What is whose, and what may be written: rules 1 to 4."""

from collections.abc import Iterable

import msgspec
import pytest
from msgspec.structs import replace

from hanse.model.facts import (
    ClusterDeparted,
    PausedObject,
    Phase,
    Role,
)
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import ClusterObjectRef, object_ref
from hanse.model.ownership import PAUSED
from hanse.model.plan import Desired, Key, Plan, Removal
from hanse.model.snapshot import Change, ObjectChange, Snapshot, Watch, Writes
from hanse.runtime.diff import diff
from hanse.runtime.ownership import Owner, with_owner
from tests.runtime.toy_world import SHOP, find_configmap, get_configmap, offer, prices, toy_world
from tests.support.builders import cluster, configmap, namespace, snapshot, stored
from tests.support.faults import Sent
from tests.support.toy import HOME, OFFERED, Toy
from tests.support.world import BROKER
from tinykube.virtual_time import ON_VIRTUAL_TIME


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


# 1


async def test_rule_1_omission_deletes_only_what_is_ours() -> None:
    async with toy_world() as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        ours = await get_configmap(world, "hamburg", "copy-of-bread")
        meta = replace(ours.metadata, name="backup", uid="", resource_version="")
        await world.client("hamburg").create(replace(ours, metadata=meta))

        await world.client("lubeck").delete(ConfigMap, "bread", SHOP)
        await world.settle()

        assert await find_configmap(world, "hamburg", "copy-of-bread") is None
        assert await find_configmap(world, "hamburg", "backup") is not None
        assert await find_configmap(world, BROKER, "shop.bread.lubeck", HOME) is None


async def test_rule_1_an_object_that_another_connection_shows_is_not_deleted_through_it() -> None:
    class Onlooker:
        """Looks at ConfigMaps of sites, and writes nothing."""

        name = "onlooker"
        watches = (Watch(Role.SITE, ConfigMap),)

        def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
            return ()

        def plan(self, key: Key, snapshot: Snapshot) -> Plan:
            return Plan()

    async with toy_world("lubeck", features=(Toy(), Onlooker())) as world:
        reconciler = world.agents["lubeck"].reconciler
        reconciler.informers.join("site/lubeck", {Role.SITE}, world.api("lubeck", "lubeck"))
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        ours = await get_configmap(world, "lubeck", "copy-of-bread")

        with world.network.counting_writes() as writes:
            await world.settle()

        assert await find_configmap(world, "lubeck", "copy-of-bread") == ours
        assert writes == []
        assert reconciler.metrics.registry.get_sample_value(
            "hanse_failed_plans_total", {"feature": "toy"}
        ) in (None, 0.0)


async def test_rule_1_what_is_not_ours_goes_only_by_a_removal_with_uid_and_cause() -> None:
    class Broom:
        """Removes ConfigMaps that say so, and only the very ones it saw."""

        name = "broom"
        watches = (Watch(Role.LOCAL, ConfigMap, writes=Writes.OBJECTS),)

        def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
            if isinstance(change, ObjectChange) and isinstance(change.after, ConfigMap):
                yield Key("dust", change.after.metadata.name, change.after.metadata.namespace)

        def plan(self, key: Key, snapshot: Snapshot) -> Plan:
            dust = snapshot.get(snapshot.local, ConfigMap, key.name, key.namespace)
            if dust is None or "dust" not in dust.data:
                return Plan()
            uid = "another" if dust.data["dust"] == "other" else dust.metadata.uid
            return Plan(
                removals=(
                    Removal(ClusterObjectRef(snapshot.local, object_ref(dust)), uid, "is dust"),
                )
            )

    async with toy_world("lubeck", features=(Broom(),)) as world:
        for name, dust in (("grain", "yes"), ("dune", "other")):
            await world.client("lubeck").create(configmap(name, SHOP, dust=dust))
        await world.client("lubeck").create(configmap("gold", SHOP))
        paused = configmap("heap", SHOP, dust="yes")
        meta = replace(paused.metadata, annotations={PAUSED: "true"})
        await world.client("lubeck").create(replace(paused, metadata=meta))
        await world.settle()

        names = ("grain", "dune", "gold", "heap")
        left = {n for n in names if await find_configmap(world, "lubeck", n)}
        assert left == {"dune", "gold", "heap"}
        facts = world.agents["lubeck"].reconciler.informers.facts
        assert [one.target.ref.name for one in facts.all(PausedObject)] == ["heap"]

        resumed = {"metadata": {"annotations": {PAUSED: None}}}
        await world.client("lubeck").patch(ConfigMap, "heap", SHOP, resumed)
        await world.settle()

        assert await find_configmap(world, "lubeck", "heap") is None


# 2


async def test_rule_2_unreachable_is_not_absent() -> None:
    async with toy_world() as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()

        world.network.cut("hamburg", BROKER)
        await world.kill_agent("hamburg")
        world.start_agent("hamburg")
        await world.settle()
        during = await find_configmap(world, "hamburg", "copy-of-bread")
        await world.client("lubeck").delete(ConfigMap, "bread", SHOP)
        await world.settle()
        kept = await find_configmap(world, "hamburg", "copy-of-bread")
        world.network.heal_all()
        await world.settle()

        assert during is not None
        assert kept is not None
        assert await find_configmap(world, "hamburg", "copy-of-bread") is None


async def test_rule_2_nothing_is_written_from_half_of_what_there_is() -> None:
    observed = snapshot(
        Toy(),
        "lubeck",
        [
            cluster("lubeck", Role.LOCAL),
            cluster(BROKER, Role.BROKER, phase=Phase.CONNECTING),
        ],
        {"lubeck": [stored(namespace(SHOP))]},
    )
    copy = Desired(configmap("copy", SHOP), "lubeck", sources=frozenset({BROKER}))

    wanted = diff("toy", Key("copy", "bread", SHOP), Plan((copy,)), [], observed)

    assert wanted.actions == ()
    assert wanted.waiting_for == {BROKER}


async def test_rule_2_an_unknown_source_is_a_reason_to_keep_and_a_departed_one_is_not() -> None:
    owner = Owner("toy", Key("copy", "bread", SHOP), "lubeck")
    copy = stored(with_owner(configmap("copy", SHOP), owner, frozenset({"bergen"})))
    connected = [cluster("lubeck", Role.LOCAL)]
    before = snapshot(Toy(), "lubeck", connected, {"lubeck": [copy]})
    gone = ClusterDeparted("bergen", before.now)
    after = snapshot(Toy(), "lubeck", connected, {"lubeck": [copy]}, [gone])
    owned = [("lubeck", owner, copy)]

    assert diff("toy", owner.key, Plan(), owned, before).actions == ()
    assert len(diff("toy", owner.key, Plan(), owned, after).actions) == 1


# 3


async def test_rule_3_nothing_foreign_is_overwritten_and_the_conflict_is_reported() -> None:
    async with toy_world() as world:
        mine = await world.client("hamburg").create(configmap("copy-of-bread", SHOP, mine="yes"))
        record = configmap("shop.bread.lubeck", HOME, mine="yes")
        await world.client(BROKER).create(record)
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.client("hamburg").create(offer("bread", price="4"))
        await world.settle()

        kept = await get_configmap(world, "hamburg", "copy-of-bread")
        offer_object = await get_configmap(world, "lubeck", "bread")
        assert kept == mine
        assert "exists already" in offer_object.metadata.annotations[OFFERED]
        receipt = await find_configmap(world, "hamburg", "receipt-of-bread")
        assert receipt is None, "a later step followed one that could not be done"

        await world.client(BROKER).delete(ConfigMap, "shop.bread.lubeck", HOME)
        await world.settle()

        offer_object = await get_configmap(world, "lubeck", "bread")
        assert offer_object.metadata.annotations[OFFERED] == "yes"


# 4


async def test_rule_4_every_write_has_a_precondition() -> None:
    async with toy_world() as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        await world.client("lubeck").patch(ConfigMap, "bread", SHOP, {"data": {"price": "4"}})
        await world.settle()
        await world.client("lubeck").delete(ConfigMap, "bread", SHOP)
        await world.settle()

        writes = [w for w in world.network.writes if "/events" not in w.request.path]
        assert {w.request.method for w in writes} == {"POST", "PATCH", "DELETE"}
        assert all(_is_conditional(w) for w in writes if w.request.method != "POST")
        assert all(
            ("fieldManager", "hanse") in w.request.query
            for w in writes
            if w.request.body and w.request.method != "DELETE"
        )


def _is_conditional(sent: Sent) -> bool:
    body = msgspec.json.decode(sent.request.body)
    given = body["preconditions"] if sent.request.method == "DELETE" else body["metadata"]
    return bool(given.get("uid") and given.get("resourceVersion"))


async def test_rule_4_a_field_of_others_survives_our_update() -> None:
    async with toy_world() as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        note = {"metadata": {"annotations": {"note": "by hand"}, "finalizers": ["example.com/x"]}}
        await world.client("hamburg").patch(ConfigMap, "copy-of-bread", SHOP, note)
        await world.client("lubeck").patch(ConfigMap, "bread", SHOP, {"data": {"price": "4"}})
        await world.settle()

        copy = await get_configmap(world, "hamburg", "copy-of-bread")
        assert prices(copy) == {"lubeck": "4"}
        assert copy.metadata.annotations["note"] == "by hand"
        assert copy.metadata.finalizers == ("example.com/x",)
