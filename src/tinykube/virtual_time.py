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
        """`passed`, the time of the loop in seconds, starts at 0."""
        super().__init__()
        self.passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """The ready files without waiting; if none is ready, the timeout is added to `passed`.

        At least a microsecond is added, and `OVERSHOOT`. A timeout of 0 (callbacks are due) adds
        nothing, and then a loop without sockets is not even polled: []. If none is ready and the
        timeout is None (there is no timer), raises NothingLeftToWaitFor.
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
        """The time of the loop starts at 0."""
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._jumping.passed

    @property
    def _clock_resolution(self) -> float:
        """The smallest step of the virtual time as a float, so that no timer fires early.

        If timers fired early, tasks that sleep again until a moment has come could take turns
        without end, as time stands still while one of them can go on.
        """
        return math.ulp(self._jumping.passed)

    @_clock_resolution.setter
    def _clock_resolution(self, _: float) -> None:
        """Ignore the value, which asyncio sets to the resolution of the real clock."""


class LoopClock:
    """A clock that follows the running loop, virtual or not, from a fixed start."""

    def __init__(self, skew: timedelta = timedelta(0)) -> None:
        """`skew` is added to the time of the loop; it may be set to another later."""
        self.skew = skew
        self._latest = (0.0, skew, EPOCH + skew)
        """The time of the loop, the skew and the result of the latest call: time stands still."""

    def now(self) -> datetime:
        """`EPOCH` plus the time of the running loop and the skew.

        RuntimeError outside of a loop.
        """
        seconds = asyncio.get_running_loop().time()
        then, skew, moment = self._latest
        if seconds != then or skew is not self.skew:
            moment = EPOCH + timedelta(seconds=seconds) + self.skew
            self._latest = (seconds, self.skew, moment)
        return moment


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a new `VirtualLoop` and return its result; its exceptions are raised.

    Raises `NothingLeftToWaitFor` where it would wait forever.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


ON_VIRTUAL_TIME = ("asyncio", {"loop_factory": VirtualLoop})
"""The value of an `anyio_backend` fixture for tests on virtual time."""
