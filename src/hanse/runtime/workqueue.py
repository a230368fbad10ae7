"""Keys waiting for their plan: each once, fresh ones before a backlog, none twice at a time."""

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
UNHURRIED = 0.300
"""Seconds for which a key gathers changes while all that it wishes is others' to write first."""

TICK = 1e-5
"""The least that is waited: a wait lost in rounding would never end where time only jumps."""

FEW = 8
"""Keys at a time that do not make a load: what follows from one change goes on at once."""

CROWD = 500
"""As many waiting keys as make the longest coalescing."""


class Priority(IntEnum):
    """Fresh changes overtake a backlog: lists, restarts, retries."""

    FRESH = 0
    BACKLOG = 1


class Dequeued(Struct, frozen=True):
    """A key whose turn it is, and whether a deletion seen on a live watch is among its causes."""

    item: Item
    deletion_seen: bool


class WorkQueue:
    """The keys to plan. A key that is being worked on and wakes again comes back when it is done.

    While few keys are there a key's turn comes at once; under load it waits 20 to 100 ms, so that
    one plan serves many changes. A key that waits keeps its place when it wakes again.
    """

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._due: list[tuple[float, int, Item]] = []
        self._ready: tuple[dict[Item, None], dict[Item, None]] = ({}, {})
        self._waiting: dict[Item, tuple[float, Priority]] = {}
        self._busy: set[Item] = set()
        self._again: dict[Item, Priority] = {}
        self._deletions: set[Item] = set()
        self._unhurried: set[Item] = set()
        self._order = count()
        self._news = asyncio.Event()

    def __len__(self) -> int:
        """How many keys wait for a turn that is due or nearly so; retries in the future are not."""
        return len(self._ready[0]) + len(self._ready[1]) + len(self._again)

    @property
    def load(self) -> float:
        """How many keys are due, as a share of what makes a crowd."""
        return min(len(self) / CROWD, 1.0)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is being done, is due, or is about to be within the coalescing time."""
        soon = self._time() + COALESCE_MOST
        return self.idle and not (self._due and self._due[0][0] <= soon)

    @property
    def idle(self) -> bool:
        """Whether nothing is to be done now."""
        return not self._busy and not any(self._ready)

    def add(
        self, item: Item, lane: Priority = Priority.FRESH, *, deletion_seen: bool = False
    ) -> None:
        """Ask for a plan soon."""
        if deletion_seen:
            self._deletions.add(item)
        if item in self._busy:
            self._again[item] = min(lane, self._again.get(item, lane))
        elif item in self._ready[Priority.BACKLOG] and lane is Priority.FRESH:
            del self._ready[Priority.BACKLOG][item]
            self._ready[Priority.FRESH][item] = None
        elif item not in self._ready[Priority.FRESH] and item not in self._ready[Priority.BACKLOG]:
            self._wait(item, lane, UNHURRIED if item in self._unhurried else self._coalescing())

    def set_urgent(self, item: Item, needed: bool) -> None:
        """Whether a key that wakes is to be planned soon, or is left to gather what happens."""
        if needed:
            self._unhurried.discard(item)
        else:
            self._unhurried.add(item)

    def is_processing(self, item: Item) -> bool:
        """Whether a key is being worked on."""
        return item in self._busy

    def add_after(self, item: Item, delay: timedelta) -> None:
        """Ask for a plan later; an earlier wish stands."""
        self._wait(item, Priority.BACKLOG, max(delay.total_seconds(), 0.0))

    async def take(self) -> Dequeued:
        """The next key, when there is one."""
        while True:
            self._promote()
            for ready in self._ready:
                if ready:
                    return self._begin(next(iter(ready)), ready)
            self._news.clear()
            try:
                async with asyncio.timeout(self._until_next()):
                    await self._news.wait()
            except TimeoutError:
                continue

    def done(self, item: Item) -> None:
        """The plan of a key was carried out, as far as it went."""
        self._busy.discard(item)
        if item in self._again:
            self.add(item, self._again.pop(item))

    def forget(self) -> None:
        """Drop everything that waits; what is being worked on goes on."""
        self._due.clear()
        self._waiting.clear()
        self._again.clear()
        self._deletions.clear()
        self._unhurried.clear()
        for ready in self._ready:
            ready.clear()

    def _coalescing(self) -> float:
        if len(self._busy) + len(self) < FEW:
            return 0.0
        share = min(len(self._waiting) / CROWD, 1.0)
        return COALESCE_LEAST + (COALESCE_MOST - COALESCE_LEAST) * share

    def _wait(self, item: Item, lane: Priority, delay: float) -> None:
        due = self._time() + delay
        known = self._waiting.get(item)
        if known is not None:
            lane = min(lane, known[1])
            if known[0] <= due:
                self._waiting[item] = (known[0], lane)
                return
        self._waiting[item] = (due, lane)
        heapq.heappush(self._due, (due, next(self._order), item))
        if len(self._due) > 2 * len(self._waiting) + CROWD:
            self._tidy()
        self._news.set()

    def _tidy(self) -> None:
        """Drop the wishes that an earlier one for the same key has replaced."""
        standing = (
            (due, n, item)
            for due, n, item in self._due
            if (known := self._waiting.get(item)) is not None and known[0] == due
        )
        self._due = list({item: (due, n, item) for due, n, item in standing}.values())
        heapq.heapify(self._due)

    def _promote(self) -> None:
        now = self._time()
        while self._due and self._due[0][0] <= now:
            due, _, item = heapq.heappop(self._due)
            known = self._waiting.get(item)
            if known is None or known[0] != due:
                continue  # an earlier wish for the same key came first
            del self._waiting[item]
            lane = known[1]
            if item in self._busy:
                self._again[item] = min(lane, self._again.get(item, lane))
            elif not any(item in ready for ready in self._ready):
                self._ready[lane][item] = None

    def _until_next(self) -> float | None:
        return max(self._due[0][0] - self._time(), TICK) if self._due else None

    def _begin(self, item: Item, ready: dict[Item, None]) -> Dequeued:
        del ready[item]
        self._busy.add(item)
        deletion_seen = item in self._deletions
        self._deletions.discard(item)
        return Dequeued(item, deletion_seen)
