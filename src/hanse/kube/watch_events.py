"""From the lines of a watch to events; pure, and quick enough for every event of a fleet."""

from typing import Generic, assert_never

import msgspec
from msgspec import Raw, Struct

from hanse.kube.decoding import object_decoder, unexpected_response, unreadable
from hanse.kube.errors import error_from_watch_event
from hanse.kube.events import Applied, Deleted, Listed, Unreadable, Vanished
from hanse.model.objects import K

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Bookmark(Struct, frozen=True):
    """Nothing else happened up to here; `ends_list` after the last object of a streamed list."""

    resource_version: str
    ends_list: bool


Told = Applied[K] | Deleted[K] | Unreadable | Vanished | Bookmark


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


def decode_watch_event(line: bytes, kind: type[K]) -> Told[K]:
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
            return Vanished(bad.namespace, bad.name, bad.resource_version)
        return bad


def event_resource_version(event: Told[K]) -> str:
    """The resourceVersion a watch may resume from after this event; empty where it says none."""
    match event:
        case Applied(obj) | Deleted(obj):
            return obj.metadata.resource_version
        case Unreadable() | Vanished() | Bookmark():
            return event.resource_version
        case _:
            assert_never(event)


class StreamedList(Generic[K]):
    """The objects of a list that comes as a stream, until its end is told."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], K | Unreadable] = {}

    def take(self, event: Told[K]) -> None:
        match event:
            case Applied(obj):
                self._found[(obj.metadata.namespace, obj.metadata.name)] = obj
            case Deleted(obj):
                self._found.pop((obj.metadata.namespace, obj.metadata.name), None)
            case Unreadable(namespace, name):
                self._found[(namespace, name)] = event
            case Vanished(namespace, name):
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
