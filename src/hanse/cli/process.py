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
    """Run a coroutine to its end on a new event loop, a long-running one on uvloop if it is there.

    Returns its result. For a long-running one the objects that exist now are frozen: a garbage
    collector that traversed them again would block the loop for some tens of milliseconds each
    time. Few later objects are in cycles, so collecting seldom takes a tenth of the time.
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
    """Make glibc return the memory of large buffers to the system.

    By default it takes them from the heap once one of their size was freed, and TLS allocates
    256 KiB at each read: the heap grows around them and is never returned.
    """
    import ctypes

    with suppress(AttributeError, OSError):  # other C libraries do not have it
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD)


def _run(runner: asyncio.Runner, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run the coroutine, then let the loop see which connections closed, also after an error.

    The task has no result: the runner formats its `repr`, which takes long for that of a fleet.
    """
    results: list[T] = []

    async def run() -> None:
        """Run `main`, and keep its result."""
        try:
            results.append(await main())
        finally:
            await asyncio.sleep(0)

    runner.run(run())
    return results[0]


def start_logging(settings: GlobalOptions, *, service: bool = False) -> None:
    """Configure logging; services log more than commands, and JSON unless on a terminal.

    Services from INFO on, commands from WARNING on, with `verbose` one level more each; the option
    `log_format` overrides the format.
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
