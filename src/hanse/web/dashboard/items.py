"""All that the page shows, kept current by what changed: only woken keys are looked at again."""

from collections.abc import Callable, Iterable

import msgspec
from msgspec import Struct

from hanse.model.snapshot import Change
from hanse.web.dashboard.section import Section
from hanse.web.dashboard.snapshot import Sights

_encode = msgspec.json.Encoder().encode


class News(Struct, frozen=True):
    """What is shown otherwise than before: items by section and key, and keys that are gone."""

    put: dict[str, dict[str, msgspec.Raw]]
    gone: dict[str, tuple[str, ...]]

    def __bool__(self) -> bool:
        return bool(self.put or self.gone)


class Board:
    """The items of all sections as they were last told."""

    def __init__(self, sections: Iterable[Section], sights: Callable[[], Sights]) -> None:
        self._sections = {section.name: section for section in sections}
        self._sights = sights
        self._items: dict[str, dict[str, bytes]] = {name: {} for name in self._sections}
        self._woken: dict[str, set[str]] = {name: set() for name in self._sections}
        self._unread = True

    @property
    def sights(self) -> Sights:
        """What is seen now."""
        return self._sights()

    @property
    def stale(self) -> bool:
        """Whether anything may have changed since it was last told."""
        return self._unread or any(self._woken.values())

    def on_change(self, change: Change) -> None:
        """Take in that something changed before an agent's eyes."""
        for name, section in self._sections.items():
            self._woken[name].update(section.keys_for(change))

    def forget(self) -> None:
        """Nobody looks: what changes meanwhile is not followed, and all is read anew later."""
        self._unread = True
        for woken in self._woken.values():
            woken.clear()

    def whole(self) -> News:
        """Everything as it was last told."""
        put = {n: {k: msgspec.Raw(i) for k, i in items.items()} for n, items in self._items.items()}
        return News(put, {})

    def news(self, most: int = 200) -> News:
        """Look again at some of what was woken, and tell what is shown otherwise now."""
        sights = self._sights()
        if self._unread:
            self._unread = False
            for name, section in self._sections.items():
                self._woken[name] |= {*self._items[name], *section.keys(sights)}
        put: dict[str, dict[str, msgspec.Raw]] = {}
        gone: dict[str, tuple[str, ...]] = {}
        for name, section in self._sections.items():
            woken = self._woken[name]
            while woken and most > 0:
                most -= 1
                self._look(section, woken.pop(), sights, put, gone)
        return News(put, gone)

    def _look(
        self,
        section: Section,
        key: str,
        sights: Sights,
        put: dict[str, dict[str, msgspec.Raw]],
        gone: dict[str, tuple[str, ...]],
    ) -> None:
        known = self._items[section.name]
        shown = section.show(key, sights)
        if shown is None:
            if known.pop(key, None) is not None:
                gone[section.name] = (*gone.get(section.name, ()), key)
            return
        item = _encode(shown)
        if known.get(key) != item:
            known[key] = item
            put.setdefault(section.name, {})[key] = msgspec.Raw(item)
