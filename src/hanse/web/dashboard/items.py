"""The items that the page shows, cached; only keys that a change concerns are rendered again."""

from collections.abc import Callable, Iterable

import msgspec
from msgspec import Struct

from hanse.model.facts import ClusterState, LeaseLiveness
from hanse.model.findings import Finding, judge
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.snapshot import Change, FactChange
from hanse.model.view import View

FINDINGS = "findings"
"""The section of judged findings, beside those of the views."""

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
        self, sections: Iterable[View], take_snapshot: Callable[[], MultiClusterSnapshot]
    ) -> None:
        self._sections = {section.name: section for section in sections}
        self._take_snapshot = take_snapshot
        self._items: dict[str, dict[str, bytes]] = {name: {} for name in self._sections}
        self._items[FINDINGS] = {}
        self._dirty: dict[str, set[str]] = {name: set() for name in self._sections}
        self._findings: dict[tuple[str, str], tuple[Finding, ...]] = {}
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
        """Mark the keys that a change concerns; a cluster that is lost or back concerns all."""
        concerns_all = isinstance(change, FactChange) and isinstance(
            change.fact, ClusterState | LeaseLiveness
        )
        for name, section in self._sections.items():
            self._dirty[name].update(section.keys_for(change))
            if concerns_all:
                self._dirty[name].update(self._items[name])

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
        if not self.stale:
            self._refresh_findings(put, gone)
        return ItemChanges(put, gone)

    def _refresh_findings(
        self, put: dict[str, dict[str, msgspec.Raw]], gone: dict[str, tuple[str, ...]]
    ) -> None:
        """Judge the findings of all items, and record which changed or are gone."""
        known = self._items[FINDINGS]
        judged = judge(f for several in self._findings.values() for f in several)
        current = {finding_key(one): _encode(one) for one in judged}
        changed = {key: msgspec.Raw(v) for key, v in current.items() if known.get(key) != v}
        if changed:
            put[FINDINGS] = changed
        if ended := tuple(key for key in known if key not in current):
            gone[FINDINGS] = ended
        self._items[FINDINGS] = current

    def _refresh_item(
        self,
        section: View,
        key: str,
        snapshot: MultiClusterSnapshot,
        put: dict[str, dict[str, msgspec.Raw]],
        gone: dict[str, tuple[str, ...]],
    ) -> None:
        """Render one key, and record whether its item changed or is gone."""
        known = self._items[section.name]
        rendered = section.render(key, snapshot)
        if rendered is not None and rendered.findings:
            self._findings[section.name, key] = rendered.findings
        else:
            self._findings.pop((section.name, key), None)
        if rendered is None:
            if known.pop(key, None) is not None:
                gone[section.name] = (*gone.get(section.name, ()), key)
            return
        item = _encode(rendered)
        if known.get(key) != item:
            known[key] = item
            put.setdefault(section.name, {})[key] = msgspec.Raw(item)


def finding_key(finding: Finding) -> str:
    """The key of a finding among all: its code and subject."""
    subject = finding.subject
    parts = (finding.code, subject.kind, subject.cluster, subject.namespace, subject.name)
    return "/".join(parts)
