"""How the agent is, over HTTP: alive, ready, and its numbers for Prometheus."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from hanse.engine.engine import Engine
from hanse.model.facts import ClusterState, Phase


@asynccontextmanager
async def serving(engine: Engine, listener: socket.socket) -> AsyncIterator[None]:
    """Answer `/healthz`, `/readyz` and `/metrics` on a socket until the block ends."""
    app = web.Application()
    app.router.add_get("/healthz", _alive)
    app.router.add_get("/readyz", lambda _: _ready(engine))
    app.router.add_get("/metrics", lambda _: _metrics(engine))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        yield
    finally:
        await runner.cleanup()


def why_not_ready(engine: Engine) -> str:
    """What is missing for the agent to serve; empty when nothing is.

    Only its own cluster counts: an agent serves without a broker, and catches up later.
    """
    home = engine.fleet.facts.get(ClusterState, engine.fleet.local)
    if home is None:
        return f"{engine.fleet.local} is not connected"
    if not home.listed:
        reason = f": {home.reason}" if home.reason else ""
        return f"{home.cluster} was not read in full yet{reason}"
    return ""


def report(engine: Engine) -> list[str]:
    """One line per cluster, for people who ask."""
    states = sorted(engine.fleet.facts.all(ClusterState), key=lambda s: s.cluster)
    lines = [f"{_sign(s.phase)} {s.cluster}: {s.phase} {s.reason}".rstrip() for s in states]
    if engine.paused:
        lines.append(f"[!] writes are paused: {engine.paused}")
    lines += [
        f"[!] deletions held in {h.where} for {h.feature}: {h.wished} at once"
        for h in engine.guard.holds
    ]
    return lines


def _sign(phase: Phase) -> str:
    return "[+]" if phase is Phase.SYNCED else "[-]"


async def _alive(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _ready(engine: Engine) -> web.Response:
    missing = why_not_ready(engine)
    lines = [*report(engine), f"not ready: {missing}" if missing else "ready"]
    return web.Response(text="\n".join(lines) + "\n", status=503 if missing else 200)


async def _metrics(engine: Engine) -> web.Response:
    body = generate_latest(engine.metrics.registry)
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
