"""What time it is, as a thing that can be given; waiting is always the running loop's."""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the present moment, always with its zone (UTC)."""

    def now(self) -> datetime: ...


class WallClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)
