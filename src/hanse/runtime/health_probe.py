"""Probes a cluster that accepts requests and answers none, before its watches time out."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

from hanse.kube.clock import loop_time
from hanse.model.facts import SLOW_ANSWER
from hanse.runtime.connection import NO_ANSWER, Connection

QUIET_PERIOD = timedelta(seconds=15)
"""How long a cluster may answer nothing before it is probed."""

PROBE_INTERVAL = timedelta(seconds=60)
"""How long after a probe the next is sent, also to a busy cluster: watches outlive credentials."""

PROBE_TIMEOUT = timedelta(seconds=7)
"""How long a probe waits for its answer, and the next one is sent after it."""

FAILURE_THRESHOLD = 2
"""How many probes fail in a row before the cluster is unresponsive."""

Probe = Callable[[Connection], Awaitable[str]]
"""Sends any request to a cluster; returns why there was no answer, or an empty string."""


async def run_probe(
    connection: Connection, probe: Probe, on_change: Callable[[Connection], None]
) -> None:
    """Probe a cluster, until cancelled, after a quiet period, at an interval, or once suspected.

    If probes fail, sets `unresponsive` to the reason, which an answer clears elsewhere; sets `slow`
    by whether they are answered late. Calls `on_change` after a change of either. A cluster with an
    informer that is down is not probed and not slow, unless it is unresponsive: the informer itself
    retries.
    """
    connection.answered_at = probed_at = max(connection.answered_at, loop_time())
    while True:
        quiet = connection.answered_at + QUIET_PERIOD.total_seconds()
        interval = QUIET_PERIOD if connection.rejection else PROBE_INTERVAL
        wait = min(quiet, probed_at + interval.total_seconds()) - loop_time()
        if wait > 0 and not connection.suspected.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await connection.suspected.wait()
            continue
        connection.suspected.clear()
        probed_at = loop_time()
        if connection.interrupted and not connection.unresponsive:
            if connection.slow:
                connection.slow = False
                on_change(connection)
            await asyncio.sleep(QUIET_PERIOD.total_seconds())
            continue
        was_slow = connection.slow
        failure = await _probe_failure(connection, probe)
        failed = bool(failure) and not connection.unresponsive
        if failed:
            connection.unresponsive = failure
        if failed or connection.slow != was_slow:
            on_change(connection)


async def _probe_failure(connection: Connection, probe: Probe) -> str:
    """Send up to FAILURE_THRESHOLD probes: why the last failed, or empty once the cluster answers.

    Any answer since a probe was sent counts, also one to another request. `slow` becomes whether
    the probe itself was then answered late or not in time; False if it failed with an error, or if
    nothing answered.
    """
    failure = ""
    for _ in range(FAILURE_THRESHOLD):
        sent_at, failure, took = loop_time(), NO_ANSWER, PROBE_TIMEOUT.total_seconds()
        with suppress(TimeoutError):
            async with asyncio.timeout(PROBE_TIMEOUT.total_seconds()):
                failure = await probe(connection)
                took = 0.0 if failure else loop_time() - sent_at
                if failure:  # it failed at once: the next probe may succeed
                    await asyncio.sleep(PROBE_TIMEOUT.total_seconds())
        if connection.answered_at >= sent_at:
            connection.slow = took >= SLOW_ANSWER.total_seconds()
            return ""
    connection.slow = False
    return failure
