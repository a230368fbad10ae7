"""The items that the page shows, cached as they were last sent."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

from hanse.model.findings import Finding
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.judgement import Judgement
from hanse.model.snapshot import Change
from hanse.model.view import View

FINDINGS = "findings"
"""The section of judged findings, beside those of the views."""

_encode = msgspec.json.Encoder().encode


class ItemChanges(Struct, frozen=True):
    """Changed items by section and key, and keys that are gone."""

    put: dict[str, dict[str, msgspec.Raw]]
    gone: dict[str, tuple[str, ...]]

    def __bool__(self) -> bool:
        """Whether any item changed or is gone."""
        return bool(self.put or self.gone)


class ItemCache:
    """The items of all sections as they were last sent."""

    def __init__(
        self, sections: Iterable[View], take_snapshot: Callable[[], MultiClusterSnapshot]
    ) -> None:
        """Nothing is rendered until the first `refresh`; each view is a section of the page."""
        sections = tuple(sections)
        self._judgement = Judgement(sections, take_snapshot, self._on_item)
        self._items: dict[str, dict[str, bytes]] = {section.name: {} for section in sections}
        self._items[FINDINGS] = {}
        self._put: dict[str, dict[str, msgspec.Raw]] = {}
        self._gone: dict[str, tuple[str, ...]] = {}

    @property
    def snapshot(self) -> MultiClusterSnapshot:
        """New snapshots of all clusters, taken now."""
        return self._judgement.snapshot

    @property
    def stale(self) -> bool:
        """Whether anything may have changed since it was last sent."""
        return self._judgement.stale

    def on_change(self, change: Change) -> None:
        """Mark the keys that a change concerns, for `refresh`."""
        self._judgement.on_change(change)

    def invalidate(self) -> None:
        """Mark everything to be listed and rendered anew, in place of single marked keys."""
        self._judgement.invalidate()

    def all_items(self) -> ItemChanges:
        """All items as they were last rendered, which may be stale; `gone` is empty."""
        put = {n: {k: msgspec.Raw(i) for k, i in items.items()} for n, items in self._items.items()}
        return ItemChanges(put, {})

    def refresh(self, limit: int = 200) -> ItemChanges:
        """Render at most `limit` of the marked keys again; returns what changed.

        Call again while `stale`; findings follow in the call after which nothing is stale.
        """
        self._put, self._gone = {}, {}
        self._judgement.refresh(limit)
        if not self.stale:
            self._refresh_findings()
        return ItemChanges(self._put, self._gone)

    def _refresh_findings(self) -> None:
        """Replace the cached findings by those judged last, and record what changed or is gone."""
        current = {finding_key(one): one for one in self._judgement.findings}
        for key in [key for key in self._items[FINDINGS] if key not in current]:
            self._on_item(FINDINGS, key, None)
        for key, one in current.items():
            self._on_item(FINDINGS, key, one)

    def _on_item(self, section: str, key: str, item: Any | None) -> None:
        """Cache an item, and record it for `refresh` if it changed; None removes it, as gone."""
        known = self._items[section]
        if item is None:
            if known.pop(key, None) is not None:
                self._gone[section] = (*self._gone.get(section, ()), key)
            return
        encoded = _encode(item)
        if known.get(key) != encoded:
            known[key] = encoded
            self._put.setdefault(section, {})[key] = msgspec.Raw(encoded)


def finding_key(finding: Finding) -> str:
    """The key of a finding among all, as CODE/KIND/CLUSTER/NAMESPACE/NAME of its subject."""
    subject = finding.subject
    parts = (finding.code, subject.kind, subject.cluster, subject.namespace, subject.name)
    return "/".join(parts)
