"""The process of `hanse guard`: signals, and its end."""

import asyncio
import logging
import signal
import socket
from contextlib import AsyncExitStack

from hanse import health
from hanse.app.guard import Guard, GuardSettings, guarding
from hanse.app.guard_end import GuardEnd, find_end
from hanse.cli.clusters import check_readable
from hanse.kube.client_config import Credentials
from hanse.kube.http_transport import HttpTransport

log = logging.getLogger(__name__)


async def run_guard(
    access: Credentials,
    settings: GuardSettings,
    listener: socket.socket | None,
    daemonset: tuple[str, str] | None,
) -> int:
    """Guard until SIGINT or SIGTERM, and return 0; the rules stay on the node.

    They are removed if the DaemonSet, given by namespace and name, is gone at that time, once
    policies isolate networks; the CNI plugin alone if the DaemonSet has no hostPath volumes any
    more. Serves health and metrics on `listener`. Raises `InputError` for credentials that cannot
    be read, and `GuardUnavailable` where nftables cannot be used.
    """
    stop, end = asyncio.Event(), GuardEnd.RESTART
    for which in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(which, stop.set)
    await check_readable(access)
    async with AsyncExitStack() as stack:
        guard = await stack.enter_async_context(guarding(HttpTransport(access), settings))
        if listener is not None:
            registry = guard.metrics.registry
            serving = health.serving(listener, registry, lambda: guard.readiness)
            await stack.enter_async_context(serving)
        log.info("guarding", extra={"node": settings.node})
        await stop.wait()
        if daemonset is not None:
            end = await find_end(access, *daemonset)
        if end is GuardEnd.GONE and guard.lease is not None:
            await guard.lease.end()
    await _clean_up(guard, end)
    return 0


async def _clean_up(guard: Guard, end: GuardEnd) -> None:
    """Remove what no later guard would from the node: all, only the CNI plugin, or nothing.

    All rules and the plugin if the DaemonSet is deleted; the plugin if the next guard has no
    hostPath volumes to remove it with; nothing if another guard follows.
    """
    match end:
        case GuardEnd.GONE:
            await guard.remove()
            log.info("rules removed")
        case GuardEnd.NO_PLUGIN:
            await guard.remove_plugin()
        case GuardEnd.RESTART:
            pass
