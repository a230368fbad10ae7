"""Members, records, endpoints and snapshots of federated Services in a few words."""

from collections.abc import Iterable, Mapping, Sequence
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
from tests.support.builders import cluster, namespace, snapshot, stored

GLOBAL_MARK = "svc.global.federated.antreaplus.vmware.com"
NAMESPACED_MARK = "svc.federated.antreaplus.vmware.com"
HERE = "lubeck"
SHOP = "shop"
WEB = FederatedName(SYSTEM, "web")


def service(
    name: str = "web-here",
    ports: Sequence[ServicePort] = (ServicePort(port=80, name="http"),),
    *,
    marks: Mapping[str, str] | None = None,
    space: str = SHOP,
    age: float = 0,
    **spec: Any,
) -> Service:
    """A Service that joins the global federated Service web, unless its marks say otherwise."""
    annotations = {GLOBAL_MARK: "web"} if marks is None else dict(marks)
    meta = Meta(name=name, namespace=space, annotations=annotations)
    fields = {"cluster_ip": "10.0.0.1", "cluster_ips": ("10.0.0.1",), **spec}
    return stored(Service(metadata=meta, spec=ServiceSpec(ports=tuple(ports), **fields)), age=age)


def behind(
    name: str = "web-here",
    *addresses: str,
    unready: Iterable[str] = (),
    nodes: Mapping[str, str] | None = None,
    slot: str = "a",
    space: str = SHOP,
    ports: Sequence[EndpointPort] = (EndpointPort(port=8080, name="http"),),
) -> EndpointSlice:
    """The slice that a cluster keeps of the pods behind a Service."""
    states = [(a, True) for a in addresses] + [(a, False) for a in unready]
    family: AddressType = "IPv6" if states and ":" in states[0][0] else "IPv4"
    return stored(
        EndpointSlice(
            metadata=Meta(
                name=f"{name}-{slot}",
                namespace=space,
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
    space: str = SHOP,
    federated: FederatedName = WEB,
    **fields: Any,
) -> MemberRecord:
    """What a cluster's leader says of a member Service there."""
    served = tuple(EndpointPort(port=p.port, name=p.name, protocol=p.protocol) for p in ports)
    backends = (Backends("a", "IPv4", served, ready=tuple(addresses)),) if addresses else ()
    return MemberRecord(
        cluster=of,
        kind="Service",
        namespace=space,
        name=name or f"web-{of}",
        of_namespace=federated.namespace,
        of_name=federated.name,
        ports=tuple(ports),
        backends=fields.pop("backends", backends),
        **fields,
    )


def kept(told: MemberRecord, *, age: float = 1) -> ConfigMap:
    """A record as its member holds it, some seconds old."""
    return stored(record_configmap(told), age=age)


def member(name: ClusterId, *roles: Role, phase: Phase = Phase.SYNCED) -> ClusterState:
    return cluster(name, Role.MEMBER, *roles, phase=phase)


def seen(
    objects: Mapping[ClusterId, Iterable[Object]],
    *,
    led: Sequence[ClusterId] = (HERE,),
    states: Iterable[ClusterState] = (),
    facts: Iterable[Fact] = (),
    spaces: Sequence[str] = (SHOP, SYSTEM),
    options: FederatedOptions | None = None,
) -> Snapshot:
    """What a supervisor in lubeck sees of all members that objects or states name."""
    told = {s.cluster: s for s in states}
    for name in {HERE, *objects, *led}:
        extra = [Role.LED] if name in led else []
        told.setdefault(name, member(name, *([Role.LOCAL] if name == HERE else []), *extra))
    everything = {
        name: [*(stored(namespace(s)) for s in spaces), *objects.get(name, ())] for name in told
    }
    ours = [Leadership(m, "lubeck_1", 1, ours=True) for m in led]
    feature = FederatedServices(options or FederatedOptions())
    return snapshot(feature, HERE, told.values(), everything, [*ours, *facts])


def planned(key: Key, view: Snapshot, options: FederatedOptions | None = None) -> Plan:
    return FederatedServices(options or FederatedOptions()).plan(key, view)


def recording(name: str = "web-here", member_: ClusterId = HERE, space: str = SHOP) -> Key:
    return Key(member_topic(RECORD_TOPIC, member_), name, space)


def serving(member_: ClusterId = HERE, of: FederatedName = WEB) -> Key:
    return Key(member_topic(SERVICE_TOPIC, member_), of.name, of.namespace)


def wanted(plan: Plan, kind: type[K]) -> list[K]:
    """What a plan desires of a kind."""
    return [d.object for d in plan.desired if isinstance(d.object, kind)]


def told_by(plan: Plan, where: ClusterId = HERE) -> list[MemberRecord]:
    """The records that a plan writes."""
    found = [read_record(stored(c), where) for c in wanted(plan, ConfigMap)]
    return [j.record for j in found if j is not None]


def addresses(plan: Plan) -> dict[str, list[str]]:
    """The addresses in the slices of a plan, by the cluster they come from."""
    told: dict[str, list[str]] = {}
    for endpoint_slice in wanted(plan, EndpointSlice):
        source = endpoint_slice.metadata.annotations[
            "cluster.federated.antreaplus.vmware-tanzu.com"
        ]
        told.setdefault(source, []).extend(
            a for e in endpoint_slice.endpoints or () for a in e.addresses
        )
    return {c: sorted(a) for c, a in told.items()}


def conditions(plan: Plan) -> dict[str, tuple[str, str]]:
    """The conditions that a plan tells, by type: status and reason."""
    told = [c for p in plan.patches for c in p.change["status"]["conditions"]]
    return {c["type"]: (c["status"], c["reason"]) for c in told}
