"""A real HTTP server on a port of its own, that answers as the test says."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from hanse.kube.certificates import CertificateAuthority
from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint, StaticCredentials
from hanse.kube.http_transport import HttpTransport

AUTHORITY = CertificateAuthority.create("test")
NOBODY = Identity()
SERVER = AUTHORITY.server("server")

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The URL of a server that gives every request to `answer`."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connected(
    answer: Answer,
    identity: Identity = NOBODY,
    tls: ssl.SSLContext | None = None,
    server_name: str = "",
) -> AsyncIterator[HttpTransport]:
    """A transport to a server that answers so; TLS with the test's authority if `tls` is given."""
    async with serving(answer, tls) as url:
        endpoint = ServerEndpoint(url, AUTHORITY.certificate if tls else b"", server_name)
        http = HttpTransport(StaticCredentials(ClientConfig(endpoint, identity)))
        try:
            yield http
        finally:
            await http.close()
