"""Noticing a cluster that takes everything and answers nothing, long before its watches run out."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

from hanse.runtime.connection import Connection

QUIET = timedelta(seconds=15)
"""How long nothing may be heard of a cluster before it is asked whether it is there."""

PATIENCE = timedelta(seconds=7)
"""What an answer to that may take, and how long after one question the next one is asked."""

QUESTIONS = 2
"""How many of them go unanswered before the cluster counts as silent: one may be lost."""

NOTICED = QUIET + QUESTIONS * PATIENCE
"""When a cluster that answers nothing any more is known to be silent."""


MUTE = "it takes requests and answers none of them"

Ask = Callable[[Connection], Awaitable[str]]
"""Asks a cluster anything; gives why there was no answer, or nothing."""


async def listen(
    connection: Connection, ask: Ask, fell_silent: Callable[[Connection], None]
) -> None:
    """Ask a cluster whenever it has been quiet for a while, or is doubted, until cancelled.

    One of which anything is heard is not asked, nor one whose streams are down: they ask.
    """
    connection.heard_at = max(connection.heard_at, _now())
    while True:
        early = connection.heard_at + QUIET.total_seconds() - _now()
        if early > 0 and not connection.doubted.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(early):
                    await connection.doubted.wait()
            continue
        connection.doubted.clear()
        if connection.interrupted and not connection.silent:
            await asyncio.sleep(QUIET.total_seconds())
            continue
        why = await _why_unanswered(connection, ask)
        if why and not connection.silent:
            connection.silent = why
            fell_silent(connection)


async def _why_unanswered(connection: Connection, ask: Ask) -> str:
    why = ""
    for _ in range(QUESTIONS):
        asked, why = _now(), MUTE
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE.total_seconds()):
                why = await ask(connection)
                if why:  # refused at once: the next may be taken
                    await asyncio.sleep(PATIENCE.total_seconds())
        if connection.heard_at >= asked:
            return ""
    return why


def _now() -> float:
    return asyncio.get_running_loop().time()
