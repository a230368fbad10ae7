"""The indexed objects of one list-and-watch: one writer, many readers, newest version wins."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from sys import intern
from typing import Any, Generic, assert_never

from msgspec import Struct
from msgspec.structs import force_setattr

from hanse.kube.watch_events import (
    Applied,
    Deleted,
    DeletedUnreadable,
    Interrupted,
    Listed,
    NotServed,
    Progress,
    Unreadable,
    WatchEvent,
)
from hanse.model.objects import K, Meta, Object, SharedLabels
from hanse.model.snapshot import Index

Name = tuple[str, str]
_NONE: Mapping[str, Any] = {}

MAX_INTERNED_LENGTH = 256
"""The longest annotation value that is interned."""


class StoreChange(Struct, Generic[K], frozen=True):
    """One object before and after; `live` if a watch or a response reported it, not a list."""

    before: K | None
    after: K | None
    live: bool = True


class Store(Generic[K]):
    """The cached objects of one kind under one selector.

    Responses to our own writes enter by `put` and `forget`, so that a plan sees them at once; a
    slower watch or an older list never undoes them. An object that we deleted stays until the
    watch reports its deletion, after all earlier events.
    """

    def __init__(self, indexes: Sequence[Index[K]] = ()) -> None:
        """An empty store that is not synced until the first list; `indexes` are kept for `by`."""
        self.synced = False
        self.lists = 0
        self.rewinds = 0
        """How often a list was older than an observed version: the cluster was restored."""
        self.version = 0
        self.unreadable: dict[Name, Unreadable] = {}
        """Objects that cannot be decoded; the last version that could be, if any, is kept."""
        self._namespaces: dict[str, dict[str, K]] = {}
        self.indexes = {index.name: index for index in indexes}
        self._by_index: dict[str, dict[str, K | dict[Name, K]]] = {}
        """By the name of the index and the value: most have one object, which needs no dict."""
        self._forgotten_versions: dict[str, int] = {}
        """Version by uid of forgotten objects that the watch may still report."""
        self._deleting: set[str] = set()
        """Uids of objects that we deleted and whose deletion the watch has not reported."""

    def __len__(self) -> int:
        """The number of stored objects."""
        return sum(len(objects) for objects in self._namespaces.values())

    def get(self, namespace: str, name: str) -> K | None:
        """The object of that name as last observed; None if there is none."""
        return self._namespaces.get(namespace, _NONE).get(name)

    def all(self) -> Iterator[K]:
        """All stored objects, lazily, grouped by namespace."""
        return chain.from_iterable(objects.values() for objects in self._namespaces.values())

    def in_namespace(self, namespace: str) -> Iterator[K]:
        """The stored objects with exactly this namespace; with an empty one those in none."""
        return iter(self._namespaces.get(namespace, _NONE).values())

    def by(self, index: str, value: str) -> Iterator[K]:
        """The objects under a value of an index; none if there is no such index."""
        return iter(_all_held(self._by_index.get(index, _NONE).get(value)))

    def unreadable_reason(self, namespace: str, name: str) -> str:
        """Why an object cannot be decoded as its kind; empty where it can, or is not known."""
        entry = self.unreadable.get((namespace, name)) if self.unreadable else None
        return entry.reason if entry is not None else ""

    def count(self, index: str, value: str) -> int:
        """The number of objects under an index value; 0 if there is no such index."""
        return len(_all_held(self._by_index.get(index, _NONE).get(value)))

    def apply_event(self, event: WatchEvent[K]) -> Iterable[StoreChange[K]]:
        """Apply an event of the watch and return the changes it makes, () if none.

        A version that is not newer than the stored one changes nothing, unless a list shows that
        the server was restored. The last version stays of an object that cannot be decoded, and all
        objects stay after `Interrupted` and `NotServed`.
        """
        match event:
            case Listed(objects, resource_version, unreadable, restored):
                self.unreadable = {(u.namespace, u.name): u for u in unreadable}
                return self._replace(objects, resource_version, restored)
            case Applied(obj):
                self.version = max(self.version, object_version(obj))
                return self._store_newer(obj)
            case Deleted(obj):
                self.version = max(self.version, object_version(obj))
                self._forgotten_versions.pop(obj.metadata.uid, None)  # the watch has caught up
                self._deleting.discard(obj.metadata.uid)
                return self._remove(obj)
            case Unreadable(namespace, name):
                self.version = max(self.version, parse_version(event.resource_version))
                self.unreadable[(namespace, name)] = event
                return ()
            case DeletedUnreadable(namespace, name, resource_version):
                self.version = max(self.version, parse_version(resource_version))
                return self._remove_by_name((namespace, name))
            case Progress(resource_version):
                self.version = max(self.version, parse_version(resource_version))
                return ()
            case Interrupted() | NotServed():
                return ()
            case _:
                assert_never(event)

    def put(self, obj: K) -> tuple[StoreChange[K], ...]:
        """Store the response to our own write, unless the same or a newer version is stored.

        Returns the change, or () if nothing was stored: an object that is absent although the watch
        is past its version was deleted again.
        """
        known = self.get(obj.metadata.namespace, obj.metadata.name)
        if known is None and object_version(obj) <= self.version:
            return ()
        return self._store_newer(obj)

    def _store_newer(self, obj: K) -> tuple[StoreChange[K], ...]:
        """Store an object and return the change.

        Empty if this or a newer version is stored or was forgotten.
        """
        name = _object_name(obj)
        before = self.get(*name)
        version = object_version(obj)
        if before is not None and object_version(before) >= version:
            return ()
        if (
            self._forgotten_versions
            and self._forgotten_versions.get(obj.metadata.uid, -1) >= version
        ):
            return ()
        self._set_object(name, before, obj)
        return (StoreChange(before, obj),)

    def add_indexes(self, indexes: Iterable[Index[K]]) -> None:
        """Add indexes, over the stored objects too; those whose name is known are skipped."""
        for index in indexes:
            if index.name in self.indexes:
                continue
            self.indexes[index.name] = index
            for obj in self.all():
                for value in index.values(obj):
                    self._index(index.name, value, obj)

    def mark_deleting(self, obj: K) -> None:
        """Mark an object, which stays stored, as deleted by us until the watch reports that.

        Nothing if it is not stored, or another object has its name.
        """
        known = self.get(obj.metadata.namespace, obj.metadata.name)
        if known is not None and known.metadata.uid == obj.metadata.uid:
            self._deleting.add(obj.metadata.uid)

    def is_deleting(self, obj: K) -> bool:
        """Whether `mark_deleting` marked an object, and the watch has not reported its deletion."""
        return obj.metadata.uid in self._deleting

    def forget(self, obj: K) -> tuple[StoreChange[K], ...]:
        """Remove an object that left our selector; older events do not bring it back.

        Returns the change; empty, without effect, if it is not stored.
        """
        removed = self._remove(obj)
        if removed:  # else the watch was faster, or never had it
            self._forgotten_versions[obj.metadata.uid] = object_version(obj)
        return removed

    def _remove(self, obj: K) -> tuple[StoreChange[K], ...]:
        """Remove an object, unless another of its name has replaced it; returns the change.

        Its name no longer counts as unreadable in any case.
        """
        name = _object_name(obj)
        self.unreadable.pop(name, None)
        before = self.get(*name)
        if before is None or before.metadata.uid != obj.metadata.uid:
            return ()
        self._set_object(name, before, None)
        return (StoreChange(before, None),)

    def _remove_by_name(self, name: Name) -> tuple[StoreChange[K], ...]:
        """Remove an object by name, also from the unreadable ones.

        Returns its change, if it was there.
        """
        self.unreadable.pop(name, None)
        before = self.get(*name)
        if before is None:
            return ()
        self._set_object(name, before, None)
        return (StoreChange(before, None),)

    def _replace(
        self, objects: Sequence[K], resource_version: str, restored: bool
    ) -> list[StoreChange[K]]:
        """Replace the content with a full list and return the changes; marks the store as synced.

        Objects that it has as unreadable stay; so do newer ones, unless it is of another history,
        which `rewinds` counts: if it is `restored` or older than the store, has an object older
        than the stored one, or lacks one that was written at its own version. Deletions come first;
        they, and all changes by another history, are not `live`.
        """
        as_of = parse_version(resource_version)
        listed = {_object_name(o) for o in objects}
        listed.update(self.unreadable)
        unlisted = [known for known in self.all() if _object_name(known) not in listed]
        rewound = (
            restored
            or as_of < self.version
            or any(self._is_older(o, as_of) for o in objects)
            or any(object_version(known) == as_of for known in unlisted)
        )
        self.rewinds += rewound
        self.version = as_of
        missing = [known for known in unlisted if rewound or object_version(known) <= as_of]
        for known in missing:
            self._set_object(_object_name(known), known, None)
        changed = [StoreChange(known, None, live=False) for known in missing]
        for obj in objects:
            changed.extend(self._rewind(obj) if rewound else self._store_newer(obj))
        self._forgotten_versions.clear()
        if rewound:
            self._deleting.clear()
        elif self._deleting:
            self._deleting &= {known.metadata.uid for known in self.all()}
        self.lists += 1
        self.synced = True
        return changed

    def _is_older(self, obj: K, as_of: int) -> bool:
        """Whether a listed object is older than the stored one, so that the cluster was restored.

        Also if both have the same version and differ. False if the stored one is newer than version
        `as_of` of the list, as the response to our own write may be.
        """
        known = self.get(obj.metadata.namespace, obj.metadata.name)
        if known is None or object_version(known) > as_of:
            return False
        newer = object_version(known) - object_version(obj)
        return newer > 0 or (newer == 0 and known != obj)

    def _rewind(self, obj: K) -> tuple[StoreChange[K], ...]:
        """Store an object of a rewound server, whatever its version; the change is not live.

        Empty if it is the same.
        """
        name = _object_name(obj)
        before = self.get(*name)
        if before == obj:
            return ()
        self._set_object(name, before, obj)
        return (StoreChange(before, obj, live=False),)

    def _set_object(self, name: Name, before: K | None, after: K | None) -> None:
        """Replace `before` by `after` in the store and its indexes; None is an absent object.

        A new object has its metadata interned, and its name no longer counts as unreadable.
        """
        if after is not None:
            intern_metadata(after.metadata)
            name = _object_name(after)
        namespace, object_name = name
        if self.unreadable and after is not None:
            self.unreadable.pop(name, None)
        if before is not None:
            for index, value in self._index_entries(before):
                self._unindex(index, value, name)
        if after is None:
            siblings = self._namespaces.get(namespace, {})
            siblings.pop(object_name, None)
            if not siblings:
                self._namespaces.pop(namespace, None)
            return
        self._namespaces.setdefault(namespace, {})[object_name] = after
        for index, value in self._index_entries(after):
            self._index(index, value, after)

    def _index(self, index: str, value: str, obj: K) -> None:
        """Add an object to an index, in the place of one of its name."""
        values = self._by_index.setdefault(index, {})
        held, name = values.get(value), _object_name(obj)
        if isinstance(held, dict):
            held[name] = obj
        elif held is None or _object_name(held) == name:
            values[value] = obj
        else:
            values[value] = {_object_name(held): held, name: obj}

    def _unindex(self, index: str, value: str, name: Name) -> None:
        """Remove an object, by name, from an index under a value; nothing if it is not there."""
        values = self._by_index.get(index, {})
        held = values.get(value)
        if isinstance(held, dict):
            held.pop(name, None)
        if not held or (not isinstance(held, dict) and _object_name(held) == name):
            values.pop(value, None)

    def _index_entries(self, obj: K) -> Iterator[tuple[str, str]]:
        """The (index name, value) pairs under which the indexes have an object."""
        for index in self.indexes.values():
            for value in index.values(obj):
                yield (index.name, value)


def _all_held(held: K | dict[Name, K] | None) -> Collection[K]:
    """The objects in an index entry, which is one object, several by name, or None for none."""
    if held is None:
        return ()
    return held.values() if isinstance(held, dict) else (held,)


def _object_name(obj: Object) -> Name:
    """The namespace and name of an object."""
    return (obj.metadata.namespace, obj.metadata.name)


def object_version(obj: Any) -> int:
    """The resourceVersion of an object as a number; those of one cluster are ordered."""
    return parse_version(obj.metadata.resource_version)


def parse_version(resource_version: str) -> int:
    """A resourceVersion as a number; any other text is 0, so that every version replaces it."""
    return int(resource_version) if resource_version.isdecimal() else 0


def intern_metadata(meta: Meta) -> None:
    """Intern names, labels and annotations of metadata in place, which saves memory.

    Not annotation values longer than MAX_INTERNED_LENGTH, and `SharedLabels`, which are already.
    """
    force_setattr(meta, "name", intern(meta.name))
    force_setattr(meta, "namespace", intern(meta.namespace))
    if meta.labels and not isinstance(meta.labels, SharedLabels):
        force_setattr(meta, "labels", {intern(k): intern(v) for k, v in meta.labels.items()})
    if meta.annotations:
        notes = {intern(k): _intern_short(v) for k, v in meta.annotations.items()}
        force_setattr(meta, "annotations", notes)


def _intern_short(text: str) -> str:
    """The text, interned if it has at most MAX_INTERNED_LENGTH characters."""
    return intern(text) if len(text) <= MAX_INTERNED_LENGTH else text
