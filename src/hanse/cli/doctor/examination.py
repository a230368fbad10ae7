"""Everything that is wrong with clusters, read once."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from hanse.app.views import examine, reads
from hanse.cli.clusters import ClusterAccess
from hanse.cli.doctor.clusters import REQUIRED_PERMISSIONS, CheckContext, check_clusters
from hanse.cli.doctor.clusters import Finding as Check
from hanse.cli.doctor.lists import read_lists
from hanse.cli.doctor.objects import check_objects
from hanse.cli.findings import Report
from hanse.cli.fleet import read_fleet
from hanse.cli.inventory import InventoryResult, read_inventories
from hanse.model.crds import crds
from hanse.model.findings import Finding, Ref, Remedy, Severity, cluster_ref, judge

_DEGRADED = ("AgentForbidden", "CrdMissing", "LeaderMissing", "LeaseMissing", "WebhookDown")


class FleetExamination(Struct, frozen=True):
    """What was read of all clusters, what is shown of it, and what is wrong."""

    inventories: list[InventoryResult]
    items: dict[str, dict[str, Any]]
    report: Report


async def examine_clusters(clusters: Sequence[ClusterAccess], *, local: bool) -> FleetExamination:
    """Read every cluster, and judge what is wrong with them."""
    fleet, inventories, lists = await asyncio.gather(
        read_fleet(clusters, reads(), local=local),
        read_inventories(clusters, REQUIRED_PERMISSIONS),
        read_lists(clusters),
    )
    now = datetime.now(UTC)
    checks = (
        *check_clusters(inventories, CheckContext(now, crds(), local)),
        *check_objects(lists, now),
    )
    seen = examine(fleet)
    findings = judge((*seen.unjudged, *map(_finding, checks)))
    report = Report(tuple(cluster.name for cluster in clusters), findings)
    return FleetExamination(inventories, seen.items, report)


def _finding(check: Check) -> Finding:
    """A check that no view has taken over yet, as a finding."""
    return Finding(
        code=check.code,
        severity=Severity.DEGRADED if check.code in _DEGRADED else Severity.RISK,
        subject=Ref("Check", check.problem, cluster=check.cluster),
        summary=f"{check.cluster}: {check.problem}",
        remedy=Remedy(commands=(check.remedy,)) if check.pasteable else Remedy(check.remedy),
        caused_by=(cluster_ref(check.cluster),) if check.of_cluster else (),
    )
