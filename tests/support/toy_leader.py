"""A minimal feature for scenarios about leader election.

The leader of a member writes one ConfigMap, `flag`, there. It does not name its leader, so a new
leader has nothing to write.
"""

from collections.abc import Iterable

from hanse.model.facts import ClusterState, Leadership, Role
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import Meta
from hanse.model.plan import Desired, Key, Plan
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot, Watch, Writes

COLOURS = "colours"
"""The ConfigMap in the local cluster whose data is copied into the flag."""


class Flag:
    """Copies a local ConfigMap to every member that it leads."""

    name = "flag"

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self.watches: tuple[Watch, ...] = (
            Watch(Role.LOCAL, ConfigMap, namespace=namespace),
            Watch(Role.LED, ConfigMap, namespace=namespace, writes=Writes.OBJECTS),
        )

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        match change:
            case ObjectChange() if isinstance(change.object, ConfigMap):
                return [Key("flag", cluster) for cluster in snapshot.clusters(Role.MEMBER)]
            case FactChange() if isinstance(change.fact, ClusterState):
                return [Key("flag", change.fact.cluster)]
            case FactChange() if isinstance(change.fact, Leadership):
                return [Key("flag", change.fact.member)]
            case _:
                return []

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        colours = snapshot.get(snapshot.local, ConfigMap, COLOURS, self._namespace)
        if colours is None or key.name not in snapshot.clusters(Role.LED):
            return Plan()
        flag = ConfigMap(metadata=Meta(name="flag", namespace=self._namespace), data=colours.data)
        return Plan((Desired(flag, key.name, as_leader_of=key.name),))
