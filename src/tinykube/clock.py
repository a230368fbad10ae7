"""The current time as a dependency; waiting always uses the running event loop."""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Returns the current time in UTC."""

    def now(self) -> datetime:
        """The current time, timezone-aware, in UTC."""
        ...


class WallClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        """The current time of the machine, timezone-aware, in UTC."""
        return datetime.now(UTC)
