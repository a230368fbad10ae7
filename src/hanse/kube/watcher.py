"""List-and-watch of one kind as an endless stream of events that resumes after failures."""

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
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    Status,
    Throttled,
    Unreachable,
)
from hanse.kube.retry import NOT_SERVED_BACKOFF, retry_delay
from hanse.kube.transport import Request
from hanse.kube.watch_events import Interrupted, NotServed, Progress, WatchEvent
from hanse.model.objects import K

MIN_TIMEOUT, MAX_TIMEOUT = timedelta(minutes=5), timedelta(minutes=10)
"""Bounds of the random timeout of a watch, so that those of a fleet do not all end at once."""

GRACE = timedelta(seconds=30)
"""How long after its timeout a silent watch is taken for broken."""

_WORKING_AFTER = 10.0
"""Seconds after which an open watch counts as working although no event came."""

_MAX_EXPIRIES = 3
"""How many lists in a row may expire before they can be watched until that is an outage."""

_TOLERATED = 10.0
"""Seconds for which a server may answer lists and watches with errors until that is an outage."""

_YIELD_EVERY = 128
"""Events after which other tasks run, in case lines never have to be awaited."""


class _Selection(Struct, frozen=True):
    """Namespace, label selector and field selector of a watch."""

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
    watcher = _Watcher(client, kind, _Selection(namespace, labels, fields), random)
    while True:
        notified = client.rest_mapper.changed.notified
        try:
            async with aclosing(watcher.run_once()) as events:
                async for event in events:
                    yield event
        except NotFound:
            if watcher.kind_not_served():
                yield NotServed()
            await watcher.wait_for_kind(notified)
        except Gone as error:
            pause = watcher.restart(error)
            if watcher.keeps_expiring() and watcher.begin_outage(error, pause):
                yield Interrupted(error)
            await asyncio.sleep(pause.total_seconds())
        except KubeError as error:
            pause = watcher.record_failure(error)
            if watcher.begin_outage(error, pause):
                yield Interrupted(error)
            await asyncio.sleep(pause.total_seconds())


class _Watcher(Generic[K]):
    """The state of one list-and-watch: the version to resume from, and recent failures."""

    def __init__(
        self, client: Client, kind: type[K], selection: _Selection, random: Random
    ) -> None:
        self._client = client
        self._kind = kind
        self._selection = selection
        self._random = random
        self._resume_version = ""  # the resourceVersion to resume from; empty: list first
        self._attempt = 0  # failures since a watch last worked
        self._refusals = 0  # how many of the latest failures were for lack of permissions
        self._expired = 0  # how many lists in a row expired before they were watched
        self._failing_since: float | None = None  # when a server began to answer with errors
        self._down = False
        self._not_served = False
        self._maybe_restored = False  # since the last event
        self._paged = False
        self._opened_at: float | None = None
        self._received = False

    async def run_once(self) -> AsyncGenerator[WatchEvent[K], None]:
        """List if needed, then watch until the server ends the watch."""
        self._opened_at = None
        self._received = False
        if not self._resume_version and (self._paged or self._client.supports_watch_list is False):
            listed = await self._list_paged()
            self._kind_served()
            yield listed
        elif self._resume_version and self._maybe_restored:
            await self._check_history()
        timeout = self._random.uniform(MIN_TIMEOUT.total_seconds(), MAX_TIMEOUT.total_seconds())
        request = self._watch_request(timedelta(seconds=timeout))
        try:
            async with self._client.stream(request) as lines:
                self._opened_at = asyncio.get_running_loop().time()
                self._kind_served()
                async with aclosing(self._watch_events(lines, timeout)) as events:
                    async for event in events:
                        yield event
        except Invalid:
            if self._resume_version:
                raise
            self._paged = True  # no WatchList, or a bad selector: a paged list shows which
            return
        self._check_end(timeout)

    def kind_not_served(self) -> bool:
        """Record that the kind is not served, and list anew later; returns whether that is news."""
        changed = self._down or not self._not_served
        self._not_served = True
        self._down = False
        self._resume_version = ""
        self._attempt = 0 if changed else self._attempt + 1
        return changed

    async def wait_for_kind(self, notified: int) -> None:
        """Wait until discovery notifies again, or for the backoff of kinds that are not served."""
        pause = NOT_SERVED_BACKOFF.delay(self._attempt, self._random)
        try:
            async with asyncio.timeout(pause.total_seconds()):
                await self._client.rest_mapper.changed.wait_for_more(notified)
        except TimeoutError:
            return

    def restart(self, error: Gone) -> timedelta:
        """Reset to listing; returns how long to wait, which is zero for a single expiry."""
        self._resume_version = ""
        self._check_working()
        pause = retry_delay(error, self._attempt, self._random) if self._attempt else None
        self._attempt += 1
        self._expired += 1
        return pause or timedelta(0)

    def keeps_expiring(self) -> bool:
        """Whether every list expires before it can be watched, which counts as an outage."""
        return self._expired > _MAX_EXPIRIES

    def record_failure(self, error: KubeError) -> timedelta:
        """Record a failure, perhaps a restore; returns the wait, zero for a watch that worked."""
        self._maybe_restored = True
        self._check_working()
        broke = self._opened_at is not None and self._attempt == 0
        pause = retry_delay(error, self._attempts_of_kind(error), self._random)
        self._attempt += 1
        if broke:
            return timedelta(0)
        return pause if pause is not None else NOT_SERVED_BACKOFF.delay(self._attempt, self._random)

    def _attempts_of_kind(self, error: KubeError) -> int:
        """The attempts of the same sort: a starting server denies access until RBAC is loaded."""
        if not isinstance(error, Forbidden | BadCredentials):
            self._refusals = 0
            return self._attempt
        self._refusals += 1
        return self._refusals - 1

    def begin_outage(self, error: KubeError, pause: timedelta) -> bool:
        """Record an outage, if one begins; the next attempt lists.

        The server may come back from a backup with a version past the last observed one, so that
        resuming could not detect it. A server that answers, if only by errors, is no outage for
        `_TOLERATED` seconds: an overloaded one refuses single requests.
        """
        if self._down or not pause or self._is_tolerated(error, pause):
            return False
        self._down = True
        self._resume_version = ""
        return True

    def _is_tolerated(self, error: KubeError, pause: timedelta) -> bool:
        """Whether an error is an API server's answer, and will not last too long with the pause."""
        if not _is_passing(error):
            self._failing_since = None
            return False
        now = asyncio.get_running_loop().time()
        if self._failing_since is None:
            self._failing_since = now
        return now + pause.total_seconds() - self._failing_since <= _TOLERATED

    def _kind_served(self) -> None:
        """Remember that the server serves the kind, so that its absence is reported anew."""
        self._not_served = False

    async def _list_paged(self) -> WatchEvent[K]:
        """List all objects page by page, as an event; the next watch resumes from its version.

        A server that rejected a streamed list before this is not asked for one again.
        """
        selection = self._selection
        listed = await self._client.list(
            self._kind,
            namespace=selection.namespace,
            labels=selection.labels,
            fields=selection.fields,
        )
        if self._paged and self._client.supports_watch_list is None:
            self._client.supports_watch_list = False
        self._resume_version = listed.resource_version
        self._maybe_restored = False
        return listed

    async def _check_history(self) -> None:
        """Raise `Gone` if the server is older than the version to resume from: it was restored."""
        current = await self._client.current_resource_version(
            self._kind, namespace=self._selection.namespace, fields=self._selection.fields
        )
        self._check_not_older(current)
        self._maybe_restored = False

    def _check_not_older(self, version: str) -> None:
        """Raise `Gone` if a version is before the one to resume from: the server was restored."""
        if (
            version.isdecimal()
            and self._resume_version.isdecimal()
            and int(version) < int(self._resume_version)
        ):
            raise Gone(Status(410, "Expired", "the server went back to an earlier state"))

    def _watch_request(self, timeout: timedelta) -> Request:
        """A watch from the version to resume at; without one, a streamed list and watch."""
        served, selection = self._client.rest_mapper.served_kind(self._kind), self._selection
        if not self._resume_version:
            return requests.watch_list(
                served,
                selection.namespace,
                labels=selection.labels,
                fields=selection.fields,
                timeout=timeout,
            )
        return requests.watch(
            served,
            selection.namespace,
            labels=selection.labels,
            fields=selection.fields,
            after=self._resume_version,
            timeout=timeout,
        )

    async def _watch_events(
        self, lines: AsyncIterator[bytes], seconds: float
    ) -> AsyncGenerator[WatchEvent[K], None]:
        """The events of a watch; without a version to resume at, first the list as one event.

        After an interruption a `Progress` precedes them. Raises Unreachable if the stream ends
        within the list.
        """
        events = self._decode_events(lines, seconds + GRACE.total_seconds())
        async with aclosing(events):
            if not self._resume_version:
                streamed = StreamedList[K]()
                async for event in events:
                    streamed.apply_event(event)
                    if isinstance(event, Bookmark) and event.ends_list:
                        break
                else:
                    raise Unreachable("the stream ended within its list")
                self._client.supports_watch_list = True
                self._resume_version = event.resource_version
                self._maybe_restored = False
                yield streamed.listed(event.resource_version)
            if self._down and not self.keeps_expiring():
                self._down = False
                yield Progress(self._resume_version)
            async for event in events:
                self._advance_version(event_resource_version(event))
                if self._down:  # the first watch that lasted after lists that expired
                    self._down = False
                    yield Progress(self._resume_version)
                yield Progress(event.resource_version) if isinstance(event, Bookmark) else event

    async def _decode_events(
        self, lines: AsyncIterator[bytes], silence_limit: float
    ) -> AsyncGenerator[DecodedEvent[K], None]:
        """Decode the lines of a watch.

        Raises Unreachable after `silence_limit` seconds without a line.
        """
        count = 0
        while True:
            try:
                async with asyncio.timeout(silence_limit):
                    line = await anext(lines)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise Unreachable(f"the watch was silent for {silence_limit:.0f} s") from None
            if not line:
                continue
            yield decode_watch_event(line, self._kind)
            count += 1
            if count % _YIELD_EVERY == 0:
                await asyncio.sleep(0)

    def _advance_version(self, version: str) -> None:
        """Note that an event arrived, and resume after its version if it has one.

        Raises Gone for a version older than the one before, as after a restored backup.
        """
        self._received = True
        if version:
            self._check_not_older(version)
            self._resume_version = version

    def _check_end(self, timeout: float) -> None:
        """Handle a clean end; an early one marks the server as perhaps restored.

        Raises Unreachable if the watch ended as soon as it began.
        """
        self._maybe_restored = self._maybe_restored or self._open_seconds() < timeout - 1
        if not self._check_working():
            raise Unreachable("the watch ended as soon as it began")

    def _check_working(self) -> bool:
        """Whether the last watch received an event or lasted; if so, resets the failure counts."""
        worked = self._received or self._open_seconds() >= _WORKING_AFTER
        if worked:
            self._attempt = self._refusals = self._expired = 0
            self._failing_since = None
        return worked

    def _open_seconds(self) -> float:
        """How long the watch has been open; 0 if it is not."""
        if self._opened_at is None:
            return 0.0
        return asyncio.get_running_loop().time() - self._opened_at


def _is_passing(error: KubeError) -> bool:
    """Whether a server refused a single request (429, or another Status), not a proxy's 503."""
    match error:
        case Throttled():
            return True
        case ServerError(status=status) | Conflict(status=status):
            return bool(status.reason)
        case _:
            return False
