"""The lister of controllers: a storage with indexes that follow its changes."""

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
"""Namespace, label name and label value."""

KeySet = dict[Key, None]
"""A set of keys in insertion order."""


class Indexer:
    """A `Lister` over a storage; `apply` must get every change before it is read."""

    def __init__(self, storage: Storage, registry: Registry, clock: Clock) -> None:
        """The indexes are empty until changes are applied; objects are read from the storage."""
        self.registry = registry
        self.last_errors: dict[tuple[str, Key], str] = {}
        self._storage = storage
        self._clock = clock
        self._dependents: dict[str, KeySet] = {}
        self._orphans: dict[tuple[str, str], KeySet] = {}
        self._by_node: dict[str, KeySet] = {}
        self._by_pod_ip: dict[str, KeySet] = {}
        self._pods_by_label: dict[Label, KeySet] = {}
        self._services_by_selector: dict[Label, KeySet] = {}

    @property
    def now(self) -> datetime:
        """The current time of the API server's clock; it goes on during a reconcile."""
        return self._clock.now()

    def get(self, store: str, namespace: str, name: str) -> Object | None:
        """The stored object, not to be modified, or None."""
        return self._storage.get(store, namespace, name)

    def objects(self, store: str, namespace: str = "") -> Iterator[Object]:
        """The stored objects of one namespace, or of all when it is empty, sorted by key."""
        return self._storage.objects(store, namespace)

    def dependents(self, uid: str) -> tuple[Key, ...]:
        """The keys of all objects that name the uid in an owner reference."""
        return tuple(self._dependents.get(uid, ()))

    def controlled(self, store: str, owner: Object) -> list[Object]:
        """The objects of a store whose owner reference with `controller` has the owner's uid."""
        keys = self._dependents.get(uid_of(owner), ())
        found = self._get_all(key for key in keys if key.store == store)
        return [obj for obj in found if is_controlled_by(obj, owner)]

    def orphans(self, store: str, namespace: str) -> list[Object]:
        """The objects of a store in a namespace that have no controller reference.

        Only pods, ReplicaSets and ControllerRevisions are indexed; other stores give none.
        """
        return self._get_all(iter(self._orphans.get((store, namespace), ())))

    def pods_on(self, node: str) -> tuple[Key, ...]:
        """The keys of the pods assigned to a node, also of finished and terminating ones.

        With an empty name those of the pods that are not assigned.
        """
        return tuple(self._by_node.get(node, ()))

    def pods_with_labels(self, namespace: str, labels: Mapping[str, str]) -> list[Object]:
        """The pods of a namespace that have all the labels, by name; ValueError without labels."""
        candidates = [self._pods_by_label.get((namespace, *one), {}) for one in labels.items()]
        fewest = min(candidates, key=len)
        found = self._get_all(iter(sorted(fewest, key=lambda key: key.name)))
        return [pod for pod in found if labels.items() <= labels_of(pod).items()]

    def services_selecting(self, namespace: str, labels: Mapping[str, str]) -> list[Object]:
        """The Services of a namespace whose selectors match the labels.

        Services without selector are left out.
        """
        keys = (
            key
            for one in labels.items()
            for key in self._services_by_selector.get((namespace, *one), ())
        )
        return [
            service
            for service in self._get_all(keys)
            if _selector(service).items() <= labels.items()
        ]

    def is_pod_ip_used(self, address: str) -> bool:
        """Whether a pod that has not finished has the address in its status."""
        return address in self._by_pod_ip

    def last_error(self, controller: str, key: Key) -> str:
        """The error text of a controller's last failed write for a key; empty if there is none.

        A conflict is not recorded. A reconcile whose writes succeed, or that has none, clears it.
        """
        return self.last_errors.get((controller, key), "")

    def apply(self, change: Change) -> None:
        """Update every index for one change."""
        if change.before is not None:
            self._index(change.store, change.before, add=False)
        if change.type != "DELETED":
            self._index(change.store, change.object, add=True)

    def resync(self) -> list[Change]:
        """Rebuild all indexes and clear the last errors.

        Returns every object as an ADDED change.
        """
        self._dependents.clear()
        self._orphans.clear()
        self._by_node.clear()
        self._by_pod_ip.clear()
        self._pods_by_label.clear()
        self._services_by_selector.clear()
        self.last_errors.clear()
        changes = [
            Change("ADDED", store, self._storage.version, obj)
            for store in self._storage.stores()
            for obj in self._storage.objects(store)
        ]
        for change in changes:
            self.apply(change)
        return changes

    def _get_all(self, keys: Iterator[Key]) -> list[Object]:
        """The stored objects of the keys; absent ones are omitted."""
        found = (self._storage.get(key.store, key.namespace, key.name) for key in keys)
        return [obj for obj in found if obj is not None]

    def _index(self, store: str, obj: Object, *, add: bool) -> None:
        """Add an object to all indexes (by owner, label, node, address, selector), or remove it."""
        key = key_of(store, obj)
        for reference in owner_references_of(obj):
            _update_index(self._dependents, reference.get("uid", ""), key, add=add)
        if store in _ADOPTABLE and controller_reference_of(obj) is None:
            _update_index(self._orphans, (store, key.namespace), key, add=add)
        if store == SERVICES and (selector := _selector(obj)):
            # indexed by one label of the selector: a pod that matches has it
            _update_index(
                self._services_by_selector, (key.namespace, *min(selector.items())), key, add=add
            )
        if store == PODS:
            for label in labels_of(obj).items():
                _update_index(self._pods_by_label, (key.namespace, *label), key, add=add)
            _update_index(self._by_node, spec_of(obj).get("nodeName", ""), key, add=add)
            if not is_finished(obj):
                for address in status_of(obj).get("podIPs") or ():
                    _update_index(self._by_pod_ip, address["ip"], key, add=add)


def _selector(service: Object) -> dict[str, str]:
    return spec_of(service).get("selector") or {}


def _update_index(index: dict[K, KeySet], value: K, key: Key, *, add: bool) -> None:
    """Add a key to the set at a value or remove it; an empty set is removed."""
    if add:
        index.setdefault(value, {})[key] = None
        return
    keys = index.get(value)
    if keys is not None:
        keys.pop(key, None)
        if not keys:
            del index[value]
