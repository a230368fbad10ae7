"""The real server on loopback, and clients that query it."""

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import dns.asyncquery
import dns.message
import dns.query
from msgspec import Struct

from hanse.dns.compiler import Compiler
from hanse.dns.listeners import Listeners, bind_listeners
from hanse.dns.server import DnsServer, ServedView, serving
from hanse.dns.settings import ServerSettings
from hanse.dns.updater import ViewUpdater
from hanse.features.services.zone import ServiceZone
from hanse.model.dns.zones import View, ZoneSource
from hanse.model.snapshot import Snapshot
from tests.dns.builders import DnsAnswer, parse_answer

PATIENCE = 20.0
"""Seconds; machines that run tests are busy."""


class Running(Struct, frozen=True):
    """A server of one view."""

    server: DnsServer
    compiler: Compiler
    listeners: tuple[Listeners, ...]

    @property
    def port(self) -> int:
        return self.listeners[0].address[1]

    async def ask(self, name: str, rtype: str = "A", *, tcp: bool = False) -> DnsAnswer:
        query = dns.message.make_query(name, rtype)
        ask = dns.asyncquery.tcp if tcp else dns.asyncquery.udp
        return parse_answer(await ask(query, "127.0.0.1", port=self.port, timeout=PATIENCE))

    def send(self, packet: bytes) -> socket.socket:
        """Send raw bytes; the answer, if any, is read from the socket."""
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        client.settimeout(PATIENCE)
        client.connect(("127.0.0.1", self.port))
        client.send(packet)
        return client

    def raw(self, packet: bytes) -> bytes:
        with self.send(packet) as client:
            return client.recv(65535)


@asynccontextmanager
async def running(
    snapshot: Snapshot,
    view: View | None = None,
    *,
    workers: int = 1,
    hosts: Sequence[str] = ("127.0.0.1",),
    settings: ServerSettings | None = None,
    sources: Sequence[ZoneSource] = (),
) -> AsyncIterator[Running]:
    """Serve what a snapshot holds, until the block ends."""
    view = view or View("test")
    compiler = Compiler(view, sources or [ServiceZone(view)])
    listeners = tuple(bind_listeners(host, 0, workers) for host in hosts)
    try:
        async with serving([ServedView(compiler, listeners)], settings) as server:
            feed = ViewUpdater(compiler, server, lambda: snapshot)
            async with feed.running():
                await feed.wait_applied()
                yield Running(server, compiler, listeners)
    finally:
        for one in listeners:
            one.close()
