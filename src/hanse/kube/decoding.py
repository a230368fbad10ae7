"""Decodes responses and watch events to typed objects; a bad object never hides others."""

from functools import cache
from typing import Any, Generic, TypeVar, assert_never

import msgspec
from msgspec import Raw, Struct

from hanse.kube.errors import UndecodableObject, Unreachable, error_from_watch_event
from hanse.kube.watch_events import Applied, Deleted, DeletedUnreadable, Listed, Unreadable
from hanse.model.json_input import CUT, cut_off_deep, too_deep
from hanse.model.objects import K

T = TypeVar("T")


class ListMeta(Struct, frozen=True, rename="camel", gc=False):
    """The metadata of a list response."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None
    """How many objects follow this page; None where the server does not say."""


class Page(Struct, Generic[T], frozen=True):
    """One page of a list, as in the response."""

    metadata: ListMeta = ListMeta()
    items: list[T] | None = None


class ObjectPage(Struct, Generic[K], frozen=True):
    """One page of a list: the objects that were decoded, and those that could not be."""

    metadata: ListMeta
    objects: list[K]
    unreadable: list[Unreadable]


class _PartialMeta(Struct, frozen=True, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _PartialObject(Struct, frozen=True, gc=False):
    """The part of an object that can be decoded whatever its spec holds."""

    metadata: _PartialMeta = _PartialMeta()


_raw_page_decoder = msgspec.json.Decoder(Page[Raw])
_partial_decoder = msgspec.json.Decoder(_PartialObject)


_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}


def object_decoder(kind: type[K]) -> msgspec.json.Decoder[K]:
    """The JSON decoder of a kind, made at the first call and kept for the process."""
    found = _decoders.get(kind)
    if found is None:
        found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found


@cache
def _page_decoder(kind: type[Any]) -> msgspec.json.Decoder[Page[Any]]:
    """The JSON decoder of a list page of a kind, kept for the process; items are decoded, too."""
    return msgspec.json.Decoder(Page[kind])  # type: ignore[valid-type]  # built at run time


def decode_object(body: bytes, kind: type[K]) -> K:
    """The object of a response, decoded as a kind.

    Raises `UndecodableObject` for JSON that does not fit the kind or nests too deeply, and
    `Unreachable` for what is no JSON.
    """
    try:
        return object_decoder(kind).decode(body)
    except RecursionError:
        raise UndecodableObject(f"{kind.kind}: {too_deep()}") from None
    except msgspec.ValidationError as error:
        raise UndecodableObject(f"{kind.kind}: {error}") from None
    except msgspec.DecodeError as error:
        raise unexpected_response(error) from None


def decode_list_page(body: bytes, kind: type[K]) -> ObjectPage[K]:
    """The objects of a list page, in its order; those that cannot be decoded are in `unreadable`.

    Raises `Unreachable` for what is no JSON or no list.
    """
    try:
        page = _page_decoder(kind).decode(body)
    except RecursionError:
        return _page_item_by_item(cut_off_deep(body), kind)
    except msgspec.ValidationError:
        try:
            return _page_item_by_item(body, kind)
        except RecursionError:  # behind the object that cannot be decoded
            return _page_item_by_item(cut_off_deep(body), kind)
    except msgspec.DecodeError as error:
        raise unexpected_response(error) from None
    return ObjectPage(page.metadata, page.items or [], [])


def decode_item(raw: Raw | bytes, kind: type[K]) -> K | Unreadable:
    """One object of a list, or an `Unreadable` that says why it cannot be decoded.

    Raises RecursionError for JSON that nests too deeply.
    """
    try:
        return object_decoder(kind).decode(raw)
    except msgspec.DecodeError as error:
        return describe_unreadable(raw, str(error))


def describe_unreadable(raw: Raw | bytes, reason: str) -> Unreadable:
    """An `Unreadable` with the reason, and namespace, name and resourceVersion of the object.

    All three are empty if its metadata cannot be decoded.
    """
    try:
        meta = _partial_decoder.decode(raw).metadata
    except msgspec.DecodeError:
        meta = _PartialMeta()
    return Unreadable(meta.namespace, meta.name, reason, meta.resource_version)


def unexpected_response(error: msgspec.DecodeError) -> Unreachable:
    """The error to raise for a success that is no JSON: a proxy answered, not the API server."""
    return Unreachable(f"the answer is not an API server's: {error}")


def _page_item_by_item(body: bytes, kind: type[K]) -> ObjectPage[K]:
    """Decode a page item by item: one that is undecodable or was cut off becomes `Unreadable`.

    Raises `Unreachable` for what is no list, and RecursionError for an item that nests too deeply.
    """
    try:
        page = _raw_page_decoder.decode(body)
    except msgspec.DecodeError as error:
        raise unexpected_response(error) from None
    objects: list[K] = []
    undecoded: list[Unreadable] = []
    for raw in page.items or ():
        cut = CUT in bytes(raw)
        match describe_unreadable(raw, str(too_deep())) if cut else decode_item(raw, kind):
            case Unreadable() as item:
                undecoded.append(item)
            case obj:
                objects.append(obj)
    return ObjectPage(page.metadata, objects, undecoded)


INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Bookmark(Struct, frozen=True):
    """A bookmark; `ends_list` marks the end of the initial events of a WatchList."""

    resource_version: str
    ends_list: bool


DecodedEvent = Applied[K] | Deleted[K] | Unreadable | DeletedUnreadable | Bookmark


class _Line(Struct, frozen=True, gc=False):
    type: str
    object: Raw


class _BookmarkMeta(Struct, frozen=True, rename="camel", gc=False):
    resource_version: str = ""
    annotations: dict[str, str] = {}


class _BookmarkObject(Struct, frozen=True, gc=False):
    metadata: _BookmarkMeta = _BookmarkMeta()


_line_decoder = msgspec.json.Decoder(_Line)
_bookmark_decoder = msgspec.json.Decoder(_BookmarkObject)


def decode_watch_event(line: bytes, kind: type[K]) -> DecodedEvent[K]:
    """The event of one line of a watch; an ERROR event is raised as its error.

    An event of an unknown type, or whose object cannot be decoded or nests too deeply, gives an
    `Unreadable`; `DeletedUnreadable` if it is a DELETED one. Raises `Unreachable` for a line that
    is no event.
    """
    try:
        return _decode_event(_decode_line(line), kind)
    except RecursionError:
        return _unreadable_event(_decode_line(cut_off_deep(line)), str(too_deep()))


def _decode_line(line: bytes) -> _Line:
    """The type and the raw object of a line of a watch; raises `Unreachable` if it is no event."""
    try:
        return _line_decoder.decode(line)
    except msgspec.DecodeError as error:
        raise unexpected_response(error) from None


def _decode_event(event: _Line, kind: type[K]) -> DecodedEvent[K]:
    """A line of a watch as an event; an ERROR event is raised as its error.

    An event of an unknown type, or whose object cannot be decoded, gives an `Unreadable`;
    `DeletedUnreadable` if it is a DELETED one. Raises RecursionError for JSON that nests too
    deeply.
    """
    try:
        match event.type:
            case "ADDED" | "MODIFIED":
                return Applied(object_decoder(kind).decode(event.object))
            case "DELETED":
                return Deleted(object_decoder(kind).decode(event.object))
            case "BOOKMARK":
                return _decode_bookmark(event.object)
            case "ERROR":
                raise error_from_watch_event(bytes(event.object))
            case other:
                return describe_unreadable(event.object, f"an event of the unknown type {other!r}")
    except msgspec.DecodeError as error:
        return _unreadable_event(event, str(error))


def _unreadable_event(event: _Line, reason: str) -> Unreadable | DeletedUnreadable:
    """`DeletedUnreadable`, without the reason, for a DELETED event, else `Unreadable` with it."""
    found = describe_unreadable(event.object, reason)
    if event.type == "DELETED":
        return DeletedUnreadable(found.namespace, found.name, found.resource_version)
    return found


def event_resource_version(event: DecodedEvent[K]) -> str:
    """The resourceVersion to resume from after this event; empty where it has none."""
    match event:
        case Applied(obj) | Deleted(obj):
            return obj.metadata.resource_version
        case Unreadable() | DeletedUnreadable() | Bookmark():
            return event.resource_version
        case _:
            assert_never(event)


class StreamedList(Generic[K]):
    """Collects the initial events of a WatchList until its final bookmark."""

    def __init__(self) -> None:
        """An empty list, to which `apply_event` adds."""
        self._found: dict[tuple[str, str], K | Unreadable] = {}

    def apply_event(self, event: DecodedEvent[K]) -> None:
        """Add, replace or remove the object of an event in the list so far, by namespace and name.

        An unreadable object replaces the readable one, and the reverse; a bookmark changes nothing.
        """
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
        """The readable and the unreadable objects collected so far, as of this resourceVersion."""
        found = self._found.values()
        return Listed(
            tuple(obj for obj in found if not isinstance(obj, Unreadable)),
            resource_version,
            tuple(obj for obj in found if isinstance(obj, Unreadable)),
        )


def _decode_bookmark(raw: Raw) -> Bookmark:
    """The bookmark with its resourceVersion; raises msgspec.DecodeError for a malformed object.

    `ends_list` is whether the annotation `k8s.io/initial-events-end` is `true`.
    """
    meta = _bookmark_decoder.decode(raw).metadata
    return Bookmark(meta.resource_version, meta.annotations.get(INITIAL_EVENTS_END) == "true")
