"""Every exported service, put together from what each cluster holds of it."""

from collections.abc import Sequence

from msgspec import Struct

from hanse.features.services.names import SERVICE_NAME, SOURCE_CLUSTER
from hanse.features.services.status import SETTINGS
from hanse.model.conditions import Condition, find
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.multicluster import ImportedPort, ServiceExport, ServiceImport
from hanse.model.objects import Object

MUST_HOLD = ("Valid", "Ready", SETTINGS, "AddressesAllowed", "ImportedHere")
CONFLICT = "Conflict"


class Holding(Struct, frozen=True):
    """What one cluster holds of exported services."""

    cluster: str
    """The cluster's id where its agent tells it, else the name of the context."""
    exports: tuple[ServiceExport, ...] = ()
    imports: tuple[ServiceImport, ...] = ()
    slices: tuple[EndpointSlice, ...] = ()


class Ready(Struct, frozen=True):
    """How many endpoints there are, and how many of them are ready."""

    ready: int
    all: int

    def __str__(self) -> str:
        return f"{self.ready}/{self.all}"


class Problem(Struct, frozen=True):
    """What one cluster says is wrong with its export."""

    cluster: str
    reason: str
    message: str


class ServiceSeen(Struct, frozen=True):
    """One exported service over all clusters that were looked at."""

    namespace: str
    name: str
    type: str = ""
    """Empty while no cluster imports it."""
    ports: tuple[ImportedPort, ...] = ()
    exporters: tuple[str, ...] = ()
    importers: tuple[str, ...] = ()
    endpoints: dict[str, Ready] = {}
    """By the cluster that they are in."""
    problems: tuple[Problem, ...] = ()


def services_in(held: Sequence[Holding]) -> list[ServiceSeen]:
    """Put together what clusters hold; of each cluster's endpoints its own word counts most."""
    names = {(one.namespace, one.name) for each in held for one in (*each.exports, *each.imports)}
    return [service_in(namespace, name, held) for namespace, name in sorted(names)]


def service_in(namespace: str, name: str, held: Sequence[Holding]) -> ServiceSeen:
    """One service of that name, put together from what clusters hold."""

    def is_it(obj: Object) -> bool:
        return (obj.namespace, obj.name) == (namespace, name)

    imports = {each.cluster: one for each in held for one in each.imports if is_it(one)}
    exports = {each.cluster: one for each in held for one in each.exports if is_it(one)}
    shown = next((imports[c] for c in (*exports, *imports) if c in imports), None)
    exporters = {e.cluster for one in imports.values() for e in one.status.clusters}
    return ServiceSeen(
        namespace,
        name,
        type=shown.spec.type if shown is not None else "",
        ports=shown.spec.ports if shown is not None else (),
        exporters=tuple(sorted(exporters)),
        importers=tuple(sorted(imports)),
        endpoints=_endpoints(namespace, name, held),
        problems=tuple(p for c, one in sorted(exports.items()) for p in problems_of(c, one)),
    )


def _endpoints(namespace: str, name: str, held: Sequence[Holding]) -> dict[str, Ready]:
    counted: dict[str, Ready] = {}
    for each in held:
        seen: dict[str, list[bool]] = {}
        for piece in each.slices:
            labels = piece.metadata.labels
            if (piece.namespace, labels.get(SERVICE_NAME)) == (namespace, name):
                known = seen.setdefault(labels.get(SOURCE_CLUSTER, ""), [])
                known += [endpoint.ready for endpoint in piece.endpoints or ()]
        for source, ready in seen.items():
            if source == each.cluster or source not in counted:
                counted[source] = Ready(sum(ready), len(ready))
    return dict(sorted(counted.items()))


def problems_of(cluster: str, export: ServiceExport) -> tuple[Problem, ...]:
    """What an export's conditions say is wrong; nothing at all is wrong too."""
    told = export.status.conditions
    if not told:
        text = "no agent has looked at it; see `hanse doctor`"
        return (Problem(cluster, "Unseen", text),)
    found = [find(told, kind) for kind in (*MUST_HOLD, CONFLICT)]
    bad = [one for one in found if one is not None and _is_bad(one)]
    return tuple(Problem(cluster, one.reason, one.message) for one in bad)


def _is_bad(told: Condition) -> bool:
    return told.status == ("True" if told.type == CONFLICT else "False")


def port_text(port: ImportedPort) -> str:
    """A port as people write it."""
    return f"{port.port}/{port.protocol}" + (f" {port.name}" if port.name else "")
