"""The objects of a set that a cluster owns, found by their labels, and how they are released."""

from collections.abc import Iterable, Iterator

from hanse.features.statefulsets.headless_services import is_kept_for_another_set
from hanse.features.statefulsets.names import CLUSTER, RELEASED, SET, cluster_set_name, part_name
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Service
from hanse.model.kinds.policy import PodDisruptionBudget
from hanse.model.kinds.stateful import StatefulSetPart
from hanse.model.objects import ClusterId, ClusterObjectRef, Object, Wire, object_ref
from hanse.model.ownership import OWNER
from hanse.model.plan import Key, Patch, Plan
from hanse.model.snapshot import Index, Snapshot


def _set_index_values(obj: Object) -> list[str]:
    """The index value of an object we own: the namespace and name of its set; else none."""
    labels = obj.metadata.labels
    return [f"{obj.metadata.namespace}/{labels[SET]}"] if SET in labels and OWNER in labels else []


STATEFUL_SETS_BY_SET = Index(StatefulSet, "statefulsets-sets", _set_index_values)
SERVICES_BY_SET = Index(Service, "statefulsets-services", _set_index_values)
BUDGETS_BY_SET = Index(PodDisruptionBudget, "statefulsets-budgets", _set_index_values)


def owned_stateful_set(name: str, namespace: str, snapshot: Snapshot) -> StatefulSet | None:
    """The set's StatefulSet in this cluster by its name; None without our owner label."""
    local_name = cluster_set_name(name, snapshot.local)
    found = snapshot.get(snapshot.local, StatefulSet, local_name, namespace)
    return found if found is not None and OWNER in found.metadata.labels else None


def running_stateful_set(key: Key, snapshot: Snapshot) -> StatefulSet | None:
    """The set's StatefulSet here: ours, or one that a set of this name released; else None.

    Ours also while it is terminating; a released one does not count then: nobody can adopt it.
    """
    local_name = cluster_set_name(key.name, snapshot.local)
    found = snapshot.get(snapshot.local, StatefulSet, local_name, key.namespace)
    if found is not None and is_released_by(found, key):
        return found if found.metadata.deletion_timestamp is None else None
    return owned_stateful_set(key.name, key.namespace, snapshot)


def list_owned(key: Key, snapshot: Snapshot) -> list[Object]:
    """StatefulSets, Services and budgets here with the set's label and our owner label."""
    ref = f"{key.namespace}/{key.name}"
    return [
        *snapshot.by(snapshot.local, STATEFUL_SETS_BY_SET, ref),
        *snapshot.by(snapshot.local, SERVICES_BY_SET, ref),
        *snapshot.by(snapshot.local, BUDGETS_BY_SET, ref),
    ]


def plan_unchanged(key: Key, snapshot: Snapshot, broker: ClusterId, broker_namespace: str) -> Plan:
    """A plan that keeps the set's owned objects here, and our report and Services at the broker."""
    here = [ClusterObjectRef(snapshot.local, object_ref(o)) for o in list_owned(key, snapshot)]
    at_broker = [
        ClusterObjectRef(broker, object_ref(o))
        for o in _list_owned_at_broker(key, snapshot, broker, broker_namespace)
    ]
    return Plan(kept=(*here, *at_broker))


def _list_owned_at_broker(
    key: Key, snapshot: Snapshot, broker: ClusterId, broker_namespace: str
) -> Iterator[Object]:
    """This cluster's report and the Services of its replicas at the broker."""
    own = part_name(key.namespace, key.name, snapshot.local)
    if (part := snapshot.get(broker, StatefulSetPart, own, broker_namespace)) is not None:
        yield part
    for service in snapshot.by(broker, SERVICES_BY_SET, f"{key.namespace}/{key.name}"):
        if service.metadata.annotations.get(CLUSTER) == snapshot.local:
            yield service


def plan_release(key: Key, snapshot: Snapshot, broker: ClusterId, broker_namespace: str) -> Plan:
    """A plan that removes our owner label from the objects of a set here: they run on without us.

    Services that another set keeps are not released, and budgets are deleted: nobody would open
    them for a drained node. Until nothing is owned the report is kept; then the plan is empty,
    which deletes it: others know by it which clusters have not released yet.
    """
    objects = [o for o in list_owned(key, snapshot) if not isinstance(o, PodDisruptionBudget)]
    if not objects:
        return Plan()
    owned = [o for o in objects if not is_kept_for_another_set(o, key, snapshot, broker)]
    patches = tuple(release_patch(o, key, snapshot.local) for o in owned)
    kept = plan_unchanged(key, snapshot, broker, broker_namespace).kept
    budget = PodDisruptionBudget.kind
    return Plan(kept=tuple(one for one in kept if one.ref.kind != budget), patches=patches)


def is_released_by(obj: Object | None, key: Key) -> bool:
    """Whether an object has no owner label, and was released by a set of this name (annotation)."""
    return (
        obj is not None
        and OWNER not in obj.metadata.labels
        and obj.metadata.annotations.get(RELEASED) == f"{key.namespace}/{key.name}"
    )


def release_patch(obj: Object, key: Key, here: ClusterId) -> Patch:
    """The patch that removes the owner label and all annotations `hanse.dev/*` from an object here.

    It adds the annotation with the set that released it.
    """
    owned = [name for name in obj.metadata.annotations if name.startswith("hanse.dev/")]
    return Patch(ClusterObjectRef(here, object_ref(obj)), release_change(owned, key))


def release_change(owned: Iterable[str], key: Key) -> Wire:
    """The merge patch that removes our owner label and the `owned` annotations from an object.

    It adds the annotation with the set that released it.
    """
    annotations = {**dict.fromkeys(owned), RELEASED: f"{key.namespace}/{key.name}"}
    return {"metadata": {"labels": {OWNER: None}, "annotations": annotations}}
