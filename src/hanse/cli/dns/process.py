"""The process of `hanse dns`: credentials, signals and log messages around the server."""

import asyncio
import logging
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

from hanse.app.dns import DnsCredentials, serving_zones
from hanse.cli.clusters import check_readable
from hanse.dns.listeners import Listeners
from hanse.dns.settings import ServerSettings
from hanse.model.dns.zones import View, ZoneSource

log = logging.getLogger(__name__)


async def run_dns(
    access: DnsCredentials,
    view: View,
    zone_sources: Sequence[ZoneSource],
    listeners: Sequence[Listeners],
    settings: ServerSettings,
    metrics_listener: socket.socket | None,
    cache: Path | None = None,
) -> int:
    """Serve until SIGINT or SIGTERM, and return 0; SIGHUP replaces the workers.

    Raises `InputError` for credentials that cannot be read.
    """
    stop, hangup = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for which in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(which, stop.set)
    loop.add_signal_handler(signal.SIGHUP, hangup.set)
    await check_readable(access.local)
    if access.broker is not None:
        await check_readable(access.broker)
    async with serving_zones(
        access,
        view,
        zone_sources,
        listeners,
        settings,
        metrics_listener=metrics_listener,
        reload=hangup,
        cache=cache,
    ):
        where = ", ".join("{}:{}".format(*one.address) for one in listeners)
        log.info(
            "dns serves",
            extra={"zone": view.zone, "listen": where, "metrics": _address_text(metrics_listener)},
        )
        await stop.wait()
        log.info("dns stops", extra={"zone": view.zone})
    return 0


def _address_text(metrics_listener: socket.socket | None) -> str:
    """Address and port of a socket; empty without one."""
    return (
        "{}:{}".format(*metrics_listener.getsockname()[:2]) if metrics_listener is not None else ""
    )
