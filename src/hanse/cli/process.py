"""How a command runs what is asynchronous: the fastest loop, logs as asked for, one way to stop."""

import asyncio
import gc
import logging
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from hanse.cli.settings import Settings
from hanse.logs import configure

T = TypeVar("T")


CLOSE_GRACE = 0.05
"""Seconds in which connections may say good-bye before a loop ends."""

GC_THRESHOLD = 5_000
"""How many more objects there are than before when the garbage collector looks at the new ones."""

M_MMAP_THRESHOLD = -3
"""What `mallopt` of glibc knows the size as from which memory has pages of its own."""

MMAP_THRESHOLD = 128 * 1024
"""That size: what glibc begins with, too, but does not keep to."""


def run_async(main: Callable[[], Coroutine[Any, Any, T]], *, long_running: bool = False) -> T:
    """Run to the end on a loop of our own; what lasts is worth the faster one.

    What is loaded by then lasts as long: a garbage collector that looked through it again and
    again would keep everybody waiting for some tens of milliseconds each time. Of what is made
    later little is ever in a cycle: to look for it seldom takes a tenth of the time.
    """
    if not long_running:
        with asyncio.Runner() as runner:
            return runner.run(_with_close_grace(main))
    _release_large_buffers()
    gc.freeze()
    usual = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, *usual[1:])
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_with_close_grace(main))
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


def _release_large_buffers() -> None:
    """Let the C library keep no memory that large buffers leave behind.

    By default glibc takes them from the heap once one of their size was freed, and TLS alone asks
    for 256 KiB at each read: the heap grows around them and is not given back.
    """
    import ctypes

    with suppress(AttributeError, OSError):  # there are other C libraries, without this
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD)


async def _with_close_grace(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    try:
        return await main()
    finally:
        await asyncio.sleep(CLOSE_GRACE)


def start_logging(settings: Settings, *, service: bool = False) -> None:
    """Log as the settings say; a service tells more than a command, and to machines."""
    usual = "json" if service and not sys.stderr.isatty() else "human"
    level = logging.INFO if service else logging.WARNING
    if settings.verbose:
        level = logging.DEBUG if service else logging.INFO
    configure("json" if (settings.log_format or usual) == "json" else "human", level=level)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # not on every system
        return None
    return uvloop.new_event_loop
