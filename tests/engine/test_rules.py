"""The sixteen rules of the engine, one scenario each, on embedded clusters and virtual time."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hanse.engine.actions import Create, todo
from hanse.engine.engine import Engine
from hanse.engine.leaders import MEMBER_LEASES, Leaders
from hanse.engine.leaving import leave, leave_by_force
from hanse.engine.outside import Outside
from hanse.engine.ownership import EPOCH, Owner, owner_of, stamped
from hanse.engine.preview import preview
from hanse.kube.client import Client
from hanse.kube.errors import NotFound, Unreachable
from hanse.kube.lease import Terms
from hanse.kube.request import Request
from hanse.model.crds import crd_of
from hanse.model.facts import (
    Answer,
    ClusterState,
    Departed,
    KindServed,
    Leadership,
    Liveness,
    Outcome,
    Phase,
    Role,
)
from hanse.model.keys import Key
from hanse.model.kinds.coordination import Lease, LeaseSpec
from hanse.model.kinds.core import ConfigMap, Event, Namespace
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.objects import K, Meta, Object, Place, Ref, ref_of
from hanse.model.plan import Desired, Feature, Plan, Question, Read, Removal
from hanse.model.snapshot import Change, ObjectChange, Snapshot, Watch, Writes
from hanse.model.verdict import Allow, Ask, Asks, Deny, Review, Verdict
from hanse.testing.builders import cluster, configmap, namespace, snapshot, stored
from hanse.testing.faults import Sent, Weather
from hanse.testing.time import ON_VIRTUAL_TIME
from hanse.testing.toy import HOME, OFFER, OFFERED, Toy
from hanse.testing.world import BROKER, World
from hanse.webhooks.server import decide

SHOP = "shop"


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


def offer(name: str, /, **data: str) -> ConfigMap:
    return ConfigMap(metadata=Meta(name=name, namespace=SHOP, labels={OFFER: "yes"}), data=data)


@asynccontextmanager
async def town(
    *names: str, features: Sequence[Feature] = (), agents: bool = True
) -> AsyncIterator[World]:
    """A world with the namespaces that the toy needs."""
    world = World(names or ("lubeck", "hamburg"), lambda: features or (Toy(),))
    for name in world.names:
        await world.client(name).create(namespace(SHOP))
    await world.client(BROKER).create(namespace(HOME))
    if not agents:
        yield world
        return
    async with world.agents_running():
        yield world


async def found(world: World, where: str, name: str, space: str = SHOP) -> ConfigMap | None:
    try:
        return await world.client(where).read(ConfigMap, name, space)
    except NotFound:
        return None


async def must_find(world: World, where: str, name: str, space: str = SHOP) -> ConfigMap:
    obj = await found(world, where, name, space)
    assert obj is not None, f"{name} is not in {where}"
    return obj


def prices(copy: ConfigMap | None) -> dict[str, str]:
    assert copy is not None, "there is no copy"
    return {c: msgspec.json.decode(d)["price"] for c, d in copy.data.items()}


# 1


async def test_rule_1_omission_deletes_only_what_is_ours() -> None:
    async with town() as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        ours = await must_find(world, "hamburg", "copy-of-bread")
        meta = replace(ours.metadata, name="backup", uid="", resource_version="")
        await world.client("hamburg").create(replace(ours, metadata=meta))

        await world.client("lubeck").delete(ConfigMap, "bread", SHOP)
        await world.settle()

        assert await found(world, "hamburg", "copy-of-bread") is None
        assert await found(world, "hamburg", "backup") is not None
        assert await found(world, BROKER, "shop.bread.lubeck", HOME) is None


async def test_rule_1_what_is_seen_on_another_way_is_not_judged_there() -> None:
    class Onlooker:
        """Looks at ConfigMaps of sites, and writes nothing."""

        name = "onlooker"
        watches = (Watch(Role.SITE, ConfigMap),)

        def wakes(self, change: Change, seen: Snapshot) -> Iterable[Key]:
            return ()

        def plan(self, key: Key, seen: Snapshot) -> Plan:
            return Plan()

    async with town("lubeck", features=(Toy(), Onlooker())) as world:
        engine = world.agents["lubeck"].engine
        engine.fleet.join("site/lubeck", {Role.SITE}, world.api("lubeck", "lubeck"))
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        ours = await must_find(world, "lubeck", "copy-of-bread")

        with world.network.counting_writes() as writes:
            await world.settle()

        assert await found(world, "lubeck", "copy-of-bread") == ours
        assert writes == []
        assert engine.metrics.registry.get_sample_value(
            "hanse_failed_plans_total", {"feature": "toy"}
        ) in (None, 0.0)


async def test_rule_1_what_is_not_ours_goes_only_by_a_removal_with_uid_and_cause() -> None:
    class Broom:
        """Removes ConfigMaps that say so, and only the very ones it saw."""

        name = "broom"
        watches = (Watch(Role.LOCAL, ConfigMap, writes=Writes.OBJECTS),)

        def wakes(self, change: Change, seen: Snapshot) -> Iterable[Key]:
            if isinstance(change, ObjectChange) and isinstance(change.after, ConfigMap):
                yield Key("dust", change.after.metadata.name, change.after.metadata.namespace)

        def plan(self, key: Key, seen: Snapshot) -> Plan:
            dust = seen.get(seen.local, ConfigMap, key.name, key.namespace)
            if dust is None or "dust" not in dust.data:
                return Plan()
            uid = "another" if dust.data["dust"] == "other" else dust.metadata.uid
            return Plan(removals=(Removal(Place(seen.local, ref_of(dust)), uid, "is dust"),))

    async with town("lubeck", features=(Broom(),)) as world:
        for name, dust in (("grain", "yes"), ("dune", "other")):
            await world.client("lubeck").create(configmap(name, SHOP, dust=dust))
        await world.client("lubeck").create(configmap("gold", SHOP))
        await world.settle()

        left = {n for n in ("grain", "dune", "gold") if await found(world, "lubeck", n)}
        assert left == {"dune", "gold"}


# 2


async def test_rule_2_unreachable_is_not_absent() -> None:
    async with town() as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()

        world.network.cut("hamburg", BROKER)
        await world.kill_agent("hamburg")
        world.start_agent("hamburg")
        await world.settle()
        during = await found(world, "hamburg", "copy-of-bread")
        await world.client("lubeck").delete(ConfigMap, "bread", SHOP)
        await world.settle()
        kept = await found(world, "hamburg", "copy-of-bread")
        world.network.heal_all()
        await world.settle()

        assert during is not None
        assert kept is not None
        assert await found(world, "hamburg", "copy-of-bread") is None


async def test_rule_2_nothing_is_written_from_half_of_what_there_is() -> None:
    seen = snapshot(
        Toy(),
        "lubeck",
        [
            cluster("lubeck", Role.LOCAL),
            cluster(BROKER, Role.BROKER, phase=Phase.CONNECTING),
        ],
        {"lubeck": [stored(namespace(SHOP))]},
    )
    copy = Desired(configmap("copy", SHOP), "lubeck", sources=frozenset({BROKER}))

    wanted = todo("toy", Key("copy", "bread", SHOP), Plan((copy,)), [], seen)

    assert wanted.actions == ()
    assert wanted.waiting_for == {BROKER}


async def test_rule_2_an_unknown_source_is_a_reason_to_keep_and_a_departed_one_is_not() -> None:
    owner = Owner("toy", Key("copy", "bread", SHOP), "lubeck")
    copy = stored(stamped(configmap("copy", SHOP), owner, frozenset({"bergen"})))
    connected = [cluster("lubeck", Role.LOCAL)]
    before = snapshot(Toy(), "lubeck", connected, {"lubeck": [copy]})
    gone = Departed("bergen", before.now)
    after = snapshot(Toy(), "lubeck", connected, {"lubeck": [copy]}, [gone])
    owned = [("lubeck", owner, copy)]

    assert todo("toy", owner.key, Plan(), owned, before).actions == ()
    assert len(todo("toy", owner.key, Plan(), owned, after).actions) == 1


# 3


async def test_rule_3_nothing_foreign_is_overwritten_and_the_conflict_is_told() -> None:
    async with town() as world:
        mine = await world.client("hamburg").create(configmap("copy-of-bread", SHOP, mine="yes"))
        record = configmap("shop.bread.lubeck", HOME, mine="yes")
        await world.client(BROKER).create(record)
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.client("hamburg").create(offer("bread", price="4"))
        await world.settle()

        kept = await must_find(world, "hamburg", "copy-of-bread")
        told = await must_find(world, "lubeck", "bread")
        assert kept == mine
        assert "exists already" in told.metadata.annotations[OFFERED]
        receipt = await found(world, "hamburg", "receipt-of-bread")
        assert receipt is None, "a later step followed one that could not be done"

        await world.client(BROKER).delete(ConfigMap, "shop.bread.lubeck", HOME)
        await world.settle()

        told = await must_find(world, "lubeck", "bread")
        assert told.metadata.annotations[OFFERED] == "yes"


# 4


async def test_rule_4_every_write_has_a_precondition() -> None:
    async with town() as world:
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
    async with town() as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        note = {"metadata": {"annotations": {"note": "by hand"}, "finalizers": ["example.com/x"]}}
        await world.client("hamburg").patch(ConfigMap, "copy-of-bread", SHOP, note)
        await world.client("lubeck").patch(ConfigMap, "bread", SHOP, {"data": {"price": "4"}})
        await world.settle()

        copy = await must_find(world, "hamburg", "copy-of-bread")
        assert prices(copy) == {"lubeck": "4"}
        assert copy.metadata.annotations["note"] == "by hand"
        assert copy.metadata.finalizers == ("example.com/x",)


# 5

TERMS = Terms()


class Crown:
    """Writes one ConfigMap into every member as its leader."""

    name = "crown"
    watches = (
        Watch(Role.LED, ConfigMap, writes=Writes.OBJECTS),
        Watch(Role.LOCAL, ConfigMap),
    )

    def wakes(self, change: Change, seen: Snapshot) -> Iterable[Key]:
        return [Key("crown")]

    def plan(self, key: Key, seen: Snapshot) -> Plan:
        source = seen.get(seen.local, ConfigMap, "law", SHOP)
        if source is None:
            return Plan()
        law = ConfigMap(metadata=Meta(name="law", namespace=SHOP), data=source.data)
        led = [m.member for m in seen.facts(Leadership) if m.ours]
        return Plan(tuple(Desired(law, m, as_leader_of=m) for m in led))


def supervisor(world: World, name: str, member: str) -> tuple[Engine, Leaders]:
    """An engine that stands for election in one member."""
    engine = world.engine(name)
    engine.fleet.join(member, {Role.MEMBER}, world.api(name, member))
    leaders = Leaders(
        engine.fleet, f"{name}_1", clock=world.clock, random=world.random, terms=TERMS
    )
    engine.fence(leaders)
    return engine, leaders


async def _supervise(world: World, name: str, member: str) -> None:
    engine, leaders = supervisor(world, name, member)
    async with engine.running(), leaders.running():
        leaders.stand(member, Client(world.network.transport(name, member, _way(world, member))))
        await asyncio.get_running_loop().create_future()


def _way(world: World, member: str) -> Any:
    return world.client(member)._transport


async def test_rule_5_a_leader_without_a_fresh_lease_does_not_write() -> None:
    async with town("lubeck", "hamburg", "child", features=(Crown(),), agents=False) as world:
        await world.client("child").create(namespace(MEMBER_LEASES))
        for name in ("lubeck", "hamburg"):
            await world.client(name).create(configmap("law", SHOP, of=name))
        first = asyncio.create_task(_supervise(world, "lubeck", "child"))
        await asyncio.sleep(10)
        second = asyncio.create_task(_supervise(world, "hamburg", "child"))
        await asyncio.sleep(10)
        assert (await must_find(world, "child", "law")).data == {"of": "lubeck"}

        world.network.link("lubeck", "child").weather = Weather(delay=timedelta(seconds=40))
        await world.client("lubeck").patch(ConfigMap, "law", SHOP, {"data": {"of": "late"}})
        await asyncio.sleep(120)

        law = await must_find(world, "child", "law")
        late = [
            w
            for w in world.network.writes
            if w.source == "lubeck" and w.target == "child" and b"late" in w.request.body
        ]
        assert law.data == {"of": "hamburg"}
        assert all(w.status in (None, 409) for w in late), "a late write of an old leader counted"
        for task in (first, second):
            task.cancel()
        await asyncio.wait({first, second})


def _law(epoch: int, text: str) -> ConfigMap:
    owner = Owner("crown", Key("crown"), "child", led=True)
    return stored(stamped(configmap("law", SHOP, of=text), owner, epoch=epoch))


@pytest.mark.parametrize(
    ("ours", "written"),
    [pytest.param(4, False, id="an older epoch"), pytest.param(5, True, id="the same epoch")],
)
def test_rule_5_a_lower_epoch_never_overwrites_a_higher(ours: int, written: bool) -> None:
    law = _law(5, "hamburg")
    seen = snapshot(
        Crown(),
        "lubeck",
        [cluster("lubeck", Role.LOCAL), cluster("child", Role.MEMBER, Role.LED)],
        {"lubeck": [stored(configmap("law", SHOP, of="lubeck"))], "child": [law]},
        [Leadership("child", "lubeck_1", ours, ours=True)],
    )
    owner = owner_of(law)
    assert owner is not None

    plan = Crown().plan(owner.key, seen)
    wanted = todo("crown", owner.key, plan, [("child", owner, law)], seen)

    assert bool(wanted.actions) is written
    assert law.metadata.annotations[EPOCH] == "5"


async def test_rule_5_watches_of_the_led_start_and_stop_with_leadership() -> None:
    async with town("lubeck", "child", features=(Crown(),), agents=False) as world:
        await world.client("child").create(namespace(MEMBER_LEASES))
        engine, leaders = supervisor(world, "lubeck", "child")
        async with engine.running(), leaders.running():
            client = world.client("child")
            leaders.stand("child", client)
            await asyncio.sleep(5)
            watched = ("child", ConfigMap.kind) in engine.fleet.stores
            await leaders.withdraw("child")
            engine.fleet.set_roles("child", {Role.MEMBER})
            await asyncio.sleep(5)

            assert watched
            assert ("child", ConfigMap.kind) not in engine.fleet.stores


# 6


async def test_rule_6_a_later_step_waits_for_the_one_before_in_its_destination_alone() -> None:
    async with town() as world:
        world.network.link("hamburg", "hamburg").weather = Weather(refused=1.0)
        await world.client("lubeck").create(offer("bread", price="3"))
        await asyncio.sleep(30)
        stuck = await found(world, "hamburg", "receipt-of-bread")
        elsewhere = await found(world, "lubeck", "receipt-of-bread")
        world.network.heal_all()
        await world.settle()

        assert stuck is None
        assert elsewhere is not None
        order = [
            w.request.path
            for w in world.network.writes
            if w.source == w.target == "hamburg" and w.status == 201
        ]
        assert len(order) == 2
        assert await found(world, "hamburg", "receipt-of-bread") is not None


# 7


async def test_rule_7_answers_are_facts_and_wake_the_one_who_asked() -> None:
    class Curious:
        """Copies what a live read of an unwatched name finds."""

        name = "curious"
        watches = (
            Watch(Role.LOCAL, ConfigMap, writes=Writes.OBJECTS),
            Watch(Role.BROKER, ConfigMap, namespace=HOME),
        )

        def wakes(self, change: Change, seen: Snapshot) -> Iterable[Key]:
            return [Key("look")] if isinstance(change, ObjectChange) else []

        def plan(self, key: Key, seen: Snapshot) -> Plan:
            read = Read(Place(BROKER, Ref(ConfigMap.kind, "secret-place", "elsewhere")))
            known = seen.fact(Answer, read.id)
            found = known.value["data"] if known is not None and known.value else {}
            note = ConfigMap(metadata=Meta(name="note", namespace=SHOP), data=found)
            desired = (Desired(note, seen.local),) if known is not None else ()
            return Plan(desired, questions=(Question(read, timedelta(hours=1)),))

    async with town("lubeck", features=(Curious(),), agents=False) as world:
        await world.client(BROKER).create(namespace("elsewhere"))
        await world.client(BROKER).create(configmap("secret-place", "elsewhere", x="1"))
        await world.client("lubeck").create(configmap("curiosity", SHOP))
        world.start_agent("lubeck")
        await world.settle()

        reads = [s for s in world.network.sent if s.request.path.endswith("/secret-place")]
        assert (await must_find(world, "lubeck", "note")).data == {"x": "1"}
        assert len(reads) == 1, "asked again though the answer was young enough"
        await world.stop()


async def test_rule_7_facts_tell_each_clusters_state_and_since_when() -> None:
    async with town() as world:
        await asyncio.sleep(10)
        facts = world.agents["hamburg"].engine.fleet.facts
        before = facts.get(ClusterState, BROKER)
        world.network.cut("hamburg", BROKER)
        await asyncio.sleep(60)
        during = facts.get(ClusterState, BROKER)
        world.network.heal_all()
        await asyncio.sleep(60)
        after = facts.get(ClusterState, BROKER)

        assert before is not None
        assert during is not None
        assert after is not None
        assert [s.phase for s in (before, during, after)] == [
            Phase.SYNCED,
            Phase.UNREACHABLE,
            Phase.SYNCED,
        ]
        assert before.since < during.since < after.since
        assert "does not answer" in during.reason


async def test_rule_7_the_outcome_of_a_refused_write_is_a_fact_until_it_succeeds() -> None:
    async with town("lubeck", agents=False) as world:
        await world.client(BROKER).delete(Namespace, HOME, "")
        finalize = {"metadata": {"name": HOME}, "spec": {"finalizers": []}}
        await _finalize(world, finalize)
        world.start_agent("lubeck")
        await world.client("lubeck").create(offer("bread", price="3"))
        await asyncio.sleep(20)
        facts = world.agents["lubeck"].engine.fleet.facts
        told = [o.result for o in facts.all(Outcome)]

        await world.client(BROKER).create(namespace(HOME))
        await world.settle(timedelta(minutes=11))

        assert told == ["Refused"]
        assert list(facts.all(Outcome)) == []
        assert (await must_find(world, "lubeck", "bread")).metadata.annotations[OFFERED] == "yes"
        await world.stop()


async def _finalize(world: World, body: dict[str, Any]) -> None:
    current = await world.client(BROKER).read_raw(f"/api/v1/namespaces/{HOME}")
    obj = msgspec.json.decode(current.body)
    obj["spec"] = body["spec"]
    path = f"/api/v1/namespaces/{HOME}/finalize"
    await world.client(BROKER).send(Request("PUT", path, body=msgspec.json.encode(obj)))


class Doctor:
    """Notes for each Lease of the broker whether its holder is alive."""

    name = "doctor"
    watches = (Watch(Role.LOCAL, ConfigMap), Watch(Role.BROKER, Lease, namespace=HOME))

    def wakes(self, change: Change, seen: Snapshot) -> Iterable[Key]:
        return []

    def plan(self, key: Key, seen: Snapshot) -> Plan:
        return Plan()


async def test_rule_7_liveness_is_judged_by_our_own_observation_of_renewals() -> None:
    async with town("lubeck", features=(Doctor(),)) as world:
        facts = world.agents["lubeck"].engine.fleet.facts
        spec = LeaseSpec(holder_identity="bergen", lease_duration_seconds=30)
        client = world.client(BROKER)
        await client.create(Lease(metadata=Meta(name="bergen", namespace=HOME), spec=spec))
        told = []
        for round_ in range(4):
            renewal = {"spec": {"renewTime": f"2001-01-01T00:00:0{round_}.000000Z"}}
            await client.patch(Lease, "bergen", HOME, renewal)
            await asyncio.sleep(20)
            told.append([f.alive for f in facts.all(Liveness)])
        world.network.cut("lubeck", BROKER)
        await asyncio.sleep(300)
        unseen = [f.alive for f in facts.all(Liveness)]
        world.network.heal_all()
        await asyncio.sleep(120)
        silent = [f.alive for f in facts.all(Liveness)]
        await client.delete(Lease, "bergen", HOME)
        await asyncio.sleep(5)

        assert told == [[], [True], [True], [True]], (
            "known by its first renewal, whatever its clock"
        )
        assert unseen == [True], "silence is not held against one we could not hear"
        assert silent == [False]
        assert list(facts.all(Liveness)) == []


async def test_rule_7_a_kind_is_noticed_as_soon_as_it_is_served() -> None:
    class Fan(Toy):
        name = "fan"
        watches: tuple[Watch, ...] = (Watch(Role.LOCAL, ServiceExport),)

        def wakes(self, change: Change, seen: Snapshot) -> Iterable[Key]:
            return []

    async with town("lubeck", features=(Fan(),)) as world:
        await world.settle(timedelta(minutes=30))
        facts = world.agents["lubeck"].engine.fleet.facts
        place = ("lubeck", ServiceExport.kind)
        before = facts.get(KindServed, place)
        definition = crd_of(ServiceExport)
        for version in definition["spec"]["versions"]:
            version["storage"] = version["served"] = version["name"] == "v1alpha1"
        body = msgspec.json.encode(definition)
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await world.client("lubeck").send(Request("POST", path, body=body))
        await asyncio.sleep(2)
        after = facts.get(KindServed, place)

        assert before is not None
        assert not before.served
        assert after is not None
        assert after.served, "in the version that is served here"


# 8


class Doorkeeper:
    """Lets a ConfigMap in only if the one it names exists."""

    name = "doorkeeper"
    asks = (Asks(groups=("",), resources=("configmaps",)),)

    def review(self, review: Review, seen: Snapshot) -> Verdict:
        wanted = review.object.get("data", {}).get("friend", "")
        place = Place(seen.local, Ref(ConfigMap.kind, wanted, SHOP))
        if seen.find(place) is not None:
            return Allow({"metadata": {"labels": {"checked": "yes"}}})
        read = Read(place)
        answer = seen.fact(Answer, read.id)
        if answer is None:
            return Ask(read)
        return Allow() if answer.value is not None else Deny(f"data.friend: no ConfigMap {wanted}")


@pytest.mark.parametrize(
    ("friend", "link", "verdict"),
    [
        pytest.param("known", Weather(), Allow, id="in the store"),
        pytest.param("nobody", Weather(), Deny, id="asked for and absent"),
        pytest.param("nobody", Weather(delay=timedelta(seconds=5)), Deny, id="no answer in time"),
    ],
)
async def test_rule_8_webhooks_ask_for_what_the_store_does_not_know(
    friend: str, link: Weather, verdict: type[Verdict]
) -> None:
    async with town("lubeck") as world:
        await world.client("lubeck").create(configmap("known", SHOP))
        await asyncio.sleep(5)
        engine = world.agents["lubeck"].engine
        world.network.link("lubeck", "lubeck").weather = link
        review = Review("CREATE", "", "v1", "ConfigMap", object={"data": {"friend": friend}})
        started = asyncio.get_running_loop().time()

        given = await decide(Doorkeeper(), review, engine.snapshot, engine.find_out)

        assert isinstance(given, verdict)
        assert asyncio.get_running_loop().time() - started <= 1.001
        if link.delay:
            assert isinstance(given, Deny)
            assert "try again" in given.message


# 9


async def test_rule_9_own_writes_are_seen_at_once() -> None:
    async with town("lubeck") as world:
        await asyncio.sleep(5)
        link = world.network.link("lubeck", BROKER)
        engine = world.agents["lubeck"].engine
        for stream in engine.fleet.connections[BROKER].streams.values():
            engine.fleet._tasks[BROKER, stream.scope].cancel()  # the watch tells nothing more
        with world.network.counting_writes() as writes:
            await world.client("lubeck").create(offer("bread", price="3"))
            await asyncio.sleep(30)

        to_broker = [w for w in writes if w.target == BROKER]
        seen = engine.snapshot().get(BROKER, ConfigMap, "shop.bread.lubeck", HOME)
        assert seen is not None
        assert [w.status for w in to_broker] == [201, 201], "the record and the sum, once each"
        assert not link.cut


# 10


async def test_rule_10_the_first_in_order_writes_what_is_shared_and_the_next_steps_in() -> None:
    async with town() as world:
        for name in world.names:
            await world.client(name).create(offer("bread", price="3"))
        await world.settle()
        sums = [w for w in world.network.writes if b"sum.shop.bread" in w.request.body]
        assert {w.source for w in sums if w.request.method == "POST"} <= {"lubeck", "hamburg"}

        await world.kill_agent("hamburg")
        with world.network.counting_writes() as writes:
            await world.client(BROKER).delete(ConfigMap, "sum.shop.bread", HOME)
            await asyncio.sleep(5)

        assert [(w.source, w.status) for w in writes] == [("lubeck", 201)]


# 11


async def test_rule_11_many_changes_of_one_key_make_few_plans() -> None:
    plans = 0

    class Counting(Toy):
        def plan(self, key: Key, seen: Snapshot) -> Plan:
            nonlocal plans
            plans += key == Key("offer", "bread", SHOP)
            return super().plan(key, seen)

    async with town("lubeck", features=(Counting(),)) as world:
        client = world.client("lubeck")
        await client.create(offer("bread", price="0"))
        for price in range(1, 200):
            await client.patch(ConfigMap, "bread", SHOP, {"data": {"price": str(price)}})
        await world.settle()

        record = await must_find(world, BROKER, "shop.bread.lubeck", HOME)
        assert record.data == {"price": "199"}
        assert plans < 40


# 12


async def test_rule_12_restarting_an_agent_over_a_settled_fleet_writes_nothing() -> None:
    async with town() as world:
        for name in world.names:
            for number in range(20):
                await world.client(name).create(offer(f"bread-{number}", price="3"))
        await world.settle()

        with world.network.counting_writes() as writes:
            for name in world.names:
                await world.kill_agent(name)
                world.start_agent(name)
            await world.settle(timedelta(hours=1))

        assert writes == []


# 13


async def test_rule_13_mass_disappearance_is_held_until_a_second_list_agrees() -> None:
    async with town("lubeck") as world:
        for number in range(80):
            await world.client("lubeck").create(offer(f"bread-{number}", price="3"))
        await world.settle()
        engine = world.agents["lubeck"].engine

        world.network.cut("lubeck", "lubeck")
        await asyncio.sleep(10)
        for number in range(80):
            await world.client("lubeck").delete(ConfigMap, f"bread-{number}", SHOP)
        world.clusters["lubeck"].storage.lose_history()
        world.network.heal_all()
        await world.settle()

        held = engine.metrics.registry.get_sample_value(
            "hanse_held_deletions_total", {"cluster": BROKER, "feature": "toy"}
        )
        assert held is not None
        assert held > 0
        assert await found(world, BROKER, "shop.bread-0.lubeck", HOME) is None


async def test_rule_13_deletions_seen_on_a_live_watch_are_no_surprise() -> None:
    async with town("lubeck") as world:
        for number in range(80):
            await world.client("lubeck").create(offer(f"bread-{number}", price="3"))
        await world.settle()
        engine = world.agents["lubeck"].engine

        for number in range(80):
            await world.client("lubeck").delete(ConfigMap, f"bread-{number}", SHOP)
        await asyncio.sleep(10)

        assert engine.guard.holds == ()
        assert await found(world, BROKER, "shop.bread-79.lubeck", HOME) is None


# 14


class Ledger:
    """An outside system in memory, with no versions of its own."""

    kinds = (ConfigMap,)

    def __init__(self) -> None:
        self.rows: dict[str, ConfigMap] = {}
        self.down = False

    async def list(self, kind: type[K]) -> Sequence[K]:
        if self.down:
            raise Unreachable("the ledger is closed")
        return [o for o in self.rows.values() if isinstance(o, kind)]

    async def create(self, obj: K) -> K:
        return await self.update(obj)

    async def update(self, obj: K) -> K:
        assert isinstance(obj, ConfigMap)
        self.rows[obj.metadata.name] = obj
        return obj

    async def delete(self, obj: Object) -> None:
        del self.rows[obj.metadata.name]


class Clerk:
    """Writes every ConfigMap of the shop into the ledger."""

    name = "clerk"
    watches = (
        Watch(Role.LOCAL, ConfigMap, namespace=SHOP),
        Watch(Role.MEMBER, ConfigMap, writes=Writes.OBJECTS),
    )

    def wakes(self, change: Change, seen: Snapshot) -> Iterable[Key]:
        if isinstance(change, ObjectChange) and change.where == seen.local:
            yield Key("row", change.object.metadata.name)

    def plan(self, key: Key, seen: Snapshot) -> Plan:
        source = seen.get(seen.local, ConfigMap, key.name, SHOP)
        if source is None or "sum" not in source.data:
            return Plan()
        row = ConfigMap(metadata=Meta(name=key.name), data=source.data)
        return Plan((Desired(row, "ledger"),))


async def test_rule_14_an_outside_system_is_served_by_the_same_comparison() -> None:
    async with town("lubeck", features=(Clerk(),), agents=False) as world:
        ledger = Ledger()
        ledger.rows["old"] = ConfigMap(metadata=Meta(name="old"), data={"by": "a person"})
        engine = world.engine("lubeck")
        engine.fleet.join("ledger", {Role.MEMBER}, Outside(ledger))
        client = world.client("lubeck")
        async with engine.running():
            await client.create(configmap("old", SHOP, sum="1"))
            await client.create(configmap("new", SHOP, sum="2"))
            await asyncio.sleep(60)
            assert ledger.rows["old"].data == {"by": "a person"}
            assert ledger.rows["new"].data == {"sum": "2"}

            ledger.rows["new"] = replace(ledger.rows["new"], data={"sum": "wrong"})
            await asyncio.sleep(60)
            assert ledger.rows["new"].data == {"sum": "2"}, "a change by hand is put back"

            ledger.down = True
            await asyncio.sleep(60)
            await client.delete(ConfigMap, "new", SHOP)
            ledger.down = False
            await asyncio.sleep(60)
            assert set(ledger.rows) == {"old"}


# 15


async def test_rule_15_a_cluster_is_left_when_nothing_of_ours_is_in_it() -> None:
    async with town() as world:
        for name in world.names:
            await world.client(name).create(offer("bread", price="3"))
        await world.settle()
        engine = world.agents["lubeck"].engine

        left = await leave(engine, BROKER)
        await world.settle()

        assert left.abandoned == ()
        assert await found(world, BROKER, "shop.bread.lubeck", HOME) is None
        assert await found(world, BROKER, "shop.bread.hamburg", HOME) is not None
        assert await found(world, "lubeck", "copy-of-bread") is None
        assert BROKER not in engine.fleet.connections


async def test_rule_15_leaving_waits_for_an_unreachable_cluster_and_force_does_not() -> None:
    async with town("lubeck") as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        engine = world.agents["lubeck"].engine
        world.network.cut("lubeck", BROKER)

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(600):
                await leave(engine, BROKER)
        left = await leave_by_force(engine, BROKER)
        await world.settle()

        assert Place(BROKER, Ref(ConfigMap.kind, "shop.bread.lubeck", HOME)) in left.abandoned
        assert await found(world, "lubeck", "copy-of-bread") is None


# 16


async def test_rule_16_a_preview_shows_what_would_be_written_and_writes_nothing() -> None:
    async with town("lubeck") as world:
        await world.settle()
        engine = world.agents["lubeck"].engine
        with world.network.counting_writes() as writes:
            would = preview(engine, [("lubeck", offer("bread", price="3"))])
            await world.settle()

        made = {(a.where, a.object.metadata.name) for a in would.actions if isinstance(a, Create)}
        assert writes == []
        assert made == {
            (BROKER, "shop.bread.lubeck"),
            (BROKER, "sum.shop.bread"),
            ("lubeck", "copy-of-bread"),
            ("lubeck", "receipt-of-bread"),
        }
        assert engine.snapshot().get("lubeck", ConfigMap, "bread", SHOP) is None


async def test_rule_16_a_plan_that_takes_too_long_is_counted() -> None:
    class Slow(Toy):
        def plan(self, key: Key, seen: Snapshot) -> Plan:
            time.sleep(0.025)  # the plan itself is slow: this is what is measured
            return super().plan(key, seen)

    async with town("lubeck", features=(Slow(),)) as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()

        registry = world.agents["lubeck"].engine.metrics.registry
        slow = registry.get_sample_value("hanse_slow_plans_total", {"feature": "toy"})
        assert slow is not None
        assert slow >= 1


# and what stands around them


async def test_a_pause_stops_writes_until_it_is_lifted() -> None:
    async with town("lubeck") as world:
        await world.client("lubeck").create(namespace("hanse-system"))
        pause = {"metadata": {"annotations": {"hanse.dev/paused": "true"}}}
        await world.client("lubeck").patch(Namespace, "hanse-system", "", pause)
        await asyncio.sleep(5)
        with world.network.counting_writes() as writes:
            await world.client("lubeck").create(offer("bread", price="3"))
            await world.settle()
        assert writes == []

        lift = {"metadata": {"annotations": {"hanse.dev/paused": None}}}
        await world.client("lubeck").patch(Namespace, "hanse-system", "", lift)
        await world.settle()

        assert prices(await found(world, "lubeck", "copy-of-bread")) == {"lubeck": "3"}


async def test_an_event_is_told_with_a_patch_that_was_needed_and_only_then() -> None:
    async with town("lubeck") as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        await world.kill_agent("lubeck")
        world.start_agent("lubeck")
        await world.settle()

        events = [
            e for e in (await world.client("lubeck").list(Event)).objects if e.reason == "Offered"
        ]
        assert [(e.involved_object.name, e.count) for e in events] == [("bread", 1)]


async def test_a_plan_that_raises_holds_up_nobody_else() -> None:
    class Clumsy(Toy):
        def plan(self, key: Key, seen: Snapshot) -> Plan:
            if key.name == "salt":
                raise ZeroDivisionError
            return super().plan(key, seen)

    async with town("lubeck", features=(Clumsy(),)) as world:
        await world.client("lubeck").create(offer("salt", price="3"))
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()

        registry = world.agents["lubeck"].engine.metrics.registry
        failed = registry.get_sample_value("hanse_failed_plans_total", {"feature": "toy"})
        assert failed is not None
        assert 1 <= failed < 30, "it is tried again, more and more slowly"
        assert prices(await found(world, "lubeck", "copy-of-bread")) == {"lubeck": "3"}


async def test_a_feature_that_cannot_take_a_change_in_holds_up_nobody_else() -> None:
    class Deaf(Toy):
        name = "deaf"

        def wakes(self, change: Change, seen: Snapshot) -> Iterable[Key]:
            raise ZeroDivisionError

    async with town("lubeck", features=(Deaf(), Toy())) as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()

        assert prices(await found(world, "lubeck", "copy-of-bread")) == {"lubeck": "3"}


async def test_a_restored_cluster_is_read_again_before_anything_is_written_there() -> None:
    async with town() as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        backup = world.clusters[BROKER].storage.snapshot()
        await world.client("lubeck").create(offer("salt", price="5"))
        await world.settle()

        world.clusters[BROKER].storage.restore(backup)
        with world.network.counting_writes() as writes:
            await world.settle()

        assert not [w for w in writes if "of-salt" in w.request.path], "copies do not flap"
        for name in world.names:
            state = world.agents[name].engine.fleet.facts.get(ClusterState, BROKER)
            assert state is not None
            assert state.phase is Phase.SYNCED
            assert prices(await found(world, name, "copy-of-salt")) == {"lubeck": "5"}
        assert await found(world, BROKER, "shop.salt.lubeck", HOME) is not None


async def test_a_bad_object_is_counted_and_harms_nobody() -> None:
    async with town("lubeck") as world:
        storage = world.clusters["lubeck"].storage
        bad = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "bad", "namespace": SHOP, "uid": "u"},
            "data": {"number": 5},
        }
        storage.create("configmaps", bad)
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()
        await world.kill_agent("lubeck")
        engine = world.start_agent("lubeck")
        await world.settle()

        unreadable = engine.metrics.registry.get_sample_value(
            "hanse_unreadable_objects", {"cluster": "lubeck", "kind": "ConfigMap"}
        )
        assert unreadable == 1
        assert prices(await found(world, "lubeck", "copy-of-bread")) == {"lubeck": "3"}


async def test_a_write_that_is_not_declared_is_a_mistake_and_is_not_sent() -> None:
    class Sneaky(Toy):
        watches: tuple[Watch, ...] = tuple(replace(w, writes=Writes.NOTHING) for w in Toy.watches)

    async with town("lubeck", features=(Sneaky(),)) as world:
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle()

        assert world.network.writes == []


async def test_two_who_disagree_do_not_fight_without_end() -> None:
    class Rival(Toy):
        """Thinks that there should be no sums."""

        def plan(self, key: Key, seen: Snapshot) -> Plan:
            return Plan() if key.topic == "sum" else super().plan(key, seen)

    world = World(("lubeck", "hamburg"), lambda: (Rival() if world.agents else Toy(),))
    for name in world.names:
        await world.client(name).create(namespace(SHOP))
    await world.client(BROKER).create(namespace(HOME))
    async with world.agents_running():
        await world.client("lubeck").create(offer("bread", price="3"))
        await world.settle(timedelta(minutes=10))

        sums = [
            w for w in world.network.writes if "sum" in w.request.path or b"sum" in w.request.body
        ]
        assert 2 <= len(sums) < 60
