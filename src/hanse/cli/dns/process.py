"""The process of a DNS server: one cluster watched, its names compiled and served."""

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

from msgspec import Struct

from hanse import health
from hanse.cli.errors import credentials_error
from hanse.dns.compiler import Compiler
from hanse.dns.listeners import Listeners
from hanse.dns.server import DnsServer, ServedView, ServerSettings, serving
from hanse.dns.updater import ViewUpdater, readiness
from hanse.kube.client_config import Credentials
from hanse.kube.clock import WallClock
from hanse.kube.errors import BadCredentials
from hanse.kube.http_transport import HttpTransport
from hanse.model.dns.zones import View, ZoneSource
from hanse.model.facts import Facts, Role
from hanse.model.kinds.coordination import Lease
from hanse.model.objects import ClusterId, Object
from hanse.model.snapshot import Change, Watch
from hanse.runtime.api import ClusterClient
from hanse.runtime.informers import ClusterInformers
from hanse.runtime.lease_tracker import LeaseTracker

log = logging.getLogger(__name__)

BROKER: ClusterId = "broker"
UNNAMED_CLUSTER: ClusterId = "here"
"""What a cluster is called whose name nobody told: then none is local."""


class DnsCredentials(Struct, frozen=True):
    """How to reach the cluster whose names are served, and the broker of its fleet."""

    home: Credentials
    broker: Credentials | None
    broker_namespace: str


class _InformerListener:
    """Tells what the fleet sees to those who follow it: who is alive, and what is compiled."""

    def __init__(self, feed: ViewUpdater, pulses: LeaseTracker) -> None:
        self._feed = feed
        self._pulses = pulses

    def on_change(self, change: Change, *, listed: bool = False) -> None:  # noqa: ARG002 - a fleet's listener
        self._pulses.on_change(change)
        self._feed.on_change(change)

    def on_unwatched(self, where: ClusterId, obj: Object) -> None:
        """Nothing: a name stays until it is known to be gone."""


async def run_dns(
    ways: DnsCredentials,
    view: View,
    sources: Sequence[ZoneSource],
    listeners: Sequence[Listeners],
    settings: ServerSettings,
    metrics_listener: socket.socket | None,
) -> int:
    """Serve until a signal says to stop; raises `InputError` if credentials cannot even be read."""
    stop, hangup = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for which in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(which, stop.set)
    loop.add_signal_handler(signal.SIGHUP, hangup.set)
    async with _serving_zones(ways, view, sources, listeners, settings, metrics_listener) as server:
        where = ", ".join("{}:{}".format(*one.address) for one in listeners)
        log.info(
            "dns serves",
            extra={"zone": view.zone, "listen": where, "metrics": _at(metrics_listener)},
        )
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(
                _reload_on_hangup(server, settings, hangup), name="dns reload"
            )
            await stop.wait()
            renewing.cancel()
        log.info("dns stops", extra={"zone": view.zone})
    return 0


async def _reload_on_hangup(
    server: DnsServer, settings: ServerSettings, hangup: asyncio.Event
) -> None:
    """Replace the workers whenever somebody hangs up."""
    while True:
        await hangup.wait()
        hangup.clear()
        await server.reload(settings)
        log.info("dns reloaded", extra={"workers": len(server.pids)})


@asynccontextmanager
async def _serving_zones(
    ways: DnsCredentials,
    view: View,
    sources: Sequence[ZoneSource],
    listeners: Sequence[Listeners],
    settings: ServerSettings,
    metrics_listener: socket.socket | None,
) -> AsyncIterator[DnsServer]:
    clock = WallClock()
    random = Random()  # noqa: S311 - spreads retries, guards nothing
    alive = Watch(Role.BROKER, Lease, namespace=ways.broker_namespace)
    watches = [watch for source in sources for watch in source.watches]
    informers = ClusterInformers([*watches, alive], Facts(), clock, view.local or UNNAMED_CLUSTER)
    await _join(informers, informers.local, Role.LOCAL, ways.home, random)
    if ways.broker is not None:
        await _join(informers, BROKER, Role.BROKER, ways.broker, random)
    # Who transfers the zone expects serials that grow, over restarts too.
    compiler = Compiler(view, sources, serial=int(clock.now().timestamp()))
    try:
        async with AsyncExitStack() as stack:
            served = [ServedView(compiler, tuple(listeners))]
            server = await stack.enter_async_context(serving(served, settings))
            if metrics_listener is not None:
                registry = server.metrics.registry
                told = health.serving(metrics_listener, registry, lambda: readiness(compiler))
                await stack.enter_async_context(told)
            feed = ViewUpdater(compiler, server, informers.snapshot)
            informers.change_handler = _InformerListener(feed, LeaseTracker(informers, clock))
            await stack.enter_async_context(informers.running())
            await stack.enter_async_context(feed.running())
            yield server
    finally:
        await informers.close()


def _at(metrics_listener: socket.socket | None) -> str:
    return (
        "{}:{}".format(*metrics_listener.getsockname()[:2]) if metrics_listener is not None else ""
    )


async def _join(
    informers: ClusterInformers, name: ClusterId, role: Role, way: Credentials, random: Random
) -> None:
    try:
        await way.config()
    except BadCredentials as error:
        raise credentials_error(error) from None
    informers.join(name, {role}, ClusterClient(HttpTransport(way), random))
