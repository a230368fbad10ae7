"""List-and-watch of one kind as an endless stream of events that resumes after failures."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, closing, suppress
from datetime import timedelta
from random import Random
from typing import Generic, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hanse.kube import requests
from hanse.kube.client import Client
from hanse.kube.decoding import Bookmark, DecodedEvent, StreamedList, decode_watch_event
from hanse.kube.errors import (
    BadCredentials,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    Unreachable,
)
from hanse.kube.repeated_timeout import RepeatedTimeout
from hanse.kube.retry import NOT_SERVED_BACKOFF, RULED_OUT_BACKOFF, retry_delay
from hanse.kube.transport import Request
from hanse.kube.watch_events import Interrupted, Listed, NotServed, Progress, WatchEvent
from hanse.kube.watch_state import (
    Availability,
    Failures,
    ListAll,
    NotReplayed,
    OpenWatch,
    Restored,
    Resume,
    before_last,
    check_not_older,
    is_transient,
    position_after,
    skip_last,
)
from hanse.model.objects import K

MIN_TIMEOUT, MAX_TIMEOUT = timedelta(minutes=5), timedelta(minutes=10)
"""Bounds of the random timeout of a watch, so that those of a fleet do not all end at once."""

GRACE = timedelta(seconds=30)
"""How long after its timeout a silent watch is taken for broken."""

_MAX_EXPIRIES = 3
"""How many lists in a row may expire before they can be watched until that is an outage."""

_TOLERATED = 10.0
"""Seconds for which a server may answer lists and watches with errors until that is an outage."""

_YIELD_EVERY = 128
"""Events after which other tasks run, in case lines never have to be awaited."""


BeforeRelist: TypeAlias = Callable[[], Awaitable[None]]
"""What has to be done before a kind is listed once more."""


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
    before_relist: BeforeRelist | None = None,
) -> AsyncGenerator[WatchEvent[K], None]:
    """List a kind and then watch it, for as long as the caller iterates; errors are retried.

    A kind that is not served gives one `NotServed`. An outage is reported once, by `Interrupted`,
    and again when the server begins to refuse us, or does not any more; its end by `Progress`,
    after a new list. Every list but the first waits for `before_relist`. Of all watches of a client
    the first that is up again ends the waits of the others. A caller that stops early closes the
    generator (`contextlib.aclosing`).
    """
    selection = _Selection(namespace, labels, fields)
    watcher = _Watcher(client, kind, selection, random, before_relist)
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
            pause = watcher.recover_from_expiry(error)
            if watcher.keeps_expiring() and watcher.record_outage(error, pause):
                yield Interrupted(error)
            await asyncio.sleep(pause.total_seconds())
        except KubeError as error:
            recoveries = client.recovered.notified
            pause = watcher.record_failure(error)
            if watcher.record_outage(error, pause):
                yield Interrupted(error)
            await watcher.wait_to_retry(error, pause, recoveries)


class _Watcher(Generic[K]):
    """The state of one list-and-watch: where it goes on, what was reported, recent failures."""

    def __init__(
        self,
        client: Client,
        kind: type[K],
        selection: _Selection,
        random: Random,
        before_relist: BeforeRelist | None,
    ) -> None:
        """Nothing is listed yet; `before_relist` is awaited before every list but the first."""
        self._client = client
        self._before_relist = before_relist
        self._has_listed = False
        self._kind = kind
        self._selection = selection
        self._random = random
        self._position: ListAll | Resume = ListAll()
        self._availability = Availability.SERVED
        self._failures = Failures()
        self._open_watch: OpenWatch | None = None
        self._lists_paged = False
        self._restored = False
        """Whether the server was found to be restored, and has not been listed since."""

    async def run_once(self) -> AsyncGenerator[WatchEvent[K], None]:
        """List if needed, then watch until the server ends that; yields events, raises errors.

        Also ends if a WatchList is rejected, so that the next run lists page by page.
        """
        self._open_watch = None
        if isinstance(self._position, ListAll) and self._has_listed and self._before_relist:
            await self._before_relist()
        match self._position:
            case ListAll() if self._lists_paged or self._client.supports_watch_list is False:
                listed = await self._list_paged()
                self._kind_served()
                yield listed
            case Resume(unverified=True) as position:
                await self._verify_history(position)
            case _:
                pass
        timeout = self._random.uniform(MIN_TIMEOUT.total_seconds(), MAX_TIMEOUT.total_seconds())
        request = self._watch_request(timedelta(seconds=timeout))
        try:
            async with self._client.stream(request) as lines:
                self._open_watch = OpenWatch(asyncio.get_running_loop().time())
                self._kind_served()
                async with aclosing(self._watch_events(lines, timeout)) as events:
                    async for event in events:
                        yield event
        except Invalid:
            if isinstance(self._position, Resume):
                raise
            self._lists_paged = True  # no WatchList, or a bad selector: a paged list shows which
            return
        self._handle_end(timeout)

    def kind_not_served(self) -> bool:
        """Record that the kind is not served, to list it later; returns whether that is new."""
        changed = self._availability is not Availability.NOT_SERVED
        self._availability = Availability.NOT_SERVED
        self._position = ListAll()
        self._failures.attempts = 0 if changed else self._failures.attempts + 1
        return changed

    async def wait_for_kind(self, notified: int) -> None:
        """Wait until a discovery after the count `notified` names the kind; at most for a backoff.

        That is longer if discovery rules the kind out.
        """
        mapper = self._client.rest_mapper
        backoff = RULED_OUT_BACKOFF if mapper.rules_out(self._kind) else NOT_SERVED_BACKOFF
        pause = backoff.delay(self._failures.attempts, self._random)
        with suppress(TimeoutError):
            async with asyncio.timeout(pause.total_seconds()):
                await mapper.changed.wait_for_change(notified)
                while not mapper.knows(self._kind):
                    await mapper.changed.wait_for_change(mapper.changed.notified)

    def recover_from_expiry(self, error: Gone) -> timedelta:
        """Have the next run list anew after an expired version; returns the wait, 0 at first.

        If it had expired only because the watch began with the last change (`replayed_for`), the
        next run resumes after that change instead; not after `Restored` or `NotReplayed`.
        """
        before, is_doubtful = self._position, isinstance(error, Restored | NotReplayed)
        if isinstance(before, Resume) and before.replayed_for and not is_doubtful:
            self._position = Resume(before.replayed_for)
            return timedelta(0)
        self._position = ListAll()
        self._restored |= isinstance(error, Restored)
        self._reset_if_working()
        failures = self._failures
        pause = retry_delay(error, failures.attempts, self._random) if failures.attempts else None
        failures.attempts += 1
        failures.expiries += 1
        return pause or timedelta(0)

    def keeps_expiring(self) -> bool:
        """Whether more than _MAX_EXPIRIES lists in a row expired before they could be watched.

        That counts as an outage.
        """
        return self._failures.expiries > _MAX_EXPIRIES

    def record_failure(self, error: KubeError) -> timedelta:
        """Record a failure and return how long to wait, 0 for the first failure of an open watch.

        First means since a watch worked. If the next run resumes, it first verifies that the server
        was not restored.
        """
        self._mark_unverified()
        self._reset_if_working()
        failures = self._failures
        broke = self._open_watch is not None and failures.attempts == 0
        pause = retry_delay(error, self._attempts_before(error), self._random)
        failures.attempts += 1
        if broke:
            return timedelta(0)
        if pause is None:
            return NOT_SERVED_BACKOFF.delay(failures.attempts, self._random)
        return pause

    async def wait_to_retry(self, error: KubeError, pause: timedelta, recoveries: int) -> None:
        """Wait for a pause; after `Unreachable` only until another watch of the client is up again.

        That is, until the client has counted more than so many `recoveries`.
        """
        if not isinstance(error, Unreachable):
            await asyncio.sleep(pause.total_seconds())
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(pause.total_seconds()):
                await self._client.recovered.wait_for_change(recoveries)

    def _attempts_before(self, error: KubeError) -> int:
        """How many attempts failed before this error; for 401 and 403 how many of these in a row.

        The latter are counted here, and any other error resets their count.
        """
        if not isinstance(error, Forbidden | BadCredentials):
            self._failures.refusals = 0
            return self._failures.attempts
        self._failures.refusals += 1
        return self._failures.refusals - 1

    def record_outage(self, error: KubeError, pause: timedelta) -> bool:
        """Record an outage that begins, or becomes or ceases to be a refusal; True if it is one.

        It is to be reported then, and the next run lists: the server may come back from a backup
        with a version past the last observed one, so that resuming could not detect it. An error
        without a pause is no outage, nor are errors of the server itself for `_TOLERATED` seconds:
        an overloaded one refuses single requests.
        """
        interrupted = self._availability is Availability.INTERRUPTED
        refusal = type(error) if isinstance(error, Forbidden | BadCredentials) else None
        if interrupted and refusal is self._failures.refusal:
            return False
        if not interrupted and (not pause or self._is_tolerated(error, pause)):
            return False
        self._availability, self._failures.refusal = Availability.INTERRUPTED, refusal
        self._position = ListAll()
        return True

    def _is_tolerated(self, error: KubeError, pause: timedelta) -> bool:
        """Whether an error does not count as an outage yet: the server itself refused one request.

        Such errors may last `_TOLERATED` seconds, including the pause. The time of the first is
        kept, until there is an error of another kind.
        """
        if not is_transient(error):
            self._failures.since = None
            return False
        now = asyncio.get_running_loop().time()
        if self._failures.since is None:
            self._failures.since = now
        return now + pause.total_seconds() - self._failures.since <= _TOLERATED

    def _kind_served(self) -> None:
        """Record that the kind is served, so that its next absence is reported again."""
        if self._availability is Availability.NOT_SERVED:
            self._availability = Availability.SERVED

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
        if self._lists_paged and self._client.supports_watch_list is None:
            self._client.supports_watch_list = False
        self._position = Resume(listed.resource_version)
        return self._record_list(listed)

    def _record_list(self, listed: Listed[K]) -> Listed[K]:
        """Record that there was a list; returns it, marked if the server was restored before."""
        restored, self._restored, self._has_listed = self._restored, False, True
        return replace(listed, restored=restored)

    def _mark_unverified(self) -> None:
        """Have the next attempt verify, before it resumes, that the server was not restored.

        Nothing if it lists.
        """
        if isinstance(self._position, Resume):
            self._position = replace(self._position, unverified=True)

    async def _verify_history(self, position: Resume) -> None:
        """Raise `Restored` if the server is older than the version to resume from.

        If it is not, it may have passed that since: the watch begins with the last change.
        """
        current = await self._client.current_resource_version(
            self._kind, namespace=self._selection.namespace, fields=self._selection.fields
        )
        check_not_older(current, position)
        self._position = before_last(position)

    def _watch_request(self, timeout: timedelta) -> Request:
        """A watch from the version to resume at; without one, a streamed list and watch."""
        served, selection = self._client.rest_mapper.served_kind(self._kind), self._selection
        if isinstance(self._position, ListAll):
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
            after=self._position.version,
            timeout=timeout,
        )

    async def _watch_events(
        self, lines: AsyncIterator[bytes], seconds: float
    ) -> AsyncGenerator[WatchEvent[K], None]:
        """The events of a watch; without a version to resume at, first the list as one event.

        After an interruption a `Progress` precedes the changes. Raises `Unreachable` if the stream
        ends within the list, `Restored` or `NotReplayed` if the server lacks what was observed.
        """
        events = self._decode_events(lines, seconds + GRACE.total_seconds())
        async with aclosing(events):
            if isinstance(self._position, ListAll):
                streamed = StreamedList[K]()
                async for event in events:
                    streamed.apply_event(event)
                    if isinstance(event, Bookmark) and event.ends_list:
                        break
                else:
                    raise Unreachable("the stream ended within its list")
                self._client.supports_watch_list = True
                self._position = Resume(event.resource_version)
                yield self._record_list(streamed.listed(event.resource_version))
            elif self._position.replayed_for:
                self._position = await skip_last(events, self._position)
            if not self.keeps_expiring() and self._end_outage():
                yield Progress(self._position.version)
            async for event in events:
                if self._open_watch is not None:
                    self._open_watch.received = True
                self._position = position_after(event, self._position)
                if self._end_outage():  # the first watch that lasted after lists that expired
                    yield Progress(self._position.version)
                yield Progress(event.resource_version) if isinstance(event, Bookmark) else event

    async def _decode_events(
        self, lines: AsyncIterator[bytes], silence_limit: float
    ) -> AsyncGenerator[DecodedEvent[K], None]:
        """Decode the lines of a watch; an object that cannot be decoded is an event, too.

        Raises the error that an ERROR event has, and Unreachable for a line that is no event, or
        after `silence_limit` seconds without a line.
        """
        count = 0
        with closing(RepeatedTimeout(silence_limit)) as limit:
            while True:
                try:
                    with limit:
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

    def _end_outage(self) -> bool:
        """Record that the kind is watched again; returns whether an outage had been reported.

        If so, the other watches of the client are notified.
        """
        interrupted = self._availability is Availability.INTERRUPTED
        if interrupted:
            self._availability = Availability.SERVED
            self._client.recovered.notify()
        return interrupted

    def _handle_end(self, timeout: float) -> None:
        """Handle a clean end; one before the timeout marks the server as perhaps restored.

        Raises `Unreachable` if the watch had no event and was open for less than 10 s.
        """
        assert self._open_watch is not None, "it was open"
        if self._open_watch.seconds < timeout - 1:
            self._mark_unverified()
        if not self._reset_if_working():
            raise Unreachable("the watch ended as soon as it began")

    def _reset_if_working(self) -> bool:
        """Whether the last watch had an event or was open for 10 s; then resets the failures."""
        worked = self._open_watch is not None and self._open_watch.works
        if worked:
            self._failures = Failures()
        return worked
