"""The workqueue-driven loop that runs all controllers of one cluster."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from datetime import timedelta

from tinykube.controllers.controller import Controller, Key, Write
from tinykube.controllers.events import EventRecorder
from tinykube.controllers.indexer import Indexer
from tinykube.controllers.objects import name_of, namespace_of
from tinykube.controllers.writer import ControlledApi, WriteError, Writer
from tinykube.resources import Object
from tinykube.storage import Change, Restored, StorageEvent

log = logging.getLogger(__name__)

WorkItem = tuple[Controller, Key]
_MAX_CONCURRENT = 16
_YIELD_INTERVAL = 32
_MAX_BACKOFF = timedelta(seconds=30)


def backoff_delay(error: Exception, attempt: int) -> timedelta:
    """The exponential backoff after an error, from 20 ms to 30 s; after a conflict from 1 ms.

    It doubles with each attempt, counted from 0.
    """
    initial = timedelta(milliseconds=1 if _is_conflict(error) else 20)
    return min(initial * 2.0 ** min(attempt, 20), _MAX_BACKOFF)


def _is_conflict(error: Exception) -> bool:
    return isinstance(error, WriteError) and error.is_conflict


class ControllerLoop:
    """Enqueues keys for the changes of a storage, reconciles them and sends the writes.

    As in client-go's workqueue, a key is queued once however often it is added, and is never
    processed twice at the same time: one that is added while it is processed is queued afterwards.
    An idle loop is one waiting task without timers.
    """

    def __init__(self, api: ControlledApi, controllers: Sequence[Controller]) -> None:
        """Nothing runs yet; a controller without `watches` gets the changes of all stores."""
        self._storage = api.storage
        self._indexer = Indexer(api.storage, api.registry, api.clock)
        self._recorder = EventRecorder(api.clock)
        self._writer = Writer(api, self._recorder)
        self._watching_all = [one for one in controllers if not one.watches]
        self._controllers_by_store: dict[str, list[Controller]] = {}
        self._controllers = controllers
        self._storage_events: deque[StorageEvent] = deque()
        self._queue: deque[WorkItem] = deque()
        self._queued: set[WorkItem] = set()
        self._processing: set[WorkItem] = set()
        self._dirty: set[WorkItem] = set()
        self._attempts: dict[WorkItem, int] = {}
        self._timers: dict[WorkItem, asyncio.TimerHandle] = {}
        self._wakeup = asyncio.Event()
        self._slot_freed = asyncio.Event()
        self._idle = asyncio.Event()

    async def run(self, initial: Sequence[WorkItem] = ()) -> None:
        """Run until cancelled; `initial` items are processed before those of existing objects.

        Keys of all existing objects are enqueued at the start.
        """
        unsubscribe = self._storage.subscribe(self._on_storage_event)
        try:
            async with asyncio.TaskGroup() as group:
                for item in initial:
                    self._enqueue(item)
                self._storage_events.append(Restored(self._storage.version))
                self._wakeup.set()
                while True:
                    await self._wakeup.wait()
                    self._wakeup.clear()
                    await self._drain(group)
        finally:
            unsubscribe()
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    async def idle(self) -> None:
        """Wait until nothing is queued or processing, and all Events are written.

        Delayed keys do not count. It waits, too, until `run` has processed the existing objects.
        """
        await self._idle.wait()

    def _on_storage_event(self, event: StorageEvent) -> None:
        """Queue a storage event, mark the loop as busy and wake it up."""
        self._storage_events.append(event)
        self._idle.clear()
        self._wakeup.set()

    async def _drain(self, group: asyncio.TaskGroup) -> None:
        """Process storage events, keys and recorded Events until none is queued.

        Waits for a free slot at the concurrency limit; marks the loop idle if no write is in
        flight.
        """
        processed = 0
        while self._process_storage_events() or self._queue or await self._write_next_event():
            if not self._queue:
                continue
            if len(self._processing) >= _MAX_CONCURRENT:
                self._slot_freed.clear()
                await self._slot_freed.wait()
                continue
            self._process(self._queue.popleft(), group)
            processed += 1
            if processed % _YIELD_INTERVAL == 0:
                await asyncio.sleep(0)
        if not self._processing:
            self._idle.set()

    async def _write_next_event(self) -> bool:
        """Write one recorded Event to the API server, only while nothing is processing.

        Returns whether one was taken, also if its write failed, which is logged and dropped.
        """
        if self._processing or not self._recorder:
            return False
        write = self._recorder.next_write(self._stored_event)
        if write is not None:
            try:
                await self._writer.send_all((write,))
            except WriteError:
                log.debug("writing an Event failed", exc_info=True)
        await asyncio.sleep(0)
        return True

    def _stored_event(self, event: Object) -> Object | None:
        """The Event in storage with the namespace and name of the given one, or None."""
        return self._storage.get("events", namespace_of(event), name_of(event))

    def _process_storage_events(self) -> bool:
        """Index all queued changes and enqueue their keys; returns whether there was an event.

        A restore drops the events queued after it and enqueues the keys of all objects.
        """
        had_events = bool(self._storage_events)
        while self._storage_events:
            match self._storage_events.popleft():
                case Change() as change:
                    self._indexer.apply(change)
                    self._enqueue_for(change)
                case Restored():
                    self._storage_events.clear()
                    for change in self._indexer.resync():
                        self._enqueue_for(change)
        return had_events

    def _enqueue_for(self, change: Change) -> None:
        """Enqueue the keys that each controller watching the change's store maps it to."""
        watching = self._controllers_by_store.get(change.store)
        if watching is None:
            watching = [one for one in self._controllers if change.store in one.watches]
            watching = self._controllers_by_store[change.store] = [*self._watching_all, *watching]
        for controller in watching:
            for key in controller.keys_for(change, self._indexer):
                self._enqueue((controller, key))

    def _enqueue(self, item: WorkItem) -> None:
        """Queue an item once; one that is processing is marked dirty, to be queued after it."""
        if item in self._processing:
            self._dirty.add(item)
        elif item not in self._queued:
            self._queued.add(item)
            self._queue.append(item)

    def _process(self, item: WorkItem, group: asyncio.TaskGroup) -> None:
        """Reconcile one key, cancel its timer, and start its writes in a task.

        A timer for `requeue_after` is set. An exception is logged and requeues the key with
        backoff; a result without writes clears its failures.
        """
        self._queued.discard(item)
        controller, key = item
        timer = self._timers.pop(item, None)
        if timer is not None:
            timer.cancel()
        try:
            result = controller.reconcile(key, self._indexer)
        except Exception as error:
            log.exception("a controller failed", extra={"controller": controller.name, "key": key})
            self._requeue_with_backoff(item, error)
            return
        if result.requeue_after is not None:
            self._enqueue_after(item, result.requeue_after)
        if result.writes:
            self._processing.add(item)
            self._idle.clear()
            group.create_task(self._send(item, result.writes), name=f"{controller.name} writes")
        else:
            self._forget_failures(item)

    async def _send(self, item: WorkItem, writes: Sequence[Write]) -> None:
        """Send the writes of a key to the API server.

        After a failure it is requeued with backoff, else at once if added meanwhile. An error other
        than a conflict is kept as the key's last error; a success clears it. Unexpected errors are
        logged.
        """
        controller, key = item
        failed: Exception | None = None
        try:
            await self._writer.send_all(writes)
        except WriteError as error:
            failed = error
        except Exception as error:
            log.exception("a write failed", extra={"controller": controller.name, "key": key})
            failed = error
        finally:
            self._processing.discard(item)
        if failed is None:
            self._forget_failures(item)
        else:
            if not _is_conflict(failed):
                self._indexer.last_errors[(controller.name, key)] = str(failed)
            self._requeue_with_backoff(item, failed)
        if item in self._dirty:
            self._dirty.discard(item)
            if failed is None:
                self._enqueue(item)
        self._slot_freed.set()
        self._wakeup.set()

    def _forget_failures(self, item: WorkItem) -> None:
        """Reset the backoff attempts and the last error of an item."""
        controller, key = item
        self._attempts.pop(item, None)
        self._indexer.last_errors.pop((controller.name, key), None)

    def _requeue_with_backoff(self, item: WorkItem, error: Exception) -> None:
        """Count a failed attempt of an item and enqueue it after the backoff."""
        attempt = self._attempts.get(item, 0)
        self._attempts[item] = attempt + 1
        self._enqueue_after(item, backoff_delay(error, attempt))

    def _enqueue_after(self, item: WorkItem, delay: timedelta) -> None:
        """Enqueue an item after a delay; replaces the timer that it already has."""
        before = self._timers.pop(item, None)
        if before is not None:
            before.cancel()
        loop = asyncio.get_running_loop()
        self._timers[item] = loop.call_later(delay.total_seconds(), self._on_timer, item)

    def _on_timer(self, item: WorkItem) -> None:
        """Enqueue an item whose delay has passed, mark the loop as busy and wake it up."""
        self._timers.pop(item, None)
        self._enqueue(item)
        self._idle.clear()
        self._wakeup.set()
