"""A key's plan on its way to being carried out."""

import asyncio
from datetime import timedelta

from msgspec import Struct

from hanse.model.facts import (
    Answer,
    ClusterDeparted,
    ClusterState,
    Fact,
    KindServed,
    Leadership,
    LeaseLiveness,
    WriteOutcome,
)
from hanse.model.plan import Plan
from hanse.runtime.diff import Action, Diff
from hanse.runtime.workqueue import Item

BREATH = timedelta(milliseconds=5)
"""How long plans that change nothing may follow on each other before others get their turn."""

UNREADABLE = timedelta(minutes=1)
"""How soon it is looked again at what could not be read: nobody tells of its end."""


FACTS: tuple[type[Fact], ...] = (
    ClusterState,
    ClusterDeparted,
    KindServed,
    Leadership,
    LeaseLiveness,
    Answer,
    WriteOutcome,
)
"""What one who takes over looks at beside objects."""


class PlannedWork(Struct, frozen=True):
    """A key's plan, what differs from it, and what of that may be written now."""

    item: Item
    plan: Plan
    wanted: Diff
    actions: list[Action]


async def let_begin() -> None:
    """Let a new task get as far as its requests: a turn for it, and one for those it starts."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
