"""Probes a cluster that accepts requests and answers none, before its watches time out."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

from hanse.runtime.connection import Connection

QUIET_PERIOD = timedelta(seconds=15)
"""How long a cluster may answer nothing before it is probed."""

PROBE_INTERVAL = timedelta(seconds=60)
"""How long after a probe the next is sent, also to a busy cluster: watches outlive credentials."""

PROBE_TIMEOUT = timedelta(seconds=7)
"""How long a probe waits for its answer, and the next one is sent after it."""

FAILURE_THRESHOLD = 2
"""How many probes fail in a row before the cluster is unresponsive."""

NO_ANSWER = "it takes requests and answers none of them"

Probe = Callable[[Connection], Awaitable[str]]
"""Sends any request to a cluster; returns why there was no answer, or an empty string."""


async def run_probe(
    connection: Connection, probe: Probe, on_unresponsive: Callable[[Connection], None]
) -> None:
    """Probe a cluster, until cancelled, after a quiet period, at an interval, or once suspected.

    If probes fail, sets `unresponsive` to the reason and calls `on_unresponsive`. A cluster with an
    informer that is down is not probed: the informer itself retries.
    """
    connection.answered_at = probed_at = max(connection.answered_at, _now())
    while True:
        quiet = connection.answered_at + QUIET_PERIOD.total_seconds()
        interval = QUIET_PERIOD if connection.rejection else PROBE_INTERVAL
        wait = min(quiet, probed_at + interval.total_seconds()) - _now()
        if wait > 0 and not connection.suspected.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await connection.suspected.wait()
            continue
        connection.suspected.clear()
        probed_at = _now()
        if connection.interrupted and not connection.unresponsive:
            await asyncio.sleep(QUIET_PERIOD.total_seconds())
            continue
        failure = await _probe_failure(connection, probe)
        if failure and not connection.unresponsive:
            connection.unresponsive = failure
            on_unresponsive(connection)


async def _probe_failure(connection: Connection, probe: Probe) -> str:
    """Send up to FAILURE_THRESHOLD probes: why the last failed, or empty once the cluster answers.

    Any answer since a probe was sent counts, also one to another request.
    """
    failure = ""
    for _ in range(FAILURE_THRESHOLD):
        sent_at, failure = _now(), NO_ANSWER
        with suppress(TimeoutError):
            async with asyncio.timeout(PROBE_TIMEOUT.total_seconds()):
                failure = await probe(connection)
                if failure:  # it failed at once: the next probe may succeed
                    await asyncio.sleep(PROBE_TIMEOUT.total_seconds())
        if connection.answered_at >= sent_at:
            return ""
    return failure


def _now() -> float:
    """The time of the running event loop, in seconds."""
    return asyncio.get_running_loop().time()
