"""Which set owns the copy of a headless Service that governs several: the first by name.

The copy of a Service is one object, however many sets it governs. The first live set by name keeps
it for all; when that set is deleted, the next one adopts the copy unchanged.
"""

from hanse.features.statefulsets.submitted import find_submitted_set
from hanse.model.clusterset import broker_cluster
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Service
from hanse.model.kinds.hanse import FederatedStatefulSet
from hanse.model.kinds.stateful import StatefulSetShares
from hanse.model.objects import ClusterId, Object
from hanse.model.plan import Key
from hanse.model.snapshot import Index, Snapshot

SETS_BY_SERVICE = Index(
    StatefulSet,
    "statefulsets-governed",
    lambda s: [f"{s.metadata.namespace}/{s.spec.service_name}"],
)
FEDERATED_SETS_BY_SERVICE = Index(
    FederatedStatefulSet,
    "statefulsets-governed-placed",
    lambda s: [f"{s.metadata.namespace}/{governing_service(s)}"],
)


def governing_service(obj: Object) -> str:
    """`serviceName` of a set of either kind or of its shares; empty if it has none."""
    match obj:
        case StatefulSet(spec=spec):
            return spec.service_name
        case FederatedStatefulSet(spec=spec):
            return str(spec.template.spec.get("serviceName", ""))
        case StatefulSetShares(spec=spec):
            return spec.service
        case _:
            return ""


def list_governed_sets(
    service: str, namespace: str, snapshot: Snapshot, broker: ClusterId
) -> set[str]:
    """The names of the sets at the broker, of either kind, that a Service governs.

    FederatedStatefulSets that are terminating do not count, StatefulSets do. Empty for an empty
    name.
    """
    stateful_sets = (
        snapshot.by(broker, SETS_BY_SERVICE, f"{namespace}/{service}") if service else ()
    )
    federated_sets = list_governed_federated_sets(service, namespace, snapshot, broker)
    return {each.metadata.name for each in stateful_sets} | federated_sets


def list_governed_federated_sets(
    service: str, namespace: str, snapshot: Snapshot, where: ClusterId
) -> set[str]:
    """The names of the FederatedStatefulSets in a cluster that a Service governs.

    Those that are terminating do not count. Empty for an empty name.
    """
    federated_sets = (
        snapshot.by(where, FEDERATED_SETS_BY_SERVICE, f"{namespace}/{service}") if service else ()
    )
    return {
        each.metadata.name for each in federated_sets if each.metadata.deletion_timestamp is None
    }


def service_keeper(service: str, namespace: str, snapshot: Snapshot, broker: ClusterId) -> str:
    """The first live set by name that a headless Service governs, which owns its copies.

    Empty if no live set has that Service.
    """
    names = list_governed_sets(service, namespace, snapshot, broker)
    return min(
        (n for n in names if _is_live(Key("local", n, namespace), snapshot, broker)), default=""
    )


def is_kept_for_another_set(obj: Object, key: Key, snapshot: Snapshot, broker: ClusterId) -> bool:
    """Whether an object is a Service whose copies another live set owns, at the present broker."""
    if not isinstance(obj, Service) or broker_cluster(snapshot) != broker:
        return False
    return service_keeper(obj.metadata.name, key.namespace, snapshot, broker) not in ("", key.name)


def _is_live(key: Key, snapshot: Snapshot, broker: ClusterId) -> bool:
    """Whether a set has readable shares at the broker, and is neither terminating nor orphaned."""
    submitted = find_submitted_set(key, snapshot, broker)
    record = snapshot.get(broker, StatefulSetShares, key.name, key.namespace)
    if submitted is None or record is None or record.spec.has_newer_schema:
        return False
    return not submitted.terminating and not submitted.orphaned
