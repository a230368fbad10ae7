"""The current time as a dependency; waiting always uses the running event loop."""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Returns the current time in UTC."""

    def now(self) -> datetime: ...


class WallClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)
