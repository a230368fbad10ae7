"""From an API server's bytes to typed objects; one bad object never hides the others."""

from functools import cache
from typing import Any, Generic, TypeVar, assert_never

import msgspec
from msgspec import Raw, Struct

from hanse.kube.errors import UndecodableObject, Unreachable, error_from_watch_event
from hanse.kube.watch_events import Applied, Deleted, DeletedUnreadable, Listed, Unreadable
from hanse.model.objects import K

T = TypeVar("T")


class ListMeta(Struct, frozen=True, rename="camel", gc=False):
    """What a page says about the list it is part of."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(Struct, Generic[T], frozen=True):
    """One page of a list, as it stands in the response."""

    metadata: ListMeta = ListMeta()
    items: list[T] | None = None


class ObjectPage(Struct, Generic[K], frozen=True):
    """One page of a list: what could be read, and what could not."""

    metadata: ListMeta
    objects: list[K]
    unreadable: list[Unreadable]


class _Name(Struct, frozen=True, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Named(Struct, frozen=True, gc=False):
    """As much of an object as nothing in it can spoil."""

    metadata: _Name = _Name()


_raw_page = msgspec.json.Decoder(Page[Raw])
_named = msgspec.json.Decoder(_Named)


_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}


def object_decoder(kind: type[K]) -> msgspec.json.Decoder[K]:
    """The decoder of one object of a kind, made once."""
    found = _decoders.get(kind)
    if found is None:
        found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found


@cache
def _page_decoder(kind: type[Any]) -> msgspec.json.Decoder[Page[Any]]:
    return msgspec.json.Decoder(Page[kind])  # type: ignore[valid-type]  # built at run time


def decode_object(body: bytes, kind: type[K]) -> K:
    """The one object of a response."""
    try:
        return object_decoder(kind).decode(body)
    except msgspec.ValidationError as error:
        raise UndecodableObject(f"{kind.kind}: {error}") from None
    except msgspec.DecodeError as error:
        raise unexpected_response(error) from None


def decode_list_page(body: bytes, kind: type[K]) -> ObjectPage[K]:
    """The objects of a page; where one does not fit, each is read by itself."""
    try:
        page = _page_decoder(kind).decode(body)
    except msgspec.ValidationError:
        return _page_item_by_item(body, kind)
    except msgspec.DecodeError as error:
        raise unexpected_response(error) from None
    return ObjectPage(page.metadata, page.items or [], [])


def readable(raw: Raw | bytes, kind: type[K]) -> K | Unreadable:
    """One object out of many, or why it cannot be read."""
    try:
        return object_decoder(kind).decode(raw)
    except msgspec.DecodeError as error:
        return unreadable(raw, str(error))


def unreadable(raw: Raw | bytes, reason: str) -> Unreadable:
    """The name of an object that does not fit, as far as even that can be read."""
    try:
        meta = _named.decode(raw).metadata
    except msgspec.DecodeError:
        meta = _Name()
    return Unreadable(meta.namespace, meta.name, reason, meta.resource_version)


def unexpected_response(error: msgspec.DecodeError) -> Unreachable:
    """What answers a success without JSON is not the API server but something before it."""
    return Unreachable(f"the answer is not an API server's: {error}")


def _page_item_by_item(body: bytes, kind: type[K]) -> ObjectPage[K]:
    try:
        page = _raw_page.decode(body)
    except msgspec.DecodeError as error:
        raise unexpected_response(error) from None
    objects: list[K] = []
    bad: list[Unreadable] = []
    for raw in page.items or ():
        match readable(raw, kind):
            case Unreadable() as item:
                bad.append(item)
            case obj:
                objects.append(obj)
    return ObjectPage(page.metadata, objects, bad)


INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Bookmark(Struct, frozen=True):
    """Nothing else happened up to here; `ends_list` after the last object of a streamed list."""

    resource_version: str
    ends_list: bool


DecodedEvent = Applied[K] | Deleted[K] | Unreadable | DeletedUnreadable | Bookmark


class _Line(Struct, frozen=True, gc=False):
    type: str
    object: Raw


class _MarkMeta(Struct, frozen=True, rename="camel", gc=False):
    resource_version: str = ""
    annotations: dict[str, str] = {}


class _Mark(Struct, frozen=True, gc=False):
    metadata: _MarkMeta = _MarkMeta()


_line = msgspec.json.Decoder(_Line)
_mark = msgspec.json.Decoder(_Mark)


def decode_watch_event(line: bytes, kind: type[K]) -> DecodedEvent[K]:
    """What one line of a watch tells; an ERROR event is raised as the error it is."""
    try:
        told = _line.decode(line)
    except msgspec.DecodeError as error:
        raise unexpected_response(error) from None
    try:
        match told.type:
            case "ADDED" | "MODIFIED":
                return Applied(object_decoder(kind).decode(told.object))
            case "DELETED":
                return Deleted(object_decoder(kind).decode(told.object))
            case "BOOKMARK":
                return _bookmark(told.object)
            case "ERROR":
                raise error_from_watch_event(bytes(told.object))
            case other:
                return unreadable(told.object, f"an event of the unknown type {other!r}")
    except msgspec.DecodeError as error:
        bad = unreadable(told.object, str(error))
        if told.type == "DELETED":
            return DeletedUnreadable(bad.namespace, bad.name, bad.resource_version)
        return bad


def event_resource_version(event: DecodedEvent[K]) -> str:
    """The resourceVersion a watch may resume from after this event; empty where it says none."""
    match event:
        case Applied(obj) | Deleted(obj):
            return obj.metadata.resource_version
        case Unreadable() | DeletedUnreadable() | Bookmark():
            return event.resource_version
        case _:
            assert_never(event)


class StreamedList(Generic[K]):
    """The objects of a list that comes as a stream, until its end is told."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], K | Unreadable] = {}

    def take(self, event: DecodedEvent[K]) -> None:
        match event:
            case Applied(obj):
                self._found[(obj.metadata.namespace, obj.metadata.name)] = obj
            case Deleted(obj):
                self._found.pop((obj.metadata.namespace, obj.metadata.name), None)
            case Unreadable(namespace, name):
                self._found[(namespace, name)] = event
            case DeletedUnreadable(namespace, name):
                self._found.pop((namespace, name), None)
            case Bookmark():
                pass
            case _:
                assert_never(event)

    def listed(self, resource_version: str) -> Listed[K]:
        """All of it, as of the bookmark that ended it."""
        found = self._found.values()
        return Listed(
            tuple(obj for obj in found if not isinstance(obj, Unreadable)),
            resource_version,
            tuple(obj for obj in found if isinstance(obj, Unreadable)),
        )


def _bookmark(raw: Raw) -> Bookmark:
    meta = _mark.decode(raw).metadata
    return Bookmark(meta.resource_version, meta.annotations.get(INITIAL_EVENTS_END) == "true")
