"""What objects say of themselves is wrong, in their conditions and phases; pure."""

from collections.abc import Callable, Iterator, Mapping

from hanse.cli.charts import Chart
from hanse.cli.checks import Finding
from hanse.model.objects import Wire

CONDITIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "tenants": ("Tenant", ("Ready",)),
    "services": ("Service", ("Federated", "FederatedNameFree")),
    "imports": ("ServiceImport", ("Published",)),
    "hosts": ("GlobalService", ("Published",)),
    "sets": ("StatefulSet", ("Valid", "Placed", "Published")),
    "hosted": ("FederatedStatefulSet", ("Valid", "Placed", "Published")),
}
"""By list: the kind, and the conditions that are wrong when they are False."""

AS_TOLD = "as it says; `hanse statefulsets` shows where its replicas are"


def told_wrong(chart: Chart) -> Iterator[Finding]:
    """Everything that says of itself that somebody has to look at it."""
    for what, (kind, types) in CONDITIONS.items():
        for obj in chart[what]:
            yield from (_finding(chart, kind, obj, told) for told in _untrue(obj, types))
    for what, (kind, read) in STATUSES.items():
        for obj in chart[what]:
            for told in filter(None, read(obj.get("status") or {})):
                yield _finding(chart, kind, obj, told)
    for part in chart["parts"]:
        spec = part["spec"]
        if trouble := spec.get("trouble"):
            place = f"{spec['namespace']}/{spec['name']}"
            yield Finding(spec["cluster"], f"its part of StatefulSet {place}: {trouble}", AS_TOLD)


def _untrue(obj: Wire, types: tuple[str, ...]) -> Iterator[str]:
    for one in (obj.get("status") or {}).get("conditions") or ():
        if one.get("type") in types and one.get("status") == "False":
            yield one.get("message") or one.get("reason", "")


def _failed(status: Wire) -> Iterator[str]:
    if status.get("phase") in ("Failed", "Unknown"):
        yield str(status.get("message", ""))


def _rejected(status: Wire) -> Iterator[str]:
    if status.get("status") == "Rejected":
        yield str(status.get("error", ""))


def _erroneous(status: Wire) -> Iterator[str]:
    if status.get("errorStatus"):
        yield str(status["errorStatus"])
    yield from map(str, status.get("warnings") or ())


STATUSES: Mapping[str, tuple[str, Callable[[Wire], Iterator[str]]]] = {
    "networks": ("Network", _failed),
    "policies": ("GlobalDeploymentPolicy", _erroneous),
    "rules": ("GSLBHostRule", _rejected),
}


def _finding(chart: Chart, kind: str, obj: Wire, told: str) -> Finding:
    meta = obj["metadata"]
    name, namespace = meta["name"], meta.get("namespace", "")
    place = f"{namespace}/{name}" if namespace else name
    where = f" -n {namespace}" if namespace else ""
    return Finding(
        chart.name,
        f"{kind} {place}: {told}",
        f"as it says; kubectl --context {chart.name}{where} describe {kind.lower()} {name}",
    )
