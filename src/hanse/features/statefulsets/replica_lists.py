"""The list of load-balanced replicas, as annotations of their headless Service at the broker."""

from collections.abc import Iterator

from hanse.features.statefulsets.headless_services import list_governed_sets, service_keeper
from hanse.features.statefulsets.names import LB_NEEDED, REPLICAS, replica_name
from hanse.features.statefulsets.submitted import SubmittedSet
from hanse.model.kinds.core import Service
from hanse.model.kinds.stateful import StatefulSetShares
from hanse.model.objects import ClusterId, ClusterObjectRef, object_ref
from hanse.model.plan import Patch
from hanse.model.snapshot import Snapshot


def list_replica_names(name: str, first: int, cluster: ClusterId, share: int) -> list[str]:
    """The names of the replicas of one cluster, from the first ordinal."""
    return [replica_name(name, cluster, n) for n in range(first, first + share)]


def service_annotation_patch(
    submitted: SubmittedSet,
    record: StatefulSetShares | None,
    service: Service | None,
    snapshot: Snapshot,
    broker: ClusterId,
    rank: int,
) -> tuple[Patch, ...]:
    """The patch of the headless Service with the names of all load-balanced replicas it governs.

    Without any, load balancers are `false` and the list is removed. Empty without Service or
    record, if another set owns the Service's copies, and if load balancers were never requested.
    """
    if service is None or record is None:
        return ()
    meta = service.metadata
    if service_keeper(meta.name, meta.namespace, snapshot, broker) not in ("", submitted.name):
        return ()
    others = sorted(
        list_governed_sets(meta.name, meta.namespace, snapshot, broker) - {submitted.name}
    )
    found = (snapshot.get(broker, StatefulSetShares, name, meta.namespace) for name in others)
    balanced = [r for r in (record, *found) if r is not None and r.spec.load_balanced]
    if (
        not balanced
        and REPLICAS not in meta.annotations
        and LB_NEEDED not in {**submitted.all_annotations, **meta.annotations}
    ):
        return ()
    names = [name for each in balanced for name in _replica_names(each)]
    annotations: dict[str, str | None] = {
        LB_NEEDED: "true" if balanced else "false",
        REPLICAS: ", ".join(names) or None,
    }
    ref = ClusterObjectRef(broker, object_ref(service))
    return (Patch(ref, {"metadata": {"annotations": annotations}}, rank=rank),)


def _replica_names(record: StatefulSetShares) -> Iterator[str]:
    """The names of all replicas of a set, in all clusters, by the record of shares."""
    for share in record.spec.shares:
        yield from list_replica_names(
            record.metadata.name, record.spec.first_ordinal, share.name, share.replicas
        )
