"""The judgement of a fleet while it changes: only keys that a change concerns are judged again."""

from collections.abc import Callable, Iterable
from typing import Any

from hanse.model.facts import ClusterState, HeartbeatState, LeaseLiveness
from hanse.model.findings import Finding, judge
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.hanse import ClusterMember, ClusterSet
from hanse.model.objects import Object
from hanse.model.snapshot import Change, FactChange
from hanse.model.view import ALL_KEYS, View


def concerns_all_known_keys(change: Change) -> bool:
    """Whether a change may alter every item: a cluster is lost or back, or the rules of a fleet.

    That are all changes of the facts ClusterState, HeartbeatState and LeaseLiveness, and of objects
    those that change, add or remove the spec of a ClusterSet or the phase of a ClusterMember.
    """
    if isinstance(change, FactChange):
        return isinstance(change.fact, ClusterState | HeartbeatState | LeaseLiveness)
    return _counted(change.before) != _counted(change.after)


def _counted(side: Object | None) -> object:
    """The spec of a ClusterSet, or the phase of a ClusterMember; None for any other object."""
    match side:
        case ClusterSet():
            return side.spec
        case ClusterMember():
            return side.status.phase
        case _:
            return None


class Judgement:
    """The findings of all items of some views, as of the last `refresh`."""

    def __init__(
        self,
        views: Iterable[View],
        take_snapshot: Callable[[], MultiClusterSnapshot],
        on_item: Callable[[str, str, Any | None], None] = lambda *_: None,
    ) -> None:
        """Nothing is judged until the first `refresh`, for which all keys are stale.

        `on_item` is called for each key that is rendered, with the view's name, the key and the
        item, None if it is gone.
        """
        self._views = {view.name: view for view in views}
        self._take_snapshot = take_snapshot
        self._on_item = on_item
        """Gets each item that is rendered, with the names of its view and key."""
        self._known: dict[str, set[str]] = {name: set() for name in self._views}
        self._dirty: dict[str, set[str]] = {name: set() for name in self._views}
        self._by_item: dict[tuple[str, str], tuple[Finding, ...]] = {}
        self._changed = False
        """Whether the findings of an item have changed since all were last judged together."""
        self._unlisted = set(self._views)
        """The views whose keys are to be listed."""
        self.findings: tuple[Finding, ...] = ()
        """What is wrong, causes first, as of the last refresh that left nothing stale."""

    @property
    def snapshot(self) -> MultiClusterSnapshot:
        """A new snapshot, taken now."""
        return self._take_snapshot()

    @property
    def stale(self) -> bool:
        """Whether anything may have changed since it was last judged."""
        return bool(self._unlisted) or any(self._dirty.values())

    def on_change(self, change: Change) -> None:
        """Mark the keys that a change concerns: all known ones if `concerns_all_known_keys`.

        A view that answers `ALL_KEYS` lists its keys anew in the next refresh.
        """
        concerns_all = concerns_all_known_keys(change)
        for name, view in self._views.items():
            keys = set(view.keys_for(change))
            if ALL_KEYS in keys:
                self._unlisted.add(name)
            self._dirty[name] |= keys - {ALL_KEYS}
            if concerns_all:
                self._dirty[name].update(self._known[name])

    def invalidate(self) -> None:
        """Forget which keys changed; the next refresh lists all keys and judges them again."""
        self._unlisted = set(self._views)
        for keys in self._dirty.values():
            keys.clear()

    def refresh(self, limit: int = 200) -> None:
        """Compute the items of at most `limit` marked keys again; call again while `stale`.

        `findings` are judged anew only once nothing is stale.
        """
        snapshot = self._take_snapshot()
        for name in self._unlisted:
            self._dirty[name] |= {*self._known[name], *self._views[name].keys(snapshot)}
        self._unlisted = set()
        for view in self._views.values():
            dirty = self._dirty[view.name]
            while dirty and limit > 0:
                limit -= 1
                self._render(view, dirty.pop(), snapshot)
        if self._changed and not self.stale:
            self._changed = False
            self.findings = judge(f for several in self._by_item.values() for f in several)

    def _render(self, view: View, key: str, snapshot: MultiClusterSnapshot) -> None:
        """Render an item, keep its findings, and pass it to `on_item`, None if it is gone."""
        item = view.render(key, snapshot)
        found = item.findings if item is not None else ()
        if found != self._by_item.get((view.name, key), ()):
            self._changed = True
            self._by_item[view.name, key] = found
            if not found:
                del self._by_item[view.name, key]
        if item is None:
            self._known[view.name].discard(key)
        else:
            self._known[view.name].add(key)
        self._on_item(view.name, key, item)
