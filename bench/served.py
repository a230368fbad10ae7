"""An embedded cluster served over HTTPS by a process of its own."""

import asyncio
import multiprocessing
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from multiprocessing.connection import Connection
from socket import AF_INET, SOCK_STREAM, socket

import uvloop

from hanse.kube.certificates import CertificateAuthority
from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint, StaticCredentials
from hanse.kube.clock import WallClock
from hanse.kube.http_transport import HttpTransport
from hanse.kube.server_tls import server_context
from hanse.kube.transport import Transport
from tinykube.apiserver import ApiServer
from tinykube.http import serve
from tinykube.users import ADMIN

TOKEN = "bench"


@asynccontextmanager
async def connected(access: ClientConfig) -> AsyncIterator[Transport]:
    """A way to a cluster over HTTP, until the block ends."""
    way = HttpTransport(StaticCredentials(access))
    try:
        yield way
    finally:
        await way.close()


@contextmanager
def a_server() -> Iterator[ClientConfig]:
    """A cluster in a process of its own, with as many cores as this one has."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,))
    server.start()
    try:
        address, certificate = ours.recv()
        yield ClientConfig(ServerEndpoint(address, certificate), Identity(token=TOKEN))
    finally:
        ours.send("stop")
        server.join()


def _serve(ready: Connection) -> None:
    uvloop.run(_served(ready))


async def _served(ready: Connection) -> None:
    sock = socket(AF_INET, SOCK_STREAM)
    sock.bind(("127.0.0.1", 0))
    authority = CertificateAuthority.create("bench")
    api = ApiServer("bench", clock=WallClock(), history=100_000)
    async with serve(api, sock, {TOKEN: ADMIN}, server_context(authority.server("bench"))):
        ready.send((f"https://127.0.0.1:{sock.getsockname()[1]}", authority.certificate))
        await asyncio.get_running_loop().run_in_executor(None, ready.recv)
