"""Random schedules of people, faults and time over replicated policies, and what must hold.

A schedule is a function of its seed: `python -m tests.features.policies.schedules SEED [COUNT]`
replays. Leadership is given and taken by the schedule itself, more roughly than leases would: two
supervisors may lead one member for a moment.
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
from tests.features.policies.expected_outcomes import ABSENT, ORPHANED, Believed
from tests.features.policies.fleet import SHOP, is_plain, said
from tests.features.policies.random_actions import Deeds
from tests.features.policies.scripts import plot_for
from tinykube.virtual_time import run

SOON = (0, 0, 0.01, 0.05, 0.3)
SOMETIME = (0, 0.01, 0.05, 0.3, 2, 15, 40)
PATIENCE = 20_000
"""Requests of one schedule; one takes some hundreds."""


class Broken(AssertionError):
    """A law did not hold; the message says which and how to replay."""


class Schedule(Deeds):
    """What happens in a realm, and what has to be true of it."""

    async def play(self) -> None:
        """Set up, let things happen, heal, and look; more than once, so that memory is tested."""
        realm = self.realm
        for cluster in self.names:
            await realm.furnish(cluster, SHOP)
        for name in self.chiefs:
            realm.start_agent(name)
        for member in self.names:
            realm.crown(self.random.choice(self.chiefs), member)
        await self._settle()
        try:
            for _ in range(self.random.randint(1, 2)):
                await plot_for(self)(self)
                await self.agree()
            await self._check_silence()
        finally:
            await realm.stop()
            await realm.close()

    async def happens(self, deed: Awaitable[None], *, soon: bool = False) -> None:
        """Do something, and let some time pass, by chance long enough for all to hear of it."""
        await deed
        self._require(not self.complaints, "; ".join(self.complaints))
        await asyncio.sleep(self.random.choice(SOON if soon else SOMETIME))

    async def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    async def agree(self) -> None:
        """Everything heals, and all have to agree on what people did."""
        await self._heal()
        await self._check_all()

    # -- healing

    async def _heal(self) -> None:
        self.realm.network.heal_all()
        if self.outside:
            await self._join()
        for cluster in self.chiefs:
            if cluster not in self.realm.agents:
                self.realm.start_agent(cluster)
        for cluster in sorted(self.homeless):
            await self.realm.client(cluster).create(Namespace(metadata=Meta(name=SHOP)))
        self.homeless.clear()
        self._lead_all()
        self._tell("everything heals")
        await self._settle()
        await self._release_quarantined()

    async def _settle(self) -> None:
        """Let time pass until nobody writes any more."""
        quiet = 0
        for _ in range(200):
            with self.realm.network.counting_writes() as writes:
                await asyncio.sleep(10)
            quiet = 0 if writes or not self._all_synced() else quiet + 1
            if quiet == 4:
                break
        else:
            last = [f"{w.source} {w.request.method} {w.target} {w.request.path}" for w in writes]
            self._require(False, f"the fleet does not settle: {last}")
        for name, agent in self.realm.agents.items():
            assert not agent.task.done(), f"the agent of {name} ended: {agent.task}"

    def _all_synced(self) -> bool:
        states = [
            state
            for agent in self.realm.agents.values()
            for state in agent.reconciler.informers.facts.all(ClusterState)
            if Role.MEMBER in state.roles
        ]
        return all(s.phase is Phase.SYNCED and not s.recovering for s in states)

    async def _release_quarantined(self) -> None:
        """A person looks at everything in quarantine, and lets it go."""
        for _ in range(3):
            found = [
                (where, name)
                for where in self.names
                for name in self.believed
                if await self._is_quarantined(where, name)
            ]
            if not found:
                return
            for where, name in found:
                with self.witness.by_hand(where):
                    change = {"metadata": {"annotations": {RESOLVE_ANNOTATION: "yield"}}}
                    await self.realm.edit(where, self.make(name), change)
                self._tell(f"{where}: {name} is let go from quarantine")
                self.believed[name].let_go = True
            await self._settle()
        self._require(False, "what was let go from quarantine stays there")

    async def _is_quarantined(self, where: str, name: str) -> bool:
        record = await self.realm.record(where, self.make(name))
        return record is not None and record.here.phase == "Quarantined"

    # -- the laws

    def _require(self, held: bool, law: str) -> None:
        if not held:
            self.fail(law)

    def fail(self, law: str) -> NoReturn:
        """Say which law did not hold, and how it came to that."""
        story = "\n".join(self.story)
        raise Broken(f"{law}\nseed {self.seed}:\n{story}")

    async def _check_all(self) -> None:
        """All agree, on something that somebody said, and nothing plain was touched."""
        self._require(not self.complaints, "; ".join(self.complaints))
        for name, believed in self.believed.items():
            found = {c: await self.realm.find(c, self.make(name)) for c in self.names}
            for where, version in believed.plain.items():
                policy = found.pop(where)
                self._require(
                    policy is not None and policy.metadata.resource_version == version,
                    f"the plain {name} of {where} was touched",
                )
            outcome = self._outcome(name, found)
            self._require(believed.allows(outcome), f"{name} is {outcome}, people said {believed}")
            believed.settled(outcome)
            if outcome == ORPHANED:
                await self._clear(name)

    def _outcome(self, name: str, found: dict[str, Policy | None]) -> object:
        standing = [p for p in found.values() if p is not None]
        if any(is_plain(p) for p in standing):
            self._require(
                all(is_plain(p) for p in standing), f"some of {name} are plain, others not"
            )
            return ORPHANED
        told = {c: said(p) if p is not None else ABSENT for c, p in found.items()}
        self._require(len(set(told.values())) <= 1, f"members disagree about {name}: {told}")
        return next(iter(told.values()), ABSENT)

    async def _clear(self, name: str) -> None:
        """People delete what was left to the clusters, so that the name is free again."""
        for where in self.names:
            policy = await self.realm.find(where, self.make(name))
            if policy is not None:
                with self.witness.by_hand(where):
                    await self.realm.delete(where, policy)
        self.believed[name] = Believed(self.names)
        self.witness.believed = self.believed
        self._tell(f"every plain {name} is cleared away")
        await self._settle()

    async def _check_silence(self) -> None:
        """A settled fleet writes nothing, and neither does an agent that starts over it."""
        with self.realm.network.counting_writes() as writes:
            await asyncio.sleep(120)
            for cluster in self.chiefs if self.random.random() < 0.4 else ():
                await self.realm.kill_agent(cluster)
                self.realm.start_agent(cluster)
            self._lead_all()
            await asyncio.sleep(40)
        made = [
            (w.source, w.request.method, w.target, w.request.path, w.request.body) for w in writes
        ]
        self._require(not made, f"a settled fleet wrote {made}")


def play(seed: int) -> None:
    """Play one schedule to its end."""

    async def whole() -> None:
        schedule = Schedule(seed)
        playing = asyncio.create_task(schedule.play())
        tired = schedule.realm.network.after(PATIENCE)
        await asyncio.wait({playing, tired}, return_when=asyncio.FIRST_COMPLETED)
        if not playing.done():
            playing.cancel()
            schedule.fail("the fleet writes without end")
        await playing

    run(whole())


def main() -> None:
    """Play on after a broken law, and tell of all of them."""
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    broken = 0
    for seed in range(first, first + count):
        try:
            play(seed)
        except Broken as law:
            broken += 1
            print(law, flush=True)  # noqa: T201
    outcome = f"{broken} broke a law" if broken else "every law held"
    print(f"{count} schedules from seed {first}: {outcome}")  # noqa: T201
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()
