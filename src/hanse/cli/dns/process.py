"""The process of `hanse dns`: credentials, signals and log messages around the server."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from msgspec.structs import replace

from hanse.app.dns import ServerProcess
from hanse.cli.clusters import check_readable

log = logging.getLogger(__name__)


async def run_dns(
    process: ServerProcess, serve: Callable[[ServerProcess], AbstractAsyncContextManager[None]]
) -> int:
    """Serve until SIGINT or SIGTERM, and return 0; SIGHUP replaces the workers.

    Raises `InputError` for credentials that cannot be read.
    """
    stop, hangup = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for which in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(which, stop.set)
    loop.add_signal_handler(signal.SIGHUP, hangup.set)
    await check_readable(process.access.local)
    if process.access.broker is not None:
        await check_readable(process.access.broker)
    zone = process.view.zone
    async with serve(replace(process, reload=hangup)):
        where = ", ".join("{}:{}".format(*one.address) for one in process.listeners)
        metrics = _address_text(process.metrics_listener)
        log.info("dns serves", extra={"zone": zone, "listen": where, "metrics": metrics})
        await stop.wait()
        log.info("dns stops", extra={"zone": zone})
    return 0


def _address_text(metrics_listener: socket.socket | None) -> str:
    """ADDRESS:PORT of a socket; empty without one."""
    return (
        "{}:{}".format(*metrics_listener.getsockname()[:2]) if metrics_listener is not None else ""
    )
