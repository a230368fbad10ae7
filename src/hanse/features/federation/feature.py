"""Membership: which clusters a federation has, where they are, and how they stand."""

from collections.abc import Iterable

from hanse.features.federation.members import GUIDE, directions
from hanse.features.federation.status import plan_status
from hanse.model.facts import BadWay, ClusterState, Leadership, Liveness, Role
from hanse.model.keys import Key
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Secret
from hanse.model.kinds.federation import SYSTEM, ClusterClaim, Federation
from hanse.model.objects import Object
from hanse.model.plan import Plan
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot, Watch, Writes
from hanse.model.ways import Direction

FEDERATION = "federation"


class Membership:
    """Tells who is in the federation, and guides the agent to its members."""

    name = GUIDE
    watches: tuple[Watch, ...] = (
        Watch(Role.LOCAL, Federation, writes=Writes.STATUS),
        Watch(Role.LOCAL, ClusterClaim),
        Watch(Role.LOCAL, Secret, namespace=SYSTEM),
        Watch(Role.LOCAL, Lease, namespace=SYSTEM),
        Watch(Role.MEMBER, ClusterClaim),
    )
    guided_by: tuple[type[Object], ...] = (Federation, ClusterClaim, Secret)

    def directions(self, seen: Snapshot) -> tuple[Direction, ...]:
        return directions(seen)

    def wakes(self, change: Change, seen: Snapshot) -> Iterable[Key]:
        match change:
            case ObjectChange(_, before, after) if isinstance(change.object, Lease):
                return self._all(seen) if _holder(before) != _holder(after) else ()
            case ObjectChange():
                names = {change.object.name} if isinstance(change.object, Federation) else set()
                return {*self._all(seen), *(Key(FEDERATION, name) for name in names)}
            case FactChange():
                told = isinstance(change.fact, BadWay | ClusterState | Leadership | Liveness)
                return self._all(seen) if told else ()

    def plan(self, key: Key, seen: Snapshot) -> Plan:
        federation = seen.get(seen.local, Federation, key.name)
        if federation is None or federation.metadata.deletion_timestamp is not None:
            return Plan()
        return plan_status(federation, seen)

    def _all(self, seen: Snapshot) -> tuple[Key, ...]:
        return tuple(
            Key(FEDERATION, federation.metadata.name)
            for federation in seen.all(seen.local, Federation)
        )


def _holder(obj: Object | None) -> str | None:
    return obj.spec.holder_identity if isinstance(obj, Lease) else None
