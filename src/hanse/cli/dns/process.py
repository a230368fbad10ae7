"""The process of `hanse dns`: watch one cluster, compile its zones, serve them."""

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
"""The name of a cluster whose id is not given: then no cluster is local."""


class DnsCredentials(Struct, frozen=True):
    """Credentials for the cluster whose names are served, and for its broker."""

    local: Credentials
    broker: Credentials | None
    broker_namespace: str


class _InformerListener:
    """Passes changes on to the lease tracker and the view updater."""

    def __init__(self, updater: ViewUpdater, leases: LeaseTracker) -> None:
        self._updater = updater
        self._leases = leases

    def on_change(self, change: Change, *, listed: bool = False) -> None:  # noqa: ARG002 - the informers' signature
        self._leases.on_change(change)
        self._updater.on_change(change)

    def on_unwatched(self, where: ClusterId, obj: Object) -> None:
        """Ignored: a name stays until its deletion is observed."""


async def run_dns(
    access: DnsCredentials,
    view: View,
    zone_sources: Sequence[ZoneSource],
    listeners: Sequence[Listeners],
    settings: ServerSettings,
    metrics_listener: socket.socket | None,
) -> int:
    """Serve until a signal; raises `InputError` for credentials that cannot be read."""
    stop, hangup = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for which in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(which, stop.set)
    loop.add_signal_handler(signal.SIGHUP, hangup.set)
    async with _serving_zones(
        access, view, zone_sources, listeners, settings, metrics_listener
    ) as server:
        where = ", ".join("{}:{}".format(*one.address) for one in listeners)
        log.info(
            "dns serves",
            extra={"zone": view.zone, "listen": where, "metrics": _address_text(metrics_listener)},
        )
        async with asyncio.TaskGroup() as group:
            reloading = group.create_task(
                _reload_on_hangup(server, settings, hangup), name="dns reload"
            )
            await stop.wait()
            reloading.cancel()
        log.info("dns stops", extra={"zone": view.zone})
    return 0


async def _reload_on_hangup(
    server: DnsServer, settings: ServerSettings, hangup: asyncio.Event
) -> None:
    """Replace the workers at each SIGHUP."""
    while True:
        await hangup.wait()
        hangup.clear()
        await server.reload(settings)
        log.info("dns reloaded", extra={"workers": len(server.pids)})


@asynccontextmanager
async def _serving_zones(
    access: DnsCredentials,
    view: View,
    zone_sources: Sequence[ZoneSource],
    listeners: Sequence[Listeners],
    settings: ServerSettings,
    metrics_listener: socket.socket | None,
) -> AsyncIterator[DnsServer]:
    clock = WallClock()
    random = Random()  # noqa: S311 - spreads retries, guards nothing
    leases = Watch(Role.BROKER, Lease, namespace=access.broker_namespace)
    watches = [watch for source in zone_sources for watch in source.watches]
    informers = ClusterInformers([*watches, leases], Facts(), clock, view.local or UNNAMED_CLUSTER)
    await _join_cluster(informers, informers.local, Role.LOCAL, access.local, random)
    if access.broker is not None:
        await _join_cluster(informers, BROKER, Role.BROKER, access.broker, random)
    # Secondaries expect serials that grow, also over restarts.
    compiler = Compiler(view, zone_sources, serial=int(clock.now().timestamp()))
    try:
        async with AsyncExitStack() as stack:
            served = [ServedView(compiler, tuple(listeners))]
            server = await stack.enter_async_context(serving(served, settings))
            if metrics_listener is not None:
                registry = server.metrics.registry
                health_server = health.serving(
                    metrics_listener, registry, lambda: readiness(compiler)
                )
                await stack.enter_async_context(health_server)
            updater = ViewUpdater(compiler, server, informers.snapshot)
            informers.change_handler = _InformerListener(updater, LeaseTracker(informers, clock))
            await stack.enter_async_context(informers.running())
            await stack.enter_async_context(updater.running())
            yield server
    finally:
        await informers.close()


def _address_text(metrics_listener: socket.socket | None) -> str:
    return (
        "{}:{}".format(*metrics_listener.getsockname()[:2]) if metrics_listener is not None else ""
    )


async def _join_cluster(
    informers: ClusterInformers,
    name: ClusterId,
    role: Role,
    credentials: Credentials,
    random: Random,
) -> None:
    try:
        await credentials.config()
    except BadCredentials as error:
        raise credentials_error(error) from None
    informers.join(name, {role}, ClusterClient(HttpTransport(credentials), random))
