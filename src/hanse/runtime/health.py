"""How the agent is, for those who ask over HTTP."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hanse import health
from hanse.health import Readiness
from hanse.model.facts import ClusterState, Phase
from hanse.runtime.reconciler import Reconciler


@asynccontextmanager
async def serving(engine: Reconciler, listener: socket.socket) -> AsyncIterator[None]:
    """Tell how an engine is on a socket until the block ends."""
    registry = engine.metrics.registry
    async with health.serving(listener, registry, lambda: _readiness(engine)):
        yield


def why_not_ready(engine: Reconciler) -> str:
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


def report(engine: Reconciler) -> list[str]:
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


def _readiness(engine: Reconciler) -> Readiness:
    missing = why_not_ready(engine)
    lines = [*report(engine), f"not ready: {missing}" if missing else "ready"]
    return Readiness(ready=not missing, text="\n".join(lines))
