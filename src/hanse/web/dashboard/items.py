"""The items that the page shows, cached; only keys that a change concerns are rendered again."""

from collections.abc import Callable, Iterable

import msgspec
from msgspec import Struct

from hanse.model.snapshot import Change
from hanse.web.dashboard.section import Section
from hanse.web.dashboard.snapshot import MultiClusterSnapshot

_encode = msgspec.json.Encoder().encode


class ItemChanges(Struct, frozen=True):
    """Changed items by section and key, and keys that are gone."""

    put: dict[str, dict[str, msgspec.Raw]]
    gone: dict[str, tuple[str, ...]]

    def __bool__(self) -> bool:
        return bool(self.put or self.gone)


class ItemCache:
    """The items of all sections as they were last sent."""

    def __init__(
        self, sections: Iterable[Section], take_snapshot: Callable[[], MultiClusterSnapshot]
    ) -> None:
        self._sections = {section.name: section for section in sections}
        self._take_snapshot = take_snapshot
        self._items: dict[str, dict[str, bytes]] = {name: {} for name in self._sections}
        self._dirty: dict[str, set[str]] = {name: set() for name in self._sections}
        self._unlisted = True

    @property
    def snapshot(self) -> MultiClusterSnapshot:
        """The current snapshot."""
        return self._take_snapshot()

    @property
    def stale(self) -> bool:
        """Whether anything may have changed since it was last sent."""
        return self._unlisted or any(self._dirty.values())

    def on_change(self, change: Change) -> None:
        """Mark the keys that a change concerns."""
        for name, section in self._sections.items():
            self._dirty[name].update(section.keys_for(change))

    def invalidate(self) -> None:
        """Stop following changes, as nobody is subscribed; everything is rendered again later."""
        self._unlisted = True
        for keys in self._dirty.values():
            keys.clear()

    def all_items(self) -> ItemChanges:
        """All items as they were last sent."""
        put = {n: {k: msgspec.Raw(i) for k, i in items.items()} for n, items in self._items.items()}
        return ItemChanges(put, {})

    def refresh(self, limit: int = 200) -> ItemChanges:
        """Render at most `limit` of the marked keys again; returns what changed.

        Call again while `stale`.
        """
        snapshot = self._take_snapshot()
        if self._unlisted:
            self._unlisted = False
            for name, section in self._sections.items():
                self._dirty[name] |= {*self._items[name], *section.keys(snapshot)}
        put: dict[str, dict[str, msgspec.Raw]] = {}
        gone: dict[str, tuple[str, ...]] = {}
        for name, section in self._sections.items():
            dirty = self._dirty[name]
            while dirty and limit > 0:
                limit -= 1
                self._refresh_item(section, dirty.pop(), snapshot, put, gone)
        return ItemChanges(put, gone)

    def _refresh_item(
        self,
        section: Section,
        key: str,
        snapshot: MultiClusterSnapshot,
        put: dict[str, dict[str, msgspec.Raw]],
        gone: dict[str, tuple[str, ...]],
    ) -> None:
        """Render one key, and record whether its item changed or is gone."""
        known = self._items[section.name]
        rendered = section.render(key, snapshot)
        if rendered is None:
            if known.pop(key, None) is not None:
                gone[section.name] = (*gone.get(section.name, ()), key)
            return
        item = _encode(rendered)
        if known.get(key) != item:
            known[key] = item
            put.setdefault(section.name, {})[key] = msgspec.Raw(item)
