"""Virtual time: an event loop whose clock jumps to the next timer when it is idle."""

import asyncio
import math
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class NothingLeftToWaitFor(AssertionError):
    """Every task waits and no timer is set: in real time this would hang."""


OVERSHOOT = 1e-9
"""Seconds added to each jump, so that rounding never leaves the clock just short of a timer."""


class _JumpingSelector(selectors.DefaultSelector):
    """Polls sockets without waiting and adds the timeout to the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """The ready files without waiting; if none, the timeout is added to `passed`.

        While callbacks are due, a loop without sockets is not polled: nothing but its own waking
        could be ready. Raises NothingLeftToWaitFor if there is no timer either.
        """
        if timeout == 0 and len(self.get_map()) <= 1:
            return []
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise NothingLeftToWaitFor("no timer runs and no task can go on")
        self.passed += max(timeout, 1e-6) + OVERSHOOT
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop for in-process tests: timers fire without real waiting."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._jumping.passed

    @property
    def _clock_resolution(self) -> float:
        """By how much timers may fire early: not at all.

        Two that wait again until a moment has come would do so by turns without end: time stands
        still while one of them can go on.
        """
        return math.ulp(self._jumping.passed)

    @_clock_resolution.setter
    def _clock_resolution(self, _: float) -> None:
        """Nothing: asyncio sets that of the real clock."""


class LoopClock:
    """A clock that follows the running loop, virtual or not, from a fixed start."""

    def __init__(self, skew: timedelta = timedelta(0)) -> None:
        """`skew` is added to the time of the loop; it may be set to another later."""
        self.skew = skew
        self._latest = (0.0, skew, EPOCH + skew)
        """The time of the loop, the skew and the result of the latest call: time stands still."""

    def now(self) -> datetime:
        """`EPOCH` plus the time of the running loop and the skew; fails outside of a loop."""
        seconds = asyncio.get_running_loop().time()
        then, skew, moment = self._latest
        if seconds != then or skew is not self.skew:
            moment = EPOCH + timedelta(seconds=seconds) + self.skew
            self._latest = (seconds, self.skew, moment)
        return moment


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on virtual time and return its result.

    Raises `NothingLeftToWaitFor` where it would wait forever.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


ON_VIRTUAL_TIME = ("asyncio", {"loop_factory": VirtualLoop})
"""The value of an `anyio_backend` fixture for tests on virtual time."""
