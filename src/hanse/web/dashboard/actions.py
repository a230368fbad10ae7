"""The actions that a dashboard may offer to its users."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

Action = Callable[[Mapping[str, Any]], Awaitable[Any]]


class ActionRefused(Exception):
    """An action is not possible; the text is for the user."""


class PageActions(Struct, frozen=True):
    """The actions of the page; those that are None are not offered."""

    resolve: Action | None = None
    plan: Action | None = None
    order: Action | None = None

    @property
    def available(self) -> dict[str, Action]:
        """The actions that are offered, by name."""
        all_ = {"resolve": self.resolve, "plan": self.plan, "order": self.order}
        return {name: action for name, action in all_.items() if action is not None}
