"""A key's plan on its way to being carried out."""

from msgspec import Struct

from hanse.engine.actions import Action, Todo
from hanse.engine.queue import Item
from hanse.model.plan import Plan


class Work(Struct, frozen=True):
    """A key's plan, what differs from it, and what of that may be written now."""

    item: Item
    plan: Plan
    wanted: Todo
    actions: list[Action]
