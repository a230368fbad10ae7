"""Multi-cluster services: who exports them, what is ready where, and what clusters disagree on."""

from collections.abc import Iterable

from hanse.features.services.clusters import IMPORTED
from hanse.features.services.names import (
    PRIORITY,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    SOURCE_CLUSTER,
    WEIGHT,
)
from hanse.features.services.view import ClusterServices, ServiceView, format_port, service_view
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.objects import ClusterId, Object
from hanse.model.snapshot import Change, FactChange
from hanse.web.dashboard.section import Item, State
from hanse.web.dashboard.snapshot import MultiClusterSnapshot


class ServiceExporter(Item, frozen=True, kw_only=True):
    """One cluster's part of a service."""

    cluster: ClusterId
    ready: int
    all: int
    weight: str = ""
    priority: str = ""


class ServiceProblem(Item, frozen=True, kw_only=True):
    """What one cluster says is wrong."""

    cluster: ClusterId
    reason: str
    message: str


class ServiceItem(Item, frozen=True, kw_only=True):
    """One service of the cluster set."""

    namespace: str
    name: str
    type: str
    state: State
    ports: tuple[str, ...]
    addresses: dict[ClusterId, tuple[str, ...]]
    exporters: tuple[ServiceExporter, ...]
    importers: tuple[ClusterId, ...]
    problems: tuple[ServiceProblem, ...]


class ServicesSection:
    """Every service that a cluster exports or imports."""

    name = "services"

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """`namespace/name` of every ServiceExport and ServiceImport of the members."""
        return {
            f"{obj.namespace}/{obj.name}"
            for where in snapshot.members
            for kind in (ServiceExport, ServiceImport)
            for obj in snapshot.all(where, kind)
        }

    def keys_for(self, change: Change) -> Iterable[str]:
        """The services of a changed object; none for facts."""
        if isinstance(change, FactChange):
            return ()
        return _service_keys(change.object)

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> ServiceItem | None:
        """The item of a service over all members; None if it is neither exported nor imported."""
        namespace, _, name = key.partition("/")
        clusters = [
            _cluster_services(where, namespace, name, snapshot) for where in snapshot.members
        ]
        if not any(one.exports or one.imports for one in clusters):
            return None
        view = service_view(namespace, name, clusters)
        return ServiceItem(
            namespace=namespace,
            name=name,
            type=view.type,
            state=_state(view),
            ports=tuple(format_port(port) for port in view.ports),
            addresses={
                one.cluster: one.imports[0].spec.ips
                for one in clusters
                if one.imports and one.imports[0].spec.ips
            },
            exporters=_exporters(view, clusters),
            importers=view.importers,
            problems=tuple(
                ServiceProblem(cluster=p.cluster, reason=p.reason, message=p.message)
                for p in view.problems
            ),
        )


def _service_keys(obj: Object) -> tuple[str, ...]:
    """The key of the service that an object belongs to, if any."""
    match obj:
        case ServiceExport() | ServiceImport() if SERVICE_NAMESPACE not in obj.metadata.labels:
            return (f"{obj.namespace}/{obj.name}",)
        case EndpointSlice() if SERVICE_NAME in obj.metadata.labels:
            labels = obj.metadata.labels
            namespace = labels.get(SERVICE_NAMESPACE, obj.namespace)
            return (f"{namespace}/{labels[SERVICE_NAME]}",)
        case _:
            return ()


def _cluster_services(
    where: ClusterId, namespace: str, name: str, snapshot: MultiClusterSnapshot
) -> ClusterServices:
    """The export, the import and the imported EndpointSlices of a service in one cluster."""
    exported = snapshot.get(where, ServiceExport, name, namespace)
    imported = snapshot.get(where, ServiceImport, name, namespace)
    return ClusterServices(
        where,
        () if exported is None else (exported,),
        () if imported is None else (imported,),
        tuple(snapshot.by(where, IMPORTED, f"{namespace}/{name}")),
    )


def _exporters(view: ServiceView, clusters: list[ClusterServices]) -> tuple[ServiceExporter, ...]:
    """Each exporting cluster with its endpoint counts, weight and priority, sorted by name."""
    shares = _shares(clusters)
    shown = []
    for cluster in sorted({*view.exporters, *view.endpoints}):
        count = view.endpoints.get(cluster)
        weight, priority = shares.get(cluster, ("", ""))
        shown.append(
            ServiceExporter(
                cluster=cluster,
                ready=count.ready if count is not None else 0,
                all=count.all if count is not None else 0,
                weight=weight,
                priority=priority,
            )
        )
    return tuple(shown)


def _shares(clusters: list[ClusterServices]) -> dict[ClusterId, tuple[str, str]]:
    """The weight and priority that each exporter's slices carry."""
    found: dict[ClusterId, tuple[str, str]] = {}
    for one in clusters:
        for slice_ in one.slices:
            annotations = slice_.metadata.annotations
            source = slice_.metadata.labels.get(SOURCE_CLUSTER, "")
            found.setdefault(source, (annotations.get(WEIGHT, ""), annotations.get(PRIORITY, "")))
    return found


def _state(view: ServiceView) -> State:
    """The state of a service by its ready endpoints and problems."""
    ready = sum(count.ready for count in view.endpoints.values())
    if view.problems:
        return "warn" if ready else "bad"
    if not ready:
        return "idle" if not view.endpoints else "bad"
    return "good" if all(c.ready == c.all for c in view.endpoints.values()) else "warn"
