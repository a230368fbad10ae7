"""What controllers see of one cluster: its storage, and indexes kept up with its changes."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TypeVar

from tinykube.clock import Clock
from tinykube.controllers.controller import (
    CONTROLLER_REVISIONS,
    PODS,
    REPLICA_SETS,
    SERVICES,
    Key,
)
from tinykube.controllers.objects import (
    controller_reference_of,
    is_controlled_by,
    is_finished,
    key_of,
    labels_of,
    owner_references_of,
    spec_of,
    status_of,
    uid_of,
)
from tinykube.resources import Object, Registry
from tinykube.storage import Change, Storage

_ADOPTABLE = frozenset((PODS, REPLICA_SETS, CONTROLLER_REVISIONS))

K = TypeVar("K")
Label = tuple[str, str, str]
"""Namespace, name and value."""

Shelf = dict[Key, None]
"""Keys in the order in which they came."""


class Indexer:
    """A view over a storage; `take` must be given every change before the view is used."""

    def __init__(self, storage: Storage, registry: Registry, clock: Clock) -> None:
        self.registry = registry
        self.last_errors: dict[tuple[str, Key], str] = {}
        self._storage = storage
        self._clock = clock
        self._dependents: dict[str, Shelf] = {}
        self._orphans: dict[tuple[str, str], Shelf] = {}
        self._on_node: dict[str, Shelf] = {}
        self._addresses: dict[str, Shelf] = {}
        self._labelled: dict[Label, Shelf] = {}
        self._selecting: dict[Label, Shelf] = {}

    @property
    def now(self) -> datetime:
        return self._clock.now()

    def get(self, store: str, namespace: str, name: str) -> Object | None:
        return self._storage.get(store, namespace, name)

    def objects(self, store: str, namespace: str = "") -> Iterator[Object]:
        return self._storage.objects(store, namespace)

    def dependents(self, uid: str) -> tuple[Key, ...]:
        return tuple(self._dependents.get(uid, ()))

    def controlled(self, store: str, owner: Object) -> list[Object]:
        keys = self._dependents.get(uid_of(owner), ())
        found = self._found(key for key in keys if key.store == store)
        return [obj for obj in found if is_controlled_by(obj, owner)]

    def orphans(self, store: str, namespace: str) -> list[Object]:
        return self._found(iter(self._orphans.get((store, namespace), ())))

    def pods_on(self, node: str) -> tuple[Key, ...]:
        return tuple(self._on_node.get(node, ()))

    def pods_with_labels(self, namespace: str, labels: Mapping[str, str]) -> list[Object]:
        shelves = [self._labelled.get((namespace, *one), {}) for one in labels.items()]
        fewest = min(shelves, key=len)
        found = self._found(iter(sorted(fewest, key=lambda key: key.name)))
        return [pod for pod in found if labels.items() <= labels_of(pod).items()]

    def services_selecting(self, namespace: str, labels: Mapping[str, str]) -> list[Object]:
        keys = (key for one in labels.items() for key in self._selecting.get((namespace, *one), ()))
        return [
            service for service in self._found(keys) if _selector(service).items() <= labels.items()
        ]

    def is_pod_ip_used(self, address: str) -> bool:
        return address in self._addresses

    def last_error(self, controller: str, key: Key) -> str:
        return self.last_errors.get((controller, key), "")

    def take(self, change: Change) -> None:
        """Follow one change in every index."""
        if change.before is not None:
            self._index(change.store, change.before, add=False)
        if change.type != "DELETED":
            self._index(change.store, change.object, add=True)

    def start_over(self) -> list[Change]:
        """Index everything anew, and tell it as if it had just been added."""
        self._dependents.clear()
        self._orphans.clear()
        self._on_node.clear()
        self._addresses.clear()
        self._labelled.clear()
        self._selecting.clear()
        self.last_errors.clear()
        told = [
            Change("ADDED", store, self._storage.version, obj)
            for store in self._storage.stores()
            for obj in self._storage.objects(store)
        ]
        for change in told:
            self.take(change)
        return told

    def _found(self, keys: Iterator[Key]) -> list[Object]:
        found = (self._storage.get(key.store, key.namespace, key.name) for key in keys)
        return [obj for obj in found if obj is not None]

    def _index(self, store: str, obj: Object, *, add: bool) -> None:
        key = key_of(store, obj)
        for reference in owner_references_of(obj):
            _file(self._dependents, reference.get("uid", ""), key, add=add)
        if store in _ADOPTABLE and controller_reference_of(obj) is None:
            _file(self._orphans, (store, key.namespace), key, add=add)
        if store == SERVICES and (selector := _selector(obj)):
            # found by one of its labels: whoever has all of them has that one
            _file(self._selecting, (key.namespace, *min(selector.items())), key, add=add)
        if store == PODS:
            for label in labels_of(obj).items():
                _file(self._labelled, (key.namespace, *label), key, add=add)
            _file(self._on_node, spec_of(obj).get("nodeName", ""), key, add=add)
            if not is_finished(obj):
                for address in status_of(obj).get("podIPs") or ():
                    _file(self._addresses, address["ip"], key, add=add)


def _selector(service: Object) -> dict[str, str]:
    return spec_of(service).get("selector") or {}


def _file(index: dict[K, Shelf], at: K, key: Key, *, add: bool) -> None:
    if add:
        index.setdefault(at, {})[key] = None
        return
    shelf = index.get(at)
    if shelf is not None:
        shelf.pop(key, None)
        if not shelf:
            del index[at]
