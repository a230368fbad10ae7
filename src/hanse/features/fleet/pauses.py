"""What agents leave alone: objects that a person paused, and deletions of too much at once."""

from collections.abc import Iterable

from hanse.model.facts import DeletionsHeld, PausedObject
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.held_deletions import held_finding
from hanse.model.paused_objects import pause_finding
from hanse.model.snapshot import Change, FactChange, Watch
from hanse.model.view import Item


class PausedObjectsView:
    """The clusters with objects that agents find paused."""

    name = "paused-objects"
    reads: tuple[Watch, ...] = ()

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """The clusters of paused objects that any agent knows."""
        return {
            one.target.where
            for own in snapshot.by_agent.values()
            for one in own.facts(PausedObject)
        }

    def keys_for(self, change: Change) -> Iterable[str]:
        """The cluster of an object that was paused or resumed; nothing for other changes."""
        fact = change.fact if isinstance(change, FactChange) else None
        return (fact.target.where,) if isinstance(fact, PausedObject) else ()

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> Item | None:
        """The findings of a cluster; None if nothing is paused there."""
        places = {
            one.target
            for own in snapshot.by_agent.values()
            for one in own.facts(PausedObject)
            if one.target.where == key
        }
        found = tuple(pause_finding(place, snapshot) for place in sorted(places))
        return Item(findings=found) if found else None


class HeldDeletionsView:
    """The clusters in which agents hold deletions."""

    name = "held-deletions"
    reads: tuple[Watch, ...] = ()

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """The clusters in which any agent holds deletions."""
        return {o.where for own in snapshot.by_agent.values() for o in own.facts(DeletionsHeld)}

    def keys_for(self, change: Change) -> Iterable[str]:
        """The cluster in which a hold began or ended; nothing for other changes."""
        fact = change.fact if isinstance(change, FactChange) else None
        return (fact.where,) if isinstance(fact, DeletionsHeld) else ()

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> Item | None:
        """The findings of a cluster, one per agent and feature; None if nothing is held there."""
        found = tuple(
            held_finding(agent, one, snapshot)
            for agent, own in snapshot.by_agent.items()
            for one in own.facts(DeletionsHeld)
            if one.where == key
        )
        return Item(findings=found) if found else None
