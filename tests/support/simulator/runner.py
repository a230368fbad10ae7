"""Plays schedules: steps one after the other, laws all the time, and again when all has healed."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from msgspec import Struct

from hanse.app.agent import Agent
from hanse.kube.errors import KubeError
from hanse.kube.leader_election import REQUEST_AFTER
from hanse.model.facts import ClusterState, F, Leadership, Phase, WriteOutcome
from hanse.model.feature_names import FEATURES
from hanse.model.naming import holder_cluster
from hanse.runtime.backoff import REFUSED
from tests.support.faults import Sent, WatchLags
from tests.support.scenario import describe_writes
from tests.support.simulator.faults import Faults, back_up
from tests.support.simulator.federated import Federated
from tests.support.simulator.fleet import Fleet
from tests.support.simulator.gslb import Gslb
from tests.support.simulator.laws import GENERAL, Law, LawBroken, Sentence, sentence_of
from tests.support.simulator.loop import run
from tests.support.simulator.members import Members
from tests.support.simulator.networks import Networks
from tests.support.simulator.part import Part
from tests.support.simulator.policies import Policies
from tests.support.simulator.schedule import Schedule, Step, StepKind, steps_of
from tests.support.simulator.services import Services
from tests.support.simulator.statefulsets import StatefulSets
from tests.support.testbed_embedded import embedded_testbed

PARTS: tuple[type[Part], ...] = (
    Faults,
    Services,
    Members,
    Federated,
    Policies,
    StatefulSets,
    Gslb,
    Networks,
)
NEEDS = {"members": ("services",), "policies": ("federated",), "statefulsets": ("services",)}
"""What a part acts on that another one opens: the broker, or the federation."""

TOGETHER = 10
"""Of so many schedules one is played with all features together."""

SLOW_PARTS = (Faults.name, Members.name)
"""Those whose steps take their time: laws are judged in the middle of them."""

TICK = 1.0
MOST_REQUESTS = 40_000
"""What one run may take; most take some thousands."""


class Pace(Struct, frozen=True):
    """How long a run waits, in seconds."""

    start: float
    """In which a fleet starts before the first step."""
    rest: float
    """Within which every law of rest holds after everything has healed."""
    quiet: float
    """Without a write, after which a fleet counts as settled."""


VIRTUAL = Pace(start=20, rest=900, quiet=40)
REAL = Pace(start=10, rest=180, quiet=15)
"""Of real clusters: renewals of Leases every ten seconds are no writes of users' objects."""


SETTLES = Sentence(
    "settled-is-silent",
    "A settled fleet writes nothing, and neither does an agent that starts over it.",
)


class Failure(Struct, frozen=True):
    """A broken law, with the log of the run."""

    law: str
    message: str
    log: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join((self.message, *self.log))


def step_kinds(
    parts: Sequence[type[Part]] = PARTS, *, searched: bool = False
) -> dict[str, list[StepKind]]:
    """The kinds of steps by part, with or without those that only searches draw."""
    return {part.name: list(steps_of(part, searched=searched)) for part in parts}


def parts_named(names: Collection[str]) -> tuple[type[Part], ...]:
    """The parts of these names, and faults."""
    return tuple(part for part in PARTS if part.name in {Faults.name, *names})


def parts_of(schedule: Schedule) -> tuple[type[Part], ...]:
    """The parts that a schedule is played with: of every tenth all, of others those it takes.

    Agents with fewer features take a quarter of the time.
    """
    if schedule.seed % TOGETHER == 0:
        return PARTS
    names = {step.name.partition(".")[0] for step in schedule.steps} - {Faults.name}
    return parts_named(names | {need for name in names for need in NEEDS.get(name, ())})


class Run:
    """One schedule on one fleet."""

    def __init__(
        self, fleet: Fleet, parts: Sequence[type[Part]] = PARTS, pace: Pace = VIRTUAL
    ) -> None:
        self.fleet = fleet
        self.pace = pace
        self.parts = {part.name: part(fleet) for part in parts}
        self.laws: list[Law] = [law(fleet) for law in GENERAL]
        self.laws += [law for part in self.parts.values() for law in part.laws()]
        self._judged: dict[Law, object] = {}
        """What the last verdict of each law rests on."""

    async def start(self) -> None:
        """Start the fleet, and back it up: the same for every schedule."""
        for part in self.parts.values():
            await part.open()
        await self.fleet.start_agents()
        await asyncio.sleep(self.pace.start)
        self.fleet.users.forget(lambda _: True)  # also what a restore would bring back
        for cluster in self.fleet.everywhere:
            await back_up(self.fleet, cluster)

    async def play(self, schedule: Schedule) -> None:
        """Play all steps on the started fleet, and judge; raises `LawBroken`."""
        self.fleet.random.seed(schedule.seed)
        self.fleet.network.watch_lags = WatchLags(schedule.seed) if schedule.lagging else None
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._observe(), name="laws")
            counting = group.create_task(self._count_requests(), name="requests")
            for step in schedule.steps:
                await self._perform(step)
            self.fleet.note("everything heals")
            for part in self.parts.values():
                await part.heal()
            await self._rest()
            watching.cancel()
            counting.cancel()
        await self._check_silence()

    async def _perform(self, step: Step) -> None:
        """Perform a step; what an API server refuses is not done."""
        self.fleet.note(str(step))
        part, _, name = step.name.partition(".")
        perform = getattr(self.parts[part], name)
        try:
            if part in SLOW_PARTS:
                await perform(*step.args)
            else:
                async with self.fleet.acting:
                    await perform(*step.args)
        except KubeError as error:
            self.fleet.note(f"  refused: {error}")
        self.fleet.observe_health()  # what worked for a moment has worked
        await asyncio.sleep(step.pause)

    async def _observe(self) -> None:
        """Check every law about once a second, and whenever an answer changes."""
        while True:
            async with self.fleet.acting:
                self.fleet.observe_health()
                with suppress(KubeError):  # a server is away, so nothing can be said of it
                    await self._judge()
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK):
                    await self.fleet.answers_changed.wait()
            self.fleet.answers_changed.clear()

    async def _judge(self) -> None:
        """Raise the first law that does not hold at this moment."""
        for law in self.laws:
            basis = law.basis()
            if basis is not None and self._judged.get(law) == basis:
                continue
            async for seen in law.observe():
                raise LawBroken(sentence_of(law), seen)
            self._judged[law] = basis

    async def _count_requests(self) -> None:
        """Requests without end stop virtual time, and so all other laws."""
        await self.fleet.network.after(MOST_REQUESTS)
        raise LawBroken(SETTLES, f"agents sent {MOST_REQUESTS} requests, and more")

    async def _rest(self) -> None:
        """Wait until all agents are synced, recovered and quiet and all laws of rest hold."""
        until = self.fleet.now + self.pace.rest
        while (seen := await self._unrest()) is not None:
            if self.fleet.now >= until:
                raise LawBroken(*seen)

    async def _unrest(self) -> tuple[Sentence, str] | None:
        """The first law of rest that does not hold after a quiet while.

        Writes that were refused are tried again after a pause, which is no rest, and so is the time
        after which a supervisor that is back asks for its members.
        """
        quiet = timedelta(seconds=self.pace.quiet)
        if any(outcome.is_final for outcome in self._facts(WriteOutcome)):
            quiet = max(quiet, REFUSED.most)
        if any(self._will_lead(running.agent) for running in self.fleet.agents.values()):
            quiet = max(quiet, REQUEST_AFTER + quiet)
        writes = await self.fleet.writes_during(quiet)
        for law in self.laws:
            async for seen in law.at_rest():
                return sentence_of(law), seen
        if writes or not self._all_recovered():
            return SETTLES, f"there is no rest: {describe_writes(writes)[-5:]}"
        return None

    def _all_recovered(self) -> bool:
        """Whether every agent sees all its clusters, none of which it takes as just restored.

        What a restore left is kept for half a minute, counted from when its cluster is seen.
        """
        states = self._facts(ClusterState)
        return all(state.phase is Phase.SYNCED and not state.recovering for state in states)

    def _will_lead(self, agent: Agent) -> bool:
        """Whether a member is led by another supervisor than an agent that comes before it."""
        leads = agent.reconciler.informers.facts.all(Leadership)
        return any(
            lead.holder
            and not lead.ours
            and lead.member in agent.connections.managed
            and holder_cluster(lead.holder)
            not in agent.connections.managed[lead.member].desired.preferred_leaders
            for lead in leads
        )

    def _facts(self, kind: type[F]) -> list[F]:
        """The facts of all agents."""
        agents = [running.agent for running in self.fleet.agents.values()]
        return [fact for a in agents for fact in a.reconciler.informers.facts.all(kind)]

    async def _check_silence(self) -> None:
        start = len(self.fleet.network.sent)
        for name in self.fleet.names:
            await self.fleet.restart_agent(name)
        await asyncio.sleep(self.pace.quiet)
        writes = self.fleet.writes_since(start)
        if writes:
            raise LawBroken(SETTLES, f"{describe_writes(writes)}")


def failure_of(schedule: Schedule, parts: Sequence[type[Part]] = PARTS) -> Failure | None:
    """Play a schedule on a fleet of its own, in this process; the law that it breaks, if any.

    Agents have the features of these parts alone, which takes less time.
    """
    return run(_failure_of(schedule, parts))


def describe_sent(s: Sent) -> str:
    """A request as a line of a trace."""
    request = s.request
    return (
        f"{s.source} {s.target} {request.method} {request.path} {request.query} {s.status} "
        f"{request.body.decode()}"
    )


@asynccontextmanager
async def started(parts: Sequence[type[Part]]) -> AsyncIterator[Run]:
    """A fleet of embedded clusters that has started, whose agents have the features of parts."""
    names = {part.name for part in parts}
    features = (
        FEATURES if tuple(parts) == PARTS else tuple(name for name in FEATURES if name in names)
    )
    async with (
        embedded_testbed() as testbed,
        Fleet(testbed, "shop", features=features) as fleet,
    ):
        game = Run(fleet, parts)
        await game.start()
        yield game


async def _failure_of(schedule: Schedule, parts: Sequence[type[Part]]) -> Failure | None:
    async with started(parts) as game:
        return await failure_on(game, schedule)


async def failure_on(game: Run, schedule: Schedule) -> Failure | None:
    """Play a schedule on a fleet that has started; the law that it breaks, if any."""
    failure = None
    try:
        await game.play(schedule)
    except* LawBroken as broken:
        error = _first(broken)
        failure = Failure(error.law, str(error), tuple(game.fleet.log))
    return failure


def _first(group: BaseExceptionGroup[LawBroken]) -> LawBroken:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, LawBroken)
    return error


def quiet_logs() -> None:
    """Agents under faults log a lot: what a law does not read is dropped."""
    with suppress(ValueError):
        logging.disable(logging.WARNING)
        logging.lastResort = None
