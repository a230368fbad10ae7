"""What a cluster holds of a set, found again by its marks, and how it is let go of."""

from collections.abc import Iterator

from msgspec.structs import replace

from hanse.features.statefulsets.headless_services import is_kept_for_another_set
from hanse.features.statefulsets.names import CLUSTER, RELEASED, SET, part_name
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Service
from hanse.model.kinds.stateful import StatefulSetPart
from hanse.model.objects import ClusterId, ClusterObjectRef, Object, object_ref
from hanse.model.ownership import OWNER
from hanse.model.plan import Key, Patch, Plan
from hanse.model.snapshot import Index, Snapshot


def _of_set(obj: Object) -> list[str]:
    marks = obj.metadata.labels
    return [f"{obj.metadata.namespace}/{marks[SET]}"] if SET in marks and OWNER in marks else []


STATEFUL_SETS_BY_SET = Index(StatefulSet, "statefulsets-sets", _of_set)
SERVICES_BY_SET = Index(Service, "statefulsets-services", _of_set)


def standing(key: Key, snapshot: Snapshot) -> list[Object]:
    """What is ours of a set in this cluster."""
    place = f"{key.namespace}/{key.name}"
    return [
        *snapshot.by(snapshot.local, STATEFUL_SETS_BY_SET, place),
        *snapshot.by(snapshot.local, SERVICES_BY_SET, place),
    ]


def kept(key: Key, snapshot: Snapshot, broker: ClusterId, home: str) -> Plan:
    """Everything stays as it stands, here and at the door."""
    here = [ClusterObjectRef(snapshot.local, object_ref(o)) for o in standing(key, snapshot)]
    there = [ClusterObjectRef(broker, object_ref(o)) for o in _at_door(key, snapshot, broker, home)]
    return Plan(kept=(*here, *there))


def _at_door(key: Key, snapshot: Snapshot, broker: ClusterId, home: str) -> Iterator[Object]:
    own = part_name(key.namespace, key.name, snapshot.local)
    if (part := snapshot.get(broker, StatefulSetPart, own, home)) is not None:
        yield part
    for service in snapshot.by(broker, SERVICES_BY_SET, f"{key.namespace}/{key.name}"):
        if service.metadata.annotations.get(CLUSTER) == snapshot.local:
            yield service


def released(key: Key, snapshot: Snapshot, broker: ClusterId, home: str) -> Plan:
    """Leave what runs here to the cluster's people: it is nobody's from now on.

    The report goes last, so that others know who has not let go yet.
    """
    objects = standing(key, snapshot)
    if not objects:
        return Plan()
    ours = [o for o in objects if not is_kept_for_another_set(o, key, snapshot, broker)]
    patches = tuple(_freed(o, key, snapshot.local) for o in ours)
    return replace(kept(key, snapshot, broker, home), patches=patches)


def is_released_by(obj: Object | None, key: Key) -> bool:
    """Whether something was left behind by an orphaned set of this name."""
    return (
        obj is not None
        and OWNER not in obj.metadata.labels
        and obj.metadata.annotations.get(RELEASED) == f"{key.namespace}/{key.name}"
    )


def _freed(obj: Object, key: Key, here: ClusterId) -> Patch:
    ours = dict.fromkeys(n for n in obj.metadata.annotations if n.startswith("hanse.dev/"))
    marks = {**ours, RELEASED: f"{key.namespace}/{key.name}"}
    change = {"metadata": {"labels": {OWNER: None}, "annotations": marks}}
    return Patch(ClusterObjectRef(here, object_ref(obj)), change)
