"""The wall clock as a dependency; waiting always uses the running loop."""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Returns the current time in UTC."""

    def now(self) -> datetime: ...


class WallClock:
    """The system clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)
