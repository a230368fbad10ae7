"""How the DNS server is, over HTTP: alive, ready, and its numbers for Prometheus."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from hanse.dns.compiler import Compiler
from hanse.dns.metrics import Metrics


@asynccontextmanager
async def telling(
    metrics: Metrics, compiler: Compiler, listener: socket.socket
) -> AsyncIterator[None]:
    """Answer `/healthz`, `/readyz` and `/metrics` on a socket until the block ends."""
    app = web.Application()
    app.router.add_get("/healthz", _alive)
    app.router.add_get("/readyz", lambda _: _ready(compiler))
    app.router.add_get("/metrics", lambda _: _numbers(metrics))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        yield
    finally:
        await runner.cleanup()


async def _alive(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _ready(compiler: Compiler) -> web.Response:
    """Names are answered once everything was read: before that every question fails."""
    if compiler.synced:
        return web.Response(text="ready\n")
    return web.Response(text="not ready: the cluster was not read in full yet\n", status=503)


async def _numbers(metrics: Metrics) -> web.Response:
    body = generate_latest(metrics.registry)
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
