"""The process of a DNS server: one cluster watched, its names compiled and served."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

from hanse.cli.oops import bad_credentials
from hanse.dns.compiler import Compiler
from hanse.dns.feed import Feed
from hanse.dns.listeners import Listeners
from hanse.dns.server import Served, Serving, serving
from hanse.dns.services import ServiceZone
from hanse.dns.zone import View, ZoneSource
from hanse.engine.api import KubeApi
from hanse.engine.fleet import Fleet
from hanse.kube.access import Credentials
from hanse.kube.client import Client
from hanse.kube.clock import WallClock
from hanse.kube.errors import BadCredentials
from hanse.kube.http import HttpTransport
from hanse.model.facts import Facts, Role
from hanse.model.objects import ClusterId, Object
from hanse.model.snapshot import Change

log = logging.getLogger(__name__)

BROKER: ClusterId = "broker"
HERE: ClusterId = "here"
"""What a cluster is called whose name nobody told: then none is local."""


class _Telling:
    """Tells the feed what the fleet sees."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def saw(self, change: Change, *, listed: bool = False) -> None:  # noqa: ARG002 - a fleet's listener
        self._feed.saw(change)

    def lost_sight_of(self, where: ClusterId, obj: Object) -> None:
        """Nothing: a name stays until it is known to be gone."""


async def run_dns(
    home: Credentials,
    broker: Credentials | None,
    view: View,
    listeners: Sequence[Listeners],
    settings: Serving,
    zone: ZoneSource | None = None,
) -> int:
    """Serve until a signal says to stop; raises `Oops` if credentials cannot even be read."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for which in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(which, stop.set)
    async with _answering(home, broker, view, listeners, settings, zone or ServiceZone(view)):
        where = ", ".join("{}:{}".format(*one.address) for one in listeners)
        log.info("dns serves", extra={"zone": view.zone, "listen": where})
        await stop.wait()
        log.info("dns stops", extra={"zone": view.zone})
    return 0


@asynccontextmanager
async def _answering(
    home: Credentials,
    broker: Credentials | None,
    view: View,
    listeners: Sequence[Listeners],
    settings: Serving,
    zone: ZoneSource,
) -> AsyncIterator[None]:
    random = Random()  # noqa: S311 - spreads retries, guards nothing
    fleet = Fleet(zone.watches, Facts(), WallClock(), view.local or HERE)
    await _join(fleet, fleet.local, Role.LOCAL, home, random)
    if broker is not None:
        await _join(fleet, BROKER, Role.BROKER, broker, random)
    compiler = Compiler(view, [zone])
    try:
        async with serving([Served(compiler, tuple(listeners))], settings) as server:
            feed = Feed(compiler, server, fleet.snapshot)
            fleet.listener = _Telling(feed)
            async with fleet.running(), feed.running():
                yield
    finally:
        for connection in fleet.connections.values():
            await connection.api.close()


async def _join(
    fleet: Fleet, name: ClusterId, role: Role, way: Credentials, random: Random
) -> None:
    try:
        await way.access()
    except BadCredentials as error:
        raise bad_credentials(error) from None
    fleet.join(name, {role}, KubeApi(Client(HttpTransport(way)), random))
