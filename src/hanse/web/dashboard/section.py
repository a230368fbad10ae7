"""The contract of everything that is shown: items by key, each a pure function of what is seen."""

from collections.abc import Iterable
from typing import Any, Literal, Protocol

from msgspec import Struct

from hanse.model.snapshot import Change
from hanse.web.dashboard.snapshot import MultiClusterSnapshot

State = Literal["good", "warn", "bad", "idle"]


class Item(Struct, frozen=True, rename="camel", kw_only=True):
    """One item of a section as the page gets it."""


class Section(Protocol):
    """A part of the page. A change wakes keys, and a woken key is shown anew or is gone."""

    @property
    def name(self) -> str: ...

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """Every key that has something to show now."""
        ...

    def keys_for(self, change: Change) -> Iterable[str]:
        """The keys whose item a change may have changed."""
        ...

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> Any | None:
        """What is shown of a key; None where there is nothing any more."""
        ...


class ClusterPart(Item, frozen=True, kw_only=True):
    """One cluster's part of something, in a few words."""

    cluster: str
    state: State
    text: str = ""
    share: int = 0
    """Its percentage of what is shared out, where anything is."""


class FeatureItem(Item, frozen=True, kw_only=True):
    """Something that spans clusters: how it stands as a whole, and in each of them."""

    namespace: str
    name: str
    state: State
    told: str
    """How it stands, in a word or two."""
    facts: tuple[tuple[str, str], ...] = ()
    parts: tuple[ClusterPart, ...] = ()
    problems: tuple[str, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    """What is said in one place and otherwise in another, each with who says it."""


def worst(states: Iterable[State]) -> State:
    """The state of a whole whose parts are these."""
    order: tuple[State, ...] = ("bad", "warn", "idle", "good")
    return min(states, key=order.index, default="idle")
