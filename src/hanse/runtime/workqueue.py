"""The work queue of keys: deduplicated, fresh changes before a backlog, one worker per key."""

import asyncio
import heapq
from collections.abc import Callable
from datetime import timedelta
from enum import IntEnum
from itertools import count
from typing import TypeAlias

from msgspec import Struct

from hanse.model.plan import Key

Item: TypeAlias = tuple[str, Key]
"""A feature's name and one of its keys."""

COALESCE_LEAST = 0.020
COALESCE_MOST = 0.100
COALESCE_DEFERRED = 0.300
"""Seconds for which a key gathers changes while other agents are to write its objects first."""

TICK = 1e-5
"""The shortest wait: one lost in rounding would never end on virtual time."""

LIGHT_LOAD = 8
"""Keys at a time that are not coalesced: what follows from one change goes on at once."""

FULL_LOAD = 500
"""Waiting keys that make the longest coalescing."""


class Priority(IntEnum):
    """Fresh changes overtake the backlog of lists, restarts and retries."""

    FRESH = 0
    BACKLOG = 1


class Dequeued(Struct, frozen=True):
    """A key taken off the queue, and whether a live watch event of a deletion enqueued it."""

    item: Item
    deletion_seen: bool


class WorkQueue:
    """The keys to plan. One that is added while it is processed comes back when it is done.

    Under a light load a key is ready at once; else it waits 20 to 100 ms, so that one plan serves
    many changes. A waiting key keeps its time when it is added again.
    """

    def __init__(self, time: Callable[[], float]) -> None:
        """An empty queue; `time` gives the seconds of the running loop's clock."""
        self._time = time
        self._heap: list[tuple[float, int, Item]] = []
        self._scheduled: dict[Item, tuple[float, Priority]] = {}
        self._ready: tuple[dict[Item, None], dict[Item, None]] = ({}, {})
        self._processing: set[Item] = set()
        self._dirty: dict[Item, Priority] = {}
        """Keys that were added while they were processed."""
        self._deletions: set[Item] = set()
        self._deferred: set[Item] = set()
        self._held: set[Item] = set()
        """Keys that are not done before they are added and processed once more."""
        self._awaited: list[tuple[set[Item], asyncio.Event]] = []
        """The keys that callers of `wait_for_due` still wait for."""
        self._order = count()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        """How many keys are ready, or were added while they are processed.

        A scheduled key counts once `take` has found it due.
        """
        return len(self._ready[0]) + len(self._ready[1]) + len(self._dirty)

    @property
    def load(self) -> float:
        """The length as a share of FULL_LOAD, from 0 to 1."""
        return min(len(self) / FULL_LOAD, 1.0)

    @property
    def is_settled(self) -> bool:
        """Whether the queue is idle, and no scheduled key is due within COALESCE_MOST seconds."""
        soon = self._time() + COALESCE_MOST
        return self.is_idle and not (self._heap and self._heap[0][0] <= soon)

    @property
    def is_idle(self) -> bool:
        """Whether no key is processed, held or ready; scheduled keys do not count."""
        return not self._processing and not self._held and not any(self._ready)

    def add(
        self, item: Item, priority: Priority = Priority.FRESH, *, deletion_seen: bool = False
    ) -> None:
        """Enqueue a key after the coalescing delay; one in processing comes back when that is done.

        One that waits already keeps its earlier time, and becomes fresh if it is added as such.
        Ends `hold`. `deletion_seen` is returned with the key when it is taken.
        """
        self._held.discard(item)
        if deletion_seen:
            self._deletions.add(item)
        if item in self._processing:
            self._dirty[item] = min(priority, self._dirty.get(item, priority))
        elif item in self._ready[Priority.BACKLOG] and priority is Priority.FRESH:
            del self._ready[Priority.BACKLOG][item]
            self._ready[Priority.FRESH][item] = None
        elif item not in self._ready[Priority.FRESH] and item not in self._ready[Priority.BACKLOG]:
            delay = COALESCE_DEFERRED if item in self._deferred else self._coalescing_delay()
            self._schedule(item, priority, delay)

    def add_after(self, item: Item, delay: timedelta) -> None:
        """Enqueue a key with priority BACKLOG after a delay, unless it is scheduled earlier.

        One that is ready or in processing is scheduled, too.
        """
        self._schedule(item, Priority.BACKLOG, max(delay.total_seconds(), 0.0))

    def set_urgent(self, item: Item, urgent: bool) -> None:
        """Choose a key's coalescing delay from now on: the usual one, or if not urgent 300 ms."""
        if urgent:
            self._deferred.discard(item)
        else:
            self._deferred.add(item)

    def hold(self, item: Item) -> None:
        """Let a key in processing count as not done until the caller adds it again.

        `is_idle` and `wait_for_due` wait for it.
        """
        self._held.add(item)

    def is_processing(self, item: Item) -> bool:
        """Whether a key was taken and is not done."""
        return item in self._processing

    async def take(self) -> Dequeued:
        """Take the next ready key, a fresh one before the backlog; waits until there is one.

        It is in processing until `done`. Within a priority the first that became ready comes first.
        """
        while True:
            self._promote_due()
            for ready in self._ready:
                if ready:
                    return self._dequeue(next(iter(ready)), ready)
            self._changed.clear()
            try:
                async with asyncio.timeout(self._seconds_to_next()):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def done(self, item: Item) -> None:
        """End the processing of a key; one that was added meanwhile is added again.

        Otherwise `wait_for_due` no longer waits for it, unless it is held.
        """
        self._processing.discard(item)
        if item in self._dirty:
            self.add(item, self._dirty.pop(item))
            return
        if item in self._held:
            return
        for due, processed in self._awaited:
            due.discard(item)
            if not due:
                processed.set()

    async def wait_for_due(self) -> None:
        """Wait until every key that is due now or within 300 ms was processed, or for `clear`.

        Those in processing or held count as due. Keys that are added meanwhile are not waited for.
        """
        soon = self._time() + COALESCE_DEFERRED
        scheduled = {item for item, (due, _) in self._scheduled.items() if due <= soon}
        due = {*self._ready[0], *self._ready[1], *self._dirty, *self._processing, *scheduled}
        due |= self._held
        if due:
            waiter = (due, asyncio.Event())
            self._awaited.append(waiter)
            try:
                await waiter[1].wait()
            finally:
                self._awaited.remove(waiter)

    def clear(self) -> None:
        """Drop every key that waits, and end each `wait_for_due`; those in processing go on."""
        for _, processed in self._awaited:
            processed.set()
        self._heap.clear()
        self._scheduled.clear()
        self._dirty.clear()
        self._deletions.clear()
        self._deferred.clear()
        self._held.clear()
        for ready in self._ready:
            ready.clear()

    def _coalescing_delay(self) -> float:
        """How long, in seconds, a change waits for further ones: 0 under light load.

        Else from COALESCE_LEAST to COALESCE_MOST, by the number of scheduled keys.
        """
        fresh, backlog = self._ready
        if len(self._processing) + len(fresh) + len(backlog) + len(self._dirty) < LIGHT_LOAD:
            return 0.0
        share = min(len(self._scheduled) / FULL_LOAD, 1.0)
        return COALESCE_LEAST + (COALESCE_MOST - COALESCE_LEAST) * share

    def _schedule(self, item: Item, priority: Priority, delay: float) -> None:
        """Schedule an item after a delay in seconds; the earlier time and higher priority stay.

        Compacts the heap when outdated entries prevail, and wakes `take` if the time changed.
        """
        due = self._time() + delay
        known = self._scheduled.get(item)
        if known is not None:
            priority = min(priority, known[1])
            if known[0] <= due:
                self._scheduled[item] = (known[0], priority)
                return
        self._scheduled[item] = (due, priority)
        heapq.heappush(self._heap, (due, next(self._order), item))
        if len(self._heap) > 2 * len(self._scheduled) + FULL_LOAD:
            self._compact_heap()
        self._changed.set()

    def _compact_heap(self) -> None:
        """Drop the heap entries whose key is no longer scheduled for their time, and duplicates."""
        current = (
            (due, n, item)
            for due, n, item in self._heap
            if (known := self._scheduled.get(item)) is not None and known[0] == due
        )
        self._heap = list({item: (due, n, item) for due, n, item in current}.values())
        heapq.heapify(self._heap)

    def _promote_due(self) -> None:
        """Make scheduled keys ready whose time has come.

        Those in processing are to come back when they are done; those that are ready stay as they
        are.
        """
        now = self._time()
        while self._heap and self._heap[0][0] <= now:
            due, _, item = heapq.heappop(self._heap)
            known = self._scheduled.get(item)
            if known is None or known[0] != due:
                continue  # an earlier entry of the same key came first
            del self._scheduled[item]
            priority = known[1]
            if item in self._processing:
                self._dirty[item] = min(priority, self._dirty.get(item, priority))
            elif not any(item in ready for ready in self._ready):
                self._ready[priority][item] = None

    def _seconds_to_next(self) -> float | None:
        """Seconds until the next scheduled key is due, at least `TICK`; None if there is none."""
        return max(self._heap[0][0] - self._time(), TICK) if self._heap else None

    def _dequeue(self, item: Item, ready: dict[Item, None]) -> Dequeued:
        """Move an item from `ready` to processing.

        Reports and clears whether a deletion was seen.
        """
        del ready[item]
        self._processing.add(item)
        deletion_seen = item in self._deletions
        self._deletions.discard(item)
        return Dequeued(item, deletion_seen)
