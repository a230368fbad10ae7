"""From a plan to the writes that make it so: pure, and empty when everything is as planned."""

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct

from hanse.model.facts import ClusterDeparted, ClusterState, KindServed, Leadership, WriteResult
from hanse.model.objects import ClusterId, ClusterObjectRef, Object, Wire, object_ref
from hanse.model.plan import Desired, Key, Patch, Plan, Removal
from hanse.model.snapshot import Snapshot
from hanse.runtime.compare import object_patch, patch_has_effect, status_patch, with_applied_record
from hanse.runtime.ownership import (
    SHARED,
    Owner,
    epoch_of,
    is_paused,
    owner_of,
    sources_of,
    with_owner,
)

OMITTED = "no longer wanted"
LEFT = "its cluster is being left"


class Create(Struct, frozen=True):
    """Write an object that must not be there yet."""

    where: ClusterId
    object: Object
    step: int
    as_leader_of: ClusterId | None = None
    rank: int | None = None
    """The place in the order of those who may write a shared object; None: it is ours alone."""
    awaited: bool = False


class Update(Struct, frozen=True):
    """Patch an object that must still be as it was seen."""

    where: ClusterId
    base: Object
    change: Wire
    subresource: str
    step: int
    as_leader_of: ClusterId | None = None
    rank: int | None = None
    awaited: bool = False


class Delete(Struct, frozen=True):
    """Delete an object that must still be as it was seen; by omission, or with a cause."""

    where: ClusterId
    base: Object
    cause: str
    step: int
    as_leader_of: ClusterId | None = None
    as_seen: bool = True
    """Whether it must not have changed at all; else it need only be the same object."""


Action: TypeAlias = Create | Update | Delete


class Obstacle(Struct, frozen=True):
    """Why an object is not written although it should be."""

    place: ClusterObjectRef
    result: WriteResult
    message: str


class Diff(Struct, frozen=True):
    """The writes that a plan asks for now, what stands in the way of others, whom to wait for."""

    actions: tuple[Action, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    waiting_for: frozenset[ClusterId] = frozenset()
    blocked_by: frozenset[ClusterObjectRef] = frozenset()
    """Objects that stand in the way: their change is worth another look."""
    unreadable: bool = False
    """Whether something stands in the way that does not fit our shape of its kind."""


def is_omission(action: Action) -> bool:
    """Whether an action deletes what is ours and no longer wanted."""
    return isinstance(action, Delete) and action.cause == OMITTED


def target_ref(action: Action) -> ClusterObjectRef:
    """What an action writes."""
    obj = action.object if isinstance(action, Create) else action.base
    return ClusterObjectRef(action.where, object_ref(obj))


OwnedObjects: TypeAlias = Iterable[tuple[ClusterId, Owner, Object]]


def diff(feature: str, key: Key, plan: Plan, owned: OwnedObjects, snapshot: Snapshot) -> Diff:
    """Compare all that a plan wants with all that was seen."""
    sink = DiffBuilder()
    wanted: set[ClusterObjectRef] = set()
    for desired in plan.desired:
        if _goes_with_leaving(desired.where, desired.as_leader_of == desired.where, snapshot):
            continue
        wanted.add(ClusterObjectRef(desired.where, object_ref(desired.object)))
        _compare_desired(desired, owner_by(feature, key, desired, snapshot), snapshot, sink)
    wanted.update(removal.place for removal in plan.removals)
    wanted.update(p for p in plan.kept if not _goes_with_leaving(p.where, False, snapshot))
    for removal in plan.removals:
        _compare_removal(removal, snapshot, sink)
    last = max((d.step for d in plan.desired), default=0) + 1
    for where, owner, obj in owned:
        stays = plan.keep_all and not _goes_with_leaving(where, owner.led, snapshot)
        if not stays and ClusterObjectRef(where, object_ref(obj)) not in wanted:
            _compare_omitted(where, owner, obj, snapshot, sink, last)
    for patch in plan.patches:
        _compare_patch(patch, snapshot, sink)
    actions = tuple(a for a in sink.actions if is_omission(a) or not sink.stops(a))
    return Diff(
        actions,
        tuple(sink.obstacles),
        frozenset(sink.waiting_for),
        frozenset(sink.blocked_by),
        sink.unreadable,
    )


def owner_by(feature: str, key: Key, desired: Desired, snapshot: Snapshot) -> Owner:
    """Whose a desired object will be: never the writing agent's where it leads."""
    if desired.shared:
        return Owner(feature, key, SHARED)
    if desired.as_leader_of is not None:
        return Owner(feature, key, desired.as_leader_of, led=True)
    return Owner(feature, key, snapshot.local)


class DiffBuilder:
    """Collects what a comparison finds."""

    def __init__(self) -> None:
        self.actions: list[Action] = []
        self.obstacles: list[Obstacle] = []
        self.waiting_for: set[ClusterId] = set()
        self.blocked_by: set[ClusterObjectRef] = set()
        self.unreadable = False
        self._stopped: dict[ClusterId, int] = {}

    def obstacle(self, place: ClusterObjectRef, result: WriteResult, message: str) -> None:
        self.obstacles.append(Obstacle(place, result, message))

    def stop_after(self, where: ClusterId, step: int) -> None:
        """Let nothing go to a destination after a step that cannot be done there."""
        self._stopped[where] = min(step, self._stopped.get(where, step))

    def stops(self, action: Action) -> bool:
        return action.step > self._stopped.get(action.where, action.step)


def _compare_desired(desired: Desired, owner: Owner, snapshot: Snapshot, sink: DiffBuilder) -> None:
    obj, where = desired.object, desired.where
    place = ClusterObjectRef(where, object_ref(obj))
    if not _writable(place, type(obj), desired.as_leader_of, snapshot, sink):
        sink.stop_after(where, desired.step)
        return
    partial = {
        c for c in desired.sources if _is_partial(c, snapshot) or _is_recovering(c, snapshot)
    }
    if partial:
        sink.waiting_for |= partial
        sink.stop_after(where, desired.step)
        return
    if desired.unowned:
        if snapshot.find(place) is None:
            sink.actions.append(Create(where, obj, desired.step, desired.as_leader_of))
        return
    epoch = _epoch(desired.as_leader_of, snapshot)
    rank = desired.rank if desired.shared else None
    standing = snapshot.get(where, type(obj), obj.metadata.name, obj.metadata.namespace)
    wanted = with_applied_record(with_owner(obj, owner, desired.sources, epoch, standing=standing))
    if standing is None:
        sink.actions.append(
            Create(where, wanted, desired.step, desired.as_leader_of, rank, desired.awaited)
        )
        return
    if not _ours_to_write(standing, owner, desired, epoch, place, sink):
        sink.blocked_by.add(place)
        sink.stop_after(where, desired.step)
        return
    change = object_patch(wanted, standing)
    subresource = ""
    if not change and type(obj).has_status_subresource:
        change, subresource = status_patch(wanted, standing), "status"
    if change:
        sink.actions.append(
            Update(
                where,
                standing,
                change,
                subresource,
                desired.step,
                desired.as_leader_of,
                rank,
                desired.awaited,
            )
        )


def _ours_to_write(
    standing: Object,
    owner: Owner,
    desired: Desired,
    epoch: int,
    place: ClusterObjectRef,
    sink: DiffBuilder,
) -> bool:
    if standing.metadata.deletion_timestamp is not None or is_paused(standing):
        return False  # its going wakes the key; a pause is a person's wish
    found = owner_of(standing)
    if found != owner and not desired.takes_over:
        whose = f"it belongs to {found}" if found else "it was not made by Hanse"
        sink.obstacle(place, "Foreign", f"{place.ref} exists already and {whose}")
        return False
    if epoch_of(standing) > epoch:
        sink.obstacle(place, "Fenced", f"{place.ref} was written by a newer leader")
        return False
    return True


def _compare_removal(removal: Removal, snapshot: Snapshot, sink: DiffBuilder) -> None:
    place = removal.place
    standing = snapshot.find(place)
    if standing is None or standing.metadata.uid != removal.uid:
        return
    if standing.metadata.deletion_timestamp is None and _writable(
        place, type(standing), removal.as_leader_of, snapshot, sink
    ):
        sink.actions.append(
            Delete(
                place.where,
                standing,
                removal.cause,
                removal.step,
                removal.as_leader_of,
                removal.as_seen,
            )
        )


def _compare_omitted(
    where: ClusterId, owner: Owner, obj: Object, snapshot: Snapshot, sink: DiffBuilder, step: int
) -> None:
    """Delete what is ours and not wanted, once everything it rested on can be seen."""
    leader_of = owner.serves if owner.led else None
    if leader_of is None and owner.serves not in (SHARED, snapshot.local):
        return  # another cluster's agent looks after it
    if leader_of is not None and not _leads(leader_of, snapshot):
        return
    if owner.serves == SHARED and _is_leaving(where, snapshot):
        return  # those who stay look after it
    if obj.metadata.deletion_timestamp is not None or is_paused(obj):
        return
    place = ClusterObjectRef(where, object_ref(obj))
    if not _writable(place, type(obj), leader_of, snapshot, sink):
        return
    if _goes_with_leaving(
        where, owner.led, snapshot
    ):  # whatever it rests on, however many they are
        sink.actions.append(Delete(where, obj, LEFT, step, leader_of))
        return
    unsynced = {
        c
        for c in sources_of(obj) | {snapshot.local}
        if _is_party(c, snapshot) and not snapshot.synced(c)
    }
    if unsynced:
        sink.waiting_for |= unsynced
        sink.obstacle(place, "Held", f"kept while {', '.join(sorted(unsynced))} cannot be seen")
        return
    if recovering := {c for c in sources_of(obj) | {snapshot.local} if _is_recovering(c, snapshot)}:
        sink.waiting_for |= recovering
        told = f"kept for now, since {', '.join(sorted(recovering))} was restored"
        sink.obstacle(place, "Held", told)
        return
    if epoch_of(obj) > _epoch(leader_of, snapshot):
        sink.obstacle(place, "Fenced", f"{place.ref} was written by a newer leader")
        return
    sink.actions.append(Delete(where, obj, OMITTED, step, leader_of))


def _compare_patch(patch: Patch, snapshot: Snapshot, sink: DiffBuilder) -> None:
    standing = snapshot.find(patch.place)
    if standing is None or is_paused(standing):
        return
    if not patch_has_effect(patch.change, standing):
        return
    where = patch.place.where
    if _writable(patch.place, type(standing), patch.as_leader_of, snapshot, sink):
        sink.actions.append(
            Update(
                where,
                standing,
                patch.change,
                patch.subresource,
                patch.step,
                patch.as_leader_of,
                patch.rank,
            )
        )


def _writable(
    place: ClusterObjectRef,
    kind: type[Object],
    leader_of: ClusterId | None,
    snapshot: Snapshot,
    sink: DiffBuilder,
) -> bool:
    """Whether the destination can be seen and written, and the lead, where needed, is ours."""
    if leader_of is not None and not _leads(leader_of, snapshot):
        sink.obstacle(place, "Fenced", f"{leader_of} is led by another supervisor")
        return False
    served = snapshot.fact(KindServed, (place.where, kind.kind))
    if served is not None and not served.served:
        sink.obstacle(place, "Refused", f"{place.where} does not serve {kind.kind}")
        sink.waiting_for.add(place.where)
        return False
    state = snapshot.fact(ClusterState, place.where)
    if state is None or not state.phase.writable or not snapshot.listed(place.where, kind):
        sink.waiting_for.add(place.where)
        return False
    if why := snapshot.unreadable_reason(
        place
    ):  # what we know of it is old: no write would be taken
        told = f"{place.ref} cannot be read: {why}; mend it by hand, or delete it"
        sink.obstacle(place, "Refused", told)
        sink.blocked_by.add(place)
        sink.unreadable = True
        return False
    return True


def _goes_with_leaving(where: ClusterId, led: bool, snapshot: Snapshot) -> bool:
    """Whether nothing of a kind stays where it is, since we are leaving; at home: as its leader."""
    return _is_leaving(where, snapshot) and (led or where != snapshot.local)


def _is_leaving(where: ClusterId, snapshot: Snapshot) -> bool:
    state = snapshot.fact(ClusterState, where)
    return state is not None and state.leaving


def _is_recovering(source: ClusterId, snapshot: Snapshot) -> bool:
    """Whether a source was restored a moment ago, and others may be putting things back."""
    state = snapshot.fact(ClusterState, source)
    return state is not None and state.recovering


def _is_partial(source: ClusterId, snapshot: Snapshot) -> bool:
    """Whether a source was never seen whole: what rests on it now might lack half of itself."""
    state = snapshot.fact(ClusterState, source)
    return state is not None and not state.listed


def _is_party(source: ClusterId, snapshot: Snapshot) -> bool:
    """Whether a source is a party: one known to have left is no reason to keep anything."""
    return snapshot.fact(ClusterDeparted, source) is None


def _leads(member: ClusterId, snapshot: Snapshot) -> bool:
    leadership = snapshot.fact(Leadership, member)
    return leadership is not None and leadership.ours


def _epoch(member: ClusterId | None, snapshot: Snapshot) -> int:
    leadership = snapshot.fact(Leadership, member) if member is not None else None
    return leadership.epoch if leadership is not None else 0
