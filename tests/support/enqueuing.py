"""The law of enqueuing: a change that alters the plan of a key enqueues the key.

The same holds for the DNS names of a key, and for what views show of it.

What agents observed is replayed change by change, through the enqueuer of the runtime. A plan that
a change alters without enqueuing its key stays as it was until something else happens: in a fleet
at rest, for ever.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, cast

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields, replace

from hanse.kube.store import Store
from hanse.kube.watch_events import Applied, Deleted
from hanse.model.dns.zones import ZoneSource
from hanse.model.facts import (
    Answer,
    ClusterState,
    Fact,
    Facts,
    HeartbeatState,
    HolderState,
    KindServed,
    Leadership,
    LeaseLiveness,
    Phase,
    Role,
    WriteOutcome,
)
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.judgement import concerns_all_known_keys
from hanse.model.kinds.core import Namespace
from hanse.model.naming import IDENTITY_NAMESPACE
from hanse.model.objects import ClusterId, Kind, Object, ObjectRef, object_ref
from hanse.model.plan import Feature, Key, Plan
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot, Stores
from hanse.model.view import ALL_KEYS, View
from hanse.runtime.backoff import BackoffTracker
from hanse.runtime.connection import Scope, wanted_scopes
from hanse.runtime.enqueue import Enqueuer
from hanse.runtime.informers import ClusterInformers
from hanse.runtime.metrics import Metrics
from hanse.runtime.namespace_guard import NamespaceGuard
from hanse.runtime.ownership import OwnershipIndex
from hanse.runtime.pause import brokers_to_read
from hanse.runtime.reconciler import Reconciler
from hanse.runtime.workqueue import Item, Priority, WorkQueue
from tinykube.virtual_time import EPOCH

Source = tuple[ClusterId, Kind] | type[Fact]
"""What a plan read: objects of a kind in a cluster, or facts of a type."""


FACTS = (ClusterState, LeaseLiveness, Leadership, HeartbeatState, WriteOutcome)
ITEM = "item"
"""The topic of keys of views."""
NOTHING = "nothing"
"""What a view shows of a key without an item."""
PERMANENT = frozenset({ObjectRef(Namespace.kind, IDENTITY_NAMESPACE)})
"""What nobody deletes while a cluster lives."""


class Unnoticed(Struct, frozen=True):
    """A change that alters the plan of a key and does not enqueue it."""

    local: ClusterId
    change: Change
    item: Item
    before: object
    after: object

    def __str__(self) -> str:
        change = self.change
        if isinstance(change, ObjectChange):
            verb = "deleted" if change.after is None else "changed" if change.before else "created"
            what = f"{object_ref(change.object)} in {change.where} is {verb}"
        else:
            what = f"{change.before} becomes {change.after}"
        feature, key = self.item
        return f"{self.local}: {what}: {feature} {key} is not enqueued\n{self.difference}"

    @property
    def difference(self) -> str:
        """The parts of the plan that differ, before and after."""
        if not (isinstance(self.before, Plan) and isinstance(self.after, Plan)):
            return f"  before {self.before}\n  after  {self.after}"
        names = Plan.__struct_fields__
        pairs = ((n, getattr(self.before, n), getattr(self.after, n)) for n in names)
        return "\n".join(f"  {f}\n    before {a}\n    after  {b}" for f, a, b in pairs if a != b)


class Observed:
    """Every change that an agent observes, in order."""

    def __init__(
        self,
        reconciler: Reconciler,
        features: Sequence[Feature],
        zones: Sequence[ZoneSource],
        views: Sequence[View],
    ) -> None:
        self.local = reconciler.informers.local
        self.features = features
        self.zones, self.views = zones, views
        facts = reconciler.informers.facts
        self.changes: list[Change] = [FactChange(None, f) for f in facts.all(ClusterState)]
        reconciler.event_handlers.append(self.changes.append)

    def unnoticed(self, now: datetime) -> Iterator[Unnoticed]:
        """The changes that altered a plan unnoticed; then those that any object may undergo."""
        replay = Replay(self.features, self.zones, self.views, self.local, now)
        for change in self.changes:
            yield from replay.apply(change)
        for change in possible_changes(replay):
            yield from replay.apply(change)


def possible_changes(replay: "Replay") -> Iterator[Change]:
    """Each object deleted, terminating, and without each of its parts; and as it was again."""
    for where, obj in replay.objects():
        if object_ref(obj) not in PERMANENT:
            for other in (None, *_variants(obj)):
                yield ObjectChange(where, obj, other)
                yield ObjectChange(where, other, obj)
    for fact in [f for type_ in FACTS for f in replay.facts.all(type_)]:
        for one in _other_facts(fact):
            yield FactChange(fact, one)
            yield FactChange(one, fact)


def _other_facts(fact: Fact) -> Iterator[Fact | None]:
    """What may become of a fact."""
    match fact:
        case ClusterState():
            yield replace(fact, phase=Phase.UNREACHABLE)
            yield replace(fact, phase=Phase.UNREACHABLE, silent=True)
        case LeaseLiveness():
            yield from (replace(fact, state=s) for s in HolderState if s is not fact.state)
        case Leadership():
            yield replace(fact, holder="another", ours=not fact.ours)
        case HeartbeatState():
            yield replace(fact, renewed=not fact.renewed)
        case WriteOutcome():
            yield None
        case _:
            return


def _variants(obj: Object) -> Iterator[Object]:
    """The object with a part of it left out, or about to be deleted."""
    meta = obj.metadata
    if meta.deletion_timestamp is None:
        yield replace(obj, metadata=replace(meta, deletion_timestamp=EPOCH))
    for field in ("labels", "annotations"):
        marks = getattr(meta, field)
        for name in marks:
            left = {n: value for n, value in marks.items() if n != name}
            yield replace(obj, metadata=replace(meta, **{field: left}))
    for part in fields(type(obj)):
        has_factory = part.default_factory is not NODEFAULT
        default = part.default_factory() if has_factory else part.default
        if part.name != "metadata" and default not in (NODEFAULT, getattr(obj, part.name)):
            yield replace(obj, **{part.name: default})


class Replay:
    """The stores and facts of an agent that observes changes one by one, its plans and DNS names.

    All plans are made at one time: what ages by itself is planned again by its own request.
    """

    def __init__(
        self,
        features: Sequence[Feature],
        zones: Sequence[ZoneSource],
        views: Sequence[View],
        local: ClusterId,
        now: datetime,
    ) -> None:
        self._features = {feature.name: feature for feature in features}
        self._zones = {f"DNS names of {zone.name}": zone for zone in zones}
        self._views = {f"view of {view.name}": view for view in views}
        self._watches = [w for feature in features for w in feature.watches]
        self._watches += [w for zone in zones for w in zone.watches]
        self._local, self._now = local, now
        self.stores: dict[tuple[ClusterId, Kind], list[Store[Any]]] = {}
        self._scopes: dict[ClusterId, dict[Scope, Store[Any]]] = {}
        self.facts = Facts()
        self.connections: dict[ClusterId, ClusterState] = {}
        self._owned = OwnershipIndex()
        self._enqueued: set[Item] = set()
        informers, queue = cast(ClusterInformers, self), cast(WorkQueue, self)
        self._enqueuer = Enqueuer(
            self._features,
            informers,
            self._owned,
            queue,
            cast(BackoffTracker, self),
            Metrics(),
            NamespaceGuard((), informers, queue, lambda: 0.0),
        )
        self._planned = False
        self._plans: dict[Item, object] = {}
        self._reads: dict[Item, set[Source]] = {}

    def apply(self, change: Change) -> list[Unnoticed]:
        """Take in a change; returns the plans that it altered without enqueuing their keys."""
        self._store(change)
        if self._planned:
            self._enqueued = set()
        self._planned = self._is_planning()
        self._enqueuer.on_change(change, Priority.FRESH)
        for name, zone in self._zones.items():
            self._enqueued.update((name, key) for key in zone.keys_for(change, self.snapshot()))
        for name, view in self._views.items():
            self._enqueued.update((name, Key(ITEM, key)) for key in view.keys_for(change))
        if not self._planned:
            return []  # what is enqueued waits until the cluster is listed
        found: list[Unnoticed] = []
        affected = [i for i in self._plans if i in self._enqueued or self._reads_any(i, change)]
        new = {i for i in self._enqueued - self._plans.keys() if i[1].name != ALL_KEYS}
        for item in (*affected, *new):
            before = self._plans.get(item)
            after = self._plan(item)
            if before not in (None, after) and not self._is_noticed(item, change, before):
                found.append(Unnoticed(self._local, change, item, before, after))
        return found

    # -- what the enqueuer uses of the informers and the queue

    def snapshot(self) -> Snapshot:
        return Snapshot(self.stores, self.facts, self._now, self._local)

    def objects(self) -> list[tuple[ClusterId, Object]]:
        """Every stored object."""
        found = {
            (cluster, object_ref(obj)): obj
            for (cluster, _), stores in self.stores.items()
            for store in stores
            for obj in store.all()
        }
        return [(cluster, obj) for (cluster, _), obj in found.items()]

    def add(
        self, item: Item, priority: Priority = Priority.FRESH, *, deletion_seen: bool = False
    ) -> None:
        self._enqueued.add(item)

    def is_processing(self, item: Item) -> bool:
        return False

    def record_others_write(self) -> None:
        return

    # --

    def _is_noticed(self, item: Item, change: Change, before: object) -> bool:
        if item in self._enqueued or (item[0], Key(ITEM, ALL_KEYS)) in self._enqueued:
            return True
        if item[0] in self._views and concerns_all_known_keys(change):
            return True
        if isinstance(change, FactChange) and isinstance(change.fact, Answer):
            questions = before.questions if isinstance(before, Plan) else ()
            return any(q.ask.id == change.fact.question for q in questions)
        return False

    def _reads_any(self, item: Item, change: Change) -> bool:
        """Whether a plan may differ after a change; that of a cluster is enqueued once listed."""
        if isinstance(change, ObjectChange):
            state = self.connections.get(change.where)
            is_listed = state is not None and state.listed
            return is_listed and (change.where, type(change.object).kind) in self._reads[item]
        return isinstance(change.fact, ClusterState) or type(change.fact) in self._reads[item]

    def _is_planning(self) -> bool:
        local = self.facts.get(ClusterState, self._local)
        return local is not None and local.listed and not brokers_to_read(self.snapshot())

    def _plan(self, item: Item) -> object:
        """The plan of a key, or its error; remembers what it read."""
        reads: set[Source] = set()
        snapshot = Snapshot(
            _RecordedStores(self.stores, reads),
            _RecordedFacts(self.facts, reads),
            self._now,
            self._local,
        )
        name, key = item
        planned: object
        try:
            if name in self._zones:
                planned = self._zones[name].records_for(snapshot)(key)
            elif name in self._views:
                fleet = MultiClusterSnapshot({self._local: snapshot})
                planned = self._views[name].render(key.name, fleet) or NOTHING
            else:
                planned = self._features[name].plan(key, snapshot)
        except Exception as error:  # noqa: BLE001 - an error is a result like any other here
            planned = repr(error)
        if planned == Plan(keep_all=True) and not self._owned.of(name, key):
            planned = Plan()  # there is nothing to keep
        if name in self._zones and planned is None:
            planned = self._plans.get(item, ())  # the names built before stay
        self._plans[item], self._reads[item] = planned, reads
        return planned

    def _store(self, change: Change) -> None:
        if isinstance(change, ObjectChange):
            self._owned.update(change.where, change.before, change.after)
            for scope, store in self._scopes.get(change.where, {}).items():
                if scope.kind is type(change.object):
                    _replace(store, change, scope)
            return
        if change.after is None:
            self.facts.drop(type(change.fact), change.fact.key)
        else:
            self.facts.put(change.after)
        match change.fact:
            case ClusterState(cluster):
                self._connect(cluster, change.after)
            case KindServed(cluster):
                self._mark_synced(cluster)
            case _:
                return

    def _connect(self, cluster: ClusterId, state: Fact | None) -> None:
        """Make the stores of the roles that a cluster has now."""
        roles: frozenset[Role] = frozenset()
        if isinstance(state, ClusterState):
            self.connections[cluster] = state
            roles = state.roles
        else:
            self.connections.pop(cluster, None)
        known = self._scopes.get(cluster, {})
        wanted = wanted_scopes(self._watches, roles).scopes
        self._scopes[cluster] = {
            scope: known.get(scope) or Store(indexes) for scope, indexes in wanted.items()
        }
        for place in [place for place in self.stores if place[0] == cluster]:
            del self.stores[place]
        for scope, store in self._scopes[cluster].items():
            self.stores.setdefault((cluster, scope.kind.kind), []).append(store)
        self._mark_synced(cluster)

    def _mark_synced(self, cluster: ClusterId) -> None:
        state = self.connections.get(cluster)
        for scope, store in self._scopes.get(cluster, {}).items():
            served = self.facts.get(KindServed, (cluster, scope.kind.kind))
            is_listed = store.synced or (state is not None and state.listed)
            store.synced = is_listed and (served is None or served.served)


class _RecordedStores(dict[tuple[ClusterId, Kind], Sequence[Any]]):
    """Stores that record which of them were read."""

    def __init__(self, stores: Stores, reads: set[Source]) -> None:
        super().__init__(stores)
        self._reads = reads

    def get(self, place: Any, default: Any = None) -> Any:
        self._reads.add(place)
        return super().get(place, default)

    def items(self) -> Any:
        self._reads.update(self)
        return super().items()


class _RecordedFacts(Facts):
    """Facts that record which types of them were read."""

    def __init__(self, facts: Facts, reads: set[Source]) -> None:
        self._by_type = facts._by_type
        self._reads = reads

    def get(self, type_: type[Any], key: object) -> Any:
        self._reads.add(type_)
        return super().get(type_, key)

    def all(self, type_: type[Any]) -> Iterator[Any]:
        self._reads.add(type_)
        return super().all(type_)


def _replace(store: Store[Any], change: ObjectChange, scope: Scope) -> None:
    """Store an object as a watch reports it, or remove it; older versions are taken, too."""
    meta = change.object.metadata
    known = store.get(meta.namespace, meta.name)
    if known is not None:
        store.apply_event(Deleted(known))
    if change.after is not None and scope.selects(change.after):
        store.apply_event(Applied(change.after))
