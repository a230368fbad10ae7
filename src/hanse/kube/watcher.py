"""One kind of one cluster as an endless stream: listed, watched, resumed, and never given up."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import timedelta
from random import Random
from typing import Generic

from msgspec import Struct

from hanse.kube import requests
from hanse.kube.client import Client
from hanse.kube.decoding import (
    Bookmark,
    DecodedEvent,
    StreamedList,
    decode_watch_event,
    event_resource_version,
)
from hanse.kube.errors import (
    BadCredentials,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    Status,
    Unreachable,
)
from hanse.kube.retry import ABSENT, retry_delay
from hanse.kube.transport import Request
from hanse.kube.watch_events import Interrupted, NotServed, Progress, WatchEvent
from hanse.model.objects import K

SHORTEST, LONGEST = timedelta(minutes=5), timedelta(minutes=10)
"""A watch is asked to end within these, so that those of a fleet do not end all at once."""

GRACE = timedelta(seconds=30)
"""What a server may be late by before a silent watch is taken for dead."""

_STOOD = 10.0
"""Seconds after which a watch counts as having worked even though nothing happened."""

_EXPIRIES = 3
"""How often in a row what was read may be too old at once before that counts as an outage."""

_BREATH = 128
"""Lines after which other tasks get their turn, in case lines never have to be waited for."""


class _Selection(Struct, frozen=True):
    """Which objects of a kind are followed: those of a namespace, and by labels and fields."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""


async def list_and_watch(
    client: Client,
    kind: type[K],
    *,
    namespace: str = "",
    labels: str = "",
    fields: str = "",
    random: Random,
) -> AsyncGenerator[WatchEvent[K], None]:
    """List a kind and then watch it, for as long as the caller iterates.

    An outage is reported once, by `Interrupted`; its end by `Progress`, after a new list. A caller
    that stops early closes the generator (`contextlib.aclosing`).
    """
    stream = _Stream(client, kind, _Selection(namespace, labels, fields), random)
    while True:
        notified = client.rest_mapper.changed.notified
        try:
            async with aclosing(stream.once()) as events:
                async for event in events:
                    yield event
        except NotFound:
            if stream.lost_kind():
                yield NotServed()
            await stream.wait_for_kind(notified)
        except Gone as error:
            pause = stream.start_over(error)
            if stream.expires_for_ever() and stream.goes_down(pause):
                yield Interrupted(error)
            await asyncio.sleep(pause.total_seconds())
        except KubeError as error:
            pause = stream.failed(error)
            if stream.goes_down(pause):
                yield Interrupted(error)
            await asyncio.sleep(pause.total_seconds())


class _Stream(Generic[K]):
    """Where one stream stands: what it may resume from, and how it fared lately."""

    def __init__(
        self, client: Client, kind: type[K], selection: _Selection, random: Random
    ) -> None:
        self._client = client
        self._kind = kind
        self._selection = selection
        self._random = random
        self._after = ""  # the resourceVersion to resume from; empty: a list is due
        self._attempt = 0  # failures since the last sign that a watch works
        self._refusals = 0  # how many of the latest failures were for lack of rights
        self._expired = 0  # how often in a row what was read was too old at once
        self._down = False
        self._absent = False
        self._doubtful = False  # whether the server may have been restored since we last heard
        self._by_pages = False
        self._opened_at: float | None = None
        self._heard = False

    async def once(self) -> AsyncGenerator[WatchEvent[K], None]:
        """List where that is due, then watch until the server ends it."""
        self._opened_at = None
        self._heard = False
        if not self._after and (self._by_pages or self._client.supports_watch_list is False):
            listed = await self._list_by_pages()
            self._found_kind()
            yield listed
        elif self._after and self._doubtful:
            await self._check_history()
        lasting = self._random.uniform(SHORTEST.total_seconds(), LONGEST.total_seconds())
        request = self._request(timedelta(seconds=lasting))
        try:
            async with self._client.stream(request) as lines:
                self._opened_at = asyncio.get_running_loop().time()
                self._found_kind()
                async with aclosing(self._told(lines, lasting)) as events:
                    async for event in events:
                        yield event
        except Invalid:
            if self._after:
                raise
            self._by_pages = True  # it does not stream lists, or the selector is bad: pages tell
            return
        self._ended(lasting)

    def lost_kind(self) -> bool:
        """Note that the kind is not served; whether that is news."""
        news = self._down or not self._absent
        self._absent = True
        self._down = False
        self._after = ""
        self._attempt = 0 if news else self._attempt + 1
        return news

    async def wait_for_kind(self, notified: int) -> None:
        """Wait until discovery notifies again, or for the backoff of kinds that are not served."""
        pause = ABSENT.delay(self._attempt, self._random)
        try:
            async with asyncio.timeout(pause.total_seconds()):
                await self._client.rest_mapper.changed.wait_for_more(notified)
        except TimeoutError:
            return

    def start_over(self, error: Gone) -> timedelta:
        """How long to wait for the next list: nothing, unless this happens again and again."""
        self._after = ""
        self._judge()
        pause = retry_delay(error, self._attempt, self._random) if self._attempt else None
        self._attempt += 1
        self._expired += 1
        return pause or timedelta(0)

    def expires_for_ever(self) -> bool:
        """Whether what is read expires each time before it can be watched: as good as no answer."""
        return self._expired > _EXPIRIES

    def failed(self, error: KubeError) -> timedelta:
        """How long to wait after a failure; a watch that stood and broke is resumed at once."""
        self._doubtful = True
        self._judge()
        broke = self._opened_at is not None and self._attempt == 0
        pause = retry_delay(error, self._attempts_like(error), self._random)
        self._attempt += 1
        if broke:
            return timedelta(0)
        return pause if pause is not None else ABSENT.delay(self._attempt, self._random)

    def _attempts_like(self, error: KubeError) -> int:
        """How often it failed like this: a server that starts refuses what it has not read yet."""
        if not isinstance(error, Forbidden | BadCredentials):
            self._refusals = 0
            return self._attempt
        self._refusals += 1
        return self._refusals - 1

    def goes_down(self, pause: timedelta) -> bool:
        """Whether an outage begins; a list is due after it.

        The server may come back from a backup and be past our version by then, so that neither its
        version nor its history would tell.
        """
        if self._down or not pause:
            return False
        self._down = True
        self._after = ""
        return True

    def _found_kind(self) -> None:
        self._absent = False

    async def _list_by_pages(self) -> WatchEvent[K]:
        chosen = self._selection
        listed = await self._client.list(
            self._kind, namespace=chosen.namespace, labels=chosen.labels, fields=chosen.fields
        )
        if self._by_pages and self._client.supports_watch_list is None:
            self._client.supports_watch_list = False
        self._after = listed.resource_version
        self._doubtful = False
        return listed

    async def _check_history(self) -> None:
        """A server restored from a backup would let us wait in silence for what is its future."""
        newest = await self._client.current_resource_version(
            self._kind, namespace=self._selection.namespace
        )
        self._no_older(newest)
        self._doubtful = False

    def _no_older(self, version: str) -> None:
        if version.isdecimal() and self._after.isdecimal() and int(version) < int(self._after):
            raise Gone(Status(410, "Expired", "the server went back to an earlier state"))

    def _request(self, lasting: timedelta) -> Request:
        served, chosen = self._client.rest_mapper.served_kind(self._kind), self._selection
        if not self._after:
            return requests.watch_list(
                served,
                chosen.namespace,
                labels=chosen.labels,
                fields=chosen.fields,
                lasting=lasting,
            )
        return requests.watch(
            served,
            chosen.namespace,
            labels=chosen.labels,
            fields=chosen.fields,
            after=self._after,
            lasting=lasting,
        )

    async def _told(
        self, lines: AsyncIterator[bytes], lasting: float
    ) -> AsyncGenerator[WatchEvent[K], None]:
        events = self._events(lines, lasting + GRACE.total_seconds())
        async with aclosing(events):
            if not self._after:
                gathering = StreamedList[K]()
                async for event in events:
                    gathering.take(event)
                    if isinstance(event, Bookmark) and event.ends_list:
                        break
                else:
                    raise Unreachable("the stream ended within its list")
                self._client.supports_watch_list = True
                self._after = event.resource_version
                self._doubtful = False
                yield gathering.listed(event.resource_version)
            if self._down and not self.expires_for_ever():
                self._down = False
                yield Progress(self._after)
            async for event in events:
                self._advance(event_resource_version(event))
                if self._down:  # what expired each time has stood for once
                    self._down = False
                    yield Progress(self._after)
                yield Progress(event.resource_version) if isinstance(event, Bookmark) else event

    async def _events(
        self, lines: AsyncIterator[bytes], patience: float
    ) -> AsyncGenerator[DecodedEvent[K], None]:
        told = 0
        while True:
            try:
                async with asyncio.timeout(patience):
                    line = await anext(lines)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise Unreachable(f"the watch was silent for {patience:.0f} s") from None
            if not line:
                continue
            yield decode_watch_event(line, self._kind)
            told += 1
            if told % _BREATH == 0:
                await asyncio.sleep(0)

    def _advance(self, version: str) -> None:
        self._heard = True
        if version:
            self._no_older(version)
            self._after = version

    def _ended(self, lasting: float) -> None:
        """A clean end: expected when its time was up, a sign of a restart when it was not."""
        self._doubtful = self._doubtful or self._stood() < lasting - 1
        if not self._judge():
            raise Unreachable("the watch ended as soon as it began")

    def _judge(self) -> bool:
        """Whether the last watch worked; if so, earlier failures no longer count."""
        worked = self._heard or self._stood() >= _STOOD
        if worked:
            self._attempt = self._refusals = self._expired = 0
        return worked

    def _stood(self) -> float:
        if self._opened_at is None:
            return 0.0
        return asyncio.get_running_loop().time() - self._opened_at
