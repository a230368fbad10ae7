"""How a long-running part is, over HTTP: alive, ready, and its numbers for Prometheus."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from msgspec import Struct
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest


class Readiness(Struct, frozen=True):
    """Whether it serves, and what is told to people who ask."""

    ready: bool
    text: str


@asynccontextmanager
async def serving(
    listener: socket.socket, registry: CollectorRegistry, readiness: Callable[[], Readiness]
) -> AsyncIterator[None]:
    """Answer `/healthz`, `/readyz` and `/metrics` on a socket until the block ends."""

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(_: web.Request) -> web.Response:
        told = readiness()
        return web.Response(text=f"{told.text}\n", status=200 if told.ready else 503)

    async def numbers(_: web.Request) -> web.Response:
        body = generate_latest(registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/healthz", alive)
    app.router.add_get("/readyz", ready)
    app.router.add_get("/metrics", numbers)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        yield
    finally:
        await runner.cleanup()
