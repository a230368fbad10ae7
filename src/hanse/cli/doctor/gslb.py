"""What is wrong with global load balancing: who leads, what it says, who is down; pure."""

from collections.abc import Iterator, Sequence

from hanse.cli.doctor.clusters import Finding
from hanse.cli.doctor.lists import Chart
from hanse.cli.gslb_terms import first_to_demote
from hanse.features.gslb.leadership import parse_epoch
from hanse.features.gslb.names import (
    ALL_CLIENTS,
    ALL_MEMBERS,
    FEDERATED,
    NOT_FEDERATING,
    TERM,
    VALID,
)
from hanse.model.objects import Wire

FINE = frozenset({VALID, ALL_CLIENTS, ALL_MEMBERS, FEDERATED, NOT_FEDERATING})
"""What an AMKOCluster says of a stage where all is well."""


def unbalanced(charts: Sequence[Chart]) -> Iterator[Finding]:
    """Two leaders or none; and where one leads, all that it says is wrong."""
    leading = [chart for chart in charts if _leading(chart)]
    if len(leading) > 1:
        yield _several(leading)
        return
    if not leading and _is_whole(charts):
        first = next(chart for chart in charts if chart["amko"])
        yield Finding(
            first.name,
            "no cluster leads the GSLB configuration, so nothing is federated or balanced anew",
            "hanse gslb promote CLUSTER",
        )
    for chart in charts:
        yield from _stages(chart)
    for chart in leading:
        yield from _configurations(chart)
        yield from _hosts(chart)


def _leading(chart: Chart) -> list[Wire]:
    return [one for one in chart["amko"] if one.get("spec", {}).get("isLeader")]


def _several(leading: Sequence[Chart]) -> Finding:
    terms = {chart.name: max(map(_term, _leading(chart))) for chart in leading}
    return Finding(
        leading[0].name,
        f"{' and '.join(terms)} both lead the GSLB configuration",
        f"hanse gslb demote {first_to_demote(terms)}",
    )


def _term(own: Wire) -> int:
    return parse_epoch((own["metadata"].get("annotations") or {}).get(TERM, ""))


def _is_whole(charts: Sequence[Chart]) -> bool:
    """Whether every cluster that may lead was looked at: one of the others may do so."""
    specs = [one.get("spec") or {} for chart in charts for one in chart["amko"]]
    seen = {chart.name for chart in charts} | {spec.get("clusterContext", "") for spec in specs}
    return bool(specs) and all(seen.issuperset(spec.get("clusters") or ()) for spec in specs)


def _stages(chart: Chart) -> Iterator[Finding]:
    told = {
        f"{one.get('type')}: {one.get('reason') or one.get('status')}"
        for own in chart["amko"]
        for one in (own.get("status") or {}).get("conditions") or ()
        if one.get("status") not in FINE
    }
    for trouble in sorted(told):
        yield Finding(chart.name, trouble, "as it says; `hanse gslb status` shows all clusters")


def _configurations(chart: Chart) -> Iterator[Finding]:
    for one in chart["configurations"]:
        state = str((one.get("status") or {}).get("state", ""))
        if state.startswith("error: "):
            name = one["metadata"]["name"]
            yield Finding(
                chart.name,
                f"GSLBConfig {name}: {state.removeprefix('error: ')}",
                f"as it says; kubectl --context {chart.name} -n avi-system edit gslbconfig {name}",
            )


def _hosts(chart: Chart) -> Iterator[Finding]:
    """Hosts that nobody serves now."""
    for one in chart["hosts"]:
        members = (one.get("status") or {}).get("members") or ()
        if members and not any(member.get("up") for member in members):
            host = one["metadata"]["name"]
            why = next((f": {m['reason']}" for m in members if m.get("reason")), "")
            yield Finding(
                chart.name,
                f"no member of host {host} is up{why}",
                f"hanse resolve {host}, which tells why each of them is left out",
            )
