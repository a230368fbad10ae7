"""A time limit for each of many waits, without a timer for each."""

import asyncio
from types import TracebackType


class RepeatedTimeout:
    """Limits each wait of a task in a `with` block of it: TimeoutError if one takes longer.

    One timer serves all waits. It is set anew only when it fires: a stream waits for thousands of
    lines, and almost none of them comes too late.
    """

    def __init__(self, seconds: float | None) -> None:
        """Limit each wait, which is a `with` block of this object, to so many seconds.

        With None only `expire` ends a wait.
        """
        self._seconds = seconds
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._expired = False

    def __enter__(self) -> None:
        """Begin a wait of the current task, which has the configured seconds from now."""
        task = self._waiting = asyncio.current_task()
        assert task is not None, "only a task waits"
        self._cancelling = task.cancelling()
        if self._seconds is not None:
            loop = task.get_loop()
            self._deadline = loop.time() + self._seconds
            if self._timer is None:
                self._timer = loop.call_at(self._deadline, self._on_timer)

    def __exit__(
        self, type_: type[BaseException] | None, error: object, traceback: TracebackType | None
    ) -> None:
        """End the wait; raises TimeoutError in place of the cancellation by which it expired.

        Any other exception is passed on, also a cancellation of the task by somebody else.
        """
        task, self._waiting = self._waiting, None
        if self._expired and task is not None:
            self._expired = False
            if task.uncancel() <= self._cancelling and type_ is asyncio.CancelledError:
                raise TimeoutError

    def expire(self) -> None:
        """End the present wait, if any: its task is cancelled, its block raises TimeoutError."""
        if self._waiting is not None and not self._expired:
            self._expired = True
            self._waiting.cancel()

    def close(self) -> None:
        """Cancel the timer; to be called after the last wait."""
        if self._timer is not None:
            self._timer.cancel()

    def _on_timer(self) -> None:
        """Expire the present wait if it is overdue, else set the timer anew to its deadline.

        Between waits nothing: the next wait sets a timer.
        """
        self._timer = None
        if self._waiting is None:
            return
        loop = self._waiting.get_loop()
        if loop.time() >= self._deadline:
            self.expire()
        else:
            self._timer = loop.call_at(self._deadline, self._on_timer)
