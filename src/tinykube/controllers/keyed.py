"""Names to be looked at, one after the other, for what runs beside any API server."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random

from hanse.kube.errors import KubeError
from hanse.kube.retry import ABSENT, delay_of
from hanse.kube.store import Name

log = logging.getLogger(__name__)


class NameQueue:
    """A queue of names, each in it once; one that failed comes back after a while."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._names: dict[Name, None] = {}
        self._attempts: dict[Name, int] = {}
        self._timers: dict[Name, asyncio.TimerHandle] = {}
        self._stirred = asyncio.Event()

    def add(self, name: Name) -> None:
        """Have a name looked at soon."""
        self._names[name] = None
        self._stirred.set()

    async def serve(self, work: Callable[[Name], Awaitable[None]]) -> None:
        """Do the work for each name until cancelled; its failures are retried, never raised."""
        try:
            while True:
                await self._stirred.wait()
                self._stirred.clear()
                while self._names:
                    name = next(iter(self._names))
                    del self._names[name]
                    await self._try(name, work)
                    await asyncio.sleep(0)  # an in-process server answers without ever waiting
        finally:
            for timer in self._timers.values():
                timer.cancel()

    async def _try(self, name: Name, work: Callable[[Name], Awaitable[None]]) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
        try:
            await work(name)
        except KubeError as error:
            attempt = self._attempts.get(name, 0)
            self._attempts[name] = attempt + 1
            pause = delay_of(error, attempt, self._random) or ABSENT.delay(attempt, self._random)
            log.debug("a write is tried again", extra={"object": name, "error": str(error)})
            loop = asyncio.get_running_loop()
            self._timers[name] = loop.call_later(pause.total_seconds(), self.add, name)
        else:
            self._attempts.pop(name, None)
