"""Findings about global load balancing: leaders, stages, configurations, hosts; pure."""

from collections.abc import Iterator, Sequence

from hanse.cli.doctor.clusters import Finding
from hanse.cli.doctor.lists import ClusterLists
from hanse.cli.gslb.view import first_to_demote
from hanse.features.gslb.names import (
    ALL_CLIENTS,
    ALL_MEMBERS,
    FEDERATED,
    NOT_FEDERATING,
    TERM,
    VALID,
)
from hanse.features.gslb.terms import parse_epoch
from hanse.model.objects import Wire

HEALTHY_STAGES = frozenset({VALID, ALL_CLIENTS, ALL_MEMBERS, FEDERATED, NOT_FEDERATING})
"""The statuses of an AMKOCluster's conditions that are no problem."""


def check_gslb(clusters: Sequence[ClusterLists]) -> Iterator[Finding]:
    """Several leaders or none, failed stages, and problems of the leader's objects."""
    leading = [lists for lists in clusters if _leading_objects(lists)]
    if len(leading) > 1:
        yield _several_leaders(leading)
        return
    if not leading and _all_candidates_read(clusters):
        first = next(lists for lists in clusters if lists["amko"])
        yield Finding(
            first.name,
            "no cluster leads the GSLB configuration, so nothing is federated or balanced anew",
            "hanse gslb promote CLUSTER",
        )
    for lists in clusters:
        yield from _failed_stages(lists)
    for lists in leading:
        yield from _failed_configurations(lists)
        yield from _hosts_down(lists)


def _leading_objects(lists: ClusterLists) -> list[Wire]:
    return [one for one in lists["amko"] if one.get("spec", {}).get("isLeader")]


def _several_leaders(leading: Sequence[ClusterLists]) -> Finding:
    """The finding for several leaders: demote the one of the earliest term."""
    terms = {lists.name: max(map(_leader_epoch, _leading_objects(lists))) for lists in leading}
    return Finding(
        leading[0].name,
        f"{' and '.join(terms)} both lead the GSLB configuration",
        f"hanse gslb demote {first_to_demote(terms)}",
    )


def _leader_epoch(own: Wire) -> int:
    return parse_epoch((own["metadata"].get("annotations") or {}).get(TERM, ""))


def _all_candidates_read(clusters: Sequence[ClusterLists]) -> bool:
    """Whether every cluster that may lead was read: one that was not may be the leader."""
    specs = [one.get("spec") or {} for lists in clusters for one in lists["amko"]]
    seen = {lists.name for lists in clusters} | {spec.get("clusterContext", "") for spec in specs}
    return bool(specs) and all(seen.issuperset(spec.get("clusters") or ()) for spec in specs)


def _failed_stages(lists: ClusterLists) -> Iterator[Finding]:
    """Conditions of AMKOClusters that report a problem."""
    failed = {
        f"{one.get('type')}: {one.get('reason') or one.get('status')}"
        for own in lists["amko"]
        for one in (own.get("status") or {}).get("conditions") or ()
        if one.get("status") not in HEALTHY_STAGES
    }
    for trouble in sorted(failed):
        yield Finding(lists.name, trouble, "as it says; `hanse gslb status` shows all clusters")


def _failed_configurations(lists: ClusterLists) -> Iterator[Finding]:
    """GSLBConfigs whose state is an error."""
    for one in lists["configurations"]:
        state = str((one.get("status") or {}).get("state", ""))
        if state.startswith("error: "):
            name = one["metadata"]["name"]
            yield Finding(
                lists.name,
                f"GSLBConfig {name}: {state.removeprefix('error: ')}",
                f"as it says; kubectl --context {lists.name} -n avi-system edit gslbconfig {name}",
            )


def _hosts_down(lists: ClusterLists) -> Iterator[Finding]:
    """Hosts of which no member is up."""
    for one in lists["hosts"]:
        members = (one.get("status") or {}).get("members") or ()
        if members and not any(member.get("up") for member in members):
            host = one["metadata"]["name"]
            why = next((f": {m['reason']}" for m in members if m.get("reason")), "")
            yield Finding(
                lists.name,
                f"no member of host {host} is up{why}",
                f"hanse resolve {host}, which tells why each of them is left out",
            )
