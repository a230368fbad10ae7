"""The state of a list-and-watch: where it goes on, what was reported, what failed."""

import asyncio
from collections.abc import AsyncIterator
from enum import Enum, auto
from typing import Any

from msgspec import Struct

from hanse.kube.decoding import Bookmark, DecodedEvent, event_resource_version
from hanse.kube.errors import (
    BadCredentials,
    Conflict,
    Forbidden,
    Gone,
    KubeError,
    ServerError,
    Status,
    Throttled,
    Unreachable,
)
from hanse.kube.watch_events import Applied
from hanse.model.objects import K

_REPLAYED_WITHIN = 10.0
"""Seconds within which a server sends the last change again; else everything is listed."""

_WORKING_AFTER = 10.0
"""Seconds after which an open watch counts as working although no event came."""


class ListAll(Struct, frozen=True):
    """The next attempt lists all objects."""


class Resume(Struct, frozen=True):
    """The next attempt watches from a resourceVersion."""

    version: str
    unverified: bool = False
    """Whether the server may have gone back to an earlier state since that version."""
    last: Applied[Any] | None = None
    """The last change; None if that was a deletion, or nothing has changed since the list."""
    replayed_for: str = ""
    """The version to go on from, if `version` is the one before the last change: the server has to
    send that again. Empty otherwise."""


class Restored(Gone):
    """The server has another history than the one that was observed."""


class NotReplayed(Gone):
    """The server did not send the last change again in time: it may lack it."""


class Availability(Enum):
    """What the caller was told last."""

    SERVED = auto()
    NOT_SERVED = auto()
    INTERRUPTED = auto()


class Failures(Struct):
    """What failed since a watch last worked."""

    attempts: int = 0
    refusals: int = 0
    """How many of the latest were for lack of permissions."""
    refusal: type[Forbidden | BadCredentials] | None = None
    """How the server refuses us in an outage; None: it does not answer, or has failed."""
    expiries: int = 0
    """How many lists in a row expired before they were watched."""
    since: float | None = None
    """When the server began to answer with errors."""


class OpenWatch(Struct):
    """The watch of one attempt, once it is open."""

    opened_at: float
    received: bool = False
    """Whether an event came."""

    @property
    def seconds(self) -> float:
        """How many seconds it has been open."""
        return asyncio.get_running_loop().time() - self.opened_at

    @property
    def works(self) -> bool:
        """Whether it received an event, or has been open for `_WORKING_AFTER` seconds."""
        return self.received or self.seconds >= _WORKING_AFTER


def before_last(position: Resume) -> Resume:
    """The position from which the server sends the last change again; if there is none, the same.

    A restored server may have passed the version to resume from; it does not have the change.
    """
    version = position.last.object.metadata.resource_version if position.last is not None else ""
    resumed = position.replayed_for or position.version
    if not version.isdecimal() or int(version) < 2:  # 0 is any version
        return Resume(resumed)
    return Resume(str(int(version) - 1), last=position.last, replayed_for=resumed)


async def skip_last(events: AsyncIterator[DecodedEvent[K]], position: Resume) -> Resume:
    """Take the last change off a watch, and return the position after it.

    Raises `Restored` if the first event is another, `NotReplayed` if none comes within 10 s, and
    `Unreachable` if the stream ends before.
    """
    try:
        async with asyncio.timeout(_REPLAYED_WITHIN):
            event = await anext(events)
    except StopAsyncIteration:
        raise Unreachable("the stream ended before its first event") from None
    except TimeoutError:
        raise NotReplayed(Status(410, "Expired", "the last change was not sent")) from None
    if event != position.last:
        raise Restored(Status(410, "Expired", "the server lacks a change that was observed"))
    return Resume(position.replayed_for, last=position.last)


def position_after(event: DecodedEvent[K], position: Resume) -> Resume:
    """The position to resume from after an event; the same one if the event has no version.

    Raises `Restored` for a change older than the one before, as after a restored backup. An older
    bookmark tells nothing: once the last change was sent again, it may be of an API server whose
    watch cache is behind the one that was watched before.
    """
    version = event_resource_version(event)
    if not version or version == position.version:
        return position
    if isinstance(event, Bookmark) and _is_older(version, position):
        return position
    check_not_older(version, position)
    match event:
        case Applied():
            return Resume(version, last=event)
        case Bookmark():
            return Resume(version, last=position.last)
        case _:
            return Resume(version)


def check_not_older(version: str, position: Resume) -> None:
    """Raise `Restored` if a version is before the one to resume from."""
    if _is_older(version, position):
        raise Restored(Status(410, "Expired", "the server went back to an earlier state"))


def _is_older(version: str, position: Resume) -> bool:
    """Whether a version is before the one to resume from; False if one of them is no number."""
    before = position.version
    return version.isdecimal() and before.isdecimal() and int(version) < int(before)


def is_transient(error: KubeError) -> bool:
    """Whether an API server itself refused one request: 429, or a 5xx or 409 with a reason."""
    match error:
        case Throttled():
            return True
        case ServerError(status=status) | Conflict(status=status):
            return bool(status.reason)
        case _:
            return False
