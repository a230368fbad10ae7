"""The feature `services`: its watches, the keys that a change affects, and the plan of each key."""

from collections.abc import Iterable, Iterator

from hanse.features.services.aggregate import plan_aggregate
from hanse.features.services.clusters import (
    BACKENDS,
    BY_SOURCE,
    IMPORTED,
    IMPORTED_FROM,
    IN_NAMESPACE,
    PUBLISHED,
)
from hanse.features.services.export_keys import (
    blocked_export_key,
    export_key,
    exports_to_cluster,
    published_keys,
)
from hanse.features.services.exports import plan_export
from hanse.features.services.globalnet import INGRESS, ingress_service_name
from hanse.features.services.imports import plan_import
from hanse.features.services.legacy import (
    AGGREGATES,
    LEGACY_IMPORTS,
    LEGACY_NAMESPACE,
    LEGACY_SLICES,
    aggregate_key,
    legacy_import_key,
    legacy_slice_keys,
)
from hanse.features.services.lighthouse import LEGACY, is_only_of_lighthouse, plan_legacy
from hanse.features.services.names import FEATURE_NAME, RECORD, SERVICE_NAME, SERVICE_NAMESPACE
from hanse.features.services.silence import keys_of_imports
from hanse.model.clusterset import (
    broker_cluster,
    clusterset_spec,
    is_broker_lost,
    is_held_by_its_cluster,
)
from hanse.model.facts import (
    ClusterState,
    HeartbeatState,
    KindServed,
    LeaseLiveness,
    Role,
    WriteOutcome,
)
from hanse.model.kinds.acceptance import DEFAULT_POLICY, AcceptancePolicy
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Namespace, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import ClusterMember, ClusterSet, MemberRanges
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.kinds.submariner import GlobalIngressIP
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import Object
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot, Watch, Writes


class Services:
    """Multi-cluster services that share their exports in one namespace of the broker."""

    name = FEATURE_NAME

    def __init__(self, broker_namespace: str = BROKER_NAMESPACE) -> None:
        """Declare the watches, those on the broker in this namespace."""
        self._broker_namespace = broker_namespace
        self.watches: tuple[Watch, ...] = (
            Watch(
                Role.LOCAL,
                ServiceExport,
                writes=Writes.STATUS,
                reason="which Services are exported, and the conditions of each export",
            ),
            Watch(
                Role.LOCAL,
                Service,
                writes=Writes.OBJECTS,
                reason="exported Services, and the derived Service of each import",
            ),
            Watch(
                Role.LOCAL,
                EndpointSlice,
                indexes=(BACKENDS, IMPORTED, IMPORTED_FROM),
                writes=Writes.OBJECTS,
                reason="backends of exports, and the imported backends of other clusters",
            ),
            Watch(
                Role.LOCAL,
                ServiceImport,
                indexes=(LEGACY_IMPORTS,),
                writes=Writes.OBJECTS | Writes.STATUS,
                reason="the import of each service that the fleet exports",
            ),
            Watch(Role.LOCAL, Namespace, reason="services are imported where their namespace is"),
            Watch(
                Role.LOCAL,
                GlobalIngressIP,
                indexes=(INGRESS,),
                reason="Globalnet addresses of exported Services",
            ),
            Watch(
                Role.LOCAL,
                AcceptancePolicy,
                name=DEFAULT_POLICY,
                reason="in which namespaces Services of others are taken",
            ),
            Watch(Role.BROKER, ClusterSet),
            Watch(Role.BROKER, Namespace, name=broker_namespace, optional=True),
            Watch(Role.BROKER, Lease, namespace=broker_namespace),
            Watch(Role.BROKER, ClusterMember, namespace=broker_namespace),
            Watch(
                Role.BROKER,
                EndpointSlice,
                namespace=broker_namespace,
                indexes=(PUBLISHED, BY_SOURCE, IN_NAMESPACE, LEGACY_SLICES),
                writes=Writes.OBJECTS,
            ),
            Watch(
                Role.BROKER,
                ServiceImport,
                namespace=broker_namespace,
                indexes=(LEGACY_IMPORTS, AGGREGATES),
                writes=Writes.OBJECTS | Writes.STATUS,
            ),
        )

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The keys that a changed local object, broker object or fact affects."""
        match change:
            case ObjectChange(where) if where == snapshot.local:
                return self._keys_for_local_object(change, snapshot)
            case ObjectChange():
                return self._keys_for_broker_object(change, snapshot)
            case FactChange():
                return self._keys_for_fact(change, snapshot)

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        """The plan of an export, an import, legacy imports, or an aggregate, by the key's topic.

        While the broker's namespace is gone or terminating, only exports are planned, and all
        objects of the other keys are kept. Any topic but `export`, `import` and `legacy` is an
        aggregate.
        """
        broker = broker_cluster(snapshot)
        if key.topic != "export" and is_broker_lost(snapshot, broker, self._broker_namespace):
            return Plan(keep_all=True)
        match key.topic:
            case "export":
                return plan_export(key, snapshot, self._broker_namespace)
            case "import":
                return plan_import(key, snapshot, self._broker_namespace)
            case "legacy":
                return plan_legacy(snapshot)
            case _:
                return plan_aggregate(key, snapshot, self._broker_namespace)

    def _keys_for_local_object(self, change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
        """The keys that a changed local object affects.

        Of a ServiceExport its export, its import and LEGACY. Of a Service its export and import, of
        a slice those of `_keys_for_backends`, of a GlobalIngressIP its export: all only if exported
        here. Of a ServiceImport LEGACY if it is in Lighthouse's form, else the export that it
        blocked; of a Namespace the services published for it; of an AcceptancePolicy all imports.
        """
        obj = change.object
        meta = obj.metadata
        match obj:
            case ServiceExport():
                yield Key("export", meta.name, meta.namespace)
                yield Key("import", meta.name, meta.namespace)  # our own slices count by it
                yield LEGACY
            case Service():
                for key in export_key(meta.name, meta.namespace, snapshot):
                    yield from (key, Key("import", key.name, key.namespace))
            case EndpointSlice():
                yield from _keys_for_backends(change, snapshot)
            case Namespace() | AcceptancePolicy():
                yield from self._keys_for_namespaces(obj, snapshot)
            case GlobalIngressIP():
                yield from export_key(ingress_service_name(obj), meta.namespace, snapshot)
            case ServiceImport() if legacy_import_key(obj) is not None:
                yield LEGACY
            case ServiceImport():
                yield from blocked_export_key(meta.name, meta.namespace, snapshot)
            case _:
                return

    def _keys_for_broker_object(self, change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
        """The keys that a changed object of the broker affects.

        All for a ClusterSet, the broker's namespace, or changed ranges of a ClusterMember. For any
        ClusterMember those of services that its cluster publishes or that imports name it for, and
        of exports limited to it; for a Lease only these exports, if its own cluster begins or
        ceases to hold it. For slices and ServiceImports see `_keys_for_shared_object`.
        """
        match change.object:
            case ClusterSet():
                yield from self._all_keys(snapshot)
            case Namespace(metadata=meta) if meta.name == self._broker_namespace:
                yield from self._all_keys(snapshot)
            case ClusterMember(metadata=meta):
                yield from self._keys_for_ranges(change, snapshot)
                for endpoint_slice in snapshot.by(change.where, BY_SOURCE, meta.name):
                    yield from published_keys(endpoint_slice, snapshot)
                yield from keys_of_imports(snapshot, meta.name)
                yield from exports_to_cluster(meta.name, snapshot)
            case Lease(metadata=meta) if _is_member(change.before) != _is_member(change.after):
                yield from exports_to_cluster(meta.name, snapshot)
            case _:
                yield from _keys_for_shared_object(change, snapshot)

    def _keys_for_ranges(self, change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
        """All keys, if the address ranges of a ClusterMember changed; else none.

        One that is missing or has left counts as having no ranges.
        """
        before, after = (
            obj.spec.ranges
            if isinstance(obj, ClusterMember) and not obj.has_left
            else MemberRanges()
            for obj in (change.before, change.after)
        )
        if before != after:
            yield from self._all_keys(snapshot)

    def _keys_for_fact(self, change: FactChange, snapshot: Snapshot) -> Iterator[Key]:
        """The keys that a changed fact affects; none for other facts than these.

        All for a ClusterState, and for whether GlobalIngressIP is served here; all exports for a
        heartbeat; for the liveness of a Lease on the broker the services that its cluster publishes
        or that imports name it for; for the outcome of a write of a local ServiceImport its export,
        of a broker's slice its service.
        """
        match change.fact:
            case ClusterState():
                yield from self._all_keys(snapshot)
            case HeartbeatState():
                for export in snapshot.all(snapshot.local, ServiceExport):
                    yield Key("export", export.metadata.name, export.metadata.namespace)
            case LeaseLiveness(where, _, cluster) if where == broker_cluster(snapshot):
                for endpoint_slice in snapshot.by(where, BY_SOURCE, cluster):
                    yield from published_keys(endpoint_slice, snapshot)
                yield from keys_of_imports(snapshot, cluster)
            case KindServed(where, kind) if (
                kind == GlobalIngressIP.kind and where == snapshot.local
            ):
                yield from self._all_keys(snapshot)
            case WriteOutcome(place) if (place.where, place.ref.kind) == (
                snapshot.local,
                ServiceImport.kind,
            ):
                yield from export_key(place.ref.name, place.ref.namespace, snapshot)
            case WriteOutcome(place) if place.where == broker_cluster(snapshot):
                written = snapshot.find(place)
                if isinstance(written, EndpointSlice):
                    yield from published_keys(written, snapshot)
            case _:
                return

    def _keys_for_namespaces(
        self, obj: Namespace | AcceptancePolicy, snapshot: Snapshot
    ) -> Iterator[Key]:
        """The keys of all imports for an AcceptancePolicy.

        For a Namespace the keys of services published for it on the broker; none without a broker.
        """
        if isinstance(obj, AcceptancePolicy):
            yield from (key for key in self._all_keys(snapshot) if key.topic == "import")
            return
        broker = broker_cluster(snapshot)
        if broker is not None:
            for endpoint_slice in snapshot.by(broker, IN_NAMESPACE, obj.metadata.name):
                yield from published_keys(endpoint_slice, snapshot)

    def _all_keys(self, snapshot: Snapshot) -> Iterator[Key]:
        """The keys of all exports and imports here, and of all services on the broker; some repeat.

        LEGACY is among them if there is a broker.
        """
        yield from keys_of_imports(snapshot)
        for export in snapshot.all(snapshot.local, ServiceExport):
            yield Key("export", export.metadata.name, export.metadata.namespace)
        broker = broker_cluster(snapshot)
        if broker is not None:
            for endpoint_slice in snapshot.all(broker, EndpointSlice):
                yield from published_keys(endpoint_slice, snapshot)
            for legacy in snapshot.by(broker, LEGACY_IMPORTS, ""):
                yield from _import_keys(legacy)
            for endpoint_slice in snapshot.by(broker, LEGACY_SLICES, ""):
                yield from legacy_slice_keys(endpoint_slice)
            yield LEGACY


def _keys_for_shared_object(change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
    """The keys that a slice or a ServiceImport on the broker affects, before and after.

    If the labels and record of a slice are as before, so that at most its endpoints changed, only
    the import and export of its service, and none if that namespace is not here. Objects in the
    form of Lighthouse affect those of `_lighthouse_keys`, or an aggregate and its import.
    """
    if _is_same_export(change):
        yield from _backend_keys(change, snapshot)
        return
    for obj in (change.before, change.after):
        if isinstance(obj, EndpointSlice):
            yield from published_keys(obj, snapshot)
            for key in legacy_slice_keys(obj):
                yield from _lighthouse_keys(key, change, snapshot)
        elif isinstance(obj, ServiceImport):
            if (legacy := legacy_import_key(obj)) is not None:
                yield from _lighthouse_keys(legacy, change, snapshot)
            if (shared := aggregate_key(obj)) is not None:
                yield from (shared, Key("import", shared.name, shared.namespace))


def _is_same_export(change: ObjectChange) -> bool:
    """Whether a changed slice in our form has the labels and the record that it had before.

    False for a new or deleted slice, for one in the form of Lighthouse, and for other kinds.
    """
    before, after = change.before, change.after
    if not (isinstance(before, EndpointSlice) and isinstance(after, EndpointSlice)):
        return False
    old, new = before.metadata, after.metadata
    return (
        old.labels == new.labels
        and SERVICE_NAMESPACE in new.labels
        and LEGACY_NAMESPACE not in new.labels
        and old.annotations.get(RECORD) == new.annotations.get(RECORD)
    )


def _backend_keys(change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
    """The keys of import and export of a published slice's service, if its namespace is here.

    The export only if it exists here.
    """
    labels = change.object.metadata.labels
    name, namespace = labels.get(SERVICE_NAME, ""), labels[SERVICE_NAMESPACE]
    if name and snapshot.get(snapshot.local, Namespace, namespace) is not None:
        yield Key("import", name, namespace)
        yield from export_key(name, namespace, snapshot)


def _keys_for_backends(change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
    """The keys of the exports of Services that a local slice backs, before or after its change.

    In profile `kep-1645` those of their imports, too. None for Services that are not exported.
    """
    slices = [s for s in (change.before, change.after) if isinstance(s, EndpointSlice)]
    for service in {value for s in slices for value in BACKENDS.values(s)}:
        namespace, _, name = service.partition("/")
        for key in export_key(name, namespace, snapshot):
            yield key
            if clusterset_spec(snapshot, broker_cluster(snapshot)).profile == "kep-1645":
                yield Key("import", key.name, key.namespace)


def _is_member(lease: Object | None) -> bool:
    """Whether an object is a Lease that its own cluster's agent holds; False for None."""
    return isinstance(lease, Lease) and is_held_by_its_cluster(lease)


def _lighthouse_keys(key: Key, change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
    """The import `key`, its export if any, and LEGACY, for an object in the form of Lighthouse.

    If it was created or deleted, and other clusters' Lighthouse agents have no other of its kind,
    also the keys of export and aggregate of every local ServiceExport.
    """
    yield from (key, LEGACY)
    yield from export_key(key.name, key.namespace, snapshot)
    appears = change.before is None or change.after is None
    if appears and is_only_of_lighthouse(change.object, snapshot, change.where):
        for export in snapshot.all(snapshot.local, ServiceExport):
            meta = export.metadata
            yield Key("export", meta.name, meta.namespace)
            yield Key("aggregate", meta.name, meta.namespace)


def _import_keys(service_import: ServiceImport) -> Iterator[Key]:
    """The key of the import that a Lighthouse agent's ServiceImport is about; none for others."""
    if (key := legacy_import_key(service_import)) is not None:
        yield key
