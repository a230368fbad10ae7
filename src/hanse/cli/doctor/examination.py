"""Everything that is wrong with clusters, read once."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hanse.app.views import examine
from hanse.cli.clusters import ClusterAccess, ReadFailure, open_clients, read_clusters
from hanse.cli.doctor.clusters import REQUIRED_PERMISSIONS, CheckContext, check_clusters
from hanse.cli.doctor.clusters import Finding as Check
from hanse.cli.doctor.lists import FIRST, further_lists
from hanse.cli.doctor.objects import check_objects
from hanse.cli.findings import Report
from hanse.cli.fleet import ClusterRead, build_fleet, complete, read_objects, unread
from hanse.cli.inventory import (
    AccessAnswer,
    ClusterInventory,
    InventoryResult,
    ServiceInventory,
    describe_cluster,
    read_access,
    read_version,
    service_inventory,
    unread_cluster,
)
from hanse.features.services.reading import ALL_IMPORTS
from hanse.kube.client import Client
from hanse.kube.discovery import refresh
from hanse.model.crds import crds
from hanse.model.findings import Finding, Ref, Remedy, Severity, cluster_ref, judge
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport

_DEGRADED = ("AgentForbidden", "CrdMissing", "LeaderMissing", "LeaseMissing", "WebhookDown")


class FleetExamination(Struct, frozen=True):
    """What was read of all clusters, what is shown of it, and what is wrong."""

    inventories: list[InventoryResult]
    items: dict[str, dict[str, Any]]
    report: Report


async def examine_clusters(clusters: Sequence[ClusterAccess], *, local: bool) -> FleetExamination:
    """Read every cluster from its API server, and judge what is wrong; nothing is written.

    Clusters that cannot be read are in the inventories as `UnreadCluster`, and in the findings.
    """
    async with open_clients(clusters) as clients:
        results = await read_clusters(clusters, _read, limit=None, clients=clients)
        now = datetime.now(UTC)  # what follows takes its time, and Leases have an age
        read = await complete(
            {
                cluster.name: unread(one) if isinstance(one, ReadFailure) else one[0]
                for cluster, one in zip(clusters, results, strict=True)
            },
            clients,
            further_lists,
        )
    inventories: list[InventoryResult] = [
        unread_cluster(one) if isinstance(one, ReadFailure) else _inventory(read, one)
        for one in results
    ]
    checks = (
        *check_clusters(inventories, CheckContext(now, crds(), local)),
        *check_objects([one for one in read.values() if not one.failure], now),
    )
    seen = examine(build_fleet(read.values(), now, local=local))
    lost = {one.subject for one in seen.unjudged if one.code == "BrokerNamespaceMissing"}
    findings = judge((*seen.unjudged, *(as_finding(one, lost) for one in checks)))
    report = Report(tuple(cluster.name for cluster in clusters), findings)
    return FleetExamination(inventories, seen.items, report)


_First = tuple[ClusterRead, AccessAnswer]


async def _read(cluster: ClusterAccess, client: Client) -> _First:
    """What is read of one cluster at first: all of it, or it has failed."""
    answer = await read_version(client)
    await refresh(client)
    read = await read_objects(cluster, client, FIRST)
    return read, await read_access(cluster, client, REQUIRED_PERMISSIONS, answer, read)


def _inventory(reads: Mapping[str, ClusterRead], first: _First) -> ClusterInventory:
    """The inventory of a cluster once everything of it was read."""
    read = reads[first[0].context]
    return replace(describe_cluster(read, first[1]), services=_services(read))


def _services(read: ClusterRead) -> ServiceInventory | None:
    """The exports, and the number of imports; None unless both could be read."""
    counted = read.counts.get(ServiceImport.kind)
    if counted is None or not any(watch.kind is ServiceExport for watch in read.lists):
        return None
    if counted.total is not None:
        return service_inventory(read.objects(ServiceExport), counted.total)
    if ALL_IMPORTS not in read.lists:
        return None
    return service_inventory(read.objects(ServiceExport), len(read.objects(ServiceImport)))


def as_finding(check: Check, lost: Collection[Ref]) -> Finding:
    """A check's finding as a `Finding` of the model: DEGRADED for codes in `_DEGRADED`, else RISK.

    `lost` are the brokers without their namespace: they cause checks that are `of_namespace`.
    """
    broker = cluster_ref(check.cluster)
    return Finding(
        code=check.code,
        severity=Severity.DEGRADED if check.code in _DEGRADED else Severity.RISK,
        subject=replace(check.subject or Ref("APIServer", check.cluster), cluster=check.cluster),
        summary=f"{check.cluster}: {check.problem}",
        remedy=Remedy(check.advice, (check.remedy,)) if check.pasteable else Remedy(check.remedy),
        caused_by=(broker,) if check.of_namespace and broker in lost else (),
    )
