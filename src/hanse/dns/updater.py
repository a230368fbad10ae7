"""From what is seen in clusters to what workers answer: changes in, compiled names out."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from hanse.dns.compiler import Compiler
from hanse.dns.server import DnsServer
from hanse.health import Readiness
from hanse.model.snapshot import Change, Snapshot

PIECE = 100
"""Keys compiled at a time, about ten milliseconds, so that others get their turn."""


class ViewUpdater:
    """Keeps one view up to date. `on_change` has the shape of a fleet's listener."""

    def __init__(
        self, compiler: Compiler, server: DnsServer, snapshot: Callable[[], Snapshot]
    ) -> None:
        self._compiler = compiler
        self._server = server
        self._snapshot = snapshot
        self._news = asyncio.Event()

    def on_change(self, change: Change) -> None:
        """Note a change; it is compiled and told at the next opportunity."""
        self._compiler.on_change(change, self._snapshot())
        if self._compiler.due:
            self._news.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Begin with everything there is, and follow every change, until the block ends."""
        self._compiler.enqueue_all(self._snapshot())
        self._news.set()
        async with asyncio.TaskGroup() as group:
            following = group.create_task(self._follow(), name=f"dns {self._compiler.view.name}")
            try:
                yield
            finally:
                following.cancel()

    async def wait_applied(self) -> None:
        """Wait until everything seen so far is what every worker answers."""
        while self._compiler.due:  # noqa: ASYNC110 - only who waits for a result needs to know
            await asyncio.sleep(0)
        await self._server.wait_applied()

    async def _follow(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._compiler.due:
                self._server.update(self._compiler.compile(self._snapshot(), PIECE))
                await asyncio.sleep(0)


def readiness(compiler: Compiler) -> Readiness:
    """Names are answered once everything was read: before that every question fails."""
    if compiler.synced:
        return Readiness(ready=True, text="ready")
    return Readiness(ready=False, text="not ready: the cluster was not read in full yet")
