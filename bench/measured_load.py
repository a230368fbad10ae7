"""A load for agents, measured from its first write until every result is observed."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from bench.agent import AgentCounters
from bench.bare_client import Collection, Write, clear, write_all
from bench.object_waiter import ObjectWaiter, WatchScope, object_waiters
from hanse.kube.transport import Transport


class MeasuredAgent(Protocol):
    """An agent that reports its counters, in this process or in its own."""

    async def ask(self) -> AgentCounters: ...

    async def quiet(self) -> AgentCounters: ...


class Load(Struct, frozen=True):
    """What is written, where the results are watched, and how to wait for all of them."""

    writes: Sequence[Write]
    looks: Mapping[str, WatchScope]
    everywhere: Callable[[Mapping[str, ObjectWaiter]], Awaitable[None]]


async def measure_agents(
    agents: Sequence[MeasuredAgent],
    transports: Mapping[str, Transport],
    load: Load,
    beside: Callable[[], float],
) -> dict[str, float]:
    """Time from the first write until every result is observed, and what the agents wrote.

    `beside` returns the CPU seconds so far of everything but the agents.
    """
    before, spent_before = [await agent.ask() for agent in agents], beside()
    async with object_waiters(transports, load.looks) as waiters:
        began = time.perf_counter()
        writing = asyncio.create_task(write_all(transports, load.writes), name="load")
        await load.everywhere(waiters)
        seconds = time.perf_counter() - began
        await writing
    after = [await agent.quiet() for agent in agents]
    by_agents = sum(one.cpu for one in after) - sum(one.cpu for one in before)
    return {
        "time": seconds,
        "CPU of everything": beside() - spent_before + by_agents,
        "CPU of an agent": by_agents / len(agents),
        "writes": float(sum(one.sent for one in after) - sum(one.sent for one in before)),
        "refused": float(sum(one.refused for one in after) - sum(one.refused for one in before)),
    }


async def measure_bare_client(
    transports: Mapping[str, Transport],
    writes: Sequence[Write],
    left: Mapping[str, Sequence[Collection]],
    by_users: int,
    beside: Callable[[], float],
) -> dict[str, float]:
    """The time of a bare client that writes the same objects; both runs start empty."""
    await clear(transports, left)
    began, spent_before = time.perf_counter(), beside()
    await write_all(transports, writes)
    seconds, spent = time.perf_counter() - began, beside() - spent_before
    await clear(transports, left)
    objects = float(len(writes) - by_users)
    return {"bare client": seconds, "bare client's": spent, "objects": objects}
