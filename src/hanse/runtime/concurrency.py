"""How many keys are worked on at a time: few, so that those who wait gather what else happens."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta

from hanse.model.objects import ClusterId

MOST_AT_ONCE = 64
"""As many as one cluster's own limit lets through: more would only write what soon changes."""

HELD = timedelta(seconds=1)
"""How long a key may keep others waiting, and how long a cluster that is written to may say nothing
before nobody waits for it."""


class Permit:
    """One key's place among those worked on, given back when it is done or takes too long.

    It is done as soon as only clusters are left that answer nobody.
    """

    def __init__(self, slots: "ConcurrencyLimit", clusters: Iterable[ClusterId]) -> None:
        self._slots: ConcurrencyLimit | None = slots
        self._left = set(clusters)
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(HELD.total_seconds(), self._took_long)
        self._look()

    def ended(self, cluster: ClusterId) -> None:
        """The key has done what it had to do in one cluster."""
        self._left.discard(cluster)
        self._look()

    def give_back(self) -> None:
        """Let another key begin; what this one waits for goes on."""
        if self._slots is not None:
            self._alarm.cancel()
            self._slots.free.release()
            self._slots = None

    def _look(self) -> None:
        if self._slots is not None and self._left <= self._slots.silent:
            self.give_back()

    def _took_long(self) -> None:
        if self._slots is not None:
            self._slots.suspect(self._left)
        self.give_back()


class ConcurrencyLimit:
    """The places there are, and the clusters that are not worth one."""

    def __init__(self, most: int = MOST_AT_ONCE) -> None:
        self.free = asyncio.Semaphore(most)
        self.silent: set[ClusterId] = set()
        """Clusters that were written to for a while and have not answered anything since."""
        self._answered_at: dict[ClusterId, float] = {}

    async def wait(self) -> None:
        """Wait until a place is free; whoever waited takes it by `take`."""
        await self.free.acquire()

    def take(self, clusters: Iterable[ClusterId]) -> Permit:
        """The place of a key that writes to these clusters."""
        return Permit(self, clusters)

    def answered(self, cluster: ClusterId) -> None:
        """A cluster has answered, whatever it said."""
        self._answered_at[cluster] = asyncio.get_running_loop().time()
        self.silent.discard(cluster)

    def suspect(self, clusters: Iterable[ClusterId]) -> None:
        """Somebody waited long for these: those that answered nobody meanwhile are silent.

        One that is merely busy answers some; keys go on waiting for it, so that it is written to
        no more often than it has to be.
        """
        since = asyncio.get_running_loop().time() - HELD.total_seconds()
        self.silent.update(c for c in clusters if self._answered_at.get(c, since) <= since)
