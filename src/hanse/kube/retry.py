"""The retry policy: how long to wait after an error, for watches and for writes."""

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
    """Exponential backoff from `first` to `most`; each delay is jittered down to its half."""

    first: timedelta
    most: timedelta

    def delay(self, attempt: int, random: Random) -> timedelta:
        """The delay after failure `attempt` (from 0): twice as long each time, at most `most`.

        Of that a random part, at least half.
        """
        grown = self.first * 2.0 ** min(attempt, 30)
        return min(grown, self.most) * random.uniform(0.5, 1.0)


DEFAULT_BACKOFF = Backoff(timedelta(milliseconds=200), timedelta(seconds=30))
CONFLICT_BACKOFF = Backoff(timedelta(milliseconds=10), timedelta(seconds=5))
SLOW_BACKOFF = Backoff(timedelta(seconds=5), timedelta(seconds=30))
NOT_SERVED_BACKOFF = Backoff(timedelta(seconds=1), timedelta(seconds=30))
"""For polling kinds that are not served, or errors that are not retried otherwise."""
RULED_OUT_BACKOFF = Backoff(timedelta(seconds=15), timedelta(minutes=2))
"""For kinds that discovery rules out: only an aggregated API may appear without its notice."""


def retry_delay(error: KubeError, attempt: int, random: Random) -> timedelta | None:
    """The delay after failure number `attempt` (from 0); None if a retry cannot succeed.

    That is for Invalid, NotFound and undecodable objects. Conflicts are retried soon, 401 and 403
    slowly; a Retry-After of the server is the least.
    """
    match error:
        case Invalid() | NotFound() | UndecodableObject():
            return None
        case Conflict() | AlreadyExists() | Gone():
            return CONFLICT_BACKOFF.delay(attempt, random)
        case Forbidden() | BadCredentials():
            return SLOW_BACKOFF.delay(attempt, random)
        case Throttled(retry_after=after) | ServerError(retry_after=after) if after is not None:
            return after + DEFAULT_BACKOFF.delay(0, random)
        case _:
            return DEFAULT_BACKOFF.delay(attempt, random)
