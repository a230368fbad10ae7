"""The contract of a dashboard section: items by key, each a pure function of a snapshot."""

from collections.abc import Iterable
from typing import Any, Literal, Protocol

from msgspec import Struct

from hanse.model.snapshot import Change
from hanse.web.dashboard.snapshot import MultiClusterSnapshot

State = Literal["good", "warn", "bad", "idle"]


class Item(Struct, frozen=True, rename="camel", kw_only=True):
    """One item of a section as the page gets it."""


class Section(Protocol):
    """A part of the page: which keys a change concerns, and the item of a key."""

    @property
    def name(self) -> str: ...

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """Every key that has an item now."""
        ...

    def keys_for(self, change: Change) -> Iterable[str]:
        """The keys whose item a change may have changed."""
        ...

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> Any | None:
        """The item of a key; None where there is none."""
        ...


class ClusterPart(Item, frozen=True, kw_only=True):
    """One cluster's part of a feature item."""

    cluster: str
    state: State
    text: str = ""
    share: int = 0
    """Its percentage of the traffic or of the replicas, where they are shared."""


class FeatureItem(Item, frozen=True, kw_only=True):
    """An object that spans clusters: its state as a whole and in each cluster."""

    namespace: str
    name: str
    state: State
    told: str
    """The state in a word or two."""
    facts: tuple[tuple[str, str], ...] = ()
    parts: tuple[ClusterPart, ...] = ()
    problems: tuple[str, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    """Conflicting versions, each with the cluster that has it."""


def worst(states: Iterable[State]) -> State:
    """The worst of several states."""
    order: tuple[State, ...] = ("bad", "warn", "idle", "good")
    return min(states, key=order.index, default="idle")
