"""All that the page shows, kept current by what changed: only woken keys are looked at again."""

from collections.abc import Callable, Iterable

import msgspec
from msgspec import Struct

from hanse.model.snapshot import Change
from hanse.web.dashboard.section import Section
from hanse.web.dashboard.snapshot import MultiClusterSnapshot

_encode = msgspec.json.Encoder().encode


class ItemChanges(Struct, frozen=True):
    """What is shown otherwise than before: items by section and key, and keys that are gone."""

    put: dict[str, dict[str, msgspec.Raw]]
    gone: dict[str, tuple[str, ...]]

    def __bool__(self) -> bool:
        return bool(self.put or self.gone)


class ItemCache:
    """The items of all sections as they were last told."""

    def __init__(
        self, sections: Iterable[Section], snapshot: Callable[[], MultiClusterSnapshot]
    ) -> None:
        self._sections = {section.name: section for section in sections}
        self._take_snapshot = snapshot
        self._items: dict[str, dict[str, bytes]] = {name: {} for name in self._sections}
        self._dirty: dict[str, set[str]] = {name: set() for name in self._sections}
        self._unlisted = True

    @property
    def snapshot(self) -> MultiClusterSnapshot:
        """What is seen now."""
        return self._take_snapshot()

    @property
    def stale(self) -> bool:
        """Whether anything may have changed since it was last told."""
        return self._unlisted or any(self._dirty.values())

    def on_change(self, change: Change) -> None:
        """Take in that something changed before an agent's eyes."""
        for name, section in self._sections.items():
            self._dirty[name].update(section.keys_for(change))

    def invalidate(self) -> None:
        """Nobody looks: what changes meanwhile is not followed, and all is read anew later."""
        self._unlisted = True
        for dirty in self._dirty.values():
            dirty.clear()

    def whole(self) -> ItemChanges:
        """Everything as it was last told."""
        put = {n: {k: msgspec.Raw(i) for k, i in items.items()} for n, items in self._items.items()}
        return ItemChanges(put, {})

    def news(self, most: int = 200) -> ItemChanges:
        """Look again at some of what was woken, and tell what is shown otherwise now."""
        snapshot = self._take_snapshot()
        if self._unlisted:
            self._unlisted = False
            for name, section in self._sections.items():
                self._dirty[name] |= {*self._items[name], *section.keys(snapshot)}
        put: dict[str, dict[str, msgspec.Raw]] = {}
        gone: dict[str, tuple[str, ...]] = {}
        for name, section in self._sections.items():
            dirty = self._dirty[name]
            while dirty and most > 0:
                most -= 1
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
        known = self._items[section.name]
        shown = section.render(key, snapshot)
        if shown is None:
            if known.pop(key, None) is not None:
                gone[section.name] = (*gone.get(section.name, ()), key)
            return
        item = _encode(shown)
        if known.get(key) != item:
            known[key] = item
            put.setdefault(section.name, {})[key] = msgspec.Raw(item)
