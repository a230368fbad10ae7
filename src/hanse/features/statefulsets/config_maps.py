"""ConfigMaps that pods of a set refer to: people submit them beside the set, and they come along.

Each has a key of its own, since several sets may refer to one. A cluster copies one if it has a
share of a set that refers to it and would take that set. A ConfigMap of this name that somebody
else made in the cluster is not overwritten, and the set is refused there: its pods would read it.
"""

from collections.abc import Iterator

from msgspec import Struct

from hanse.features.statefulsets.names import CARRIED, user_metadata
from hanse.features.statefulsets.owned_objects import is_released_by, release_patch
from hanse.model.acceptance import CREATED_BY
from hanse.model.facts import WriteOutcome
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.kinds.hanse import FederatedStatefulSet
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, Object, ObjectRef, Wire
from hanse.model.ownership import OWNER
from hanse.model.plan import CreateOnly, Desired, Key, Owned, Plan, TakeOver
from hanse.model.pod_references import references
from hanse.model.snapshot import Index, Snapshot

TOPIC = "config"


def config_map_names(template: Wire) -> frozenset[str]:
    """The ConfigMaps that a pod template refers to."""
    return frozenset(each.name for each in references(template) if each.kind == "ConfigMap")


def _template(obj: Object | None) -> Wire:
    """The pod template of a set of either kind; empty for other objects."""
    match obj:
        case StatefulSet():
            return obj.spec.template
        case FederatedStatefulSet():
            template = obj.spec.template.spec.get("template")
            return template if isinstance(template, dict) else {}
        case _:
            return {}


def _config_refs(obj: Object) -> list[str]:
    """Index values of a set: `namespace/name` of each ConfigMap that its pod template refers to."""
    names = config_map_names(_template(obj))
    return [f"{obj.metadata.namespace}/{name}" for name in sorted(names)]


SETS_BY_CONFIG = Index(StatefulSet, "statefulsets-configs", _config_refs)
FEDERATED_SETS_BY_CONFIG = Index(FederatedStatefulSet, "statefulsets-placed-configs", _config_refs)


def config_keys(*versions: Object | None) -> Iterator[Key]:
    """The keys of the ConfigMaps that versions of a set refer to."""
    for obj in versions:
        if obj is not None:
            for name in sorted(config_map_names(_template(obj))):
                yield Key(TOPIC, name, obj.metadata.namespace)


def list_sets_with_config(
    name: str, namespace: str, snapshot: Snapshot, broker: ClusterId
) -> list[str]:
    """The sorted names of the sets at the broker, of either kind, that refer to a ConfigMap."""
    ref = f"{namespace}/{name}"
    found = (
        *snapshot.by(broker, SETS_BY_CONFIG, ref),
        *snapshot.by(broker, FEDERATED_SETS_BY_CONFIG, ref),
    )
    return sorted({each.metadata.name for each in found})


class CarriedConfig(Struct, frozen=True):
    """The ConfigMaps of a set that come along: all of them, and those that are not here yet."""

    names: frozenset[str] = frozenset()
    arriving: frozenset[str] = frozenset()
    """Those that are still to be copied."""
    blocked: frozenset[str] = frozenset()
    """Those that cannot be copied: somebody else's have their names."""


def carried_config(
    template: Wire, namespace: str, snapshot: Snapshot, broker: ClusterId
) -> CarriedConfig:
    """The names of a template's ConfigMaps at the broker: all, those yet to be copied, and blocked.

    Blocked is one that is not ours here, and whose copy the API server here has finally refused.
    ConfigMaps that the broker lacks are left out.
    """
    names = frozenset(
        name
        for name in config_map_names(template)
        if submitted_config(name, namespace, snapshot, broker) is not None
    )
    missing = frozenset(name for name in names if _own_copy(name, namespace, snapshot) is None)
    blocked = frozenset(name for name in missing if _is_blocked(name, namespace, snapshot))
    return CarriedConfig(names, missing - blocked, blocked)


def submitted_config(
    name: str, namespace: str, snapshot: Snapshot, broker: ClusterId
) -> ConfigMap | None:
    """The ConfigMap at the broker; None if missing, terminating, or with our owner label."""
    found = snapshot.get(broker, ConfigMap, name, namespace)
    if found is None or found.metadata.deletion_timestamp or OWNER in found.metadata.labels:
        return None
    return found


def _own_copy(name: str, namespace: str, snapshot: Snapshot) -> ConfigMap | None:
    """The ConfigMap of that name in this cluster if it has our owner label; else None."""
    found = snapshot.get(snapshot.local, ConfigMap, name, namespace)
    return found if found is not None and OWNER in found.metadata.labels else None


def _is_blocked(name: str, namespace: str, snapshot: Snapshot) -> bool:
    """Whether the last write of the copy in this cluster has finally failed."""
    ref = ClusterObjectRef(snapshot.local, ObjectRef(ConfigMap.kind, name, namespace))
    outcome = snapshot.fact(WriteOutcome, ref)
    return outcome is not None and outcome.is_final


def plan_config_map(key: Key, source: ConfigMap | None, snapshot: Snapshot) -> Plan:
    """Write the copy of a ConfigMap here; without a source, keep, release or delete it.

    It is kept while a StatefulSet that Hanse owns uses it, released if only others use it, and
    deleted if none does.
    """
    if source is not None:
        return Plan(tuple(_copies(key, source, snapshot)))
    copy = _own_copy(key.name, key.namespace, snapshot)
    if copy is None:
        return Plan()
    ref = ClusterObjectRef(snapshot.local, ObjectRef(ConfigMap.kind, key.name, key.namespace))
    users = list(snapshot.by(snapshot.local, SETS_BY_CONFIG, f"{key.namespace}/{key.name}"))
    if not users:
        return Plan()
    if any(OWNER in user.metadata.labels for user in users):
        return Plan(kept=(ref,))
    return Plan(kept=(ref,), patches=(release_patch(copy, key, snapshot.local),))


def _copies(key: Key, source: ConfigMap, snapshot: Snapshot) -> Iterator[Desired]:
    """The copy of a ConfigMap, and before it its namespace where that is missing.

    A ConfigMap that was released under this name is taken over; any other is not overwritten.
    """
    if snapshot.get(snapshot.local, Namespace, key.namespace) is None:
        marks = {CREATED_BY: "statefulsets"}
        namespace = Namespace(metadata=Meta(name=key.namespace, annotations=marks))
        yield Desired(namespace, snapshot.local, ownership=CreateOnly())
    meta = source.metadata
    copy = ConfigMap(
        metadata=Meta(
            name=key.name,
            namespace=key.namespace,
            labels={**user_metadata(meta.labels), CARRIED: "true"},
            annotations=user_metadata(meta.annotations),
        ),
        data=source.data,
        binary_data=source.binary_data,
        immutable=source.immutable,
    )
    found = snapshot.get(snapshot.local, ConfigMap, key.name, key.namespace)
    adopts = is_released_by(found, key)
    yield Desired(copy, snapshot.local, step=1, ownership=TakeOver() if adopts else Owned())
