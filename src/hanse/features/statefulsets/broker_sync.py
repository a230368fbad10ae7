"""Synchronizes a FederatedStatefulSet in a host cluster with its copy at the broker.

The host's agent copies the set and its headless Service to the broker, so that they are distributed
as if they had been submitted there; status, shares and replicas' Services are copied back.
"""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from hanse.features.statefulsets.acceptance import set_origin
from hanse.features.statefulsets.fleet import PARTS_BY_SET
from hanse.features.statefulsets.headless_services import (
    governing_service,
    list_governed_federated_sets,
)
from hanse.features.statefulsets.identity import owned_shares_meta
from hanse.features.statefulsets.names import (
    CLUSTER,
    LAST_APPLIED,
    ORPHANED,
    REPLICAS,
    SET,
    user_metadata,
    without_external_dns,
)
from hanse.features.statefulsets.owned_objects import SERVICES_BY_SET
from hanse.features.statefulsets.service_copies import copied_service_spec
from hanse.features.statefulsets.status import set_events
from hanse.model.clusterset import broker_cluster, departed_clusters
from hanse.model.conditions import Condition, condition, merge_conditions
from hanse.model.facts import WriteOutcome
from hanse.model.kinds.core import Namespace, Service
from hanse.model.kinds.hanse import FederatedStatefulSet
from hanse.model.kinds.stateful import StatefulSetShares
from hanse.model.objects import (
    ClusterId,
    ClusterObjectRef,
    Meta,
    ObjectRef,
    Wire,
    object_ref,
)
from hanse.model.ownership import OWNER, OWNER_KEY
from hanse.model.plan import Desired, Key, Owned, Patch, Plan, TakeOver
from hanse.model.snapshot import Snapshot

_Conditions = tuple[Condition, ...]


def plan_broker_sync(key: Key, snapshot: Snapshot, broker_namespace: str) -> Plan:
    """The copy of a hosted set at the broker, and its status, shares and Services copied back.

    Nothing without a broker. Headless Services that other sets hosted here copied are kept there.
    """
    broker = broker_cluster(snapshot)
    if broker is None:
        return Plan()
    plan = _plan_set(key, snapshot, broker, broker_namespace)
    return replace(plan, kept=(*plan.kept, *_services_of_other_sets(key, snapshot, broker)))


def _services_of_other_sets(
    key: Key, snapshot: Snapshot, broker: ClusterId
) -> Iterator[ClusterObjectRef]:
    """References, at the broker, to headless Services of this host's other sets, to be kept.

    Sets that are terminating do not count.
    """
    for hosted in snapshot.in_namespace(snapshot.local, FederatedStatefulSet, key.namespace):
        name = governing_service(hosted)
        is_live = hosted.metadata.deletion_timestamp is None
        if name and is_live and hosted.metadata.name != key.name:
            yield ClusterObjectRef(broker, ObjectRef(Service.kind, name, key.namespace))


def _plan_set(key: Key, snapshot: Snapshot, broker: ClusterId, broker_namespace: str) -> Plan:
    """Copies, status and Events of a hosted set; nothing if the broker is this cluster itself.

    A missing namespace there, or a refused write of the set, is told in its status; what was
    copied back goes then, unless the broker has a copy of this host. After its deletion here, its
    copy at the broker is deleted, or orphaned like the set was.
    """
    hosted = snapshot.get(snapshot.local, FederatedStatefulSet, key.name, key.namespace)
    at_broker = snapshot.get(broker, FederatedStatefulSet, key.name, key.namespace)
    local_shares = snapshot.get(snapshot.local, StatefulSetShares, key.name, key.namespace)
    if (
        hosted is not None
        and at_broker is not None
        and hosted.metadata.uid == at_broker.metadata.uid
    ):
        return Plan()  # the broker is this very cluster
    if hosted is None or hosted.metadata.deletion_timestamp is not None:
        return _plan_after_deletion(at_broker, local_shares, snapshot, broker, broker_namespace)
    if error := _missing_namespace(key.namespace, snapshot, broker):
        desired = []
    else:
        desired = [*_copies_for_broker(hosted, snapshot, broker)]
        error = _write_error(hosted, snapshot, broker)
    is_copied = at_broker is not None and set_origin(at_broker) == snapshot.local
    receives = is_copied or not error
    if receives:
        desired += _copies_for_host(key, hosted, snapshot, broker)
    patch = _status_patch(hosted, at_broker, snapshot, error)
    after = msgspec.convert(patch.change.get("status", {}).get("conditions", ()), _Conditions)
    events = tuple(set_events(patch.target, hosted.status.conditions, after))
    kept_shares: tuple[ClusterObjectRef, ...] = ()
    if local_shares is not None and receives:
        # the last shares that could be decoded
        kept_shares = (ClusterObjectRef(snapshot.local, object_ref(local_shares)),)
    return Plan(tuple(desired), patches=(patch,), events=events, kept=kept_shares)


def _missing_namespace(namespace: str, snapshot: Snapshot, broker: ClusterId) -> str:
    """A message with the remedy if the broker, once listed, lacks a namespace; else empty."""
    if not snapshot.listed(broker, Namespace) or snapshot.get(broker, Namespace, namespace):
        return ""
    return (
        f"it has no namespace {namespace}; an administrator of the broker creates it: "
        f"kubectl create namespace {namespace}"
    )


def _plan_after_deletion(
    at_broker: FederatedStatefulSet | None,
    local_shares: StatefulSetShares | None,
    snapshot: Snapshot,
    broker: ClusterId,
    broker_namespace: str,
) -> Plan:
    """Keep the copy while the shares here have an ownerReference; then annotate it as orphaned.

    Shares that lose their owner show a deletion with `--cascade=orphan`. Without shares here, or
    once every cluster has released its part, the plan is empty, so that the copy is deleted.
    """
    is_ours = at_broker is not None and OWNER in at_broker.metadata.labels
    if local_shares is None or at_broker is None or not is_ours:
        return Plan()
    kept_shares = ClusterObjectRef(snapshot.local, object_ref(local_shares))
    if local_shares.metadata.owner_references:
        return Plan(kept=(ClusterObjectRef(broker, object_ref(at_broker)), kept_shares))
    annotations = {**at_broker.metadata.annotations, ORPHANED: "true"}
    at_broker = replace(at_broker, metadata=replace(at_broker.metadata, annotations=annotations))
    if not _is_held_by_member(at_broker, snapshot, broker, broker_namespace):
        return Plan()  # every cluster has released its part
    return Plan(
        (Desired(at_broker, broker, sources=frozenset({snapshot.local})),), kept=(kept_shares,)
    )


def _is_held_by_member(
    at_broker: FederatedStatefulSet, snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> bool:
    """Whether a cluster that has not left has a StatefulSetPart of the set without `spec.ended`."""
    parts = snapshot.by(
        broker, PARTS_BY_SET, f"{at_broker.metadata.namespace}/{at_broker.metadata.name}"
    )
    departed = departed_clusters(snapshot, broker, broker_namespace)
    return any(part.spec.cluster not in departed and part.spec.ended is None for part in parts)


def _copies_for_broker(
    hosted: FederatedStatefulSet, snapshot: Snapshot, broker: ClusterId
) -> Iterator[Desired]:
    """The set's copy, and before it that of its headless Service.

    The Service only if users made it here, and this set is the first by name of those hosted here
    that it governs; a copy that another of these wrote is taken over.
    """
    meta = hosted.metadata
    sources = frozenset({snapshot.local})
    name = governing_service(hosted)
    service = snapshot.get(snapshot.local, Service, name, meta.namespace)
    is_users = service is not None and OWNER not in service.metadata.labels
    is_keeper = meta.name == _service_keeper(name, meta.namespace, snapshot)
    if service is not None and is_users and is_keeper:
        copy = Service(
            metadata=Meta(
                name=name,
                namespace=meta.namespace,
                labels=user_metadata(service.metadata.labels),
                annotations=without_external_dns(user_metadata(service.metadata.annotations)),
            ),
            spec=copied_service_spec(service.spec),
        )
        current = snapshot.get(broker, Service, name, meta.namespace)
        adopts = current is not None and _is_copied_by(snapshot.local, current)
        yield Desired(
            copy, broker, step=1, sources=sources, ownership=TakeOver() if adopts else Owned()
        )
    annotations = {n: v for n, v in meta.annotations.items() if n not in (LAST_APPLIED, REPLICAS)}
    copied_set = FederatedStatefulSet(
        metadata=Meta(
            name=meta.name,
            namespace=meta.namespace,
            labels=user_metadata(meta.labels),
            annotations=annotations,
        ),
        spec=hosted.spec,
    )
    yield Desired(copied_set, broker, step=2, sources=sources)


def _service_keeper(service: str, namespace: str, snapshot: Snapshot) -> str:
    """The first of the host's sets by name that a Service governs, which copies it.

    Empty if none.
    """
    return min(
        list_governed_federated_sets(service, namespace, snapshot, snapshot.local), default=""
    )


def _is_copied_by(host: ClusterId, service: Service) -> bool:
    """Whether a Service was copied to the broker by this host, by its owner label and key."""
    owner_key = service.metadata.annotations.get(OWNER_KEY, "")
    is_ours = OWNER in service.metadata.labels
    return is_ours and f'"for":"{host}"' in owner_key and '"key":"mirror/' in owner_key


def _copies_for_host(
    key: Key, hosted: FederatedStatefulSet, snapshot: Snapshot, broker: ClusterId
) -> Iterator[Desired]:
    """What the host gets from the broker: the shares without permits, owned by the set.

    Also Services of replicas in other clusters; no shares of a newer schema.
    """
    sources = frozenset({broker})
    record = snapshot.get(broker, StatefulSetShares, key.name, key.namespace)
    if record is not None and not record.spec.has_newer_schema:
        current = snapshot.get(snapshot.local, StatefulSetShares, key.name, key.namespace)
        meta = owned_shares_meta(hosted, current.metadata if current is not None else None)
        shares = replace(record.spec, permits=())  # they are of no use here, and change often
        yield Desired(StatefulSetShares(metadata=meta, spec=shares), snapshot.local, 0, sources)
    for service in snapshot.by(broker, SERVICES_BY_SET, f"{key.namespace}/{key.name}"):
        annotations = service.metadata.annotations
        if CLUSTER in annotations and annotations[CLUSTER] != snapshot.local:
            labels = {n: v for n, v in user_metadata(service.metadata.labels).items() if n != SET}
            meta = Meta(
                name=service.metadata.name,
                namespace=key.namespace,
                labels=labels,
                annotations={CLUSTER: annotations[CLUSTER]},
            )
            spec = copied_service_spec(service.spec)
            copy = Service(metadata=meta, spec=spec, status=service.status)
            yield Desired(copy, snapshot.local, sources=sources)


def _write_error(hosted: FederatedStatefulSet, snapshot: Snapshot, broker: ClusterId) -> str:
    """The message if the broker has finally refused to write the set; else empty."""
    outcome = snapshot.fact(WriteOutcome, ClusterObjectRef(broker, object_ref(hosted)))
    return outcome.message if outcome is not None and outcome.is_final else ""


def _status_patch(
    hosted: FederatedStatefulSet,
    at_broker: FederatedStatefulSet | None,
    snapshot: Snapshot,
    error: str,
) -> Patch:
    """The status of the broker's copy if it is of this spec and observed; a refusal if `error`.

    Else an empty patch, by which the present status stays.
    """
    ref = ClusterObjectRef(snapshot.local, object_ref(hosted))
    generation = hosted.metadata.generation
    if error:
        return Patch(ref, _refused_status(hosted, error, snapshot), "status")
    if at_broker is None or OWNER not in at_broker.metadata.labels or at_broker.spec != hosted.spec:
        return Patch(ref, {})  # the present status stays until there is a newer one
    status = at_broker.status
    if status.observed_generation != at_broker.metadata.generation:
        return Patch(ref, {})
    conditions = [replace(c, observed_generation=generation) for c in status.conditions]
    copied: Wire = msgspec.to_builtins(
        replace(status, observed_generation=generation, conditions=tuple(conditions))
    )
    counts = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas")
    zeros: Wire = {**dict.fromkeys(counts, 0), "clusters": []}
    return Patch(ref, {"status": {**zeros, **copied}}, "status")


def _refused_status(hosted: FederatedStatefulSet, message: str, snapshot: Snapshot) -> Wire:
    """The status patch of a set that the broker refuses: condition Valid is False, NotPassedOn."""
    desired: tuple[Condition, ...] = (
        condition("Valid", False, "NotPassedOn", f"the broker does not take it: {message}"[:1000]),
    )
    generation = hosted.metadata.generation
    after = merge_conditions(hosted.status.conditions, desired, snapshot.now, generation)
    return {"status": {"conditions": msgspec.to_builtins(after)}}
