"""A load balancer for each replica: its Service here, a copy at the broker, a label of its pod."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from hanse.features.statefulsets.names import (
    CLUSTER,
    POD_NAME,
    REMOTE_LB_CLASS,
    REPLICA_LABEL,
    SET,
    user_metadata,
    without_external_dns,
)
from hanse.features.statefulsets.submitted import SubmittedSet
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import PROXY, Pod, Service, ServiceSpec, ServiceStatus
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, ObjectRef, object_ref
from hanse.model.ownership import OWNER
from hanse.model.plan import Desired, EventRequest, Removal
from hanse.model.snapshot import Index, Snapshot

PODS_BY_OWNER = Index(
    Pod, "statefulsets-pods", lambda pod: [o.uid for o in pod.metadata.owner_references]
)
OVERWRITTEN = "Overwritten"


def build_replica_services(
    submitted: SubmittedSet, headless: Service | None, replicas: Sequence[str], cluster: ClusterId
) -> tuple[Service, ...]:
    """One LoadBalancer Service for each replica here; none without a headless Service.

    Each selects one pod by name, and has the headless Service's ports, and annotations and class of
    this cluster's override.
    """
    if headless is None:
        return ()
    ports = tuple(replace(port, node_port=0) for port in headless.spec.ports)
    override = submitted.overrides.of(cluster).load_balancer
    return tuple(
        Service(
            metadata=Meta(
                name=replica,
                namespace=submitted.namespace,
                labels={SET: submitted.name, REPLICA_LABEL: replica},
                annotations=without_external_dns(user_metadata(override.annotations)),
            ),
            spec=ServiceSpec(
                type="LoadBalancer",
                selector={POD_NAME: replica},
                ports=ports,
                load_balancer_class=override.class_name,
                publish_not_ready_addresses=headless.spec.publish_not_ready_addresses,
            ),
        )
        for replica in replicas
    )


def broker_services(
    services: Sequence[Service], snapshot: Snapshot, broker: ClusterId
) -> Iterator[Desired]:
    """The copy of each replica's Service at the broker, annotated with this cluster.

    Its class is one that no controller there provisions. Its status has the load balancer's
    addresses if the Service here is ours.
    """
    for service in services:
        meta = service.metadata
        local = snapshot.get(snapshot.local, Service, meta.name, meta.namespace)
        known = local is not None and OWNER in local.metadata.labels
        spec = replace(
            service.spec,
            load_balancer_class=REMOTE_LB_CLASS,
            allocate_load_balancer_node_ports=False,
        )
        at_broker = Service(
            metadata=replace(meta, annotations={CLUSTER: snapshot.local}),
            spec=spec,
            status=_remote_status(local.status) if known and local is not None else ServiceStatus(),
        )
        yield Desired(at_broker, broker, sources=frozenset({snapshot.local, broker}))


def _remote_status(status: ServiceStatus) -> ServiceStatus:
    """The status with ipMode Proxy for IP addresses, so that nodes elsewhere pass packets on."""
    ingress = tuple(
        replace(each, ip_mode=PROXY if each.ip else "") for each in status.load_balancer.ingress
    )
    return replace(status, load_balancer=replace(status.load_balancer, ingress=ingress))


def list_pods(stateful_set: StatefulSet, snapshot: Snapshot) -> Iterator[tuple[int, Pod]]:
    """Pairs of ordinal and pod of a StatefulSet here, in order; ordinals are made to start at 0.

    Pods without a name of the StatefulSet are left out.
    """
    meta, spec = stateful_set.metadata, stateful_set.spec
    first = spec.ordinals.start if spec.ordinals is not None else 0
    owned = snapshot.by(snapshot.local, PODS_BY_OWNER, meta.uid)
    by_ordinal = ((_ordinal(pod, meta.name), pod) for pod in owned)
    yield from sorted(
        ((n - first, pod) for n, pod in by_ordinal if n is not None), key=lambda each: each[0]
    )


def _ordinal(pod: Pod, stateful_set: str) -> int | None:
    """The ordinal of a pod; None if its name is not one of the StatefulSet."""
    parent, _, number = pod.metadata.name.rpartition("-")
    return int(number) if parent == stateful_set and number.isdecimal() else None


def overwrite_events(services: Sequence[Service], snapshot: Snapshot) -> Iterator[EventRequest]:
    """A Warning Event for each foreign Service here with a replica's name, which is overwritten."""
    for service in services:
        if _unowned_service(service, snapshot) is not None:
            text = f"{service.metadata.name} is the load balancer of a replica: it is overwritten"
            ref = ClusterObjectRef(snapshot.local, object_ref(service))
            yield EventRequest(ref, OVERWRITTEN, text, "Warning")


def conflicting_service_removals(
    services: Sequence[Service], snapshot: Snapshot
) -> Iterator[Removal]:
    """Removals of others' Services of a replica's name that cannot become its load balancer.

    These are headless or of type ExternalName.
    """
    for service in services:
        foreign = _unowned_service(service, snapshot)
        if foreign is not None and (foreign.headless or foreign.spec.type == "ExternalName"):
            ref = ClusterObjectRef(
                snapshot.local, ObjectRef(Service.kind, foreign.name, foreign.namespace)
            )
            yield Removal(ref, foreign.metadata.uid, "a replica's load balancer takes its name")


def _unowned_service(service: Service, snapshot: Snapshot) -> Service | None:
    """The existing Service of the same name here that is not ours; else None."""
    meta = service.metadata
    found = snapshot.get(snapshot.local, Service, meta.name, meta.namespace)
    return found if found is not None and OWNER not in found.metadata.labels else None
