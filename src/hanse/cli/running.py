"""How a command runs what is asynchronous: the fastest loop, logs as asked for, one way to stop."""

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from hanse.cli.settings import Settings
from hanse.logs import configure

T = TypeVar("T")


def run_async(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run to the end on a loop of our own."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main())


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
