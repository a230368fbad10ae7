"""Every exported service, put together from what each cluster holds of it."""

from collections.abc import Sequence

from msgspec import Struct

from hanse.features.services.names import SERVICE_NAME, SOURCE_CLUSTER
from hanse.features.services.status import SETTINGS
from hanse.model.conditions import Condition, find
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.multicluster import ImportedPort, ServiceExport, ServiceImport
from hanse.model.objects import Object

POSITIVE_CONDITIONS = ("Valid", r"Ready", SETTINGS, "AddressesAllowed", "ImportedHere")
CONFLICT = r"Conflict"


class ClusterServices(Struct, frozen=True):
    """What one cluster holds of exported services."""

    cluster: str
    """The cluster's id where its agent tells it, else the name of the context."""
    exports: tuple[ServiceExport, ...] = ()
    imports: tuple[ServiceImport, ...] = ()
    slices: tuple[EndpointSlice, ...] = ()


class EndpointCount(Struct, frozen=True):
    """How many endpoints there are, and how many of them are ready."""

    ready: int
    all: int

    def __str__(self) -> str:
        return f"{self.ready}/{self.all}"


class ExportProblem(Struct, frozen=True):
    """What one cluster says is wrong with its export."""

    cluster: str
    reason: str
    message: str


class ServiceView(Struct, frozen=True):
    """One exported service over all clusters that were looked at."""

    namespace: str
    name: str
    type: str = ""
    """Empty while no cluster imports it."""
    ports: tuple[ImportedPort, ...] = ()
    exporters: tuple[str, ...] = ()
    importers: tuple[str, ...] = ()
    endpoints: dict[str, EndpointCount] = {}
    """By the cluster that they are in."""
    problems: tuple[ExportProblem, ...] = ()


def service_views(held: Sequence[ClusterServices]) -> list[ServiceView]:
    """Put together what clusters hold; of each cluster's endpoints its own word counts most."""
    names = {(one.namespace, one.name) for each in held for one in (*each.exports, *each.imports)}
    return [service_view(namespace, name, held) for namespace, name in sorted(names)]


def service_view(namespace: str, name: str, held: Sequence[ClusterServices]) -> ServiceView:
    """One service of that name, put together from what clusters hold."""

    def is_it(obj: Object) -> bool:
        return (obj.namespace, obj.name) == (namespace, name)

    imports = {each.cluster: one for each in held for one in each.imports if is_it(one)}
    exports = {each.cluster: one for each in held for one in each.exports if is_it(one)}
    shown = next((imports[c] for c in (*exports, *imports) if c in imports), None)
    exporters = {e.cluster for one in imports.values() for e in one.status.clusters}
    return ServiceView(
        namespace,
        name,
        type=shown.spec.type if shown is not None else "",
        ports=shown.spec.ports if shown is not None else (),
        exporters=tuple(sorted(exporters)),
        importers=tuple(sorted(imports)),
        endpoints=_endpoints(namespace, name, held),
        problems=tuple(p for c, one in sorted(exports.items()) for p in export_problems(c, one)),
    )


def _endpoints(
    namespace: str, name: str, held: Sequence[ClusterServices]
) -> dict[str, EndpointCount]:
    counted: dict[str, EndpointCount] = {}
    for each in held:
        seen: dict[str, list[bool]] = {}
        for endpoint_slice in each.slices:
            labels = endpoint_slice.metadata.labels
            if (endpoint_slice.namespace, labels.get(SERVICE_NAME)) == (namespace, name):
                known = seen.setdefault(labels.get(SOURCE_CLUSTER, ""), [])
                known += [endpoint.ready for endpoint in endpoint_slice.endpoints or ()]
        for source, ready in seen.items():
            if source == each.cluster or source not in counted:
                counted[source] = EndpointCount(sum(ready), len(ready))
    return dict(sorted(counted.items()))


def export_problems(cluster: str, export: ServiceExport) -> tuple[ExportProblem, ...]:
    """What an export's conditions say is wrong; nothing at all is wrong too."""
    told = export.status.conditions
    if not told:
        text = "no agent has looked at it; see `hanse doctor`"
        return (ExportProblem(cluster, "Unseen", text),)
    found = [find(told, kind) for kind in (*POSITIVE_CONDITIONS, CONFLICT)]
    bad = [one for one in found if one is not None and _is_bad(one)]
    return tuple(ExportProblem(cluster, one.reason, one.message) for one in bad)


def _is_bad(told: Condition) -> bool:
    return told.status == ("True" if told.type == CONFLICT else "False")


def format_port(port: ImportedPort) -> str:
    """A port as people write it."""
    return f"{port.port}/{port.protocol}" + (f" {port.name}" if port.name else "")
