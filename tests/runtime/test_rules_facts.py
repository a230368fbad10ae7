"""Facts, webhooks and our own writes: rules 7 to 9."""

import asyncio
from collections.abc import Coroutine, Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from hanse.kube.lease import format_micro_time
from hanse.kube.transport import Request
from hanse.model.admission import (
    AdmissionDecision,
    AdmissionRequest,
    Allow,
    Deny,
    NeedsAnswer,
    WebhookRule,
)
from hanse.model.crds import crd_of
from hanse.model.facts import (
    Answer,
    ClusterState,
    HolderState,
    KindServed,
    LeaseLiveness,
    Phase,
    Role,
    WriteOutcome,
)
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.objects import ClusterObjectRef, Meta, ObjectRef, Wire
from hanse.model.plan import Call, Desired, Key, Plan, Question, Read
from hanse.model.snapshot import Change, ObjectChange, Snapshot, Watch, Writes
from hanse.runtime.questions import RETRY_INTERVAL, Questions
from hanse.web.webhooks.server import decide
from tests.runtime.toy_world import SHOP, get_configmap, offer, toy_world
from tests.support.builders import configmap, namespace
from tests.support.faults import LinkFaults
from tests.support.toy import HOME, OFFERED, Toy
from tests.support.world import BROKER, World
from tinykube.virtual_time import EPOCH, ON_VIRTUAL_TIME, LoopClock


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


# 7


async def test_rule_7_answers_are_facts_and_enqueue_the_key_that_asked() -> None:
    class Curious:
        """Copies what a live read of an unwatched name finds."""

        name = "curious"
        watches = (
            Watch(Role.LOCAL, ConfigMap, writes=Writes.OBJECTS),
            Watch(Role.BROKER, ConfigMap, namespace=HOME),
        )

        def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
            return [Key("look")] if isinstance(change, ObjectChange) else []

        def plan(self, key: Key, snapshot: Snapshot) -> Plan:
            read = Read(
                ClusterObjectRef(BROKER, ObjectRef(ConfigMap.kind, "secret-place", "elsewhere"))
            )
            known = snapshot.fact(Answer, read.id)
            find_configmap = known.value["data"] if known is not None and known.value else {}
            note = ConfigMap(metadata=Meta(name="note", namespace=SHOP), data=find_configmap)
            desired = (Desired(note, snapshot.local),) if known is not None else ()
            return Plan(desired, questions=(Question(read, timedelta(hours=1)),))

    async with toy_world("lubeck", features=(Curious(),), agents=False) as world:
        await world.client(BROKER).create(namespace("elsewhere"))
        await world.client(BROKER).create(configmap("secret-place", "elsewhere", x="1"))
        await world.client("lubeck").create(configmap("curiosity", SHOP))
        world.start_agent("lubeck")
        await world.settle()

        reads = [s for s in world.network.sent if s.request.path.endswith("/secret-place")]
        assert (await get_configmap(world, "lubeck", "note")).data == {"x": "1"}
        assert len(reads) == 1, "asked again though the answer was young enough"
        await world.stop()


async def test_rule_7_an_answer_is_not_young_because_the_clock_was_set_back() -> None:
    class Clock:
        """A clock that can be set."""

        ahead = timedelta(0)

        def now(self) -> datetime:
            return EPOCH + self.ahead

    class Provider:
        """Counts what it is asked."""

        asked = 0

        async def __call__(self) -> Wire:
            self.asked += 1
            return {}

    async with toy_world("lubeck", agents=False) as world:
        clock, provider = Clock(), Provider()
        informers = world.reconciler("lubeck").informers
        questions = Questions(
            informers, {"names": provider}, clock, lambda _: None, lambda *_: None
        )
        question = Question(Call("names"), timedelta(minutes=1))
        async with asyncio.TaskGroup() as group:

            def start(task: Coroutine[Any, Any, None], name: str) -> None:
                group.create_task(task, name=name)

            async def ask() -> int:
                questions.ask(("toy", Key("look")), [question], start)
                await asyncio.sleep(1)
                return provider.asked

            asked = [await ask(), await ask()]
            clock.ahead = timedelta(hours=-1)
            asked += [await ask(), await ask()]

        assert asked == [1, 1, 2, 2]


async def test_rule_7_facts_carry_each_clusters_state_and_since_when() -> None:
    async with toy_world() as world:
        await asyncio.sleep(10)
        facts = world.agents["hamburg"].reconciler.informers.facts
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
    async with toy_world("lubeck", agents=False) as world:
        await world.client(BROKER).delete(Namespace, HOME, "")
        finalize = {"metadata": {"name": HOME}, "spec": {"finalizers": []}}
        await _finalize(world, finalize)
        world.start_agent("lubeck")
        await world.client("lubeck").create(offer("bread", price="3"))
        await asyncio.sleep(20)
        facts = world.agents["lubeck"].reconciler.informers.facts
        observed = [o.result for o in facts.all(WriteOutcome)]

        await world.client(BROKER).create(namespace(HOME))
        await world.settle(timedelta(minutes=11))

        assert observed == ["Refused"]
        assert list(facts.all(WriteOutcome)) == []
        assert (await get_configmap(world, "lubeck", "bread")).metadata.annotations[
            OFFERED
        ] == "yes"
        await world.stop()


async def _finalize(world: World, body: dict[str, Any]) -> None:
    current = await world.client(BROKER).read_raw(f"/api/v1/namespaces/{HOME}")
    obj = msgspec.json.decode(current.body)
    obj["spec"] = body["spec"]
    path = f"/api/v1/namespaces/{HOME}/finalize"
    await world.client(BROKER).send(Request("PUT", path, body=msgspec.json.encode(obj)))


class LivenessFeature:
    """Notes for each Lease of the broker whether its holder is alive."""

    name = "doctor"
    watches = (Watch(Role.LOCAL, ConfigMap), Watch(Role.BROKER, Lease, namespace=HOME))

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        return []

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        return Plan()


async def test_rule_7_liveness_is_judged_by_our_own_observation_of_renewals() -> None:
    async with toy_world("lubeck", features=(LivenessFeature(),)) as world:
        facts = world.agents["lubeck"].reconciler.informers.facts
        spec = LeaseSpec(holder_identity="bergen", lease_duration_seconds=30)
        client = world.client(BROKER)
        await client.create(Lease(metadata=LeaseMeta(name="bergen", namespace=HOME), spec=spec))
        observed = []
        for round_ in range(4):
            renewal = {"spec": {"renewTime": f"2001-01-01T00:00:0{round_}.000000Z"}}
            await client.patch(Lease, "bergen", HOME, renewal)
            await asyncio.sleep(20)
            observed.append([f.state for f in facts.all(LeaseLiveness)])
        world.network.cut("lubeck", BROKER)
        await asyncio.sleep(300)
        unseen = [f.state for f in facts.all(LeaseLiveness)]
        world.network.heal_all()
        await asyncio.sleep(120)
        silent = [f.state for f in facts.all(LeaseLiveness)]
        await client.delete(Lease, "bergen", HOME)
        await asyncio.sleep(5)

        assert observed == [[HolderState.READY]] * 4, (
            "known by its age on the server's clock and then by its renewals, whatever its clock"
        )
        assert unseen == [HolderState.READY], "silence is not held against one we could not hear"
        assert silent == [HolderState.SILENT]
        assert [f.state for f in facts.all(LeaseLiveness)] == [HolderState.SILENT], (
            "the dead do not come back when their Lease is deleted"
        )


async def test_rule_7_no_lease_expires_while_leases_alone_cannot_be_read() -> None:
    async with toy_world("lubeck", features=(LivenessFeature(), Toy())) as world:
        facts = world.agents["lubeck"].reconciler.informers.facts
        spec = LeaseSpec(holder_identity="bergen", lease_duration_seconds=30)
        client = world.client(BROKER)
        await client.create(Lease(metadata=LeaseMeta(name="bergen", namespace=HOME), spec=spec))
        await asyncio.sleep(5)
        await client.patch(Lease, "bergen", HOME, {"spec": {"renewTime": RENEWED}})
        await asyncio.sleep(5)

        world.network.link("lubeck", BROKER).faults = LinkFaults(fails="leases")
        world.network.break_watches("lubeck", BROKER)
        for number in range(30):  # the broker answers everything else
            await client.create(configmap(f"other-{number}", HOME))
            await asyncio.sleep(10)

        assert [f.state for f in facts.all(LeaseLiveness)] == [HolderState.READY]


async def test_rule_7_a_dead_holder_is_silent_also_where_every_answer_takes_seconds() -> None:
    async with toy_world("lubeck", features=(LivenessFeature(),)) as world:
        facts = world.agents["lubeck"].reconciler.informers.facts
        for holder in ("bergen", "hamburg"):
            await _hold(world, holder)
        await _renew(world, "bergen", "hamburg")

        world.network.link("lubeck", BROKER).faults = SLOW
        for _ in range(9):
            await _renew(world, "hamburg")

        states = {f.lease: f.state for f in facts.all(LeaseLiveness)}
        assert states == {"bergen": HolderState.SILENT, "hamburg": HolderState.READY}


async def test_rule_7_a_late_answer_of_long_ago_lets_nobody_be_silent_after_a_short_stall() -> None:
    async with toy_world("lubeck", features=(LivenessFeature(),)) as world:
        facts = world.agents["lubeck"].reconciler.informers.facts
        await _hold(world, "bergen")
        link, observed = world.network.link("lubeck", BROKER), set[HolderState]()
        for _ in range(2):
            for _ in range(12):
                await _renew(world, "bergen")
            link.faults = SLOW
            await asyncio.sleep(25)  # the broker stalls: nobody can renew
            observed |= {f.state for f in facts.all(LeaseLiveness)}
            link.faults = LinkFaults()

        assert observed == {HolderState.READY}


async def test_rule_7_a_server_that_is_stopped_twice_makes_nobody_silent() -> None:
    async with toy_world("lubeck", features=(LivenessFeature(), Toy())) as world:
        facts = world.agents["lubeck"].reconciler.informers.facts
        await _hold(world, "bergen")
        for _ in range(3):
            await _renew(world, "bergen")

        for runs, stops in ((0, 22), (4.5, 27)):  # each until just after a Lease's time
            await asyncio.sleep(runs)
            await world.client(BROKER).create(configmap(f"after-{runs}", HOME))
            await asyncio.sleep(0.1)  # the last answer
            world.network.hang("lubeck", BROKER)  # nobody can renew
            await asyncio.sleep(stops)
            world.network.heal("lubeck", BROKER)
        await asyncio.sleep(3)

        assert [f.state for f in facts.all(LeaseLiveness)] == [HolderState.READY]


SLOW = LinkFaults(delay=timedelta(seconds=2))


async def _hold(world: World, holder: str) -> None:
    """Create the Lease of a holder, for half a minute."""
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=30)
    lease = Lease(metadata=LeaseMeta(name=holder, namespace=HOME), spec=spec)
    await world.client(BROKER).create(lease)


async def _renew(world: World, *holders: str) -> None:
    """Renew Leases, then wait for ten seconds."""
    for holder in holders:
        change = {"spec": {"renewTime": format_micro_time(world.clock.now())}}
        await world.client(BROKER).patch(Lease, holder, HOME, change)
    await asyncio.sleep(10)


RENEWED = "2001-01-01T00:00:01.000000Z"


async def test_rule_7_a_kind_is_noticed_as_soon_as_it_is_served() -> None:
    class Fan(Toy):
        name = "fan"
        watches: tuple[Watch, ...] = (Watch(Role.LOCAL, ServiceExport),)

        def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
            return []

    async with toy_world("lubeck", features=(Fan(),)) as world:
        await world.settle(timedelta(minutes=30))
        facts = world.agents["lubeck"].reconciler.informers.facts
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


class AskingWebhook:
    """Lets a ConfigMap in only if the one it names exists."""

    name = "doorkeeper"
    rules = (WebhookRule(groups=("",), resources=("configmaps",)),)

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        wanted = review.object.get("data", {}).get("friend", "")
        place = ClusterObjectRef(snapshot.local, ObjectRef(ConfigMap.kind, wanted, SHOP))
        if snapshot.find(place) is not None:
            return Allow({"metadata": {"labels": {"checked": "yes"}}})
        read = Read(place)
        answer = snapshot.fact(Answer, read.id)
        if answer is None:
            return NeedsAnswer(read)
        return Allow() if answer.value is not None else Deny(f"data.friend: no ConfigMap {wanted}")


@pytest.mark.parametrize(
    ("friend", "link", "verdict"),
    [
        pytest.param("known", LinkFaults(), Allow, id="in the store"),
        pytest.param("nobody", LinkFaults(), Deny, id="asked for and absent"),
        pytest.param(
            "nobody", LinkFaults(delay=timedelta(seconds=5)), Deny, id="no answer in time"
        ),
    ],
)
async def test_rule_8_webhooks_ask_for_what_the_store_does_not_know(
    friend: str, link: LinkFaults, verdict: type[AdmissionDecision]
) -> None:
    async with toy_world("lubeck") as world:
        await world.client("lubeck").create(configmap("known", SHOP))
        await asyncio.sleep(5)
        reconciler = world.agents["lubeck"].reconciler
        world.network.link("lubeck", "lubeck").faults = link
        review = AdmissionRequest(
            "CREATE", "", "v1", "ConfigMap", object={"data": {"friend": friend}}
        )
        started = asyncio.get_running_loop().time()

        given = await decide(AskingWebhook(), review, reconciler.snapshot, reconciler.answer)

        assert isinstance(given, verdict)
        assert asyncio.get_running_loop().time() - started <= 1.001
        if link.delay:
            assert isinstance(given, Deny)
            assert "try again" in given.message


# 9


async def test_rule_9_own_writes_are_seen_at_once() -> None:
    async with toy_world("lubeck") as world:
        await asyncio.sleep(5)
        link = world.network.link("lubeck", BROKER)
        reconciler = world.agents["lubeck"].reconciler
        for stream in reconciler.informers.connections[BROKER].informers.values():
            reconciler.informers._informer_tasks[
                BROKER, stream.scope
            ].cancel()  # the watch tells nothing more
        with world.network.counting_writes() as writes:
            await world.client("lubeck").create(offer("bread", price="3"))
            await asyncio.sleep(30)

        to_broker = [w for w in writes if w.target == BROKER]
        stored_record = reconciler.snapshot().get(BROKER, ConfigMap, "shop.bread.lubeck", HOME)
        assert stored_record is not None
        assert [w.status for w in to_broker] == [201, 201], "the record and the sum, once each"
        assert not link.cut


async def test_a_question_that_got_an_error_is_asked_again_soon() -> None:
    class Provider:
        """Fails once."""

        asked = 0

        async def __call__(self) -> Wire:
            self.asked += 1
            if self.asked == 1:
                raise TimeoutError("too slow")
            return {}

    async with toy_world("lubeck", agents=False) as world:
        provider, item = Provider(), ("toy", Key("look"))
        later: list[timedelta] = []
        questions = Questions(
            world.reconciler("lubeck").informers,
            {"names": provider},
            LoopClock(),
            lambda _: None,
            lambda _, delay: later.append(delay),
        )
        question = Question(Call("names"), timedelta(hours=1))
        async with asyncio.TaskGroup() as group:

            def start(task: Coroutine[Any, Any, None], name: str) -> None:
                group.create_task(task, name=name)

            for wait in (1.0, RETRY_INTERVAL.total_seconds(), 1.0):
                questions.ask(item, [question], start)
                await asyncio.sleep(wait)
            questions.ask(item, [question], start)

        assert provider.asked == 2
        assert later == [RETRY_INTERVAL]
