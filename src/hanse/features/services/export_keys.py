"""The keys of exports that a change affects."""

from collections.abc import Iterator

from hanse.features.services.clusters import source_cluster
from hanse.features.services.names import SERVICE_NAME, SERVICE_NAMESPACE, TO_CLUSTERS
from hanse.features.services.records import parse_cluster_list
from hanse.features.services.status import IMPORTED_HERE
from hanse.model.conditions import find_condition
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.objects import ClusterId
from hanse.model.plan import Key
from hanse.model.snapshot import Snapshot


def export_key(name: str, namespace: str, snapshot: Snapshot) -> Iterator[Key]:
    """The key of an export, if the service is exported here; else none."""
    if name and snapshot.get(snapshot.local, ServiceExport, name, namespace) is not None:
        yield Key("export", name, namespace)


def blocked_export_key(name: str, namespace: str, snapshot: Snapshot) -> Iterator[Key]:
    """The key of the export of this name if its condition ImportedHere is False; else none."""
    export = snapshot.get(snapshot.local, ServiceExport, name, namespace)
    imported = (
        find_condition(export.status.conditions, IMPORTED_HERE) if export is not None else None
    )
    if imported is not None and imported.status == "False":
        yield Key("export", name, namespace)


def exports_to_cluster(cluster: ClusterId, snapshot: Snapshot) -> Iterator[Key]:
    """The keys of local exports whose annotation `to-clusters` names a cluster."""
    for export in snapshot.all(snapshot.local, ServiceExport):
        meta = export.metadata
        if cluster in parse_cluster_list(meta.annotations.get(TO_CLUSTERS, "")):
            yield Key("export", meta.name, meta.namespace)


def published_keys(endpoint_slice: EndpointSlice, snapshot: Snapshot) -> Iterator[Key]:
    """The keys of import, aggregate and export of the service that a slice on the broker is of.

    The export only if it exists here, or if this cluster is the slice's source. None without the
    labels of name and namespace.
    """
    labels = endpoint_slice.metadata.labels
    name, namespace = labels.get(SERVICE_NAME, ""), labels.get(SERVICE_NAMESPACE, "")
    if name and namespace:
        yield Key("import", name, namespace)
        yield Key("aggregate", name, namespace)
        if source_cluster(endpoint_slice) == snapshot.local:
            yield Key("export", name, namespace)
        else:
            yield from export_key(name, namespace, snapshot)
