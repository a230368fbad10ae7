"""Builders of exports, Services, records and snapshots of multi-cluster services."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from hanse.features.services.feature import Services
from hanse.features.services.names import SOURCE_CLUSTER
from hanse.features.services.records import ExportRecord
from hanse.features.services.slices import ExportBackends, build_published_slices
from hanse.kube.lease import new_lease
from hanse.model.facts import Answer, Fact, HolderState, LeaseLiveness, Phase, Role
from hanse.model.kinds.coordination import Lease, LeaseSpec
from hanse.model.kinds.core import Protocol, Service, ServicePort, ServiceSpec
from hanse.model.kinds.discovery import (
    KUBE_SERVICE,
    AddressType,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
)
from hanse.model.kinds.hanse import ClusterSet, ClusterSetSpec, Profile
from hanse.model.kinds.multicluster import (
    ImportedPort,
    ServiceExport,
    ServiceExportSpec,
    ServiceExportStatus,
)
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId, ClusterObjectRef, K, Meta, Object, object_ref
from hanse.model.plan import Key, Plan, Read
from hanse.model.snapshot import Snapshot
from hanse.runtime.diff import diff
from tests.support.builders import cluster, namespace, snapshot, stored
from tinykube.virtual_time import EPOCH

HOME = BROKER_NAMESPACE
HERE = "lubeck"
BROKER = "broker"
SHOP = "shop"
FEATURE = Services()
PROFILES: tuple[Profile, ...] = ("lighthouse", "kep-1645")

EXPORT = Key("export", "web", SHOP)
IMPORT = Key("import", "web", SHOP)
AGGREGATE = Key("aggregate", "web", SHOP)


def port(number: int, name: str = "", protocol: Protocol = "TCP", **fields: Any) -> ImportedPort:
    return ImportedPort(port=number, name=name, protocol=protocol, **fields)


def record(
    of: str, *ports: ImportedPort, age: float = 1, headless: bool = False, **fields: Any
) -> ExportRecord:
    """An export of shop/web by a cluster, some seconds old."""
    return ExportRecord(
        cluster=of,
        namespace=SHOP,
        name="web",
        exported_at=EPOCH - timedelta(seconds=age),
        type="Headless" if headless else "ClusterSetIP",
        ports=ports or (port(80, "http"),),
        ip_families=fields.pop("ip_families", ("IPv4",)),
        **fields,
    )


def published_slices(of: ExportRecord, *addresses: str, pods: int = 1) -> tuple[EndpointSlice, ...]:
    """The slices on the broker of one cluster's export."""
    behind = ExportBackends(addresses or ("10.0.0.1",), (backends(pods),))
    slices = build_published_slices(of, behind, HOME, as_pods=of.type == "Headless")
    age = (EPOCH - of.exported_at).total_seconds()
    return tuple(stored(s, age=age) for s in slices)


def export(
    *, age: float = 1, annotations: dict[str, str] | None = None, **spec: Any
) -> ServiceExport:
    meta = Meta(name="web", namespace=SHOP, annotations=annotations or {})
    return stored(ServiceExport(metadata=meta, spec=ServiceExportSpec(**spec)), age=age)


def service(*ports: tuple[str, int], headless: bool = False, **spec: Any) -> Service:
    """The Service shop/web, with a cluster IP."""
    address = "None" if headless else "10.0.0.1"
    fields: dict[str, Any] = {
        "cluster_ip": address,
        "cluster_ips": (address,),
        "ip_families": ("IPv4",),
        "ports": tuple(ServicePort(port=n, name=name) for name, n in ports or (("http", 80),)),
    }
    made = Service(
        metadata=Meta(name="web", namespace=SHOP), spec=ServiceSpec(**{**fields, **spec})
    )
    return stored(made)


def backends(
    pods: int = 1,
    ready: bool = True,
    name: str = "web-abc",
    family: AddressType = "IPv4",
    hostnames: bool = False,
) -> EndpointSlice:
    """The slice of the pods of shop/web in its own cluster."""
    block = "fd00::" if family == "IPv6" else "10.9.0."
    endpoints = tuple(
        Endpoint(
            addresses=(f"{block}{n + 1}",),
            conditions=EndpointConditions(ready=ready),
            hostname=f"web-{n}" if hostnames else "",
        )
        for n in range(pods)
    )
    return stored(
        EndpointSlice(
            metadata=Meta(name=name, namespace=SHOP, labels={KUBE_SERVICE: "web"}),
            address_type=family,
            endpoints=endpoints,
            ports=(EndpointPort(port=8080, name="http"),),
        )
    )


def rules(profile: Profile = "lighthouse", **fields: Any) -> ClusterSet:
    return stored(
        ClusterSet(metadata=Meta(name="hanse"), spec=ClusterSetSpec(profile=profile, **fields))
    )


def held_lease(cluster: ClusterId) -> Lease:
    """The heartbeat of a cluster that is ready for the next day, without any renewal."""
    spec = LeaseSpec(holder_identity=cluster, lease_duration_seconds=24 * 3600)
    return new_lease(HOME, cluster, spec)


def observed(
    here: Iterable[Object] = (),
    broker: Iterable[Object] = (),
    *,
    facts: Iterable[Fact] = (),
    after: float = 0,
    broker_phase: Phase = Phase.SYNCED,
    namespaces: Sequence[str] = (SHOP,),
) -> Snapshot:
    """The snapshot of the agent of lubeck, some seconds after the epoch.

    Clusters that publish slices on the broker are ready, and a read has confirmed their slices,
    unless a fact says otherwise.
    """
    broker = list(broker)
    ready_slices = [s for s in broker if isinstance(s, EndpointSlice)]
    read = [slice_read(s, s.metadata.resource_version) for s in ready_slices]
    sources = {s.metadata.labels.get(SOURCE_CLUSTER, "") for s in broker}
    ready = [LeaseLiveness(BROKER, HOME, c, c, HolderState.READY, EPOCH) for c in sources]
    states = (cluster(HERE, Role.LOCAL), cluster(BROKER, Role.BROKER, phase=broker_phase))
    objects = {HERE: [*(stored(namespace(s)) for s in namespaces), *here], BROKER: broker}
    now = EPOCH + timedelta(seconds=after)
    return snapshot(FEATURE, HERE, states, objects, (*ready, *read, *facts), now)


def slice_read(endpoint_slice: EndpointSlice, version: str) -> Answer:
    """What a read of a slice found since its cluster is ready: a version; empty: nothing."""
    read = Read(ClusterObjectRef(BROKER, object_ref(endpoint_slice)), since=EPOCH.isoformat())
    value = {"metadata": {"resourceVersion": version}} if version else None
    return Answer(read.id, value, "", EPOCH)


def desired(plan: Plan, kind: type[K]) -> list[K]:
    """The desired objects of a kind in a plan."""
    return [d.object for d in plan.desired if isinstance(d.object, kind)]


def conditions(plan: Plan) -> dict[str, tuple[str, str]]:
    """The conditions in a plan's status patches, by type: status and reason."""
    reported = [c for p in plan.patches for c in p.change["status"]["conditions"]]
    return {c["type"]: (c["status"], c["reason"]) for c in reported}


def message(plan: Plan, type_: str) -> str:
    reported = [c for p in plan.patches for c in p.change["status"]["conditions"]]
    return str(next(c["message"] for c in reported if c["type"] == type_))


def created_objects(plan: Plan, key: Key, view: Snapshot) -> list[Object]:
    """The objects that the runtime would create, as an API server returns them."""
    actions = diff("services", key, plan, (), view).actions
    return [stored(a.object) for a in actions if hasattr(a, "object")]


def with_status(obj: ServiceExport, plan: Plan) -> ServiceExport:
    """An export with the conditions of a plan."""
    [patch] = plan.patches
    status = msgspec.convert(patch.change["status"], ServiceExportStatus)
    return replace(obj, status=status)
