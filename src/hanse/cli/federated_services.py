"""Federated Services and VM Services of all clusters, as `status` and `doctor` report them."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from hanse.cli.clusters import ClusterAccess, ReadFailure, read_clusters
from hanse.cli.exported_services import list_or_empty, read_cluster_id
from hanse.cli.inventory import discover_kinds
from hanse.features.federated.names import CLUSTER, FEDERATED
from hanse.features.federated.names import DOMAIN as FEDERATING
from hanse.features.federated.records import Origin
from hanse.features.federated.settings import AFFINITY, ruling_member
from hanse.features.federated.slices import slice_origin
from hanse.features.federated.status import FEDERATED_CONDITION
from hanse.features.federated.status import NAME_FREE_CONDITION as TAKEN
from hanse.features.machines.names import DOMAIN as SERVING_MACHINES
from hanse.features.machines.names import VM_SERVICE
from hanse.features.machines.status import NAME_FREE_CONDITION as TAKEN_FROM_MACHINES
from hanse.features.machines.status import SERVED_CONDITION
from hanse.kube.client import Client
from hanse.model.conditions import find_condition
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import KUBE_SERVICE, MANAGED_BY, EndpointSlice
from hanse.model.kinds.federation import NativeService, VirtualMachine
from hanse.model.objects import ClusterId

_OUR_SLICES = f"{MANAGED_BY} in ({FEDERATING},{SERVING_MACHINES})"
_REPORTED_CONDITIONS = (FEDERATED_CONDITION, TAKEN, TAKEN_FROM_MACHINES, SERVED_CONDITION)


class FederatedObjects(Struct, frozen=True):
    """The objects of one cluster that federated Services and VM Services consist of."""

    cluster: ClusterId
    services: tuple[Service, ...] = ()
    slices: tuple[EndpointSlice, ...] = ()
    native: tuple[NativeService, ...] = ()
    machines: tuple[VirtualMachine, ...] = ()


class FederatedServiceView(Struct, frozen=True):
    """A federated Service: the clusters that have it, and the ready endpoints by their cluster."""

    namespace: str
    name: str
    ports: tuple[str, ...]
    stands_in: tuple[ClusterId, ...]
    ready: dict[ClusterId, int]
    affinity: str = "none"
    """Which endpoints a cluster prefers, as in the annotation."""


class MachineServiceView(Struct, frozen=True):
    """A VM Service of one cluster, and how many machines are behind it."""

    cluster: ClusterId
    namespace: str
    name: str
    machines: int


class FailedCondition(Struct, frozen=True):
    """A condition with status False on a user's object."""

    cluster: ClusterId
    object: str
    reason: str
    message: str


class FederatedView(Struct, frozen=True):
    """The federated Services and VM Services of all clusters that answer."""

    services: tuple[FederatedServiceView, ...] = ()
    machines: tuple[MachineServiceView, ...] = ()
    troubles: tuple[FailedCondition, ...] = ()


async def read_federated_services(clusters: Iterable[ClusterAccess]) -> FederatedView:
    """Read every cluster; those that fail are left out, as the inventory reports them."""
    results = await read_clusters(clusters, _read_objects, limit=None)
    return build_view(one for one in results if not isinstance(one, ReadFailure))


async def _read_objects(cluster: ClusterAccess, client: Client) -> FederatedObjects:
    """Discover the kinds that the cluster serves, then list; kinds not served are empty."""
    await discover_kinds(client)
    return FederatedObjects(
        await read_cluster_id(client, cluster.name),
        await list_or_empty(client, Service),
        await list_or_empty(client, EndpointSlice, labels=_OUR_SLICES),
        await list_or_empty(client, NativeService),
        await list_or_empty(client, VirtualMachine),
    )


def build_view(objects: Iterable[FederatedObjects]) -> FederatedView:
    """Merge the objects of several clusters into one view."""
    clusters = sorted(objects, key=lambda one: one.cluster)
    names = sorted({name for cluster in clusters for name in _federated_services(cluster)})
    return FederatedView(
        tuple(_federated_view(name, clusters) for name in names),
        tuple(view for cluster in clusters for view in _machine_views(cluster)),
        tuple(failed for cluster in clusters for failed in _failed_conditions(cluster)),
    )


def _federated_services(cluster: FederatedObjects) -> dict[tuple[str, str], Service]:
    return {
        (s.metadata.namespace, s.metadata.name): s
        for s in cluster.services
        if FEDERATED in s.metadata.annotations
    }


def _origins(service_key: tuple[str, str], cluster: FederatedObjects) -> Iterator[Origin]:
    """The member Services that a cluster has slices of."""
    for one in cluster.slices:
        key = (one.metadata.namespace, one.metadata.labels.get(KUBE_SERVICE, ""))
        if key == service_key and (origin := slice_origin(one)) is not None:
            yield origin


def _federated_view(
    service_key: tuple[str, str], clusters: Sequence[FederatedObjects]
) -> FederatedServiceView:
    """One Service over all clusters; per source, the most ready endpoints any cluster has."""
    ports: dict[str, None] = {}
    stands_in: list[ClusterId] = []
    ready: dict[ClusterId, int] = {}
    for cluster in clusters:
        service = _federated_services(cluster).get(service_key)
        if service is None:
            continue
        stands_in.append(cluster.cluster)
        ports.update(
            dict.fromkeys(_port_text(p.name, p.port, p.protocol) for p in service.spec.ports)
        )
        for source, number in _ready_endpoints(service_key, cluster).items():
            ready[source] = max(ready.get(source, 0), number)
    namespace, name = service_key
    origins = {o.identity: o for c in clusters for o in _origins(service_key, c)}
    ruling = ruling_member(sorted(origins.values(), key=lambda o: o.age), AFFINITY)
    return FederatedServiceView(
        namespace,
        name,
        tuple(ports),
        tuple(stands_in),
        dict(sorted(ready.items())),
        ruling.affinity if ruling is not None else "none",
    )


def _port_text(name: str, number: int, protocol: str) -> str:
    return f"{number}/{protocol} {name}".rstrip()


def _ready_endpoints(
    service_key: tuple[str, str], cluster: FederatedObjects
) -> dict[ClusterId, int]:
    """Ready endpoints per source cluster in the federated slices, without FQDN slices."""
    found: dict[ClusterId, int] = {}
    for slice_ in cluster.slices:
        meta = slice_.metadata
        mine = (meta.namespace, meta.labels.get(KUBE_SERVICE)) == service_key
        if mine and meta.labels.get(MANAGED_BY) == FEDERATING and slice_.address_type != "FQDN":
            source = meta.annotations.get(CLUSTER, "?")
            number = sum(e.ready for e in slice_.endpoints or ())
            found[source] = found.get(source, 0) + number
    return found


def _machine_views(cluster: FederatedObjects) -> Iterator[MachineServiceView]:
    """Each Service for virtual machines, with the number of distinct machines behind it."""
    for service in cluster.services:
        meta = service.metadata
        if VM_SERVICE in meta.annotations:
            behind = {
                e.target_ref.name
                for slice_ in cluster.slices
                if slice_.metadata.labels.get(MANAGED_BY) == SERVING_MACHINES
                and slice_.metadata.namespace == meta.namespace
                and slice_.metadata.labels.get(KUBE_SERVICE) == meta.name
                for e in slice_.endpoints or ()
                if e.target_ref is not None
            }
            yield MachineServiceView(cluster.cluster, meta.namespace, meta.name, len(behind))


def _failed_conditions(cluster: FederatedObjects) -> Iterator[FailedCondition]:
    """The reported conditions with status False of Services and virtual machines."""
    objects: list[Service | NativeService | VirtualMachine]
    objects = [*cluster.services, *cluster.native, *cluster.machines]
    for obj in objects:
        for type_ in _REPORTED_CONDITIONS:
            condition = find_condition(obj.status.conditions, type_)
            if condition is not None and condition.status == "False":
                name = f"{type(obj).kind.name} {obj.metadata.namespace}/{obj.metadata.name}"
                yield FailedCondition(cluster.cluster, name, condition.reason, condition.message)
