"""Whether the import of a service waits for this cluster's own export to be published."""

from collections.abc import Iterable

from hanse.features.services.clusters import may_publish, source_cluster
from hanse.features.services.records import ExportRecord
from hanse.features.services.status import is_exportable
from hanse.model.conditions import find_condition
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import ClusterSetSpec
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.plan import Key
from hanse.model.snapshot import Snapshot


def is_unpublished(
    key: Key, snapshot: Snapshot, published: Iterable[EndpointSlice], rules: ClusterSetSpec
) -> bool:
    """Whether this cluster exports a service, may publish it, and none of `published` is its slice.

    False if the export is being deleted, or the Service is missing or cannot be exported.
    """
    here = snapshot.local
    if any(source_cluster(s) == here for s in published):
        return False
    export = snapshot.get(here, ServiceExport, key.name, key.namespace)
    if export is None or export.metadata.deletion_timestamp is not None:
        return False
    service = snapshot.get(here, Service, key.name, key.namespace)
    return is_exportable(key, service) and may_publish(here, key.namespace, rules)


def may_stand_alone(key: Key, snapshot: Snapshot, records: Iterable[ExportRecord]) -> bool:
    """Whether this cluster's export did not fail, and it is to import none of the records.

    The export failed if its condition Ready has the reason Failed. False without an export. To be
    imported are records for all clusters, those for this one, and this cluster's own.
    """
    here = snapshot.local
    export = snapshot.get(here, ServiceExport, key.name, key.namespace)
    if export is None or any(r.is_for(here) for r in records):
        return False
    ready = find_condition(export.status.conditions, "Ready")
    return ready is None or ready.reason != "Failed"
