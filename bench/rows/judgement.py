"""What judging costs: an agent's update, and a fleet of 60 clusters as `hanse status` reads it."""

import time
from datetime import UTC, datetime

from bench.figures import AtMost, Figure
from bench.processes import apart
from bench.row import Effort, Row, unprepared
from hanse.app.views import examine, reads, views
from hanse.cli.fleet import ClusterRead, build_fleet
from hanse.cli.fleet_lists import BROKER_READS
from hanse.features.services.names import DOMAIN, SERVICE_NAME, SERVICE_NAMESPACE, SOURCE_CLUSTER
from hanse.kube.watch_events import Listed
from hanse.model.conditions import condition
from hanse.model.judgement import Judgement
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec
from hanse.model.kinds.discovery import MANAGED_BY, Endpoint, EndpointConditions, EndpointSlice
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.kinds.multicluster import (
    ExportingCluster,
    ImportedPort,
    ServiceExport,
    ServiceExportStatus,
    ServiceImport,
    ServiceImportSpec,
    ServiceImportStatus,
)
from hanse.model.objects import Meta, Object
from hanse.model.ownership import OWNER
from hanse.model.snapshot import ObjectChange

CLUSTERS, SERVICES = 60, 5_000
BROKER = "broker"
UPDATES = 50
_GOOD = (condition("Valid", True, "Valid"), condition("Ready", True, "Exported"))


async def _once(effort: Effort) -> dict[str, float]:
    return await apart(judging, effort.of(SERVICES, 200))


def judging(services: int) -> dict[str, float]:
    """CPU of judging a fleet that imports everything, and of an update in one of its agents."""
    now = datetime.now(UTC)
    objects = fleet_objects(services, now)
    read = {name: as_read(name, found) for name, found in objects.items()}
    started = time.process_time()
    found = examine(build_fleet(read.values(), now))
    fleet = time.process_time() - started
    assert len(found.items["services"]) == services
    assert found.findings == (), "everything is served"
    home = build_fleet([one for name, one in read.items() if name in (BROKER, "c0")], now)
    judgement = Judgement(views(), lambda: home)
    while judgement.stale:
        judgement.refresh()
    exports = [one for one in objects["c0"] if isinstance(one, ServiceExport)]
    started = time.process_time()
    for number in range(UPDATES):
        changed = exports[number % len(exports)]
        judgement.on_change(ObjectChange("c0", changed, changed))
        judgement.refresh()
    update = (time.process_time() - started) / UPDATES * 1e6
    return {"CPU of the fleet": fleet, "CPU of an update": update}


def fleet_objects(services: int, now: datetime) -> dict[str, list[Object]]:
    """Services that two clusters each export and all import, as every cluster has them."""
    names = [f"c{number}" for number in range(CLUSTERS)]
    found: dict[str, list[Object]] = {
        name: [_lease("hanse-agent", "hanse-system", f"{name}_0", now)] for name in names
    }
    beats = [_lease(name, "hanse-broker", name, now) for name in names]
    found[BROKER] = [ClusterSet(metadata=Meta(name="default")), *beats]
    for number in range(services):
        service, own = f"s{number}", [names[(number + n) % CLUSTERS] for n in range(2)]
        meta = Meta(name=service, namespace="shop", creation_timestamp=now)
        export = ServiceExport(metadata=meta, status=ServiceExportStatus(conditions=_GOOD))
        for name in own:
            found[name].append(export)
            found[BROKER].append(_slice(service, name, "hanse-broker"))
        shared = [_import(service, own), *(_slice(service, name, "shop") for name in own)]
        for name in names:
            found[name] += shared
    return found


def as_read(name: str, objects: list[Object]) -> ClusterRead:
    """A cluster as somebody has read it who listed everything."""
    by_kind: dict[type[Object], list[Object]] = {}
    for one in objects:
        by_kind.setdefault(type(one), []).append(one)
    watches = dict.fromkeys((*reads(), *BROKER_READS))
    return ClusterRead(name, {w: Listed(tuple(by_kind.get(w.kind, ())), "1") for w in watches})


def _lease(name: str, namespace: str, holder: str, now: datetime) -> Lease:
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=30, renew_time=now.isoformat())
    return Lease(metadata=LeaseMeta(name=name, namespace=namespace), spec=spec)


def _slice(service: str, cluster: str, namespace: str) -> EndpointSlice:
    labels = {SERVICE_NAME: service, SOURCE_CLUSTER: cluster, MANAGED_BY: DOMAIN}
    if namespace == "hanse-broker":
        labels[SERVICE_NAMESPACE] = "shop"
    ready = Endpoint(addresses=("10.0.0.1",), conditions=EndpointConditions(ready=True))
    meta = Meta(name=f"{service}-{cluster}", namespace=namespace, labels=labels)
    return EndpointSlice(metadata=meta, address_type="IPv4", endpoints=(ready,))


def _import(service: str, exporters: list[str]) -> ServiceImport:
    return ServiceImport(
        metadata=Meta(name=service, namespace="shop", labels={OWNER: "bench"}),
        spec=ServiceImportSpec(type="ClusterSetIP", ports=(ImportedPort(port=80),)),
        status=ServiceImportStatus(
            clusters=tuple(ExportingCluster(cluster=name) for name in exporters)
        ),
    )


JUDGEMENT = Row(
    name="judgement",
    about="what is wrong in 60 clusters with 5,000 services, and one update in an agent",
    against="fixed goals",
    figures=(
        Figure("CPU of the fleet", "s", AtMost(2.0)),
        Figure("CPU of an update", "µs", AtMost(5_000.0)),
    ),
    prepare=unprepared(_once),
)
