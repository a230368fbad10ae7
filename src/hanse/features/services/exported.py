"""Every exported service, assembled from the objects of all clusters."""

from collections.abc import Sequence

from msgspec import Struct

from hanse.features.services.names import SERVICE_NAME, SOURCE_CLUSTER
from hanse.features.services.status import ADDRESSES_ALLOWED, IMPORTED_HERE, SETTINGS_VALID
from hanse.model.conditions import Condition
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.multicluster import ImportedPort, ServiceExport, ServiceImport
from hanse.model.objects import Object
from hanse.model.ownership import OWNER

POSITIVE_CONDITIONS = ("Valid", "Ready", SETTINGS_VALID, ADDRESSES_ALLOWED, IMPORTED_HERE)
"""Types of conditions that are True when all is well."""
CONFLICT = "Conflict"


class ClusterServices(Struct, frozen=True):
    """The objects of exported services in one cluster."""

    cluster: str
    """The cluster's id if its agent publishes it, else the name of the context."""
    exports: tuple[ServiceExport, ...] = ()
    imports: tuple[ServiceImport, ...] = ()
    slices: tuple[EndpointSlice, ...] = ()


class EndpointCount(Struct, frozen=True):
    """Number of endpoints, and of ready ones."""

    ready: int
    all: int

    def __str__(self) -> str:
        """`ready/all`."""
        return f"{self.ready}/{self.all}"


_ORDER = {
    type_: n for n, type_ in enumerate(dict.fromkeys(("Valid", CONFLICT, *POSITIVE_CONDITIONS)))
}
"""The types of conditions that are looked at, those that explain others first."""


class ExportProblem(Struct, frozen=True):
    """A bad condition of one cluster's export."""

    cluster: str
    reason: str
    message: str


class ExportedService(Struct, frozen=True):
    """One exported service in all clusters that were read."""

    namespace: str
    name: str
    type: str = ""
    """Empty while no cluster imports it."""
    ports: tuple[ImportedPort, ...] = ()
    exporters: tuple[str, ...] = ()
    importers: tuple[str, ...] = ()
    endpoints: dict[str, EndpointCount] = {}
    """By the cluster that they run in."""
    problems: tuple[ExportProblem, ...] = ()


def all_exported(clusters: Sequence[ClusterServices]) -> list[ExportedService]:
    """The view of each service that any cluster exports or imports, by namespace and name."""
    names = {(o.namespace, o.name) for c in clusters for o in (*c.exports, *c.imports)}
    return [exported_service(namespace, name, clusters) for namespace, name in sorted(names)]


def exported_service(
    namespace: str, name: str, clusters: Sequence[ClusterServices]
) -> ExportedService:
    """The view of one service, by its own objects among all those of the clusters.

    Type and ports are those of an import with our owner label, else of any, exporters' first; empty
    without one. The exporters of the service are the clusters that the status of any import names.
    """
    own = [_only(namespace, name, one) for one in clusters]
    return joined_service(namespace, name, own)


def _only(namespace: str, name: str, cluster: ClusterServices) -> ClusterServices:
    """The exports, imports and slices of one service among those of a cluster.

    Slices belong to it by their namespace and their label service-name.
    """

    def matches(obj: Object) -> bool:
        """Whether an object has the namespace and name of the service."""
        return (obj.namespace, obj.name) == (namespace, name)

    return ClusterServices(
        cluster.cluster,
        tuple(filter(matches, cluster.exports)),
        tuple(filter(matches, cluster.imports)),
        tuple(
            one
            for one in cluster.slices
            if (one.namespace, one.metadata.labels.get(SERVICE_NAME)) == (namespace, name)
        ),
    )


def joined_service(
    namespace: str, name: str, clusters: Sequence[ClusterServices]
) -> ExportedService:
    """The view of one service from its own objects in each cluster: as `exported_service`.

    Type and ports are those of an import of ours, else of any, exporters' first, or empty;
    exporters are those that imports name, importers the clusters with an import; problems are the
    bad conditions of exports, and exports without any condition.
    """
    imports = {c.cluster: i for c in clusters for i in c.imports}
    exports = {c.cluster: e for c in clusters for e in c.exports}
    found = [imports[c] for c in (*exports, *imports) if c in imports]
    ours = (one for one in found if OWNER in one.metadata.labels)
    shown = next(ours, found[0] if found else None)
    exporters = {e.cluster for i in imports.values() for e in i.status.clusters}
    return ExportedService(
        namespace,
        name,
        type=shown.spec.type if shown is not None else "",
        ports=shown.spec.ports if shown is not None else (),
        exporters=tuple(sorted(exporters)),
        importers=tuple(sorted(imports)),
        endpoints=_count_endpoints(clusters),
        problems=tuple(p for c, e in sorted(exports.items()) for p in export_problems(c, e)),
    )


def _count_endpoints(clusters: Sequence[ClusterServices]) -> dict[str, EndpointCount]:
    """Endpoints by source cluster, sorted: by the slices in the source cluster itself.

    If it has none, by those of the first cluster that has slices of it.
    """
    counts: dict[str, EndpointCount] = {}
    for cluster in clusters:
        by_source: dict[str, list[bool]] = {}
        for endpoint_slice in cluster.slices:
            source = endpoint_slice.metadata.labels.get(SOURCE_CLUSTER, "")
            ready = by_source.setdefault(source, [])
            ready += [endpoint.ready for endpoint in endpoint_slice.endpoints or ()]
        for source, ready in by_source.items():
            if source == cluster.cluster or source not in counts:
                counts[source] = EndpointCount(sum(ready), len(ready))
    return dict(sorted(counts.items()))


def export_problems(cluster: str, export: ServiceExport) -> tuple[ExportProblem, ...]:
    """The bad conditions of an export; an export without any condition is a problem too."""
    conditions = export.status.conditions
    if not conditions:
        text = "no agent has looked at it; see `hanse doctor`"
        return (ExportProblem(cluster, "Unseen", text),)
    return tuple(ExportProblem(cluster, c.reason, c.message) for c in bad_conditions(export))


def bad_conditions(export: ServiceExport) -> tuple[Condition, ...]:
    """The conditions of an export that are False or Unknown, and Conflict if it is True.

    Only the types that Hanse writes are looked at. Those that explain others come first.
    """
    bad = [
        c
        for c in export.status.conditions
        if (c.status == "True") == (c.type == CONFLICT) and c.type in _ORDER
    ]
    return tuple(sorted(bad, key=lambda c: _ORDER[c.type]) if len(bad) > 1 else bad)


def format_port(port: ImportedPort) -> str:
    """A port for people: `80/TCP http`; `80/TCP` without a name."""
    return f"{port.port}/{port.protocol}" + (f" {port.name}" if port.name else "")
