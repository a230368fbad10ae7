"""Serves liveness, readiness and Prometheus metrics of a long-running command over HTTP."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from msgspec import Struct
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest


class Readiness(Struct, frozen=True):
    """Whether the process is ready to serve, and a text for people."""

    ready: bool
    text: str


@asynccontextmanager
async def serving(
    listener: socket.socket, registry: CollectorRegistry, readiness: Callable[[], Readiness]
) -> AsyncIterator[None]:
    """Serve `/healthz`, `/readyz` and `/metrics` on a bound socket until the block ends.

    `/healthz` always answers 200. `/readyz` calls `readiness` for each request and answers its
    text, with 200 if it is ready, else 503. `/metrics` has the metrics of the registry.
    """

    async def healthz(_: web.Request) -> web.Response:
        """Always 200, with the text `ok`."""
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        """The text of `readiness()`: 200 if it is ready, else 503."""
        state = readiness()
        return web.Response(text=f"{state.text}\n", status=200 if state.ready else 503)

    async def metrics(_: web.Request) -> web.Response:
        """The metrics of the registry in the text format of Prometheus."""
        body = generate_latest(registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        yield
    finally:
        await runner.cleanup()
