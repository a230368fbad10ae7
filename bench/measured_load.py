"""A load that agents work on, from its first write to the sight of all that comes of it."""

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
    """An agent that tells what it has done, here or in a process of its own."""

    async def ask(self) -> AgentCounters: ...

    async def quiet(self) -> AgentCounters: ...


class Load(Struct, frozen=True):
    """What people write, where what comes of it is seen, and how one waits for all of it."""

    writes: Sequence[Write]
    looks: Mapping[str, WatchScope]
    everywhere: Callable[[Mapping[str, ObjectWaiter]], Awaitable[None]]


async def measure_agents(
    agents: Sequence[MeasuredAgent],
    transports: Mapping[str, Transport],
    load: Load,
    beside: Callable[[], float],
) -> dict[str, float]:
    """From the first write to the sight of everything everywhere, and what the agents wrote.

    `beside` tells the CPU seconds so far of all that works besides the agents.
    """
    before, spent_before = [await agent.ask() for agent in agents], beside()
    async with object_waiters(transports, load.looks) as seen:
        began = time.perf_counter()
        writing = asyncio.create_task(write_all(transports, load.writes), name="load")
        await load.everywhere(seen)
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
    by_people: int,
    beside: Callable[[], float],
) -> dict[str, float]:
    """The same objects by a client that knows them already; both runs begin with nothing."""
    await clear(transports, left)
    began, spent_before = time.perf_counter(), beside()
    await write_all(transports, writes)
    seconds, spent = time.perf_counter() - began, beside() - spent_before
    await clear(transports, left)
    objects = float(len(writes) - by_people)
    return {"bare client": seconds, "bare client's": spent, "objects": objects}
