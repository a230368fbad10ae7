"""Keeps the server up to date: compiles changes of clusters and sends them to the workers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Protocol

from hanse.dns.compiler import Compiler
from hanse.dns.messages import Delta
from hanse.health import Readiness
from hanse.model.snapshot import Change, Snapshot


class DeltaReceiver(Protocol):
    """A DNS server, as far as it takes up changes of views."""

    def update(self, delta: Delta) -> None:
        """Send a change to every worker."""
        ...

    async def wait_applied(self) -> None:
        """Wait until every worker has applied all changes."""
        ...


log = logging.getLogger(__name__)

BATCH_SIZE = 100
"""Keys compiled at a time, about ten milliseconds, so that other tasks can run."""
KEPT_INTERVAL = timedelta(seconds=30)
"""How often sources are asked again for keys whose nodes they keep: no change may end that."""


class ViewUpdater:
    """Keeps one view up to date; `on_change` is an event handler of informers."""

    def __init__(
        self, compiler: Compiler, server: DeltaReceiver, snapshot: Callable[[], Snapshot]
    ) -> None:
        """Nothing is compiled or sent until the view is run; `snapshot` takes a current one."""
        self._compiler = compiler
        self._server = server
        self._snapshot = snapshot
        self._pending = asyncio.Event()
        self._served = False
        """Whether every worker answers from all that was listed first."""

    @property
    def readiness(self) -> Readiness:
        """Ready once workers answer from all objects: before that queries may get SERVFAIL.

        Resolvers remember one such answer for seconds.
        """
        if self._served:
            return Readiness(ready=True, text="ready")
        return Readiness(ready=False, text="not ready: the cluster was not read in full yet")

    def on_change(self, change: Change) -> None:
        """Enqueue what a change concerns; it is compiled and sent soon."""
        self._compiler.on_change(change, self._snapshot())
        if self._compiler.due:
            self._pending.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Compile all names, then every change, and send them to the server until the block ends.

        A task does so in the background; the block starts before anything is compiled.
        """
        self._compiler.start_reading(self._snapshot())
        self._pending.set()
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(
                self._send_changes(), name=f"dns {self._compiler.view.name}"
            )
            try:
                yield
            finally:
                sending.cancel()

    async def wait_applied(self) -> None:
        """Wait until all changes so far are served by every worker."""
        while self._compiler.due:  # noqa: ASYNC110 - few callers wait for this
            await asyncio.sleep(0)
        await self._server.wait_applied()

    async def _wait_for_work(self) -> None:
        """Wait until something is to be compiled.

        If nodes are kept, at most KEPT_INTERVAL: their keys are then enqueued to be tried again.
        """
        try:
            async with asyncio.timeout(
                KEPT_INTERVAL.total_seconds() if self._compiler.keeps else None
            ):
                await self._pending.wait()
        except TimeoutError:
            self._compiler.enqueue_kept(self._snapshot())
        self._pending.clear()

    async def _send_changes(self) -> None:
        """Send compiled changes to the server in batches whenever some are due; never returns.

        It yields to other tasks after each batch. The view is ready once every worker has applied
        the first synced state.
        """
        while True:
            await self._wait_for_work()
            while self._compiler.due:
                self._server.update(self._compiler.compile(self._snapshot(), BATCH_SIZE))
                for key, error in self._compiler.take_failures():
                    log.error("names not compiled", exc_info=error, extra={"key": str(key)})
                await asyncio.sleep(0)
            if self._compiler.synced and not self._served:
                await self._server.wait_applied()
                self._served = True
