"""The wall clock as a dependency, and the running loop's, which waiting always uses."""

import asyncio
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Returns the current time in UTC."""

    def now(self) -> datetime: ...


class WallClock:
    """The system clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


def loop_time() -> float:
    """The time of the running event loop, in seconds."""
    return asyncio.get_running_loop().time()
