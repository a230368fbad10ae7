"""The objects of one cluster with their versions and history, in memory; synchronous, no I/O.

Every write increments one version for the whole cluster, like etcd's revision. Stored objects are
replaced, never modified, so readers may keep references to them.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct

from tinykube.resources import Object

Name = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""


class Change(Struct, frozen=True):
    """One write: the object after it (for a deletion: its last state) and the one before."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    store: str
    version: int
    object: Object
    before: Object | None = None


class Restored(Struct, frozen=True):
    """Everything was replaced by a snapshot; listeners must read again."""

    version: int


StorageEvent = Change | Restored
Listener = Callable[[StorageEvent], None]


class Snapshot(Struct, frozen=True):
    """All objects at one version, by store."""

    version: int
    objects: dict[str, list[Object]]


class StorageError(Exception):
    """A write or a read that the current state does not allow.

    KeyExists    a create found an object of that name
    KeyNotFound  there is no such object
    Compacted    the requested version is no longer in the history
    """


class KeyExists(StorageError):
    """A create found an object of that name."""


class KeyNotFound(StorageError):
    """There is no such object."""


class Compacted(StorageError):
    """The requested version is older than the history; `oldest` is the first still there."""

    def __init__(self, requested: int, oldest: int) -> None:
        """Keeps both versions, from which an API server builds its own message."""
        super().__init__(f"version {requested} is older than {oldest}")
        self.requested = requested
        self.oldest = oldest


class _Bucket:
    """The objects of one store by namespace, and its history of changes."""

    __slots__ = ("changes", "floor", "listeners", "namespaces")

    def __init__(self, floor: int) -> None:
        """An empty bucket; changes up to version `floor` are not in its history."""
        self.namespaces: dict[str, dict[str, Object]] = {}
        self.changes: deque[Change] = deque()
        self.floor = floor
        self.listeners: tuple[Listener, ...] = ()


class Storage:
    """One cluster's objects; `history` bounds the changes kept for each store.

    A `mirror` holds the objects of another server and leaves them their resourceVersions.
    """

    def __init__(self, *, history: int = 4096, mirror: bool = False) -> None:
        """An empty storage that keeps the last `history` changes of each store for watches.

        A `mirror` keeps objects as they are, with the resourceVersion of their own server.
        """
        self._history = history
        self._mirror = mirror
        self._buckets: dict[str, _Bucket] = {}
        self._listeners: tuple[Listener, ...] = ()
        self._floor = 0
        self._version = 0

    @property
    def version(self) -> int:
        """The version of the latest write or restore; 0 before the first."""
        return self._version

    def get(self, store: str, namespace: str, name: str) -> Object | None:
        """One stored object, not to be modified, or None; no namespace if cluster-scoped."""
        bucket = self._buckets.get(store)
        return bucket.namespaces.get(namespace, {}).get(name) if bucket is not None else None

    def objects(self, store: str, namespace: str = "") -> Iterator[Object]:
        """Iterate over the objects of one namespace, or of all when it is empty, ordered by key.

        These are the stored objects themselves, which may not be modified. Later writes do not
        change what the iterator gives.
        """
        return iter(self.listed(store, namespace))

    def listed(self, store: str, namespace: str = "") -> list[Object]:
        """The objects of one namespace, or of all when it is empty, as a new list.

        Ordered by namespace and name as etcd orders keys; empty for an unknown store. The objects
        themselves may not be modified.
        """
        bucket = self._buckets.get(store)
        if bucket is None:
            return []
        # etcd orders by the whole key, in which a slash follows the namespace
        spaces = (namespace,) if namespace else sorted(bucket.namespaces, key=lambda n: f"{n}/")
        named = (bucket.namespaces.get(space, {}) for space in spaces)
        return [objects[name] for objects in named for name in sorted(objects)]

    def count(self, store: str, namespace: str = "") -> int:
        """How many objects a store holds, in one namespace, or in all when it is empty."""
        bucket = self._buckets.get(store)
        if bucket is None:
            return 0
        if namespace:
            return len(bucket.namespaces.get(namespace, ()))
        return sum(len(named) for named in bucket.namespaces.values())

    def stores(self) -> tuple[str, ...]:
        """The names of the stores that hold or held an object, or were watched or subscribed to."""
        return tuple(self._buckets)

    def create(self, store: str, obj: Object) -> Object:
        """Store a new object, not to be modified afterwards, and notify the listeners.

        Returns what is stored: a copy with the new version as resourceVersion, in a mirror the
        object itself. Raises `KeyExists` if the name is taken.
        """
        namespace, name = name_of(obj)
        named = self._bucket(store).namespaces.setdefault(namespace, {})
        if name in named:
            raise KeyExists(name)
        stored = self._with_next_version(obj)
        named[name] = stored
        self._notify(Change("ADDED", store, self._version, stored))
        return stored

    def replace(self, store: str, obj: Object) -> Object:
        """Replace the object of the same name and notify the listeners; no versions are compared.

        Returns what is stored: a copy with the new version as resourceVersion, in a mirror the
        object itself. Raises `KeyNotFound` if none has that name.
        """
        namespace, name = name_of(obj)
        named = self._bucket(store).namespaces.get(namespace, {})
        before = named.get(name)
        if before is None:
            raise KeyNotFound(name)
        stored = self._with_next_version(obj)
        named[name] = stored
        self._notify(Change("MODIFIED", store, self._version, stored, before))
        return stored

    def remove(self, store: str, namespace: str, name: str, last: Object | None = None) -> Object:
        """Remove an object and notify the listeners; raises `KeyNotFound` if it does not exist.

        Returns its last state, `last` if given, as a copy with the version of the removal as
        resourceVersion; a mirror leaves the resourceVersion.
        """
        bucket = self._bucket(store)
        named = bucket.namespaces.get(namespace, {})
        before = named.pop(name, None)
        if before is None:
            raise KeyNotFound(name)
        if not named:
            del bucket.namespaces[namespace]
        gone = self._with_next_version(before if last is None else last)
        self._notify(Change("DELETED", store, self._version, gone, before))
        return gone

    def since(self, store: str, version: int) -> list[Change]:
        """The changes of a store after a version, oldest first; empty if there are none.

        Raises `Compacted` when some of them are no longer in the history.
        """
        bucket = self._bucket(store)
        if version < bucket.floor:
            raise Compacted(version, bucket.floor)
        found: list[Change] = []
        for change in reversed(bucket.changes):
            if change.version <= version:
                break
            found.append(change)
        found.reverse()
        return found

    def objects_at(self, store: str, namespace: str, version: int) -> list[Object]:
        """The objects of one namespace, or of all when it is empty, as they were at a version.

        Ordered by key, as a new list; of a version not reached yet the current ones. Raises
        `Compacted` if the history does not go back to it.
        """
        undone: dict[Name, Object | None] = {}
        for change in reversed(self.since(store, version)):
            undone[name_of(change.object)] = change.before
        if not undone:
            return self.listed(store, namespace)
        present = {name_of(obj): obj for obj in self.objects(store, namespace)}
        for key, before in undone.items():
            if namespace and key[0] != namespace:
                continue
            present.pop(key, None)
            if before is not None:
                present[key] = before
        return [present[key] for key in sorted(present, key=lambda k: f"{k[0]}/{k[1]}")]

    def subscribe(self, listener: Listener, store: str = "") -> Callable[[], None]:
        """Call a listener, synchronously, on every later event of one store, or of all if empty.

        Returns a function that ends that. A restore is an event of every store.
        """
        if not store:
            self._listeners = (*self._listeners, listener)
        else:
            bucket = self._bucket(store)
            bucket.listeners = (*bucket.listeners, listener)

        def unsubscribe() -> None:
            """Remove the listener, also where it was subscribed more than once.

            A second call does nothing.
            """
            if not store:
                self._listeners = tuple(kept for kept in self._listeners if kept is not listener)
            else:
                bucket.listeners = tuple(kept for kept in bucket.listeners if kept is not listener)

        return unsubscribe

    def compact(self) -> None:
        """Drop the history, so that a watch that resumes from an older version must list again."""
        self._floor = self._version
        for bucket in self._buckets.values():
            bucket.changes.clear()
            bucket.floor = self._version

    def snapshot(self) -> Snapshot:
        """All current objects by store, with the version; stores without objects are left out.

        The objects are not copied: none of them may be modified.
        """
        held = {store: self.listed(store) for store in self._buckets}
        return Snapshot(self._version, {store: objs for store, objs in held.items() if objs})

    def restore(self, snapshot: Snapshot, *, bump: int = 0) -> None:
        """Go back to a snapshot, its version included, like a cluster restored from a backup.

        With `bump` the version is that much later, as by `etcdutl snapshot restore
        --bump-revision`: objects keep theirs. The history is dropped, and all listeners are called
        with `Restored`.
        """
        for bucket in self._buckets.values():
            bucket.namespaces = {}
        self._version = snapshot.version + bump
        for store, objects in snapshot.objects.items():
            namespaces = self._bucket(store).namespaces
            for obj in objects:
                namespace, name = name_of(obj)
                namespaces.setdefault(namespace, {})[name] = obj
        self.compact()
        restored = Restored(self._version)
        for listener in self._listeners:
            listener(restored)
        for bucket in list(self._buckets.values()):
            for listener in bucket.listeners:
                listener(restored)

    def _bucket(self, store: str) -> _Bucket:
        """The bucket of a store, created empty if it is missing."""
        bucket = self._buckets.get(store)
        if bucket is None:
            bucket = self._buckets[store] = _Bucket(self._floor)
        return bucket

    def _with_next_version(self, obj: Object) -> Object:
        """A copy with the next version as resourceVersion; a mirror returns the object itself.

        Increments the version of the storage.
        """
        self._version += 1
        if self._mirror:
            return obj
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}

    def _notify(self, change: Change) -> None:
        """Append a change to its store's history, cut to the limit, and call the listeners."""
        bucket = self._buckets[change.store]
        bucket.changes.append(change)
        if len(bucket.changes) > self._history:
            bucket.floor = bucket.changes.popleft().version
        for listener in self._listeners:
            listener(change)
        for listener in bucket.listeners:
            listener(change)


def name_of(obj: Object) -> Name:
    """An object's namespace (empty if cluster-scoped) and name."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
