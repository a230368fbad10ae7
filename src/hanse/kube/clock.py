"""The wall clock as a dependency, and the running loop's, which waiting always uses."""

import asyncio
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Returns the current time in UTC."""

    def now(self) -> datetime:
        """The current time, as a datetime with time zone UTC."""
        ...


class WallClock:
    """The system clock."""

    def now(self) -> datetime:
        """The system's current time, as a datetime with time zone UTC."""
        return datetime.now(UTC)


def loop_time() -> float:
    """The monotonic time of the running event loop in seconds; raises RuntimeError without one."""
    return asyncio.get_running_loop().time()
