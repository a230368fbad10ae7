"""What changes while somebody looks: computed once and told to all, and not while nobody does."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

from hanse.model.facts import ClusterState
from hanse.model.kinds.core import Event
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Change, FactChange
from hanse.web.dashboard.items import ItemCache, ItemChanges
from hanse.web.dashboard.timeline import Timeline, TimelineEntry

UPDATE_INTERVAL = 0.2
"""Seconds between two tellings; what changes in between is told once."""
KEEPALIVE_INTERVAL = 15.0
"""Seconds of silence after which a page is told that we are still there."""
MAX_SUBSCRIBERS = 32
MAX_PENDING = 256
"""Tellings that a slow page may be behind before it has to begin anew."""

LocalStateSource = Callable[[], Any]
"""What is told of the place where this runs: the processes and cuts of a local federation."""


class LiveUpdates:
    """The board and the timeline of one process, and everybody who looks at them."""

    def __init__(
        self,
        items: ItemCache,
        local_state: LocalStateSource | None = None,
        now: datetime | None = None,
    ) -> None:
        self._items = items
        self._local_state = local_state
        self._timeline = Timeline(now or datetime.now(UTC))
        self._new_entries: list[TimelineEntry] = []
        self._subscribers: list[Subscriber] = []
        self._has_subscribers = asyncio.Event()
        self._last_local_state = b""
        self._reporters: dict[ClusterId, ClusterId | None] = {}

    def on_change(self, agent: ClusterId, change: Change) -> None:
        """Take in that something changed before an agent's eyes."""
        if self._subscribers:
            self._items.on_change(change)
        if isinstance(change, FactChange):
            if isinstance(change.fact, ClusterState):
                self._reporters.clear()
        elif not isinstance(change.object, Event) and self._reporter(change.where) != agent:
            return  # an Event is heard of from its writer alone
        happened = self._timeline.on_change(agent, change, datetime.now(UTC))
        if self._subscribers:
            self._new_entries += happened

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Tell those who look until the block ends."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._run(), name="dashboard")
            try:
                yield
            finally:
                task.cancel()
                for subscriber in self._subscribers:
                    subscriber.end()

    @contextmanager
    def subscribed(self) -> Iterator["Subscriber | None"]:
        """One more who looks, from everything as it is now; None where there are too many."""
        if len(self._subscribers) >= MAX_SUBSCRIBERS:
            yield None
            return
        subscriber = Subscriber()
        self._subscribers.append(subscriber)
        subscriber.tell(
            self._encode_update(self._items.whole(), tuple(self._timeline.kept), first=True)
        )
        self._has_subscribers.set()
        try:
            yield subscriber
        finally:
            self._subscribers.remove(subscriber)
            if not self._subscribers:
                self._has_subscribers.clear()
                self._items.invalidate()

    async def full_state(self) -> dict[str, Any]:
        """All that is shown, computed now."""
        while self._items.stale:
            self._publish()
            await asyncio.sleep(0)
        whole = self._items.whole()
        if not self._subscribers:
            self._items.invalidate()
        return {
            "sections": whole.put,
            "timeline": tuple(self._timeline.kept),
            "around": None if self._local_state is None else self._local_state(),
        }

    def _reporter(self, where: ClusterId) -> ClusterId | None:
        """Who is heard about a cluster; nobody where it is shown under another name."""
        if where not in self._reporters:
            snapshot = self._items.snapshot
            shown = where in snapshot.clusters
            self._reporters[where] = snapshot.reporter_for(where) if shown else None
        return self._reporters[where]

    async def _run(self) -> None:
        while True:
            await self._has_subscribers.wait()
            self._publish()
            await asyncio.sleep(0.0 if self._items.stale else UPDATE_INTERVAL)

    def _publish(self) -> None:
        """Look again at what changed, and tell everybody who looks: it is news but once."""
        news = self._items.news() if self._items.stale else ItemChanges({}, {})
        happened, self._new_entries = tuple(self._new_entries), []
        moved = self._local_state_changed()
        if news or happened or moved:
            told = self._encode_update(news, happened)
            for subscriber in self._subscribers:
                subscriber.tell(told)

    def _local_state_changed(self) -> bool:
        """Whether the surroundings are not what they were."""
        if self._local_state is None:
            return False
        before, self._last_local_state = (
            self._last_local_state,
            msgspec.json.encode(self._local_state()),
        )
        return before != self._last_local_state

    def _encode_update(
        self, news: ItemChanges, happened: tuple[TimelineEntry, ...], *, first: bool = False
    ) -> bytes:
        told: dict[str, Any] = {"put": news.put, "gone": news.gone, "timeline": happened}
        if self._local_state is not None:
            told["around"] = self._local_state()
        if first:
            told["first"] = True
        return msgspec.json.encode(told)


class Subscriber:
    """One page that is open: what it has not been told yet, in order."""

    def __init__(self) -> None:
        self._pending: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._ended = False

    def tell(self, news: bytes) -> None:
        """Keep something for the page; one that does not listen is let go, to begin anew."""
        if len(self._pending) >= MAX_PENDING:
            self.end()
        self._pending.append(news)
        self._more.set()

    def end(self) -> None:
        """Tell nothing more."""
        self._ended = True
        self._more.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while not self._ended:
            while self._pending and not self._ended:
                yield self._pending.popleft()
            self._more.clear()
            if self._pending or self._ended:
                continue
            try:
                async with asyncio.timeout(KEEPALIVE_INTERVAL):
                    await self._more.wait()
            except TimeoutError:
                yield b"{}"
