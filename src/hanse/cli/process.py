"""How a command runs asynchronous code: event loop, garbage collector and logging."""

import asyncio
import gc
import logging
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from hanse.cli.settings import GlobalOptions
from hanse.logs import configure

T = TypeVar("T")


GC_THRESHOLD = 5_000
"""New objects after which the garbage collector looks at the youngest generation."""

M_MMAP_THRESHOLD = -3
"""The parameter of glibc's `mallopt` for the size from which memory is mapped."""

MMAP_THRESHOLD = 128 * 1024
"""That size in bytes: glibc's own default, fixed, so that glibc does not raise it."""


def run_async(main: Callable[[], Coroutine[Any, Any, T]], *, long_running: bool = False) -> T:
    """Run the coroutine of `main` on a new event loop; returns its result, and raises its errors.

    A long-running one gets uvloop if that is installed and, until it ends, a garbage collector that
    runs seldom and ignores the objects that exist now: traversing them blocks the loop for tens of
    milliseconds. glibc is told, for good, to return large buffers to the system.
    """
    if not long_running:
        with asyncio.Runner() as runner:
            return _run(runner, main)
    _release_large_buffers()
    gc.freeze()
    usual = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, *usual[1:])
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return _run(runner, main)
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


def _release_large_buffers() -> None:
    """Make glibc return the memory of large buffers to the system; nothing with other C libraries.

    By default it takes them from the heap once one of their size was freed, and TLS allocates 256
    KiB at each read: the heap grows around them and is never returned.
    """
    import ctypes

    with suppress(AttributeError, OSError):  # other C libraries do not have it
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD)


def _run(runner: asyncio.Runner, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run the coroutine of `main` on a runner, and return its result; errors are raised.

    The loop then has one more turn, also after an error, to see which connections closed. The
    result is kept outside of the task: the runner formats a task's `repr`, which takes long for a
    fleet.
    """
    results: list[T] = []

    async def run() -> None:
        """Run `main` and keep its result, then let the loop turn once more, also after an error."""
        try:
            results.append(await main())
        finally:
            await asyncio.sleep(0)

    runner.run(run())
    return results[0]


def start_logging(settings: GlobalOptions, *, service: bool = False) -> None:
    """Configure logging: services from INFO, commands from WARNING; with `verbose` one level more.

    Services log JSON unless stderr is a terminal, commands text for people; `log_format` overrides
    that.
    """
    usual = "json" if service and not sys.stderr.isatty() else "human"
    level = logging.INFO if service else logging.WARNING
    if settings.verbose:
        level = logging.DEBUG if service else logging.INFO
    configure("json" if (settings.log_format or usual) == "json" else "human", level=level)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's loop where it is installed; None for asyncio's own."""
    try:
        import uvloop
    except ImportError:  # not on every system
        return None
    return uvloop.new_event_loop
