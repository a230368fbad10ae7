"""Virtual time on which one process of several can be stopped, as SIGSTOP stops it."""

import asyncio
import heapq
from collections.abc import Coroutine
from contextvars import ContextVar
from itertools import count
from typing import Any, TypeVar

from tinykube.virtual_time import VirtualLoop

T = TypeVar("T")

PROCESS: ContextVar[str] = ContextVar("process", default="")
"""The simulated process that a task belongs to; child tasks and timers inherit it."""


class _NumberedTask(asyncio.Task[Any]):
    """A task that has the same place in a set in every process: groups are cancelled in order."""

    def __init__(self, coro: Coroutine[Any, Any, Any], number: int, **options: Any) -> None:
        self._number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class SimulationLoop(VirtualLoop):
    """A virtual loop whose tasks and timers belong to processes by their context.

    Nothing of a stopped process runs: its callbacks are parked, while the clock and all other
    processes go on. When it continues, everything that came due meanwhile runs at once.
    """

    def __init__(self) -> None:
        super().__init__()
        numbers = count()
        self.set_task_factory(
            lambda loop, coro, **options: _NumberedTask(coro, next(numbers), loop=loop, **options)
        )
        self.stopped: set[str] = set()
        self._countdown: dict[str, int] = {}
        self._parked: list[asyncio.Handle] = []
        self._parked_timers: list[asyncio.TimerHandle] = []
        self._may_park = False
        """Whether anything of a stopped process may be due or set: only then all is looked at."""
        self._ready: Any
        self._scheduled: list[asyncio.TimerHandle]

    def stop_process(self, process: str) -> None:
        """Stop a process at whatever it does now."""
        self._countdown.pop(process, None)
        self.stopped.add(process)
        self._may_park = True
        self._observe_calls()

    def stop_process_after(self, process: str, awaits: int) -> None:
        """Stop a process once so many of its tasks have begun to wait or to go on."""
        self._countdown[process] = awaits
        self._observe_calls()

    def _observe_calls(self) -> None:
        """Observe each call while a process is stopped or to be stopped, and only then."""
        if self.stopped or self._countdown:
            vars(self).update(call_soon=self._observed_call_soon, call_at=self._observed_call_at)
        else:
            for name in ("call_soon", "call_at"):
                vars(self).pop(name, None)

    def _observed_call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        """Count what processes do that are to be stopped."""
        handle = super().call_soon(callback, *args, context=context)
        if self.stopped and self._is_stopped(handle):
            self._may_park = True
        if self._countdown:
            process = handle._context.get(PROCESS, "")  # type: ignore[attr-defined]
            if process in self._countdown:
                self._countdown[process] -= 1
                if self._countdown[process] <= 0:
                    self.stop_process(process)
        return handle

    def _observed_call_at(
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """Note timers of stopped processes."""
        timer = super().call_at(when, callback, *args, context=context)
        if self.stopped and self._is_stopped(timer):
            self._may_park = True
        return timer

    def continue_process(self, process: str) -> None:
        """Continue a stopped process."""
        self.stopped.discard(process)
        self._may_park = bool(self.stopped)
        self._observe_calls()
        parked, self._parked = self._parked, []
        self._ready.extend(parked)
        for timer in self._parked_timers:
            heapq.heappush(self._scheduled, timer)
        self._parked_timers = []

    def _process_events(self, event_list: Any) -> None:
        super()._process_events(event_list)  # type: ignore[misc]  # asyncio's own, not in its types
        if not self._may_park or not self.stopped:
            return
        self._may_park = False
        ready = list(self._ready)
        self._ready.clear()
        for handle in ready:
            (self._parked if self._is_stopped(handle) else self._ready).append(handle)
        stopped = [timer for timer in self._scheduled if self._is_stopped(timer)]
        if stopped:
            self._parked_timers += stopped
            self._scheduled[:] = [t for t in self._scheduled if not self._is_stopped(t)]
            heapq.heapify(self._scheduled)

    def _is_stopped(self, handle: asyncio.Handle) -> bool:
        return handle._context.get(PROCESS, "") in self.stopped  # type: ignore[attr-defined]


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the simulation's loop."""
    with asyncio.Runner(loop_factory=SimulationLoop) as runner:
        return runner.run(main)
