"""Updates for open pages: computed once for all, and not while none is open."""

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
"""Seconds between two updates; what changes in between is sent once."""
KEEPALIVE_INTERVAL = 15.0
"""Seconds without updates after which an empty one is sent."""
MAX_SUBSCRIBERS = 32
MAX_PENDING = 256
"""Updates that a slow page may be behind before it is disconnected."""

LocalStateSource = Callable[[], Any]
"""The state of a local federation: its processes, and the connections that are cut."""


class LiveUpdates:
    """The items and the timeline of one process, and the subscribed pages."""

    def __init__(
        self,
        items: ItemCache,
        local_state: LocalStateSource | None = None,
        now: datetime | None = None,
    ) -> None:
        """No page is subscribed yet; the timeline begins `now`, by default the present time.

        `local_state` gives the state of a local federation, if it is one.
        """
        self._items = items
        self._local_state = local_state
        self._timeline = Timeline(now or datetime.now(UTC))
        self._new_entries: list[TimelineEntry] = []
        self._subscribers: list[Subscriber] = []
        self._has_subscribers = asyncio.Event()
        self._last_local_state = b""
        self._reporters: dict[ClusterId, ClusterId | None] = {}

    def on_change(self, agent: ClusterId, change: Change) -> None:
        """Add a change to the timeline, if this agent is the one that reports on its cluster.

        Facts and Events count from any agent; items are marked only while pages are subscribed.
        """
        if self._subscribers:
            self._items.on_change(change)
        if isinstance(change, FactChange):
            if isinstance(change.fact, ClusterState):
                self._reporters.clear()
        elif not isinstance(change.object, Event) and self._reporter(change.where) != agent:
            return  # another agent reports on that cluster; Events come from their writer
        entries = self._timeline.on_change(agent, change, datetime.now(UTC))
        if self._subscribers:
            self._new_entries += entries

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send updates until the block ends, which ends all subscriptions."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._run(), name="dashboard")
            try:
                yield
            finally:
                task.cancel()
                for subscriber in self._subscribers:
                    subscriber.close()

    @contextmanager
    def subscribed(self) -> Iterator["Subscriber | None"]:
        """Subscribe a page, which first gets everything; None where there are too many.

        When the last page leaves, all items are marked to be rendered anew.
        """
        if len(self._subscribers) >= MAX_SUBSCRIBERS:
            yield None
            return
        subscriber = Subscriber()
        self._subscribers.append(subscriber)
        subscriber.send(
            self._encode_update(self._items.all_items(), tuple(self._timeline.kept), first=True)
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
        """All items, the timeline and the local state, after rendering everything that is stale.

        They are in `sections`, `timeline` and `around` (None without a local state). Subscribers
        get what changed; without any the items are rendered anew the next time.
        """
        while self._items.stale:
            self._publish()
            await asyncio.sleep(0)
        items = self._items.all_items()
        if not self._subscribers:
            self._items.invalidate()
        return {
            "sections": items.put,
            "timeline": tuple(self._timeline.kept),
            "around": None if self._local_state is None else self._local_state(),
        }

    def _reporter(self, where: ClusterId) -> ClusterId | None:
        """The agent that reports on a cluster; None if the snapshot does not list the cluster."""
        if where not in self._reporters:
            snapshot = self._items.snapshot
            shown = where in snapshot.clusters
            self._reporters[where] = snapshot.reporter_for(where) if shown else None
        return self._reporters[where]

    async def _run(self) -> None:
        """Publish updates while there are subscribers, at intervals; never returns.

        While items are stale it publishes again without delay.
        """
        while True:
            await self._has_subscribers.wait()
            self._publish()
            await asyncio.sleep(0.0 if self._items.stale else UPDATE_INTERVAL)

    def _publish(self) -> None:
        """Render some of what is stale; if anything changed, send it to all subscribers.

        New entries of the timeline, the local state, and that nothing is stale any more count as
        changes, too.
        """
        was_stale = self._items.stale
        changes = self._items.refresh() if was_stale else ItemChanges({}, {})
        is_judged = was_stale and not self._items.stale
        entries, self._new_entries = tuple(self._new_entries), []
        local_state_changed = self._local_state_changed()
        if changes or entries or local_state_changed or is_judged:
            update = self._encode_update(changes, entries)
            for subscriber in self._subscribers:
                subscriber.send(update)

    def _local_state_changed(self) -> bool:
        """Whether the local state differs from that of the last call, which is replaced by it.

        False if there is no local state.
        """
        if self._local_state is None:
            return False
        before, self._last_local_state = (
            self._last_local_state,
            msgspec.json.encode(self._local_state()),
        )
        return before != self._last_local_state

    def _encode_update(
        self, changes: ItemChanges, entries: tuple[TimelineEntry, ...], *, first: bool = False
    ) -> bytes:
        """The JSON of an update, with the local state if it is known; `first` marks a full one.

        `judged` marks one after which the page has all findings of the fleet as it is now.
        """
        update: dict[str, Any] = {"put": changes.put, "gone": changes.gone, "timeline": entries}
        if self._local_state is not None:
            update["around"] = self._local_state()
        if first:
            update["first"] = True
        if not self._items.stale:
            update["judged"] = True
        return msgspec.json.encode(update)


class Subscriber:
    """An open page, with the updates that it has not received yet."""

    def __init__(self) -> None:
        """No update is pending yet."""
        self._pending: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._closed = False

    def send(self, update: bytes) -> None:
        """Queue an update; a page that is too far behind is disconnected, to subscribe again."""
        if len(self._pending) >= MAX_PENDING:
            self.close()
        self._pending.append(update)
        self._more.set()

    def close(self) -> None:
        """End the iteration; updates that are still pending are not sent."""
        self._closed = True
        self._more.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield updates until closed, and `{}` if none comes within `KEEPALIVE_INTERVAL`."""
        while not self._closed:
            while self._pending and not self._closed:
                yield self._pending.popleft()
            self._more.clear()
            if self._pending or self._closed:
                continue
            try:
                async with asyncio.timeout(KEEPALIVE_INTERVAL):
                    await self._more.wait()
            except TimeoutError:
                yield b"{}"
