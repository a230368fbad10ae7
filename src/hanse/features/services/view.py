"""Multi-cluster services: who exports them, what is ready where, and what is wrong with them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from hanse.features.services.clusters import IMPORTED, PUBLISHED, source_cluster
from hanse.features.services.exported import (
    ClusterServices,
    ExportedService,
    joined_service,
)
from hanse.features.services.findings import (
    condition_findings,
    endpoint_findings,
    import_findings,
    refused_exports,
)
from hanse.features.services.names import (
    PRIORITY,
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    SOURCE_CLUSTER,
    WEIGHT,
)
from hanse.features.services.reading import imports_by_count
from hanse.model.facts import Role
from hanse.model.findings import Finding, Ref
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import MANAGED_BY, EndpointSlice
from hanse.model.kinds.multicluster import ImportedPort, ServiceExport, ServiceImport
from hanse.model.object_view import ConditionRule, ObjectRule, ObjectsView, check_conditions
from hanse.model.objects import ClusterId, Object
from hanse.model.snapshot import Change, FactChange, Watch
from hanse.model.unread import unread_finding
from hanse.model.view import Item, Part, State, state_of


class ServiceExporter(Part, frozen=True, kw_only=True):
    """One cluster's part of a service."""

    cluster: ClusterId
    ready: int
    all: int
    weight: str = ""
    priority: str = ""
    lost: bool = False
    """Whether the cluster cannot be counted on, so that the numbers are old."""
    unknown: bool = False
    """Whether its endpoints could not be read, so that there are no numbers."""


class ServiceProblem(Part, frozen=True, kw_only=True):
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
    ports: tuple[ImportedPort, ...]
    addresses: dict[ClusterId, tuple[str, ...]]
    exporters: tuple[ServiceExporter, ...]
    importers: tuple[ClusterId, ...]
    problems: tuple[ServiceProblem, ...]
    unknown: str = ""
    """Why no import of it could be read, so that nobody knows its type, ports and clusters."""


class ServicesView:
    """Every service that a cluster exports or imports."""

    name = "services"
    reads = (
        Watch(Role.LOCAL, ServiceExport),
        Watch(Role.LOCAL, ServiceImport),
        Watch(Role.LOCAL, Service),
        Watch(
            Role.LOCAL,
            EndpointSlice,
            labels=f"{SERVICE_NAME},{MANAGED_BY}",
            indexes=(IMPORTED, PUBLISHED),
        ),
    )

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """`namespace/name` of every ServiceExport and ServiceImport of the members.

        Aggregates on a broker are left out.
        """
        return {
            key
            for where in snapshot.members
            for kind in (ServiceExport, ServiceImport)
            for obj in snapshot.all(where, kind)
            for key in _service_keys(obj)
        }

    def keys_for(self, change: Change) -> Iterable[str]:
        """`namespace/name` of the services of an object before and after its change.

        None for facts, aggregates on a broker and other kinds.
        """
        if isinstance(change, FactChange):
            return ()
        sides = (side for side in (change.before, change.after) if side is not None)
        return {key for side in sides for key in _service_keys(side)}

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> ServiceItem | None:
        """The item of a service over all members; None if it is neither exported nor imported."""
        namespace, _, name = key.partition("/")
        clusters = _cluster_services(key, snapshot)
        if not clusters:
            return None
        service = joined_service(namespace, name, clusters)
        exporters = _exporters(service, clusters, snapshot)
        unread = _unread_imports(clusters, snapshot)
        findings = tuple(_findings(service, clusters, exporters, unread, snapshot))
        idle = not any(one.all for one in exporters)
        return ServiceItem(
            namespace=namespace,
            name=name,
            type=service.type,
            state=state_of(findings, "idle" if idle else "good"),
            ports=service.ports,
            addresses={
                one.cluster: one.imports[0].spec.ips
                for one in clusters
                if one.imports and one.imports[0].spec.ips
            },
            exporters=exporters,
            importers=_importers(service, snapshot),
            problems=tuple(
                ServiceProblem(cluster=p.cluster, reason=p.reason, message=p.message)
                for p in service.problems
            ),
            findings=findings,
            unknown=snapshot.denied(unread, ServiceImport),
        )


def _unread_imports(
    clusters: Sequence[ClusterServices], snapshot: MultiClusterSnapshot
) -> ClusterId:
    """The first of the clusters if imports could be read in none of them; else empty."""
    if any(one.imports for one in clusters):
        return ""
    unread = [one.cluster for one in clusters if snapshot.denied(one.cluster, ServiceImport)]
    return unread[0] if len(unread) == len(clusters) else ""


def _findings(
    service: ExportedService,
    clusters: list[ClusterServices],
    exporters: tuple[ServiceExporter, ...],
    unread: ClusterId,
    snapshot: MultiClusterSnapshot,
) -> Iterator[Finding]:
    """What is wrong with a service: what could not be read, endpoints, exports, imports in the way.
    `unread` is a cluster whose imports could not be read, if nothing else says who exports it.
    """
    counts = {one.cluster: one for one in exporters if not one.unknown}
    unknown = [one.cluster for one in exporters if one.unknown]
    subject = Ref("Service", service.name, service.namespace)
    name = f"{service.namespace}/{service.name}"
    if unread:
        summary = f"who exports {name} is not known"
        yield unread_finding(subject, summary, unread, ServiceImport, snapshot)
    for cluster in unknown:
        summary = f"the endpoints of {name} in {cluster} are not known"
        yield unread_finding(subject, summary, cluster, EndpointSlice, snapshot)
    yield from endpoint_findings(service, counts, snapshot, unknown, refused_exports(clusters))
    yield from condition_findings(service, clusters, snapshot)
    yield from import_findings(service, clusters, snapshot)


def _importers(service: ExportedService, snapshot: MultiClusterSnapshot) -> tuple[ClusterId, ...]:
    """The clusters that import a service: by their lists, or presumed by their counts."""
    counts = snapshot.cached_result(imports_by_count)
    return counts.importers(service.namespace, service.name, service.importers)


def _service_keys(obj: Object) -> tuple[str, ...]:
    """`namespace/name` of an object's service; none for aggregates on a broker and other kinds."""
    match obj:
        case ServiceExport() | ServiceImport() if SERVICE_NAMESPACE not in obj.metadata.labels:
            return (f"{obj.namespace}/{obj.name}",)
        case EndpointSlice() if SERVICE_NAME in obj.metadata.labels:
            labels = obj.metadata.labels
            namespace = labels.get(SERVICE_NAMESPACE, obj.namespace)
            return (f"{namespace}/{labels[SERVICE_NAME]}",)
        case _:
            return ()


def _cluster_services(key: str, snapshot: MultiClusterSnapshot) -> list[ClusterServices]:
    """The export, import and slices of a service, by cluster in member order.

    Of each cluster with an export or import; slices only of those that `_best_slices` chooses.
    """
    namespace, _, name = key.partition("/")
    exports = dict(snapshot.in_members(ServiceExport, name, namespace))
    imports = dict(snapshot.in_members(ServiceImport, name, namespace))
    exporters = {*exports, *(e.cluster for one in imports.values() for e in one.status.clusters)}
    clusters = sorted({*exports, *imports}, key=snapshot.member_order.__getitem__)
    slices = _best_slices(key, clusters, exporters, snapshot)
    return [
        ClusterServices(
            where,
            (exports[where],) if where in exports else (),
            (imports[where],) if where in imports else (),
            slices.get(where, ()),
        )
        for where in clusters
    ]


def _best_slices(
    key: str,
    clusters: Sequence[ClusterId],
    exporters: set[ClusterId],
    snapshot: MultiClusterSnapshot,
) -> dict[ClusterId, tuple[EndpointSlice, ...]]:
    """The imported slices by cluster: in exporters and the first importer, which suffice as a rule.

    In further importers only until slices of all exporters are seen.
    """
    missing = set(exporters)
    known: dict[ClusterId, tuple[EndpointSlice, ...]] = {}
    importers = [where for where in clusters if where not in exporters]
    for where in (*(where for where in clusters if where in exporters), *importers):
        if where in exporters or where == importers[0] or missing:
            known[where] = tuple(snapshot.by(where, IMPORTED, key))
            missing -= {s.metadata.labels.get(SOURCE_CLUSTER, "") for s in known[where]}
    return known


def _exporters(
    service: ExportedService, clusters: list[ClusterServices], snapshot: MultiClusterSnapshot
) -> tuple[ServiceExporter, ...]:
    """Each exporting cluster with its endpoint counts, weight and priority, sorted by name.

    None is ready in a lost cluster (unreachable or silent), nor without imported slices: then `all`
    is the brokers' count. One that only has slices on a broker is left out, unless it is lost. One
    that is not lost, and whose slices could not be read, is `unknown`.
    """
    shares = _annotated_shares(clusters)
    uncounted = any(one not in service.endpoints for one in service.exporters)
    published = _published_counts(service, snapshot) if uncounted or snapshot.lost_members else {}
    shown = []
    for cluster in sorted({*service.exporters, *service.endpoints, *published}):
        count = service.endpoints.get(cluster)
        weight, priority = shares.get(cluster, ("", ""))
        lost = snapshot.fault_of(cluster) is not None
        if cluster not in service.exporters and count is None and not lost:
            continue  # it is not imported, and its conditions say why
        unknown = count is None and not lost and bool(snapshot.denied(cluster, EndpointSlice))
        shown.append(
            ServiceExporter(
                cluster=cluster,
                ready=count.ready if count is not None and not lost else 0,
                all=count.all if count is not None else published.get(cluster, 0),
                weight=weight,
                priority=priority,
                lost=lost,
                unknown=unknown,
            )
        )
    return tuple(shown)


def _published_counts(
    service: ExportedService, snapshot: MultiClusterSnapshot
) -> Mapping[ClusterId, int]:
    """The number of endpoints, ready or not, that each cluster has on brokers for the service."""
    found: dict[ClusterId, int] = {}
    for broker in snapshot.clusters_with_role(Role.BROKER):
        for one in snapshot.by(broker, PUBLISHED, f"{service.namespace}/{service.name}"):
            source = source_cluster(one)
            found[source] = found.get(source, 0) + len(one.endpoints or ())
    return found


def _annotated_shares(clusters: list[ClusterServices]) -> dict[ClusterId, tuple[str, str]]:
    """The weight and priority in the annotations of each exporter's slices; empty if unset.

    The first slice of an exporter counts, in the order of the clusters.
    """
    found: dict[ClusterId, tuple[str, str]] = {}
    for one in clusters:
        for slice_ in one.slices:
            annotations = slice_.metadata.annotations
            source = slice_.metadata.labels.get(SOURCE_CLUSTER, "")
            found.setdefault(source, (annotations.get(WEIGHT, ""), annotations.get(PRIORITY, "")))
    return found


OBJECTS = ObjectsView(
    "service-objects",
    (
        ObjectRule(ServiceImport, check_conditions({"Published": ConditionRule("NotPublished")})),
        ObjectRule(ServiceExport, check_conditions({})),
    ),
)
"""Imports whose names are not published; what is wrong with exports else is told by service."""
