"""Everything that is wrong with clusters, read once."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hanse.app.views import examine, views
from hanse.cli.clusters import (
    BROKER_CONNECTIONS,
    ClusterAccess,
    ReadFailure,
    open_clients,
    read_clusters,
)
from hanse.cli.doctor.checks import CheckedFleet, ChecksView
from hanse.cli.doctor.clusters import REQUIRED_PERMISSIONS
from hanse.cli.doctor.lists import FIRST, further_lists
from hanse.cli.findings import Report
from hanse.cli.fleet import ClusterRead, build_fleet
from hanse.cli.fleet_lists import ask_renewal, complete, read_further, read_objects, unserved_kinds
from hanse.cli.inventory import (
    AccessAnswer,
    ClusterInventory,
    InventoryResult,
    ServiceInventory,
    describe_cluster,
    explain_failure,
    read_access,
    read_version,
    service_inventory,
    unread_cluster,
)
from hanse.features.services.reading import ALL_IMPORTS, slices_from
from hanse.kube.client import Client
from hanse.kube.discovery import refresh
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport


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
                cluster.name: await explain_failure(cluster, one)
                if isinstance(one, ReadFailure)
                else one[0]
                for cluster, one in zip(clusters, results, strict=True)
            },
            clients,
            further_lists,
        )
    inventories: list[InventoryResult] = [
        unread_cluster(one) if isinstance(one, ReadFailure) else _inventory(read, one)
        for one in results
    ]
    checked = CheckedFleet(inventories, read.values(), now)
    seen = examine(
        build_fleet(read.values(), now, local=local),
        (*views(), ChecksView(lambda: checked, local=local)),
    )
    report = Report(tuple(cluster.name for cluster in clusters), seen.findings)
    return FleetExamination(inventories, seen.items, report)


_First = tuple[ClusterRead, AccessAnswer]


async def _read(cluster: ClusterAccess, client: Client) -> _First:
    """Read the first lists of one cluster, and what our credentials and its agent's may do.

    Of an exporting cluster also its own slices; a server of ClusterMembers, which may be a broker,
    gets more connections. Raises `KubeError`.
    """
    answer, _ = await asyncio.gather(read_version(client), refresh(client, core=False))
    if ClusterMember not in unserved_kinds(client):
        client.limit.widen(BROKER_CONNECTIONS)
    read = await read_objects(cluster, client, FIRST)
    read = replace(read, skew=answer.skew, asked_at=answer.sent, slow=answer.is_slow)
    read = await ask_renewal(read, client)
    own = [slices_from(read.cluster)] if read.objects(ServiceExport) else []
    read, access = await asyncio.gather(
        read_further(read, client, own),
        read_access(cluster, client, REQUIRED_PERMISSIONS, answer, read),
    )
    forbidden = tuple(dict.fromkeys(one.resource for one in access.agent_denied))
    return replace(read, agent_forbidden=forbidden, features=access.features), access


_SERVICE_KINDS = frozenset({ServiceExport.kind, ServiceImport.kind})


def _inventory(reads: Mapping[str, ClusterRead], first: _First) -> ClusterInventory:
    """The inventory of a cluster, `services` included, once everything of it was read."""
    read = reads[first[0].context]
    return replace(describe_cluster(read, first[1]), services=_services(read))


def _services(read: ClusterRead) -> ServiceInventory | None:
    """The exports, and the number of imports; None where neither kind is served.

    Of a kind that was not read, the field in it is None.
    """
    listed = any(watch.kind is ServiceExport for watch in read.lists)
    exports = read.objects(ServiceExport) if listed else None
    counted = read.counts.get(ServiceImport.kind)
    imports = counted.total if counted is not None else None
    if imports is None and ALL_IMPORTS in read.lists:
        imports = len(read.objects(ServiceImport))
    if exports is None and imports is None and read.unserved >= _SERVICE_KINDS:
        return None
    return service_inventory(exports, imports)
