"""Maps changes of objects and facts to the keys that they concern, and enqueues these."""

import logging
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from hanse.model.facts import (
    Answer,
    ClusterDeparted,
    ClusterState,
    Fact,
    KindServed,
    Leadership,
    LeaseLiveness,
    WriteOutcome,
)
from hanse.model.kinds.core import Namespace
from hanse.model.objects import ClusterId, ClusterObjectRef, object_ref
from hanse.model.plan import Feature, InOrder
from hanse.model.snapshot import Change, FactChange, ObjectChange
from hanse.runtime.backoff import BackoffTracker
from hanse.runtime.declared_writes import features_by_kind
from hanse.runtime.informers import ClusterInformers
from hanse.runtime.metrics import Metrics
from hanse.runtime.namespace_guard import NamespaceGuard
from hanse.runtime.ownership import SHARED, OwnershipIndex, owner_of
from hanse.runtime.workqueue import Item, Priority, WorkQueue

log = logging.getLogger(__name__)

FACTS: tuple[type[Fact], ...] = (
    ClusterState,
    ClusterDeparted,
    KindServed,
    Leadership,
    LeaseLiveness,
    Answer,
    WriteOutcome,
)
"""The facts that a replica maps to keys when it becomes active."""


class Enqueuer:
    """Enqueues keys by feature mapping, by ownership, and by what keys wait for."""

    def __init__(
        self,
        features: Mapping[str, Feature],
        informers: ClusterInformers,
        owned: OwnershipIndex,
        queue: WorkQueue,
        backoff: BackoffTracker,
        metrics: Metrics,
        namespaces: NamespaceGuard,
    ) -> None:
        """Only references are kept; `features` by name."""
        self._features = features
        self._informers = informers
        self._owned = owned
        self._queue = queue
        self._backoff = backoff
        self._metrics = metrics
        self.namespaces = namespaces
        self._by_kind = features_by_kind(tuple(features.values()))
        self._waiting: dict[ClusterId | ClusterObjectRef, set[Item]] = {}

    def on_change(self, change: Change, priority: Priority) -> None:
        """Enqueue the keys that a change concerns, that own its object, or that wait for it.

        The departure of a cluster, a leadership, and changed roles also enqueue keys that own
        objects (`_requeue_dependents`); these keys, and those that wait, have priority BACKLOG.
        Nothing if only the speed of a cluster's answers has changed.
        """
        if _is_of_speed_alone(change):
            return
        self.enqueue_mapped(change, priority)
        if isinstance(change, ObjectChange):
            self._enqueue_owner(change, priority)
        if self._waiting:
            self._enqueue_waiting(change)
        if isinstance(change, FactChange):
            self._requeue_dependents(change)

    def enqueue_everything(self) -> None:
        """Enqueue every key that any known object or fact concerns, or that owns anything.

        All have priority BACKLOG; of facts only the types in FACTS count.
        """
        for cluster in list(self._informers.connections):
            self._enqueue_cluster(cluster)
        for type_ in FACTS:
            for fact in list(self._informers.facts.all(type_)):
                self.enqueue_mapped(FactChange(None, fact), Priority.BACKLOG)
        self.enqueue_all_owners()

    def enqueue_mapped(self, change: Change, priority: Priority) -> None:
        """Enqueue the keys that features map a change to (controller-runtime's MapFunc).

        Sorted, unless a feature returns `InOrder`. If an object is gone from a guarded namespace,
        that namespace is doubted for each of the keys. Keys of a live deletion get `deletion_seen`.
        If a feature raises, that is logged and counted, and the others go on.
        """
        deletion = isinstance(change, ObjectChange) and change.after is None and change.live
        lost_in = self.namespaces.place_of_loss(change)
        snapshot = self._informers.snapshot()
        for feature in self.features_watching(change):
            try:
                found = feature.keys_for(change, snapshot)
                keys = found if isinstance(found, InOrder) else sorted(found)
            except Exception:  # one feature's mistake about one object must not end the others
                log.exception("keys_for failed", extra={"feature": feature.name})
                self._metrics.mapping_failed(feature.name)
                continue
            for key in keys:
                if lost_in is not None:
                    self.namespaces.doubt(lost_in, (feature.name, key))
                self._queue.add((feature.name, key), priority, deletion_seen=deletion)

    def features_watching(self, change: Change) -> Iterable[Feature]:
        """The features that watch the changed object's kind in a role of its cluster.

        All features for a fact; none for a cluster that is not connected.
        """
        if isinstance(change, FactChange):
            return self._features.values()
        connection = self._informers.connections.get(change.where)
        roles = connection.roles if connection is not None else frozenset()
        watching = self._by_kind.get(type(change.object), ())
        return [feature for feature, of in watching if not of.isdisjoint(roles)]

    def enqueue_owners_in(self, cluster: ClusterId) -> None:
        """Enqueue every key that owns an object in a cluster, with priority BACKLOG."""
        for name, key in self._owned.items():
            if any(where == cluster for where, _, _ in self._owned.of(name, key)):
                self._queue.add((name, key), Priority.BACKLOG)

    def enqueue_all(self, items: set[Item]) -> None:
        """Enqueue items that waited, sorted, with priority BACKLOG, and clear the set."""
        again = sorted(items)
        items.clear()
        for item in again:
            self._queue.add(item, Priority.BACKLOG)

    def wait_for(self, item: Item, blockers: Iterable[ClusterId | ClusterObjectRef]) -> None:
        """Have an item enqueued again, once, when one of these clusters or objects changes next.

        A cluster changes by its `ClusterState` or a `KindServed` fact.
        """
        for blocker in blockers:
            self._waiting.setdefault(blocker, set()).add(item)

    def retry_refused(self, change: Change) -> None:
        """Forget the refused writes that may succeed after a change, and enqueue their keys.

        After a `ClusterState` or `KindServed` fact is put those of its cluster, after a change of a
        Namespace those in it; after other changes nothing.
        """
        if isinstance(change, FactChange):
            if isinstance(change.after, ClusterState | KindServed):
                self.enqueue_all(self._backoff.forget_refusals(change.after.cluster))
        elif isinstance(change.object, Namespace):
            name = change.object.metadata.name
            self.enqueue_all(self._backoff.forget_refusals(change.where, name))

    def _enqueue_owner(self, change: ObjectChange, priority: Priority) -> None:
        """Enqueue the owning keys of an object, before and after the change.

        Keys of features that do not run here are left out. A fresh change of a shared object, while
        its key is not processing, counts as the write of another agent.
        """
        for obj in (change.before, change.after):
            owner = owner_of(obj) if obj is not None else None
            if owner is None or owner.feature not in self._features:
                continue
            item = (owner.feature, owner.key)
            by_others = priority is Priority.FRESH and not self._queue.is_processing(item)
            if owner.serves == SHARED and by_others:
                self._backoff.record_others_write()
            self._queue.add(item, priority)

    def _enqueue_waiting(self, change: Change) -> None:
        """Enqueue the items that wait for the object that changed, or for the cluster of a fact.

        Only `ClusterState` and `KindServed` facts count.
        """
        blocker: ClusterId | ClusterObjectRef
        if isinstance(change, ObjectChange):
            blocker = ClusterObjectRef(change.where, object_ref(change.object))
        elif isinstance(change.fact, ClusterState | KindServed):
            blocker = change.fact.cluster
        else:
            return
        self.enqueue_all(self._waiting.pop(blocker, set()))

    def _requeue_dependents(self, change: FactChange) -> None:
        """Enqueue keys that own objects where a fact decides about them, with priority BACKLOG.

        After a `ClusterDeparted` is put all of them; after a `Leadership` is put those in that
        member; if a cluster's roles change those in it, and the keys that any of its objects
        concerns.
        """
        match change.before, change.after:
            case _, ClusterDeparted():
                self.enqueue_all_owners()
            case _, Leadership(member):
                self.enqueue_owners_in(member)
            case ClusterState(roles=before), ClusterState(cluster, roles=after) if before != after:
                self._enqueue_cluster(cluster)
                self.enqueue_owners_in(cluster)

    def _enqueue_cluster(self, cluster: ClusterId) -> None:
        """Enqueue every key that any known object of a cluster concerns, with priority BACKLOG."""
        for (where, _), stores in list(self._informers.stores.items()):
            for store in stores if where == cluster else ():
                for obj in list(store.all()):
                    change = ObjectChange(where, None, obj, live=False)
                    self.enqueue_mapped(change, Priority.BACKLOG)

    def enqueue_all_owners(self) -> None:
        """Enqueue every key that owns an object anywhere, with priority BACKLOG."""
        for item in self._owned.items():
            self._queue.add(item, Priority.BACKLOG)


def _is_of_speed_alone(change: Change) -> bool:
    """Whether nothing of a `ClusterState` has changed but how fast the cluster answers."""
    match change:
        case FactChange(ClusterState() as before, ClusterState() as after):
            return replace(before, slow=after.slow) == after
    return False
