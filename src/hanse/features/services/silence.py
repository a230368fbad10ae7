"""The import of a service while nobody who exports it is heard of: its address stands, alone."""

from collections.abc import Collection, Iterator

from msgspec.structs import replace

from hanse.features.services.aggregate import import_status, keys_of_aggregates
from hanse.features.services.clusters import IMPORTED_FROM, exporting_clusters
from hanse.features.services.derived import derived_name
from hanse.features.services.names import SERVICE_NAME, SILENT_CLUSTERS
from hanse.model.conditions import condition, merge_conditions
from hanse.model.kinds.core import Service
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.objects import ClusterId, Object
from hanse.model.plan import Key
from hanse.model.snapshot import Snapshot


def known_exporters(service_import: ServiceImport | None) -> frozenset[ClusterId]:
    """The clusters in an import's status and its annotation `silent-clusters`; none for None."""
    if service_import is None:
        return frozenset()
    silent = service_import.metadata.annotations.get(SILENT_CLUSTERS, "")
    return exporting_clusters(service_import) | frozenset(filter(None, silent.split(",")))


def keys_of_imports(snapshot: Snapshot, exporter: ClusterId = "") -> Iterator[Key]:
    """The keys of local imports, imported slices and aggregates that name `exporter`.

    Imports name it in their status or as silent. Of all, if it is empty; keys may repeat.
    """
    for service_import in snapshot.all(snapshot.local, ServiceImport):
        if not exporter or exporter in known_exporters(service_import):
            meta = service_import.metadata
            yield Key("import", meta.name, meta.namespace)
    for endpoint_slice in snapshot.by(snapshot.local, IMPORTED_FROM, exporter):
        meta = endpoint_slice.metadata
        yield Key("import", meta.labels[SERVICE_NAME], meta.namespace)
    yield from keys_of_aggregates(snapshot, exporter)


def silent_import(
    key: Key, written: ServiceImport, clusters: Collection[ClusterId], snapshot: Snapshot
) -> Iterator[Object]:
    """The derived Service as it is, and our import without exporters and with Ready=False.

    The import, else as in `written`, thereby keeps its address; an annotation names the silent
    `clusters`. Nothing if the derived Service is missing or has none of the import's addresses.
    """
    derived = snapshot.get(snapshot.local, Service, derived_name(key), key.namespace)
    if derived is None or not set(written.spec.ips) & set(derived.spec.cluster_ips):
        return
    names = sorted(clusters)
    annotations = {**written.metadata.annotations, SILENT_CLUSTERS: ",".join(names)}
    message = f"no cluster that exports it renews its Lease: {', '.join(names)}; its address stands"
    silent = condition("Ready", False, "ExportersSilent", message)
    status = import_status((), merge_conditions(written.status.conditions, [silent], snapshot.now))
    yield derived
    yield replace(
        written,
        metadata=replace(written.metadata, annotations=annotations),
        status=replace(status, endpoint_slice_objects="Absent"),
    )
