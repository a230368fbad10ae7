"""What is wrong with the names that people give to global hosts; pure."""

from collections.abc import Iterable, Iterator

from hanse.cli.charts import Chart
from hanse.cli.checks import Finding
from hanse.features.gslb.inputs import is_host
from hanse.features.gslb.names import HOSTNAMES
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.objects import Wire


def unnameable(chart: Chart) -> Iterator[Finding]:
    """LoadBalancer Services whose host name is none, where global hosts are wanted."""
    if not any(one["metadata"].get("namespace") == NAMESPACE for one in chart["amko"]):
        return
    for service in chart["services"]:
        meta = service["metadata"]
        if fault := fault_in_hosts(service):
            yield Finding(
                chart.name,
                f"Service {meta['namespace']}/{meta['name']}: {fault}",
                f"kubectl --context {chart.name} -n {meta['namespace']} annotate service "
                f"{meta['name']} --overwrite {HOSTNAMES}=HOST",
            )


def faults_in_hosts(services: Iterable[Wire]) -> tuple[str, ...]:
    """One sentence for each Service of a cluster whose host name is none."""
    return tuple(
        f"Service {one['metadata']['namespace']}/{one['metadata']['name']}: {fault}"
        for one in services
        if (fault := fault_in_hosts(one))
    )


def fault_in_hosts(service: Wire) -> str:
    """What is wrong with the host names of a Service; empty where nothing is."""
    if service.get("spec", {}).get("type") != "LoadBalancer":
        return ""
    told = (service["metadata"].get("annotations") or {}).get(HOSTNAMES, "")
    bad = [name.strip() for name in told.split(",") if name.strip() and not is_host(name)]
    if not bad:
        return ""
    return (
        f"annotation {HOSTNAMES}: {bad[0][:100]!r} is no name of one host, so it is not balanced; "
        "write it as shop.example.org"
    )
