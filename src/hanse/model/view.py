"""The contract of a feature's view: items by key, each a pure function of the fleet's snapshots."""

from collections.abc import Iterable
from typing import Any, Literal, Protocol

from msgspec import Struct

from hanse.model.findings import Finding, Severity, worst_severity
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.snapshot import Change, Watch

State = Literal["good", "warn", "bad", "idle"]


ALL_KEYS = "*"
"""Yielded by `View.keys_for`: a change may concern any key, also one that has no item yet."""


class Part(Struct, frozen=True, rename="camel", kw_only=True):
    """A part of what is shown, as the page gets it."""


class Item(Part, frozen=True, kw_only=True):
    """One thing that is shown, and what is wrong with it."""

    findings: tuple[Finding, ...] = ()


class View(Protocol):
    """What is shown of a feature: which keys a change concerns, and the item of a key."""

    @property
    def name(self) -> str: ...

    @property
    def reads(self) -> tuple[Watch, ...]:
        """The kinds that items are made of; a kind that is not in a snapshot is not judged."""
        ...

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """Every key that has an item now."""
        ...

    def keys_for(self, change: Change) -> Iterable[str]:
        """The keys whose item a change may have changed; `ALL_KEYS` for any."""
        ...

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> Any | None:
        """The item of a key; None where there is none."""
        ...


class ClusterPart(Part, frozen=True, kw_only=True):
    """One cluster's part of a feature item."""

    cluster: str
    state: State
    text: str = ""
    share: int = 0
    """Its percentage of the traffic or of the replicas, where they are shared."""
    ready: int = 0
    """How many of `all` are ready, up or in use, where something is counted."""
    all: int = 0


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


def state_of(findings: Iterable[Finding], otherwise: State = "good") -> State:
    """`bad` for an outage, `warn` for degraded or risk, by the worst finding; else `otherwise`."""
    match worst_severity(findings):
        case Severity.OUTAGE:
            return "bad"
        case Severity.DEGRADED | Severity.RISK:
            return "warn"
        case _:
            return otherwise


def worst(states: Iterable[State]) -> State:
    """The first of `bad`, `warn`, `idle` and `good` that occurs; `idle` without states."""
    order: tuple[State, ...] = ("bad", "warn", "idle", "good")
    return min(states, key=order.index, default="idle")
