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
from hanse.web.dashboard.items import Board, News
from hanse.web.dashboard.timeline import Happening, Timeline

EVERY = 0.2
"""Seconds between two tellings; what changes in between is told once."""
BREATH = 15.0
"""Seconds of silence after which a page is told that we are still there."""
MOST_WATCHERS = 32
MOST_UNTOLD = 256
"""Tellings that a slow page may be behind before it has to begin anew."""

Surroundings = Callable[[], Any]
"""What is told of the place where this runs: the processes and cuts of a local federation."""


class Live:
    """The board and the timeline of one process, and everybody who looks at them."""

    def __init__(
        self, board: Board, surroundings: Surroundings | None = None, now: datetime | None = None
    ) -> None:
        self._board = board
        self._surroundings = surroundings
        self._timeline = Timeline(now or datetime.now(UTC))
        self._fresh: list[Happening] = []
        self._watchers: list[Watcher] = []
        self._somebody = asyncio.Event()
        self._around = b""
        self._speakers: dict[ClusterId, ClusterId | None] = {}

    def on_change(self, agent: ClusterId, change: Change) -> None:
        """Take in that something changed before an agent's eyes."""
        if self._watchers:
            self._board.on_change(change)
        if isinstance(change, FactChange):
            if isinstance(change.fact, ClusterState):
                self._speakers.clear()
        elif not isinstance(change.object, Event) and self._speaker(change.where) != agent:
            return  # an Event is heard of from its writer alone
        happened = self._timeline.on_change(agent, change, datetime.now(UTC))
        if self._watchers:
            self._fresh += happened

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Tell those who look until the block ends."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._tell(), name="dashboard")
            try:
                yield
            finally:
                task.cancel()
                for watcher in self._watchers:
                    watcher.end()

    @contextmanager
    def watched(self) -> Iterator["Watcher | None"]:
        """One more who looks, from everything as it is now; None where there are too many."""
        if len(self._watchers) >= MOST_WATCHERS:
            yield None
            return
        watcher = Watcher()
        self._watchers.append(watcher)
        watcher.tell(self._news(self._board.whole(), tuple(self._timeline.kept), first=True))
        self._somebody.set()
        try:
            yield watcher
        finally:
            self._watchers.remove(watcher)
            if not self._watchers:
                self._somebody.clear()
                self._board.forget()

    async def everything(self) -> dict[str, Any]:
        """All that is shown, computed now."""
        while self._board.stale:
            self._tell_news()
            await asyncio.sleep(0)
        whole = self._board.whole()
        if not self._watchers:
            self._board.forget()
        return {
            "sections": whole.put,
            "timeline": tuple(self._timeline.kept),
            "around": None if self._surroundings is None else self._surroundings(),
        }

    def _speaker(self, where: ClusterId) -> ClusterId | None:
        """Who is heard about a cluster; nobody where it is shown under another name."""
        if where not in self._speakers:
            sights = self._board.sights
            shown = where in sights.clusters
            self._speakers[where] = sights.speaker_for(where) if shown else None
        return self._speakers[where]

    async def _tell(self) -> None:
        while True:
            await self._somebody.wait()
            self._tell_news()
            await asyncio.sleep(0.0 if self._board.stale else EVERY)

    def _tell_news(self) -> None:
        """Look again at what changed, and tell everybody who looks: it is news but once."""
        news = self._board.news() if self._board.stale else News({}, {})
        happened, self._fresh = tuple(self._fresh), []
        moved = self._moved()
        if news or happened or moved:
            told = self._news(news, happened)
            for watcher in self._watchers:
                watcher.tell(told)

    def _moved(self) -> bool:
        """Whether the surroundings are not what they were."""
        if self._surroundings is None:
            return False
        before, self._around = self._around, msgspec.json.encode(self._surroundings())
        return before != self._around

    def _news(self, news: News, happened: tuple[Happening, ...], *, first: bool = False) -> bytes:
        told: dict[str, Any] = {"put": news.put, "gone": news.gone, "timeline": happened}
        if self._surroundings is not None:
            told["around"] = self._surroundings()
        if first:
            told["first"] = True
        return msgspec.json.encode(told)


class Watcher:
    """One page that is open: what it has not been told yet, in order."""

    def __init__(self) -> None:
        self._untold: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._ended = False

    def tell(self, news: bytes) -> None:
        """Keep something for the page; one that does not listen is let go, to begin anew."""
        if len(self._untold) >= MOST_UNTOLD:
            self.end()
        self._untold.append(news)
        self._more.set()

    def end(self) -> None:
        """Tell nothing more."""
        self._ended = True
        self._more.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while not self._ended:
            while self._untold and not self._ended:
                yield self._untold.popleft()
            self._more.clear()
            if self._untold or self._ended:
                continue
            try:
                async with asyncio.timeout(BREATH):
                    await self._more.wait()
            except TimeoutError:
                yield b"{}"
