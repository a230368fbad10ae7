"""Which set keeps a headless Service that governs several: the first of them by name.

The copy of a Service is one object, whatever number of sets is behind it. The first set that lives
keeps it for all; when that set goes, the next takes the copy over as it stands.
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
    """The headless Service that a set, or its shares, are about."""
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
    """The names of the sets that a Service governs, as they were submitted to the federation."""
    plain = snapshot.by(broker, SETS_BY_SERVICE, f"{namespace}/{service}") if service else ()
    placed = list_governed_federated_sets(service, namespace, snapshot, broker)
    return {one.metadata.name for one in plain} | placed


def list_governed_federated_sets(
    service: str, namespace: str, snapshot: Snapshot, where: ClusterId
) -> set[str]:
    """Those of them that are of the other kind, at the broker or at a host."""
    placed = (
        snapshot.by(where, FEDERATED_SETS_BY_SERVICE, f"{namespace}/{service}") if service else ()
    )
    return {one.metadata.name for one in placed if one.metadata.deletion_timestamp is None}


def service_keeper(service: str, namespace: str, snapshot: Snapshot, broker: ClusterId) -> str:
    """The set that keeps the copy of a headless Service in every cluster; empty if none does."""
    names = list_governed_sets(service, namespace, snapshot, broker)
    return min(
        (n for n in names if _lives(Key("local", n, namespace), snapshot, broker)), default=""
    )


def is_kept_for_another_set(obj: Object, key: Key, snapshot: Snapshot, broker: ClusterId) -> bool:
    """Whether something of a set's is a Service that another set keeps from now on."""
    if not isinstance(obj, Service) or broker_cluster(snapshot) != broker:
        return False
    return service_keeper(obj.metadata.name, key.namespace, snapshot, broker) not in ("", key.name)


def _lives(key: Key, snapshot: Snapshot, broker: ClusterId) -> bool:
    """Whether a set has shares and is there to stay."""
    submitted = find_submitted_set(key, snapshot, broker)
    record = snapshot.get(broker, StatefulSetShares, key.name, key.namespace)
    if submitted is None or record is None or record.spec.newer:
        return False
    return not submitted.terminating and not submitted.orphaned
