"""Elections on an embedded cluster, in virtual time, with links that fail."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random

import pytest

from hanse.kube.client import Client
from hanse.kube.leader_election import REQUEST_AFTER, Leader, LeaderElector, LeaderState, Standby
from hanse.kube.lease import PREFERRED_HOLDER, preferred_holder
from hanse.kube.transport import Request, Response
from hanse.local.in_process import InProcessTransport
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace
from hanse.model.objects import Meta
from tests.support.faults import LinkFaults, Network
from tinykube.apiserver import ApiServer
from tinykube.virtual_time import ON_VIRTUAL_TIME, LoopClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


class Turns:
    """Who goes before a candidate; of None it has no opinion, and asks for nothing."""

    def __init__(self, acquire_delay: timedelta, before: tuple[str, ...] | None) -> None:
        self._hesitation = acquire_delay
        self._before = before

    def acquire_delay(self) -> timedelta:
        return self._hesitation

    def prefers(self, candidate: str) -> bool:
        return candidate in (self._before or ())

    def may_request(self) -> bool:
        return self._before is not None


class LateAnswers(InProcessTransport):
    """A transport whose answers to writes come late for some candidates, and events in time."""

    def __init__(self, election: "Election", name: str) -> None:
        super().__init__(election.server)
        self._election = election
        self._name = name

    async def send(self, request: Request) -> Response:
        answer = await super().send(request)
        if self._name in self._election.answered_late and request.method == "PATCH":
            await asyncio.sleep(1)
        return answer


class Candidate:
    """One elector in a task of its own, with its states and their times."""

    def __init__(
        self,
        election: "Election",
        name: str,
        acquire_delay: timedelta,
        before: tuple[str, ...] | None,
    ) -> None:
        self.name = name
        self.states: list[tuple[float, LeaderState]] = []
        self.restores = 0
        self.elector = LeaderElector(
            Client(election.network.transport(name, "member", LateAnswers(election, name))),
            election.namespace,
            "member",
            name,
            clock=LoopClock(),
            random=Random(name),
            order=Turns(acquire_delay, before),
            on_restored=self._count_restore,
        )
        self.task = asyncio.create_task(self.elector.run(self._record), name=name)

    @property
    def leads(self) -> bool:
        return isinstance(self.elector.state, Leader)

    def _record(self, state: LeaderState) -> None:
        self.states.append((asyncio.get_running_loop().time(), state))

    def _count_restore(self) -> None:
        self.restores += 1

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


class Election:
    """A member cluster and the supervisors that want to lead it."""

    def __init__(self) -> None:
        self.server = ApiServer("member", clock=LoopClock())
        self.network = Network(Random(1))
        self.candidates: list[Candidate] = []
        self.answered_late: set[str] = set()
        self.namespace = "kube-system"

    def stand(
        self,
        name: str,
        acquire_delay: timedelta = timedelta(0),
        before: tuple[str, ...] | None = None,
    ) -> Candidate:
        candidate = Candidate(self, name, acquire_delay, before)
        self.candidates.append(candidate)
        return candidate

    async def lease(self) -> Lease:
        return await Client(InProcessTransport(self.server)).read(Lease, "member", "kube-system")

    @property
    def leaders(self) -> list[str]:
        return [candidate.name for candidate in self.candidates if candidate.leads]

    @property
    def writers(self) -> list[str]:
        return [c.name for c in self.candidates if c.elector.may_write()]


@asynccontextmanager
async def election() -> AsyncIterator[Election]:
    held = Election()
    try:
        yield held
    finally:
        for candidate in held.candidates:
            await candidate.stop()


async def test_a_lone_candidate_leads_at_once_and_goes_on_renewing() -> None:
    async with election() as held:
        a = held.stand("a")
        await asyncio.sleep(1)
        first = await held.lease()
        await asyncio.sleep(60)
        later = await held.lease()

    assert [state for _, state in a.states][:2] == [Standby(), Leader(0)]
    assert (first.spec.holder_identity, first.spec.lease_duration_seconds) == ("a", 15)
    assert later.spec.acquire_time == first.spec.acquire_time
    assert later.spec.renew_time is not None
    assert first.spec.renew_time is not None
    assert later.spec.renew_time > first.spec.renew_time
    assert later.spec.lease_transitions == 0


async def test_a_leader_that_stood_still_past_its_deadline_may_not_write() -> None:
    async with election() as held:
        a = held.stand("a")
        await asyncio.sleep(31)
        assert a.elector.may_write()

        assert a.elector.renewed_at is not None
        a.elector.renewed_at -= 15  # as if the whole process had been stopped meanwhile

        assert a.leads, "it does not know yet"
        assert not a.elector.may_write()


async def test_a_renewal_is_made_every_two_seconds_and_nothing_is_read() -> None:
    async with election() as held:
        held.stand("a")
        await asyncio.sleep(1)
        start = len(held.network.sent)
        await asyncio.sleep(60)
        sent = held.network.sent[start:]

    assert {one.request.method for one in sent} == {"PATCH"}
    assert len(sent) == 30


async def test_a_second_candidate_follows_and_does_not_poll() -> None:
    async with election() as held:
        held.stand("a")
        await asyncio.sleep(1)
        b = held.stand("b")
        await asyncio.sleep(1)
        start = len(held.network.sent)
        await asyncio.sleep(600)
        by_b = [one for one in held.network.sent[start:] if one.source == "b"]

    assert b.states[0][1] == Standby("a")
    assert by_b == []


async def test_a_released_lease_is_taken_over_at_once_with_the_next_epoch() -> None:
    async with election() as held:
        a = held.stand("a")
        await asyncio.sleep(1)
        b = held.stand("b")
        await asyncio.sleep(1)
        await a.stop()
        released_spec = await held.lease()
        stopped = asyncio.get_running_loop().time()
        await asyncio.sleep(1)
        lease = await held.lease()

    assert a.states[-1][1] == Standby()
    assert (released_spec.spec.holder_identity, released_spec.spec.lease_duration_seconds) == (
        "",
        1,
    )
    assert b.states[-2][1] == Leader(1)
    assert b.states[-2][0] - stopped < 0.1
    assert (lease.spec.holder_identity, lease.spec.lease_transitions) == ("b", 1)


async def test_a_leader_cut_off_stops_before_another_takes_over() -> None:
    async with election() as held:
        a = held.stand("a")
        await asyncio.sleep(1)
        b = held.stand("b")
        await asyncio.sleep(20)
        held.network.cut("a", "member")
        cut = asyncio.get_running_loop().time()
        both = []
        for _ in range(400):
            await asyncio.sleep(0.05)
            both += [held.writers] if len(held.writers) > 1 else []

    lost = next(when for when, state in a.states if when > cut and state == Standby())
    led = next(when for when, state in b.states if isinstance(state, Leader))
    assert both == []
    assert lost - cut <= 10
    assert lost < led <= cut + 15 + 2 + 0.1


async def test_a_partition_that_heals_leaves_one_leader_and_higher_epochs() -> None:
    async with election() as held:
        held.stand("a")
        await asyncio.sleep(1)
        held.stand("b")
        await asyncio.sleep(1)
        held.network.cut("a", "member")
        await asyncio.sleep(60)
        held.network.heal("a", "member")
        await asyncio.sleep(120)
        leaders = held.leaders
        state = held.candidates[0].elector.state

    assert leaders == ["b"]
    assert state == Standby("b")


async def test_a_leader_cut_off_for_a_moment_stays_leader() -> None:
    async with election() as held:
        a = held.stand("a")
        await asyncio.sleep(1)
        held.stand("b")
        await asyncio.sleep(1)
        held.network.cut("a", "member")
        await asyncio.sleep(6)
        held.network.heal("a", "member")
        await asyncio.sleep(60)

        assert held.leaders == ["a"]
        assert len(a.states) == 2


async def test_a_dead_leader_is_replaced_within_the_lease_and_a_retry() -> None:
    async with election() as held:
        a = held.stand("a")
        await asyncio.sleep(1)
        b = held.stand("b")
        await asyncio.sleep(10)
        held.network.cut("a", "member")  # so that it cannot give the lease back
        await a.stop()
        died = asyncio.get_running_loop().time()
        await asyncio.sleep(30)

    led = next(when for when, state in b.states if isinstance(state, Leader))
    assert led - died <= 15 + 2


async def test_of_many_candidates_exactly_one_leads() -> None:
    async with election() as held:
        for n in range(5):
            held.stand(f"candidate-{n}")
        await asyncio.sleep(60)

        assert len(held.leaders) == 1
        assert len({c.elector.state for c in held.candidates}) == 2


async def test_who_hesitates_leaves_a_free_lease_to_others() -> None:
    async with election() as held:
        held.stand("busy", timedelta(seconds=1.5))
        held.stand("free")
        await asyncio.sleep(10)

        assert held.leaders == ["free"]


async def test_a_deleted_lease_is_made_again_with_a_higher_epoch() -> None:
    async with election() as held:
        a = held.stand("a")
        await asyncio.sleep(1)
        await Client(InProcessTransport(held.server)).delete(Lease, "member", "kube-system")
        await asyncio.sleep(10)
        lease = await held.lease()

        assert held.leaders == ["a"]

    epochs = [state.epoch for _, state in a.states if isinstance(state, Leader)]
    assert epochs == [0, 1]
    assert lease.spec.lease_transitions == 1


@pytest.mark.parametrize("released", [False, True])
async def test_a_leader_keeps_its_epoch_in_a_lease_that_was_restored(released: bool) -> None:
    """Else the next one takes what it wrote since then for that of a newer leader, for ever."""
    async with election() as held:
        a = held.stand("a")
        await asyncio.sleep(1)
        backup = held.server.storage.snapshot()
        await Client(InProcessTransport(held.server)).delete(Lease, "member", "kube-system")
        await asyncio.sleep(10)
        held.server.storage.restore(backup)
        await asyncio.sleep(10)
        if released:
            await a.stop()
        lease = await held.lease()

    assert lease.spec.holder_identity == ("" if released else "a")
    assert lease.spec.lease_transitions == 1


async def test_a_candidate_tells_that_the_server_was_restored_while_it_was_not_heard() -> None:
    async with election() as held:
        held.stand("a")
        b = held.stand("b", acquire_delay=timedelta(seconds=1))
        await asyncio.sleep(5)
        backup = held.server.storage.snapshot()
        await asyncio.sleep(5)
        held.network.hang("b", "member")
        held.server.storage.restore(backup)
        await asyncio.sleep(30)
        before = b.restores
        held.network.heal("b", "member")
        await asyncio.sleep(5)

        assert (before, b.restores) == (0, 1)
        assert held.leaders == ["a"]


async def test_a_lease_taken_by_hand_is_lost() -> None:
    async with election() as held:
        a = held.stand("a")
        await asyncio.sleep(1)
        change = {"spec": {"holderIdentity": "somebody", "leaseTransitions": 9}}
        await Client(InProcessTransport(held.server)).patch(Lease, "member", "kube-system", change)
        await asyncio.sleep(1)
        lost = held.leaders == []
        await asyncio.sleep(30)
        regained = held.leaders

    assert lost
    assert Standby("somebody") in [state for _, state in a.states]
    assert regained == ["a"]
    assert Leader(10) in [state for _, state in a.states]


@pytest.mark.parametrize("turns", range(12))
async def test_who_stops_as_another_takes_the_lease_leaves_it_to_that_one(turns: int) -> None:
    """As a process that was stopped for a while, and ends as it goes on."""
    async with election() as held:
        a = held.stand("a")
        await asyncio.sleep(1)
        change = {"spec": {"holderIdentity": "b", "leaseTransitions": 1}}
        await Client(InProcessTransport(held.server)).patch(Lease, "member", "kube-system", change)
        for _ in range(turns):
            await asyncio.sleep(0)

        await a.stop()

        assert (await held.lease()).spec.holder_identity == "b"


@pytest.mark.parametrize("seed", range(8))
async def test_never_do_two_write_in_any_weather(seed: int) -> None:
    async with election() as held:
        held.network.random.seed(seed)
        faults = Random(seed)
        for name in ("a", "b", "c"):
            held.stand(name)
        most = 0
        led_by_anyone = 0
        for _ in range(240):
            name = faults.choice("abc")
            link = held.network.link(name, "member")
            link.faults = LinkFaults(
                delay=timedelta(seconds=faults.choice([0, 0.1, 3])),
                refused=faults.choice([0, 0.3]),
                lost=faults.choice([0, 0.3]),
                breaks=faults.choice([0, 0.5]),
            )
            link.cut = faults.random() < 0.2
            await asyncio.sleep(faults.uniform(0.1, 5))
            most = max(most, len(held.writers))
            led_by_anyone += bool(held.writers)
        held.network.heal_all()
        await asyncio.sleep(60)
        after_all = held.leaders

    epochs = [s.epoch for c in held.candidates for _, s in c.states if isinstance(s, Leader)]
    assert most == 1
    assert led_by_anyone > 60
    assert len(after_all) == 1
    assert len(epochs) > 1


async def test_a_namespace_that_is_missing_is_named_and_not_asked_for_without_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "hanse.kube.leader_election")
    async with election() as held:
        held.namespace = "hanse-system"
        lubeck = held.stand("lubeck")
        await asyncio.sleep(60)
        asked = len(held.network.writes)
        states = [(r.message, r.__dict__["why"]) for r in caplog.records]

        await Client(InProcessTransport(held.server)).create(
            Namespace(metadata=Meta(name="hanse-system"))
        )
        await asyncio.sleep(10)

        assert 10 < asked < 40, "once per retry of two seconds"
        (once,) = states
        assert once[0] == "no lease"
        assert "create the namespace hanse-system" in once[1]
        assert lubeck.leads


SECOND = timedelta(seconds=1)
A_WHILE = REQUEST_AFTER.total_seconds()


async def test_who_goes_before_others_asks_for_the_lease_after_a_while_and_gets_it() -> None:
    async with election() as held:
        b = held.stand("b", SECOND, before=("a",))
        await asyncio.sleep(5)
        a = held.stand("a", before=())
        await asyncio.sleep(A_WHILE - 5)
        assert held.leaders == ["b"]

        most = 0
        for _ in range(200):
            await asyncio.sleep(0.1)
            most = max(most, len(held.writers))
        lease = await held.lease()
        assert (held.leaders, most) == (["a"], 1)

    assert (lease.spec.lease_transitions, preferred_holder(lease)) == (1, "")
    gave = next(at for at, state in b.states if state == Standby() and at > A_WHILE)
    took = next(at for at, state in a.states if state == Leader(1))
    assert took - gave < 1


async def test_a_lease_released_before_its_request_was_answered_is_taken_at_once() -> None:
    async with election() as held:
        held.stand("b", 2 * SECOND, before=("a",))
        await asyncio.sleep(5)
        held.answered_late.add("a")
        held.stand("a", before=())
        await asyncio.sleep(A_WHILE + 20)
        lease = await held.lease()

        assert (held.leaders, lease.spec.lease_transitions) == (["a"], 1)


async def test_who_comes_and_goes_takes_nothing_from_others() -> None:
    async with election() as held:
        held.stand("b", SECOND, before=("a",))
        await asyncio.sleep(5)
        for _ in range(4):
            a = held.stand("a", before=())
            await asyncio.sleep(A_WHILE - 20)
            await a.stop()
            await asyncio.sleep(20)
        lease = await held.lease()

    assert (lease.spec.holder_identity, lease.spec.lease_transitions) == ("b", 0)


async def test_a_candidate_that_requested_the_lease_and_is_gone_costs_a_moment() -> None:
    async with election() as held:
        b = held.stand("b", SECOND, before=("a",))
        await asyncio.sleep(5)
        lease_request_patch = {"metadata": {"annotations": {PREFERRED_HOLDER: "a"}}}
        await Client(InProcessTransport(held.server)).patch(
            Lease, "member", "kube-system", lease_request_patch
        )
        await asyncio.sleep(30)
        start = len(held.network.sent)
        await asyncio.sleep(60)
        lease = await held.lease()

        assert b.leads
        assert (lease.spec.lease_transitions, preferred_holder(lease)) == (1, "")
        assert len(held.network.sent[start:]) == 30, "but for renewals"


async def test_where_both_want_to_be_first_nothing_moves_and_nobody_insists() -> None:
    async with election() as held:
        held.stand("b", before=())
        await asyncio.sleep(5)
        held.stand("a", before=())
        await asyncio.sleep(A_WHILE * 10)
        by_a = [one for one in held.network.writes if one.source == "a"]

        assert held.leaders == ["b"]
        assert len(by_a) <= 3, "one request, and those that a renewal overtook"
