"""The state of a list-and-watch: where it goes on, what was reported, what failed."""

import asyncio
from enum import Enum, auto

from msgspec import Struct

from hanse.kube.errors import (
    BadCredentials,
    Conflict,
    Forbidden,
    Gone,
    KubeError,
    ServerError,
    Status,
    Throttled,
)

_WORKING_AFTER = 10.0
"""Seconds after which an open watch counts as working although no event came."""


class ListAll(Struct, frozen=True):
    """The next attempt lists all objects."""


class Resume(Struct, frozen=True):
    """The next attempt watches from a resourceVersion."""

    version: str
    unverified: bool = False
    """Whether the server may have gone back to an earlier state since that version."""


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
        """How long it has been open."""
        return asyncio.get_running_loop().time() - self.opened_at

    @property
    def works(self) -> bool:
        """Whether it received an event, or has been open for `_WORKING_AFTER` seconds."""
        return self.received or self.seconds >= _WORKING_AFTER


def check_not_older(version: str, position: Resume) -> None:
    """Raise `Gone` if a version is before the one to resume from: the server was restored."""
    if (
        version.isdecimal()
        and position.version.isdecimal()
        and int(version) < int(position.version)
    ):
        raise Gone(Status(410, "Expired", "the server went back to an earlier state"))


def is_passing(error: KubeError) -> bool:
    """Whether an API server itself refused one request: 429, or a 5xx or 409 with a reason."""
    match error:
        case Throttled():
            return True
        case ServerError(status=status) | Conflict(status=status):
            return bool(status.reason)
        case _:
            return False
