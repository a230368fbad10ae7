"""One small work loop for all controllers of a cluster: keys in, writes out, nothing when idle."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from datetime import timedelta

from tinykube.controllers.controller import Controller, Key, Result, Write
from tinykube.controllers.events import EventRecorder
from tinykube.controllers.indexer import Indexer
from tinykube.controllers.objects import name_of, namespace_of
from tinykube.controllers.writer import ControlledApi, WriteError, Writer
from tinykube.resources import Object
from tinykube.storage import Change, Restored, StorageEvent

log = logging.getLogger(__name__)

WorkItem = tuple[Controller, Key]
_AT_ONCE = 16
_BREATH = 32
_LONGEST = timedelta(seconds=30)


def pause_after(error: Exception, attempt: int) -> timedelta:
    """How long to wait before a key is tried again; one that was overtaken hardly waits."""
    first = timedelta(milliseconds=1 if _is_conflict(error) else 20)
    return min(first * 2.0 ** min(attempt, 20), _LONGEST)


def _is_conflict(error: Exception) -> bool:
    return isinstance(error, WriteError) and error.is_conflict


class ControllerLoop:
    """Wakes controllers by storage's changes and sends what they want written.

    Keys are queued once however often they are woken, and a key is never worked on twice at the
    same time. While nothing happens there is one waiting task and no timer.
    """

    def __init__(self, api: ControlledApi, controllers: Sequence[Controller]) -> None:
        self._storage = api.storage
        self._view = Indexer(api.storage, api.registry, api.clock)
        self._recorder = EventRecorder(api.clock)
        self._writer = Writer(api, self._recorder)
        self._everywhere = [one for one in controllers if not one.watches]
        self._by_store: dict[str, list[Controller]] = {}
        self._controllers = controllers
        self._inbox: deque[StorageEvent] = deque()
        self._queue: deque[WorkItem] = deque()
        self._queued: set[WorkItem] = set()
        self._active: set[WorkItem] = set()
        self._again: set[WorkItem] = set()
        self._attempts: dict[WorkItem, int] = {}
        self._timers: dict[WorkItem, asyncio.TimerHandle] = {}
        self._stirred = asyncio.Event()
        self._freed = asyncio.Event()
        self._idle = asyncio.Event()

    async def run(self, first: Sequence[WorkItem] = ()) -> None:
        """Work until cancelled; `first` is done before anything that storage already holds."""
        unsubscribe = self._storage.subscribe(self._hear)
        try:
            async with asyncio.TaskGroup() as group:
                for work in first:
                    self._enqueue(work)
                self._inbox.append(Restored(self._storage.version))
                self._stirred.set()
                while True:
                    await self._stirred.wait()
                    self._stirred.clear()
                    await self._work(group)
        finally:
            unsubscribe()
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    async def idle(self) -> None:
        """Wait until nothing is queued or under way; what waits for a time does not count."""
        await self._idle.wait()

    def _hear(self, notice: StorageEvent) -> None:
        self._inbox.append(notice)
        self._idle.clear()
        self._stirred.set()

    async def _work(self, group: asyncio.TaskGroup) -> None:
        done = 0
        while self._read() or self._queue or await self._told_or_done():
            if not self._queue:
                continue
            if len(self._active) >= _AT_ONCE:
                self._freed.clear()
                await self._freed.wait()
                continue
            self._take_up(self._queue.popleft(), group)
            done += 1
            if done % _BREATH == 0:
                await asyncio.sleep(0)
        if not self._active:
            self._idle.set()

    async def _told_or_done(self) -> bool:
        """Tell one event while nothing else is to be done; whether there may be more to do."""
        if self._active or not self._recorder:
            return False
        write = self._recorder.next_write(self._standing_event)
        if write is not None:
            try:
                await self._writer.send_all((write,))
            except WriteError:
                log.debug("an event was refused", exc_info=True)
        await asyncio.sleep(0)
        return True

    def _standing_event(self, event: Object) -> Object | None:
        return self._storage.get("events", namespace_of(event), name_of(event))

    def _read(self) -> bool:
        """Take in what storage told; whether there was anything."""
        read = bool(self._inbox)
        while self._inbox:
            match self._inbox.popleft():
                case Change() as change:
                    self._view.take(change)
                    self._wake(change)
                case Restored():
                    self._inbox.clear()
                    for change in self._view.start_over():
                        self._wake(change)
        return read

    def _wake(self, change: Change) -> None:
        followers = self._by_store.get(change.store)
        if followers is None:
            followers = [one for one in self._controllers if change.store in one.watches]
            followers = self._by_store[change.store] = [*self._everywhere, *followers]
        for controller in followers:
            for key in controller.keys_for(change, self._view):
                self._enqueue((controller, key))

    def _enqueue(self, work: WorkItem) -> None:
        if work in self._active:
            self._again.add(work)
        elif work not in self._queued:
            self._queued.add(work)
            self._queue.append(work)

    def _take_up(self, work: WorkItem, group: asyncio.TaskGroup) -> None:
        self._queued.discard(work)
        controller, key = work
        timer = self._timers.pop(work, None)
        if timer is not None:
            timer.cancel()
        try:
            result = controller.reconcile(key, self._view)
        except Exception as error:
            log.exception("a controller failed", extra={"controller": controller.name, "key": key})
            self._retry(work, error)
            return
        self._look_again(work, result)
        if result.writes:
            self._active.add(work)
            self._idle.clear()
            group.create_task(self._send(work, result.writes), name=f"{controller.name} writes")
        else:
            self._succeeded(work)

    async def _send(self, work: WorkItem, writes: Sequence[Write]) -> None:
        controller, key = work
        failed: Exception | None = None
        try:
            await self._writer.send_all(writes)
        except WriteError as error:
            failed = error
        except Exception as error:
            log.exception("a write failed", extra={"controller": controller.name, "key": key})
            failed = error
        finally:
            self._active.discard(work)
        if failed is None:
            self._succeeded(work)
        else:
            if not _is_conflict(failed):
                self._view.last_errors[(controller.name, key)] = str(failed)
            self._retry(work, failed)
        if work in self._again:
            self._again.discard(work)
            if failed is None:
                self._enqueue(work)
        self._freed.set()
        self._stirred.set()

    def _succeeded(self, work: WorkItem) -> None:
        controller, key = work
        self._attempts.pop(work, None)
        self._view.last_errors.pop((controller.name, key), None)

    def _look_again(self, work: WorkItem, result: Result) -> None:
        if result.requeue_after is not None:
            self._later(work, result.requeue_after)

    def _retry(self, work: WorkItem, error: Exception) -> None:
        attempt = self._attempts.get(work, 0)
        self._attempts[work] = attempt + 1
        self._later(work, pause_after(error, attempt))

    def _later(self, work: WorkItem, wait: timedelta) -> None:
        before = self._timers.pop(work, None)
        if before is not None:
            before.cancel()
        loop = asyncio.get_running_loop()
        self._timers[work] = loop.call_later(wait.total_seconds(), self._due, work)

    def _due(self, work: WorkItem) -> None:
        self._timers.pop(work, None)
        self._enqueue(work)
        self._idle.clear()
        self._stirred.set()
