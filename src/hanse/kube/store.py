"""The objects of one list-and-watch, indexed: one writer, many readers, newest version wins."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from hanse.model.objects import K, Meta, Object
from hanse.model.snapshot import Index

Name = tuple[str, str]
_NONE: Mapping[str, Any] = {}

LONGEST = 256
"""Characters of what objects may well have in common: a name, a label, a record of ours."""


class StoreChange(Struct, Generic[K], frozen=True):
    """One object before and after; `live` when a watch or a response told it, not a list."""

    before: K | None
    after: K | None
    live: bool = True


class Store(Generic[K]):
    """What is known of one kind under one selector.

    Responses to our own writes enter by `put` and `forget`, so that a plan sees them at once; a
    slower watch or an older list never undoes them. What we deleted stays until the watch tells its
    end, after all that came before: else nothing might seem to be left where others have just come.
    """

    def __init__(self, indexes: Sequence[Index[K]] = ()) -> None:
        self.synced = False
        self.lists = 0
        self.rewinds = 0
        """How often a list was older than what had been seen: the cluster was restored."""
        self.version = 0
        self.unreadable: dict[Name, Unreadable] = {}
        """What is there and cannot be read; its last readable version, if any, is kept."""
        self._namespaces: dict[str, dict[str, K]] = {}
        self.indexes = {index.name: index for index in indexes}
        self._found: dict[tuple[str, str], dict[Name, K]] = {}
        self._forgotten: dict[str, int] = {}
        """Version by uid of what is ours no more to see and the watch may still tell of."""
        self._ending: set[str] = set()
        """Uids of what we deleted and the watch has not told the end of."""

    def __len__(self) -> int:
        return sum(len(objects) for objects in self._namespaces.values())

    def get(self, namespace: str, name: str) -> K | None:
        return self._namespaces.get(namespace, _NONE).get(name)

    def all(self) -> Iterator[K]:
        return chain.from_iterable(objects.values() for objects in self._namespaces.values())

    def in_namespace(self, namespace: str) -> Iterator[K]:
        return iter(self._namespaces.get(namespace, _NONE).values())

    def by(self, index: str, value: str) -> Iterator[K]:
        return iter(self._found.get((index, value), {}).values())

    def unreadable_reason(self, namespace: str, name: str) -> str:
        """Why an object that is there does not fit our shape of its kind; empty where it does."""
        found = self.unreadable.get((namespace, name)) if self.unreadable else None
        return found.reason if found is not None else ""

    def count(self, index: str, value: str) -> int:
        """How many objects an index finds under a value."""
        return len(self._found.get((index, value), ()))

    def take(self, event: WatchEvent[K]) -> Iterable[StoreChange[K]]:
        """Take in what the stream told, and say what changed by it."""
        match event:
            case Listed(objects, resource_version, unreadable):
                self.unreadable = {(u.namespace, u.name): u for u in unreadable}
                return self._replace(objects, resource_version)
            case Applied(obj):
                self.version = max(self.version, object_version(obj))
                return self._take(obj)
            case Deleted(obj):
                self.version = max(self.version, object_version(obj))
                self._forgotten.pop(obj.metadata.uid, None)  # the watch has come as far
                self._ending.discard(obj.metadata.uid)
                return self._remove(obj)
            case Unreadable(namespace, name):
                self.version = max(self.version, parse_version(event.resource_version))
                self.unreadable[(namespace, name)] = event
                return ()
            case DeletedUnreadable(namespace, name, resource_version):
                self.version = max(self.version, parse_version(resource_version))
                return self._vanish((namespace, name))
            case Progress(resource_version):
                self.version = max(self.version, parse_version(resource_version))
                return ()
            case Interrupted() | NotServed():
                return ()
            case _:
                assert_never(event)

    def put(self, obj: K) -> tuple[StoreChange[K], ...]:
        """Keep the answer to a write of ours unless the watch has told more by now.

        An object that is not here although the watch has come past its version is gone again.
        """
        known = self.get(obj.metadata.namespace, obj.metadata.name)
        if known is None and object_version(obj) <= self.version:
            return ()
        return self._take(obj)

    def _take(self, obj: K) -> tuple[StoreChange[K], ...]:
        """Keep an object unless a newer version of it is known already."""
        name = _name_of(obj)
        before = self.get(*name)
        version = object_version(obj)
        if before is not None and object_version(before) >= version:
            return ()
        if self._forgotten and self._forgotten.get(obj.metadata.uid, -1) >= version:
            return ()
        self._set(name, before, obj)
        return (StoreChange(before, obj),)

    def add_indexes(self, indexes: Iterable[Index[K]]) -> None:
        """Let objects be found in these ways too, those that are known already as well."""
        for index in indexes:
            if index.name in self.indexes:
                continue
            self.indexes[index.name] = index
            for obj in self.all():
                for value in index.values(obj):
                    self._found.setdefault((index.name, value), {})[_name_of(obj)] = obj

    def mark_deleting(self, obj: K) -> None:
        """Take in that an object was deleted by us; the watch is about to tell."""
        known = self.get(obj.metadata.namespace, obj.metadata.name)
        if known is not None and known.metadata.uid == obj.metadata.uid:
            self._ending.add(obj.metadata.uid)

    def is_deleting(self, obj: K) -> bool:
        """Whether an object was deleted by us and is only here until the watch tells."""
        return obj.metadata.uid in self._ending

    def forget(self, obj: K) -> tuple[StoreChange[K], ...]:
        """Drop an object that we put out of sight; news from before does not bring it back."""
        removed = self._remove(obj)
        if removed:  # otherwise the watch was faster, or never knew it
            self._forgotten[obj.metadata.uid] = object_version(obj)
        return removed

    def _remove(self, obj: K) -> tuple[StoreChange[K], ...]:
        name = _name_of(obj)
        self.unreadable.pop(name, None)
        before = self.get(*name)
        if before is None or before.metadata.uid != obj.metadata.uid:
            return ()
        self._set(name, before, None)
        return (StoreChange(before, None),)

    def _vanish(self, name: Name) -> tuple[StoreChange[K], ...]:
        self.unreadable.pop(name, None)
        before = self.get(*name)
        if before is None:
            return ()
        self._set(name, before, None)
        return (StoreChange(before, None),)

    def _replace(self, objects: Sequence[K], resource_version: str) -> list[StoreChange[K]]:
        as_of = parse_version(resource_version)
        rewound = as_of < self.version or any(self._regresses(o, as_of) for o in objects)
        self.rewinds += rewound
        self.version = as_of
        listed = {_name_of(o) for o in objects}
        listed.update(self.unreadable)
        missing = [
            known
            for known in self.all()
            if _name_of(known) not in listed and (rewound or object_version(known) <= as_of)
        ]
        for known in missing:
            self._set(_name_of(known), known, None)
        changed = [StoreChange(known, None, live=False) for known in missing]
        for obj in objects:
            changed.extend(self._rewind(obj) if rewound else self._take(obj))
        self._forgotten.clear()
        if rewound:
            self._ending.clear()
        elif self._ending:
            self._ending &= {known.metadata.uid for known in self.all()}
        self.lists += 1
        self.synced = True
        return changed

    def _regresses(self, obj: K, as_of: int) -> bool:
        """Whether a list has another object than it must: a restore may raise the list's version.

        What is known by the answer to our own write may well be newer than the list. A server that
        was restored gives the versions it had given before to other objects.
        """
        known = self.get(obj.metadata.namespace, obj.metadata.name)
        if known is None or object_version(known) > as_of:
            return False
        newer = object_version(known) - object_version(obj)
        return newer > 0 or (newer == 0 and known != obj)

    def _rewind(self, obj: K) -> tuple[StoreChange[K], ...]:
        name = _name_of(obj)
        before = self.get(*name)
        if before == obj:
            return ()
        self._set(name, before, obj)
        return (StoreChange(before, obj, live=False),)

    def _set(self, name: Name, before: K | None, after: K | None) -> None:
        if after is not None:
            intern_metadata(after.metadata)
            name = _name_of(after)
        namespace, short = name
        if self.unreadable and after is not None:
            self.unreadable.pop(name, None)
        if before is not None:
            for found in self._entries(before):
                self._found[found].pop(name, None)
                if not self._found[found]:
                    del self._found[found]
        if after is None:
            siblings = self._namespaces.get(namespace, {})
            siblings.pop(short, None)
            if not siblings:
                self._namespaces.pop(namespace, None)
            return
        self._namespaces.setdefault(namespace, {})[short] = after
        for found in self._entries(after):
            self._found.setdefault(found, {})[name] = after

    def _entries(self, obj: K) -> Iterator[tuple[str, str]]:
        for index in self.indexes.values():
            for value in index.values(obj):
                yield (index.name, value)


def _name_of(obj: Object) -> Name:
    return (obj.metadata.namespace, obj.metadata.name)


def object_version(obj: Any) -> int:
    """The order of an object's versions; Kubernetes lets versions of one cluster be compared."""
    return parse_version(obj.metadata.resource_version)


def parse_version(resource_version: str) -> int:
    """A resourceVersion as a number; anything else sorts first, so that news always replaces it."""
    return int(resource_version) if resource_version.isdecimal() else 0


def intern_metadata(meta: Meta) -> None:
    """Let some metadata have its names, labels and annotations in common with all other.

    A third of what a store holds would be these same words, again and again.
    """
    force_setattr(meta, "name", intern(meta.name))
    force_setattr(meta, "namespace", intern(meta.namespace))
    if meta.labels:
        force_setattr(meta, "labels", {intern(k): intern(v) for k, v in meta.labels.items()})
    if meta.annotations:
        notes = {intern(k): _word(v) for k, v in meta.annotations.items()}
        force_setattr(meta, "annotations", notes)


def _word(text: str) -> str:
    return intern(text) if len(text) <= LONGEST else text
