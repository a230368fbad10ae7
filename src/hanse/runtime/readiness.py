"""Serves an agent's health, readiness and metrics over HTTP."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hanse import health
from hanse.health import Readiness
from hanse.model.facts import ClusterState, Phase
from hanse.runtime.reconciler import Reconciler


@asynccontextmanager
async def serving(reconciler: Reconciler, listener: socket.socket) -> AsyncIterator[None]:
    """Serve `/healthz`, `/readyz` and `/metrics` of a reconciler until the block ends.

    `/readyz` answers 503 with the reason while the agent is not ready.
    """
    registry = reconciler.metrics.registry
    async with health.serving(listener, registry, lambda: _readiness(reconciler)):
        yield


def not_ready_reason(reconciler: Reconciler) -> str:
    """Why the agent is not ready: its own cluster is not connected, or was never listed in full.

    Empty when it is ready. No other cluster counts: an agent serves without a broker, and catches
    up later. An outage after the first list does not count either.
    """
    local = reconciler.informers.facts.get(ClusterState, reconciler.informers.local)
    if local is None:
        return f"{reconciler.informers.local} is not connected"
    if not local.listed:
        reason = f": {local.reason}" if local.reason else ""
        return f"{local.cluster} was not read in full yet{reason}"
    return ""


def report(reconciler: Reconciler) -> list[str]:
    """Lines for people: phase and reason of each cluster, by id, then a pause of writes, each hold.

    The latter only if there are any.
    """
    states = sorted(reconciler.informers.facts.all(ClusterState), key=lambda s: s.cluster)
    lines = [f"{_phase_sign(s.phase)} {s.cluster}: {s.phase} {s.reason}".rstrip() for s in states]
    if reconciler.paused:
        lines.append(f"[!] writes are paused: {reconciler.paused}")
    lines += [
        f"[!] deletions held in {hold.where} for {hold.feature}: {hold.deletions} at once"
        for hold in reconciler.mass_deletion.holds
    ]
    return lines


def _phase_sign(phase: Phase) -> str:
    """`[+]` if the cluster is synced, else `[-]`."""
    return "[+]" if phase is Phase.SYNCED else "[-]"


def _readiness(reconciler: Reconciler) -> Readiness:
    """Ready if `not_ready_reason` is empty; the text is the report and that reason."""
    missing = not_ready_reason(reconciler)
    lines = [*report(reconciler), f"not ready: {missing}" if missing else "ready"]
    return Readiness(ready=not missing, text="\n".join(lines))
