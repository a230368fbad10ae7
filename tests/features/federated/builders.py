"""Builders of member Services, records, endpoints and snapshots of federated Services."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from hanse.features.federated.feature import FederatedServices
from hanse.features.federated.join_requests import FederatedName
from hanse.features.federated.names import RECORD_TOPIC, SERVICE_TOPIC, member_topic
from hanse.features.federated.options import FederatedOptions
from hanse.features.federated.records import (
    Backends,
    MemberPort,
    MemberRecord,
    read_record,
    record_configmap,
)
from hanse.model.facts import ClusterState, Fact, Leadership, Phase, Role
from hanse.model.kinds.core import (
    ConfigMap,
    Node,
    NodeAddress,
    NodeStatus,
    ObservedCondition,
    Service,
    ServicePort,
    ServiceSpec,
)
from hanse.model.kinds.discovery import (
    AddressType,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
)
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import ClusterId, K, Meta, Object
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import Snapshot
from hanse.runtime.diff import diff
from tests.support.builders import cluster, namespace, snapshot, stored
from tests.support.supervised_world import SupervisedWorld
from tinykube.virtual_time import EPOCH

GLOBAL_ANNOTATION = "svc.global.federated.antreaplus.vmware.com"
NAMESPACED_ANNOTATION = "svc.federated.antreaplus.vmware.com"
HERE = "lubeck"
SHOP = "shop"
WEB = FederatedName(SYSTEM, "web")


def service(
    name: str = "web-here",
    ports: Sequence[ServicePort] = (ServicePort(port=80, name="http"),),
    *,
    annotations: Mapping[str, str] | None = None,
    namespace: str = SHOP,
    age: float = 0,
    **spec: Any,
) -> Service:
    """A Service that joins the global federated Service web, unless annotations are given."""
    annotations = {GLOBAL_ANNOTATION: "web"} if annotations is None else dict(annotations)
    meta = Meta(name=name, namespace=namespace, annotations=annotations)
    fields = {"cluster_ip": "10.0.0.1", "cluster_ips": ("10.0.0.1",), **spec}
    return stored(Service(metadata=meta, spec=ServiceSpec(ports=tuple(ports), **fields)), age=age)


def pod_slice(
    name: str = "web-here",
    *addresses: str,
    unready: Iterable[str] = (),
    nodes: Mapping[str, str] | None = None,
    slot: str = "a",
    namespace: str = SHOP,
    ports: Sequence[EndpointPort] = (EndpointPort(port=8080, name="http"),),
) -> EndpointSlice:
    """The slice of a Service's pods in its own cluster."""
    states = [(a, True) for a in addresses] + [(a, False) for a in unready]
    family: AddressType = "IPv6" if states and ":" in states[0][0] else "IPv4"
    return stored(
        EndpointSlice(
            metadata=Meta(
                name=f"{name}-{slot}",
                namespace=namespace,
                labels={"kubernetes.io/service-name": name},
            ),
            address_type=family,
            endpoints=tuple(
                Endpoint(
                    addresses=(a,),
                    conditions=EndpointConditions(ready=ready),
                    node_name=(nodes or {}).get(a, ""),
                )
                for a, ready in states
            ),
            ports=tuple(ports),
        )
    )


def node(name: str, *, ready: bool = True, **addresses: str) -> Node:
    """A node with addresses by type: `InternalIP="10.1.0.1"`."""
    return stored(
        Node(
            metadata=Meta(name=name),
            status=NodeStatus(
                addresses=tuple(
                    NodeAddress(type=t.rstrip("6"), address=a) for t, a in addresses.items()
                ),
                conditions=(ObservedCondition(type="Ready", status="True" if ready else "False"),),
            ),
        )
    )


def record(
    of: ClusterId,
    *addresses: str,
    ports: Sequence[MemberPort] = (MemberPort(port=80, name="http"),),
    name: str = "",
    namespace: str = SHOP,
    federated: FederatedName = WEB,
    **fields: Any,
) -> MemberRecord:
    """The record of a member Service."""
    served = tuple(EndpointPort(port=p.port, name=p.name, protocol=p.protocol) for p in ports)
    backends = (Backends("a", "IPv4", served, ready=tuple(addresses)),) if addresses else ()
    return MemberRecord(
        cluster=of,
        kind="Service",
        namespace=namespace,
        name=name or f"web-{of}",
        of_namespace=federated.namespace,
        of_name=federated.name,
        ports=tuple(ports),
        backends=fields.pop("backends", backends),
        **fields,
    )


def stored_configmap(record_: MemberRecord, *, age: float = 1) -> ConfigMap:
    """The ConfigMap of a record in its member, some seconds old."""
    return stored(record_configmap(record_), age=age)


def member(name: ClusterId, *roles: Role, phase: Phase = Phase.SYNCED) -> ClusterState:
    """A member that has been in this phase for long."""
    return cluster(name, Role.MEMBER, *roles, phase=phase, since=EPOCH - timedelta(hours=1))


def observed(
    objects: Mapping[ClusterId, Iterable[Object]],
    *,
    led: Sequence[ClusterId] = (HERE,),
    states: Iterable[ClusterState] = (),
    facts: Iterable[Fact] = (),
    namespaces: Sequence[str] = (SHOP, SYSTEM),
    options: FederatedOptions | None = None,
) -> Snapshot:
    """The snapshot of a supervisor in lubeck, with all members that objects or states name."""
    known = {s.cluster: s for s in states}
    for name in {HERE, *objects, *led}:
        extra = [Role.LED] if name in led else []
        known.setdefault(name, member(name, *([Role.LOCAL] if name == HERE else []), *extra))
    everything = {
        name: [*(stored(namespace(s)) for s in namespaces), *objects.get(name, ())]
        for name in known
    }
    ours = [Leadership(m, "lubeck_1", 1, ours=True) for m in led]
    feature = FederatedServices(options or FederatedOptions())
    return snapshot(feature, HERE, known.values(), everything, [*ours, *facts])


def plan_for(key: Key, view: Snapshot, options: FederatedOptions | None = None) -> Plan:
    return FederatedServices(options or FederatedOptions()).plan(key, view)


def record_key(name: str = "web-here", member_: ClusterId = HERE, namespace: str = SHOP) -> Key:
    return Key(member_topic(RECORD_TOPIC, member_), name, namespace)


def service_key(member_: ClusterId = HERE, of: FederatedName = WEB) -> Key:
    return Key(member_topic(SERVICE_TOPIC, member_), of.name, of.namespace)


def desired(plan: Plan, kind: type[K]) -> list[K]:
    """The desired objects of a kind in a plan."""
    return [d.object for d in plan.desired if isinstance(d.object, kind)]


def written_records(plan: Plan, where: ClusterId = HERE) -> list[MemberRecord]:
    """The records that a plan writes."""
    found = [read_record(stored(c), where) for c in desired(plan, ConfigMap)]
    return [j.record for j in found if j is not None]


def addresses(plan: Plan) -> dict[str, list[str]]:
    """The addresses in the slices of a plan, by the cluster they come from."""
    by_cluster: dict[str, list[str]] = {}
    for endpoint_slice in desired(plan, EndpointSlice):
        source = endpoint_slice.metadata.annotations[
            "cluster.federated.antreaplus.vmware-tanzu.com"
        ]
        by_cluster.setdefault(source, []).extend(
            a for e in endpoint_slice.endpoints or () for a in e.addresses
        )
    return {c: sorted(a) for c, a in by_cluster.items()}


def conditions(plan: Plan) -> dict[str, tuple[str, str]]:
    """The conditions in a plan's status patches, by type: status and reason."""
    reported = [c for p in plan.patches for c in p.change["status"]["conditions"]]
    return {c["type"]: (c["status"], c["reason"]) for c in reported}


def pods(name: str, *addresses: str, port: int = 8080) -> EndpointSlice:
    """The slice of the ready pods behind a Service."""
    return EndpointSlice(
        metadata=Meta(
            name=f"{name}-pods", namespace=SHOP, labels={"kubernetes.io/service-name": name}
        ),
        address_type="IPv4",
        endpoints=tuple(
            Endpoint(addresses=(a,), conditions=EndpointConditions(ready=True)) for a in addresses
        ),
        ports=(EndpointPort(port=port, name="http"),),
    )


async def join(
    world: SupervisedWorld, where: ClusterId, *addresses: str, of: str = "web", port: int = 80
) -> None:
    """Create a Service with these pods that joins a global federated Service."""
    name = f"{of}-{where}"
    annotations = {GLOBAL_ANNOTATION: of}
    await world.admin(where).create(
        Service(
            metadata=Meta(name=name, namespace=SHOP, annotations=annotations),
            spec=ServiceSpec(ports=(ServicePort(port=port, name="http"),)),
        )
    )
    await world.admin(where).create(pods(name, *addresses))


def created_objects(plan: Plan, view: Snapshot) -> list[Object]:
    """The objects that the runtime would create, as an API server returns them."""
    actions = diff("federated", service_key(), plan, (), view).actions
    return [stored(a.object) for a in actions if hasattr(a, "object")]


def applied_objects(view: Snapshot) -> list[Object]:
    """The objects in lubeck after a plan was applied."""
    return created_objects(plan_for(service_key(), view), view)


OURS = {HERE: [stored_configmap(record(HERE, "10.1.0.1"), age=9)]}
BERGEN = {"bergen": [stored_configmap(record("bergen", "10.3.0.1"), age=5)]}
