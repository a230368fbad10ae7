"""How long to wait after an error: the one policy, for streams and for the engine."""

from datetime import timedelta
from random import Random

from msgspec import Struct

from hanse.kube.errors import (
    AlreadyExists,
    BadCredentials,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    Throttled,
    UndecodableObject,
)


class Backoff(Struct, frozen=True):
    """Doubling from `first` up to `most`; each delay lies between half of that and all of it."""

    first: timedelta
    most: timedelta

    def delay(self, attempt: int, random: Random) -> timedelta:
        grown = self.first * 2.0 ** min(attempt, 30)
        return min(grown, self.most) * random.uniform(0.5, 1.0)


ORDINARY = Backoff(timedelta(milliseconds=200), timedelta(seconds=30))
AT_ONCE = Backoff(timedelta(milliseconds=10), timedelta(seconds=5))
SLOW = Backoff(timedelta(seconds=5), timedelta(seconds=60))
ABSENT = Backoff(timedelta(seconds=1), timedelta(seconds=30))
"""For looking again at what is not there or was refused for good, where nothing else tells."""


def retry_delay(error: KubeError, attempt: int, random: Random) -> timedelta | None:
    """How long after the failure number `attempt` (from 0) to try again; None: not as it is."""
    match error:
        case Invalid() | NotFound() | UndecodableObject():
            return None
        case Conflict() | AlreadyExists() | Gone():
            return AT_ONCE.delay(attempt, random)
        case Forbidden() | BadCredentials():
            return SLOW.delay(attempt, random)
        case Throttled(retry_after=asked) | ServerError(retry_after=asked) if asked is not None:
            return asked + ORDINARY.delay(0, random)
        case _:
            return ORDINARY.delay(attempt, random)
