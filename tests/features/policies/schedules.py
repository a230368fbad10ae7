"""Random schedules of user actions, faults and time over replicated policies, and their laws.

A schedule is a function of its seed: `python -m tests.features.policies.schedules SEED [COUNT]`
replays. Leadership is assigned by the schedule itself, without leases: two supervisors may lead one
member for a moment.
"""

import asyncio
import sys
from collections.abc import Awaitable
from typing import NoReturn

from hanse.features.policies.content import Policy
from hanse.features.policies.ledger import RESOLVE_ANNOTATION
from hanse.model.facts import ClusterState, Phase, Role
from hanse.model.kinds.core import Namespace
from hanse.model.objects import Meta
from tests.features.policies.expected_outcomes import ABSENT, ORPHANED, ExpectedOutcomes
from tests.features.policies.fleet import SHOP, is_plain, summarize
from tests.features.policies.random_actions import RandomActions
from tests.features.policies.scripts import choose_script
from tinykube.virtual_time import run

SOON = (0, 0, 0.01, 0.05, 0.3)
SOMETIME = (0, 0.01, 0.05, 0.3, 2, 15, 40)
MAX_REQUESTS = 20_000
"""The limit of requests in one schedule; it takes some hundreds."""


class LawBroken(AssertionError):
    """A law did not hold; the message says which and how to replay."""


class Schedule(RandomActions):
    """A random schedule over one fleet, and the laws that must hold."""

    async def play(self) -> None:
        """Set up, run scripts, heal and check; twice at times, so that memory is tested."""
        fleet = self.fleet
        for cluster in self.names:
            await fleet.prepare_cluster(cluster, SHOP)
        for name in self.supervisor_names:
            fleet.start_agent(name)
        for member in self.names:
            fleet.assign_leader(self.random.choice(self.supervisor_names), member)
        await self._settle()
        try:
            for _ in range(self.random.randint(1, 2)):
                await choose_script(self)(self)
                await self.agree()
            await self._check_silence()
        finally:
            await fleet.stop()
            await fleet.close()

    async def perform(self, action: Awaitable[None], *, soon: bool = False) -> None:
        """Perform an action, and let a random time pass."""
        await action
        self._require(not self.violations, "; ".join(self.violations))
        await asyncio.sleep(self.random.choice(SOON if soon else SOMETIME))

    async def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    async def agree(self) -> None:
        """Heal everything, and check that all members agree on a correct outcome."""
        await self._heal()
        await self._check_all()

    # -- healing

    async def _heal(self) -> None:
        self.fleet.network.heal_all()
        if self.departed_member:
            await self._join()
        for cluster in self.supervisor_names:
            if cluster not in self.fleet.agents:
                self.fleet.start_agent(cluster)
        for cluster in sorted(self.without_namespace):
            await self.fleet.client(cluster).create(Namespace(metadata=Meta(name=SHOP)))
        self.without_namespace.clear()
        self._assign_all_leaders()
        self._log("everything heals")
        await self._settle()
        await self._release_quarantined()

    async def _settle(self) -> None:
        """Let time pass until there are no more writes."""
        quiet = 0
        for _ in range(200):
            with self.fleet.network.counting_writes() as writes:
                await asyncio.sleep(10)
            quiet = 0 if writes or not self._all_synced() else quiet + 1
            if quiet == 4:
                break
        else:
            last = [f"{w.source} {w.request.method} {w.target} {w.request.path}" for w in writes]
            self._require(False, f"the fleet does not settle: {last}")
        for name, agent in self.fleet.agents.items():
            assert not agent.task.done(), f"the agent of {name} ended: {agent.task}"

    def _all_synced(self) -> bool:
        states = [
            state
            for agent in self.fleet.agents.values()
            for state in agent.reconciler.informers.facts.all(ClusterState)
            if Role.MEMBER in state.roles
        ]
        return all(s.phase is Phase.SYNCED and not s.recovering for s in states)

    async def _release_quarantined(self) -> None:
        """A user resolves everything in quarantine in favour of the other members."""
        for _ in range(3):
            found = [
                (where, name)
                for where in self.names
                for name in self.expected
                if await self._is_quarantined(where, name)
            ]
            if not found:
                return
            for where, name in found:
                with self.auditor.by_hand(where):
                    change = {"metadata": {"annotations": {RESOLVE_ANNOTATION: "yield"}}}
                    await self.fleet.edit(where, self.make(name), change)
                self._log(f"{where}: {name} is released from quarantine")
                self.expected[name].released = True
            await self._settle()
        self._require(False, "what was released from quarantine stays there")

    async def _is_quarantined(self, where: str, name: str) -> bool:
        record = await self.fleet.record(where, self.make(name))
        return record is not None and record.here.phase == "Quarantined"

    # -- the laws

    def _require(self, held: bool, law: str) -> None:
        if not held:
            self.fail(law)

    def fail(self, law: str) -> NoReturn:
        """Raise with the law that did not hold and the log of the schedule."""
        log = "\n".join(self.log)
        raise LawBroken(f"{law}\nseed {self.seed}:\n{log}")

    async def _check_all(self) -> None:
        """All members agree on a correct outcome, and no plain policy was changed."""
        self._require(not self.violations, "; ".join(self.violations))
        for name, expected in self.expected.items():
            found = {c: await self.fleet.find(c, self.make(name)) for c in self.names}
            for where, version in expected.plain.items():
                policy = found.pop(where)
                self._require(
                    policy is not None and policy.metadata.resource_version == version,
                    f"the plain {name} of {where} was touched",
                )
            outcome = self._outcome(name, found)
            self._require(expected.allows(outcome), f"{name} is {outcome}, expected {expected}")
            expected.settle_on(outcome)
            if outcome == ORPHANED:
                await self._clear(name)

    def _outcome(self, name: str, found: dict[str, Policy | None]) -> object:
        standing = [p for p in found.values() if p is not None]
        if any(is_plain(p) for p in standing):
            self._require(
                all(is_plain(p) for p in standing), f"some of {name} are plain, others not"
            )
            return ORPHANED
        contents = {c: summarize(p) if p is not None else ABSENT for c, p in found.items()}
        self._require(
            len(set(contents.values())) <= 1, f"members disagree about {name}: {contents}"
        )
        return next(iter(contents.values()), ABSENT)

    async def _clear(self, name: str) -> None:
        """Users delete the orphaned policies, so that the name is free again."""
        for where in self.names:
            policy = await self.fleet.find(where, self.make(name))
            if policy is not None:
                with self.auditor.by_hand(where):
                    await self.fleet.delete(where, policy)
        self.expected[name] = ExpectedOutcomes(self.names)
        self.auditor.expected = self.expected
        self._log(f"every plain {name} is cleared away")
        await self._settle()

    async def _check_silence(self) -> None:
        """A settled fleet writes nothing, nor does an agent that restarts over it."""
        with self.fleet.network.counting_writes() as writes:
            await asyncio.sleep(120)
            for cluster in self.supervisor_names if self.random.random() < 0.4 else ():
                await self.fleet.kill_agent(cluster)
                self.fleet.start_agent(cluster)
            self._assign_all_leaders()
            await asyncio.sleep(40)
        made = [
            (w.source, w.request.method, w.target, w.request.path, w.request.body) for w in writes
        ]
        self._require(not made, f"a settled fleet wrote {made}")


def play(seed: int) -> None:
    """Run one schedule to its end."""

    async def whole() -> None:
        schedule = Schedule(seed)
        playing = asyncio.create_task(schedule.play())
        tired = schedule.fleet.network.after(MAX_REQUESTS)
        await asyncio.wait({playing, tired}, return_when=asyncio.FIRST_COMPLETED)
        if not playing.done():
            playing.cancel()
            schedule.fail("the fleet writes without end")
        await playing

    run(whole())


def main() -> None:
    """Run a range of seeds, and print every broken law."""
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    broken = 0
    for seed in range(first, first + count):
        try:
            play(seed)
        except LawBroken as law:
            broken += 1
            print(law, flush=True)  # noqa: T201
    outcome = f"{broken} broke a law" if broken else "every law held"
    print(f"{count} schedules from seed {first}: {outcome}")  # noqa: T201
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()
