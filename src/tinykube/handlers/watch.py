"""The verb watch: past changes from the history, then new ones, as lines of JSON."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import cache
from typing import Any, assert_never

import msgspec
from msgspec import Struct

from tinykube import serializer
from tinykube.builtin_types import fields_of, type_of
from tinykube.clock import Clock
from tinykube.conversion import to_served
from tinykube.errors import StatusError, expired, too_large_version
from tinykube.handlers.calls import Call
from tinykube.handlers.negotiation import Form, negotiate_form, partial_metadata, table_for
from tinykube.handlers.reads import check_list_options, selector_for
from tinykube.resources import Object, Resource
from tinykube.selectors import FieldTerm, Selector
from tinykube.storage import Change, Compacted, Restored, Storage, StorageEvent

_BOOKMARK_EVERY = 60.0
_LONGEST = 3600.0
_END_OF_INITIAL = {"k8s.io/initial-events-end": "true"}
_CACHED_EVENTS = 1024


class _Bookmark(Struct, frozen=True):
    """All events up to a version were sent."""

    version: int
    initial: bool = False


class _WatchError(Struct, frozen=True):
    """The watch ends with an error event."""

    error: StatusError


_Entry = Change | _Bookmark | _WatchError


class WatchHandler:
    """The open watches of one cluster."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        """Subscribe to all changes of the storage, for good."""
        self._storage = storage
        self._clock = clock
        self._open: dict[_Watch, None] = {}  # in the order in which they were opened
        self._encoded = _EncodedEvents()
        storage.subscribe(self._on_storage_event)  # never unsubscribed: both have the same lifetime

    def open(self, call: Call) -> "_Watch":
        """Open a watch, which the caller closes; raises `StatusError` for bad options.

        A version that is too old is no exception, but an ERROR event; so is one in the future with
        sendInitialEvents.
        """
        check_list_options(call)
        watch = _Watch(self._storage, self._clock, call, self._encoded, self._on_closed)
        self._open[watch] = None
        return watch

    def end_all(self) -> None:
        """End every watch after its queued events; each is still to be closed by its caller."""
        for watch in tuple(self._open):
            watch.end()

    def _on_closed(self, watch: "_Watch") -> None:
        """Forget a watch that was closed."""
        self._open.pop(watch, None)

    def _on_storage_event(self, event: StorageEvent) -> None:
        """Drop the encoded events after a restore: versions are given again."""
        if isinstance(event, Restored):
            self._encoded.clear()


class _EncodedEvents:
    """The latest events as bytes, shared by watches in the same form."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, str], bytes] = {}

    def line(self, kind: str, version: int, resource: Resource, obj: Object) -> bytes:
        """The line of an event, encoded once; the oldest line is dropped when the cache is full.

        An event is known by its type, version and apiVersion, not by the object.
        """
        key = (kind, version, resource.api_version)
        known = self._known.get(key)
        if known is None:
            known = encode_event(kind, to_served(resource, obj))
            if len(self._known) >= _CACHED_EVENTS:
                del self._known[next(iter(self._known))]
            self._known[key] = known
        return known

    def clear(self) -> None:
        """Drop everything: after a restore, versions are used again."""
        self._known.clear()


def encode_event(kind: str, obj: Object) -> bytes:
    """A watch event of this type (`kind`) and object, as a line of JSON."""
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), msgspec.json.encode(obj))


class _Watch:
    """One watch: a queue that storage fills and `lines` drains."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        call: Call,
        encoded: _EncodedEvents,
        closed: Callable[["_Watch"], None],
    ) -> None:
        """Queue the initial events, then subscribe to the changes of the resource's store.

        `encoded` encodes and caches events; `closed` is called when the watch is closed. Raises
        `StatusError` for bad options.
        """
        self._storage = storage
        self._clock = clock
        self._call = call
        self._encoded = encoded
        self._closed = closed
        self._namespace = call.target.namespace
        self._selected = _selection(call)
        self._form: Form = negotiate_form(call.request.accept)
        self._with_columns = True
        self._queue: deque[_Entry] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        """Wakes the reader for the next bookmark or the timeout, however many events come first."""
        self._ended = False
        self._after = 0
        self._start()
        self._unsubscribe = storage.subscribe(self._on_storage_event, call.resource.store)

    def _start(self) -> None:
        """Queue what comes before new changes: all objects as ADDED, or changes after a version.

        The objects for sendInitialEvents, then with a bookmark if these are allowed, and for no
        version or 0; for these nothing if that option is false. A version that is too old or, with
        sendInitialEvents, in the future queues an error and ends the watch.
        """
        call, storage = self._call, self._storage
        version = _requested_version(call)
        initial = call.flag("sendInitialEvents")
        if initial and version > storage.version:
            self._queue.append(_WatchError(too_large_version(version, storage.version)))
            self._ended = True
        elif initial or (version == 0 and not call.option("sendInitialEvents")):
            self._queue.extend(self._initial_events())
            if initial and call.flag("allowWatchBookmarks"):
                self._queue.append(_Bookmark(storage.version, initial=True))
        elif version:
            self._after = version
            self._replay(version)

    def _initial_events(self) -> Iterator[Change]:
        """An ADDED change for each stored object of the namespace, before selectors."""
        store = self._call.resource.store
        for obj in self._storage.objects(store, self._namespace):
            yield Change("ADDED", store, int(obj["metadata"]["resourceVersion"]), obj)

    def _replay(self, version: int) -> None:
        """Queue the changes after a version; if they are compacted, queue a 410 error and end."""
        try:
            self._queue.extend(self._storage.since(self._call.resource.store, version))
        except Compacted as error:
            message = f"too old resource version: {error.requested} ({error.oldest})"
            self._queue.append(_WatchError(expired(message)))
            self._ended = True

    def _on_storage_event(self, event: StorageEvent) -> None:
        """Queue a selected change newer than the start, wake the reader; end at once on a restore.

        Changes after the end are dropped, and so are those before a restore that were not read:
        their versions are given again.
        """
        match event:
            case Change():
                if not self._ended and event.version > self._after and self._selects(event):
                    self._queue.append(event)
                    self._wake()
            case Restored():
                self._queue.clear()
                self.end()
            case _:
                assert_never(event)

    def _wake(self) -> None:
        """Let a reader that waits in `lines` look again; nothing if none waits."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self) -> None:
        """End the watch after the queued events; later changes are dropped."""
        self._ended = True
        self._wake()

    def close(self) -> None:
        """End the watch, unsubscribe from storage, and remove it from the handler."""
        self.end()
        if self._timer is not None:
            self._timer.cancel()
        self._unsubscribe()
        self._closed(self)

    async def lines(self) -> AsyncIterator[bytes]:
        """The events as they come, with regular bookmarks if allowed, until the end or timeout.

        A bookmark comes each minute; the timeout is timeoutSeconds, or else an hour.
        """
        loop = asyncio.get_running_loop()
        ending = loop.time() + (self._call.number("timeoutSeconds") or _LONGEST)
        bookmarks = self._call.flag("allowWatchBookmarks")
        next_mark = loop.time() + _BOOKMARK_EVERY
        while True:
            while self._queue:
                line = self._encode_entry(self._queue.popleft())
                if line:
                    yield line
            if self._ended:
                return
            now = loop.time()
            if now >= ending:
                return
            if bookmarks and now >= next_mark:
                next_mark = now + _BOOKMARK_EVERY
                self._queue.append(_Bookmark(self._storage.version))
                continue
            await self._wait_for_event(min(next_mark, ending) if bookmarks else ending)

    async def _wait_for_event(self, until: float) -> None:
        """Wait until an event or the end of the watch, at most until a time of the loop's clock."""
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        if self._timer is None:
            self._timer = loop.call_at(until, self._on_timer)
        try:
            await waiter
        finally:
            self._waiter = None

    def _on_timer(self) -> None:
        """Wake the reader; the next wait sets a timer of its own."""
        self._timer = None
        self._wake()

    def _encode_entry(self, entry: _Entry) -> bytes:
        """The line of an entry; empty when the watch does not select it."""
        match entry:
            case Change():
                return self._encode_change(entry)
            case _Bookmark():
                return self._encode_object("BOOKMARK", self._bookmark_object(entry))
            case _WatchError():
                return encode_event("ERROR", entry.error.status)
            case _:
                assert_never(entry)

    def _selects(self, change: Change) -> bool:
        """Whether a change is an event of this watch, by its namespace and selectors."""
        if self._namespace and change.object["metadata"].get("namespace") != self._namespace:
            return False
        return self._selected.matches_all or self._as_selected(change) is not None

    def _encode_change(self, change: Change) -> bytes:
        """The line of a change as the selectors see it; empty if these or the namespace differ."""
        if self._namespace and change.object["metadata"].get("namespace") != self._namespace:
            return b""
        kind, obj = change.type, change.object
        if not self._selected.matches_all:
            found = self._as_selected(change)
            if found is None:
                return b""
            kind, obj = found
        if self._form == "object" and obj is change.object:
            return self._encoded.line(kind, change.version, self._call.resource, obj)
        return self._encode_object(kind, to_served(self._call.resource, obj))

    def _as_selected(self, change: Change) -> tuple[Any, Object] | None:
        """The type and object of a change as the selector sees it; None if it does not concern it.

        An object that starts to match is ADDED. One that stops to match is DELETED, with its state
        before and the new version. A deletion counts if the object matched before.
        """
        selected = self._selected
        if change.type == "DELETED":
            last = change.before or change.object
            return ("DELETED", change.object) if selected.matches(last) else None
        matched = change.before is not None and selected.matches(change.before)
        matches = selected.matches(change.object)
        match matched, matches:
            case False, True:
                return "ADDED", change.object
            case True, True:
                return "MODIFIED", change.object
            case True, False:
                assert change.before is not None
                metadata = change.before["metadata"]
                gone = {**metadata, "resourceVersion": str(change.version)}
                return "DELETED", {**change.before, "metadata": gone}
            case _:
                return None

    def _bookmark_object(self, mark: _Bookmark) -> Object:
        """The object of a bookmark: kind, resourceVersion, the type's empty required fields.

        The last initial one has the `initial-events-end` annotation.
        """
        resource = self._call.resource
        metadata: Object = {"resourceVersion": str(mark.version)}
        if mark.initial:
            metadata["annotations"] = _END_OF_INITIAL
        typed_as = {"kind": resource.kind, "apiVersion": resource.api_version}
        if resource.custom is None:
            required = _empty_fields(type_of(resource.api_version, resource.kind))
            return {**typed_as, **required, "metadata": metadata}
        return {**typed_as, "metadata": metadata}

    def _encode_object(self, kind: str, obj: Object) -> bytes:
        """The line of an object in the negotiated form.

        Of Tables only the first has column definitions.
        """
        match self._form:
            case "object":
                return encode_event(kind, obj)
            case "metadata":
                return encode_event(kind, partial_metadata(obj))
            case "table":
                table = table_for(self._call, [obj], self._clock.now())
                table["metadata"] = {"resourceVersion": obj["metadata"]["resourceVersion"]}
                if not self._with_columns:
                    table["columnDefinitions"] = None
                self._with_columns = False
                return encode_event(kind, table)
            case _:
                assert_never(self._form)


@cache
def _empty_fields(type_name: str) -> Mapping[str, Any]:
    """The required fields of a built-in type as they are when empty; none of an unknown type."""
    return serializer.decode(type_name, {})[0] if fields_of(type_name) is not None else {}


def _requested_version(call: Call) -> int:
    """The resourceVersion option, 0 if absent; raises 500 if it is no number."""
    text = call.option("resourceVersion")
    if text and not text.isdecimal():
        problem = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise StatusError(500, "", f'resourceVersion: Invalid value: "{text}": {problem}')
    return int(text or 0)


def _selection(call: Call) -> Selector:
    """The selectors of a watch; the path of one object selects its name."""
    selected = selector_for(call)
    if not call.target.name:
        return selected
    named = FieldTerm("metadata.name", call.target.name)
    return Selector(selected.labels, (*selected.fields, named))
