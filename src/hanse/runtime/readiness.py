"""How the agent is, for those who ask over HTTP."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hanse import health
from hanse.health import Readiness
from hanse.model.facts import ClusterState, Phase
from hanse.runtime.reconciler import Reconciler


@asynccontextmanager
async def serving(reconciler: Reconciler, listener: socket.socket) -> AsyncIterator[None]:
    """Tell how an engine is on a socket until the block ends."""
    registry = reconciler.metrics.registry
    async with health.serving(listener, registry, lambda: _readiness(reconciler)):
        yield


def not_ready_reason(reconciler: Reconciler) -> str:
    """What is missing for the agent to serve; empty when nothing is.

    Only its own cluster counts: an agent serves without a broker, and catches up later.
    """
    home = reconciler.informers.facts.get(ClusterState, reconciler.informers.local)
    if home is None:
        return f"{reconciler.informers.local} is not connected"
    if not home.listed:
        reason = f": {home.reason}" if home.reason else ""
        return f"{home.cluster} was not read in full yet{reason}"
    return ""


def report(reconciler: Reconciler) -> list[str]:
    """One line per cluster, for people who ask."""
    states = sorted(reconciler.informers.facts.all(ClusterState), key=lambda s: s.cluster)
    lines = [f"{_sign(s.phase)} {s.cluster}: {s.phase} {s.reason}".rstrip() for s in states]
    if reconciler.paused:
        lines.append(f"[!] writes are paused: {reconciler.paused}")
    lines += [
        f"[!] deletions held in {h.where} for {h.feature}: {h.wished} at once"
        for h in reconciler.guard.holds
    ]
    return lines


def _sign(phase: Phase) -> str:
    return "[+]" if phase is Phase.SYNCED else "[-]"


def _readiness(reconciler: Reconciler) -> Readiness:
    missing = not_ready_reason(reconciler)
    lines = [*report(reconciler), f"not ready: {missing}" if missing else "ready"]
    return Readiness(ready=not missing, text="\n".join(lines))
