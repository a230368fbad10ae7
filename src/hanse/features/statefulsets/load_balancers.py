"""A load balancer for each replica: its Service in its cluster, a stand-in at the door, a label."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from hanse.features.statefulsets.names import (
    CLUSTER,
    POD_NAME,
    REMOTE_LB_CLASS,
    REPLICA_LABEL,
    SET,
    cluster_set_name,
    replica_name,
)
from hanse.features.statefulsets.submitted import SubmittedSet
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Pod, Service, ServiceSpec
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, ObjectRef, object_ref
from hanse.model.ownership import OWNER
from hanse.model.plan import Desired, EventRequest, Patch, Removal
from hanse.model.snapshot import Snapshot

OVERWRITTEN = "Overwritten"


def balancers(
    submitted: SubmittedSet, headless: Service | None, replicas: Sequence[str]
) -> tuple[Service, ...]:
    """One Service for each replica of this cluster; it leads to that pod as soon as it is there."""
    if headless is None:
        return ()
    ports = tuple(replace(port, node_port=0) for port in headless.spec.ports)
    return tuple(
        Service(
            metadata=Meta(
                name=replica,
                namespace=submitted.namespace,
                labels={SET: submitted.name, REPLICA_LABEL: replica},
            ),
            spec=ServiceSpec(
                type="LoadBalancer",
                selector={POD_NAME: replica},
                ports=ports,
                publish_not_ready_addresses=headless.spec.publish_not_ready_addresses,
            ),
        )
        for replica in replicas
    )


def stand_ins(
    several: Sequence[Service], snapshot: Snapshot, broker: ClusterId
) -> Iterator[Desired]:
    """Each replica's Service at the door, with its address and the one cluster that has it."""
    for service in several:
        meta = service.metadata
        given = snapshot.get(snapshot.local, Service, meta.name, meta.namespace)
        known = given is not None and OWNER in given.metadata.labels
        spec = replace(
            service.spec,
            load_balancer_class=REMOTE_LB_CLASS,
            allocate_load_balancer_node_ports=False,
        )
        there = Service(
            metadata=replace(meta, annotations={CLUSTER: snapshot.local}),
            spec=spec,
            status=given.status if known and given is not None else Service(metadata=meta).status,
        )
        yield Desired(there, broker, sources=frozenset({snapshot.local, broker}))


def pod_label_patches(submitted: SubmittedSet, snapshot: Snapshot) -> Iterator[Patch]:
    """Each replica's pod is labelled with its own name while balancers are wanted, and kept so."""
    for pod in list_pods(submitted, snapshot):
        name = pod.metadata.name if submitted.balanced else None
        change = {"metadata": {"labels": {REPLICA_LABEL: name}}}
        yield Patch(ClusterObjectRef(snapshot.local, object_ref(pod)), change)


def list_pods(submitted: SubmittedSet, snapshot: Snapshot) -> Iterator[Pod]:
    """The pods of a set in this cluster, by their ordinals."""
    own = snapshot.get(
        snapshot.local,
        StatefulSet,
        cluster_set_name(submitted.name, snapshot.local),
        submitted.namespace,
    )
    if own is None:
        return
    most = max(own.spec.replicas, own.status.replicas)
    for ordinal in range(submitted.first_ordinal, submitted.first_ordinal + min(most, 10_000)):
        name = replica_name(submitted.name, snapshot.local, ordinal)
        pod = snapshot.get(snapshot.local, Pod, name, submitted.namespace)
        if pod is not None and any(
            o.uid == own.metadata.uid for o in pod.metadata.owner_references
        ):
            yield pod


def overwrite_events(several: Sequence[Service], snapshot: Snapshot) -> Iterator[EventRequest]:
    """What is said of Services that had a replica's name and were somebody else's."""
    for service in several:
        if _foreign(service, snapshot) is not None:
            text = f"{service.metadata.name} is the load balancer of a replica: it is overwritten"
            place = ClusterObjectRef(snapshot.local, object_ref(service))
            yield EventRequest(place, OVERWRITTEN, text, "Warning")


def conflicting_service_removals(
    several: Sequence[Service], snapshot: Snapshot
) -> Iterator[Removal]:
    """Somebody else's Services that cannot become a load balancer, since they have no address."""
    for service in several:
        foreign = _foreign(service, snapshot)
        if foreign is not None and (foreign.headless or foreign.spec.type == "ExternalName"):
            place = ClusterObjectRef(
                snapshot.local, ObjectRef(Service.kind, foreign.name, foreign.namespace)
            )
            yield Removal(place, foreign.metadata.uid, "a replica's load balancer takes its name")


def _foreign(service: Service, snapshot: Snapshot) -> Service | None:
    meta = service.metadata
    found = snapshot.get(snapshot.local, Service, meta.name, meta.namespace)
    return found if found is not None and OWNER not in found.metadata.labels else None
