"""How many keys are worked on at a time: few, so that those who wait gather what else happens."""

import asyncio
from datetime import timedelta

MOST_AT_ONCE = 64
"""As many as one cluster's own limit lets through: more would only write what soon changes."""

HELD = timedelta(seconds=1)
"""How long a key may keep others waiting: a cluster that does not answer holds up nobody else."""


class Slot:
    """One key's place among those worked on, given back when it is done or takes too long."""

    def __init__(self, slots: "Slots") -> None:
        self._slots: Slots | None = slots
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(HELD.total_seconds(), self.give_back)

    def give_back(self) -> None:
        """Let another key begin; what this one waits for goes on."""
        if self._slots is not None:
            self._alarm.cancel()
            self._slots.free.release()
            self._slots = None


class Slots:
    """The places there are."""

    def __init__(self, most: int = MOST_AT_ONCE) -> None:
        self.free = asyncio.Semaphore(most)

    async def wait(self) -> None:
        """Wait until a place is free; whoever waited takes it by `take`."""
        await self.free.acquire()

    def take(self) -> Slot:
        return Slot(self)
