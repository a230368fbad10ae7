"""Objects that agents would write and a person paused, of whatever kind."""

from collections.abc import Iterable

from hanse.model.facts import PausedObject
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.paused_objects import pause_finding
from hanse.model.snapshot import Change, FactChange, Watch
from hanse.model.view import Item


class PausedObjectsView:
    """The clusters with objects that agents find paused."""

    name = "paused-objects"
    reads: tuple[Watch, ...] = ()

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """The clusters of paused objects."""
        return {
            one.target.where
            for own in snapshot.by_agent.values()
            for one in own.facts(PausedObject)
        }

    def keys_for(self, change: Change) -> Iterable[str]:
        """The cluster of an object that was paused or resumed."""
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
