"""The diff between a plan and the observed objects: the writes to send, and why others wait."""

from collections.abc import Iterable
from typing import TypeAlias

from hanse.model.facts import ClusterDeparted, ClusterState, Leadership, WriteResult
from hanse.model.objects import ClusterId, ClusterObjectRef, Object, object_ref
from hanse.model.ownership import is_paused
from hanse.model.plan import CreateOnly, Desired, Key, Patch, Plan, Removal, Shared, TakeOver
from hanse.model.snapshot import Snapshot
from hanse.runtime.actions import (
    LEFT,
    OMITTED,
    Action,
    Create,
    Delete,
    Diff,
    Obstacle,
    Update,
    is_omission,
)
from hanse.runtime.compare import object_patch, patch_has_effect, status_patch, with_applied_record
from hanse.runtime.ownership import (
    SHARED,
    Owner,
    epoch_of,
    owner_of,
    sources_of,
    with_owner,
)

OwnedObjects: TypeAlias = Iterable[tuple[ClusterId, Owner, Object]]


def diff(feature: str, key: Key, plan: Plan, owned: OwnedObjects, snapshot: Snapshot) -> Diff:
    """The writes that a plan needs, and why others wait, by all it desires and all its key owns.

    Owned objects that the plan neither desires, keeps (`kept`, `keep_all`) nor removes are deleted
    in a last step. In a cluster that is being left nothing is desired or kept; in the local one
    that holds only for what is written as its leader.
    """
    builder = DiffBuilder(snapshot)
    named: set[ClusterObjectRef] = set()
    for desired in plan.desired:
        if _is_deleted_by_leaving(desired.where, desired.as_leader_of == desired.where, snapshot):
            continue
        named.add(ClusterObjectRef(desired.where, object_ref(desired.object)))
        builder.add_desired(desired, desired_owner(feature, key, desired, snapshot))
    named.update(removal.target for removal in plan.removals)
    named.update(p for p in plan.kept if not _is_deleted_by_leaving(p.where, False, snapshot))
    for removal in plan.removals:
        builder.add_removal(removal)
    last_step = max((d.step for d in plan.desired), default=0) + 1
    for where, owner, obj in owned:
        kept = plan.keep_all and not _is_deleted_by_leaving(where, owner.led, snapshot)
        if not kept and ClusterObjectRef(where, object_ref(obj)) not in named:
            builder.add_omitted(where, owner, obj, last_step)
    for patch in plan.patches:
        builder.add_patch(patch)
    return builder.build()


def desired_owner(feature: str, key: Key, desired: Desired, snapshot: Snapshot) -> Owner:
    """The owner that a desired object will have: for all if it is shared, else for one cluster.

    That is the member as whose leader it is written, else the local cluster.
    """
    if isinstance(desired.ownership, Shared):
        return Owner(feature, key, SHARED)
    if desired.as_leader_of is not None:
        return Owner(feature, key, desired.as_leader_of, led=True)
    return Owner(feature, key, snapshot.local)


def _rank_and_awaited(desired: Desired) -> tuple[int | None, bool]:
    """Rank and whether others wait, of a shared object; (None, False) of any other."""
    ownership = desired.ownership
    return (ownership.rank, ownership.awaited) if isinstance(ownership, Shared) else (None, False)


class DiffBuilder:
    """Compares one object after the other with the snapshot, and collects the diff."""

    def __init__(self, snapshot: Snapshot) -> None:
        """An empty diff; what is added is compared with the snapshot."""
        self._snapshot = snapshot
        self._actions: list[Action] = []
        self._obstacles: list[Obstacle] = []
        self._waiting_for: set[ClusterId] = set()
        self._blocked_by: set[ClusterObjectRef] = set()
        self._paused: set[ClusterObjectRef] = set()
        self._unreadable = False
        self._stopped: dict[ClusterId, int] = {}

    def build(self) -> Diff:
        """The diff without actions of steps that come after a stopped one; omissions stay."""
        actions = (a for a in self._actions if is_omission(a) or not self._is_stopped(a))
        return Diff(
            tuple(actions),
            tuple(self._obstacles),
            frozenset(self._waiting_for),
            frozenset(self._blocked_by),
            frozenset(self._paused),
            self._unreadable,
        )

    def add_desired(self, desired: Desired, owner: Owner) -> None:
        """Add the create of a desired object, or the patch of what differs.

        Status is patched only once the rest is as desired. `CreateOnly`: without an owner, no
        patch. Nothing is added while the cluster cannot be written, a connected source is partial
        or recovering, or the existing object may not be overwritten: the cause is recorded, and
        later steps in the cluster wait, too.
        """
        obj, where = desired.object, desired.where
        place = ClusterObjectRef(where, object_ref(obj))
        if not self._is_writable(place, type(obj), desired.as_leader_of):
            self._stop_after(where, desired.step)
            return
        partial = {
            source
            for source in desired.sources
            if _is_partial(source, self._snapshot) or _is_recovering(source, self._snapshot)
        }
        if partial:
            self._waiting_for |= partial
            self._stop_after(where, desired.step)
            return
        if isinstance(desired.ownership, CreateOnly):
            if self._snapshot.find(place) is None:
                self._actions.append(Create(where, obj, desired.step, desired.as_leader_of))
            return
        epoch = _leader_epoch(desired.as_leader_of, self._snapshot)
        rank, awaited = _rank_and_awaited(desired)
        meta = obj.metadata
        observed = self._snapshot.get(where, type(obj), meta.name, meta.namespace)
        wanted = with_applied_record(
            with_owner(obj, owner, desired.sources, epoch, observed=observed)
        )
        if observed is None:
            self._actions.append(
                Create(where, wanted, desired.step, desired.as_leader_of, rank, awaited)
            )
            return
        if not self._may_overwrite(observed, owner, desired, epoch, place):
            self._blocked_by.add(place)
            self._stop_after(where, desired.step)
            return
        change = object_patch(wanted, observed)
        subresource = ""
        if not change and type(obj).has_status_subresource:
            change, subresource = status_patch(wanted, observed), "status"
        if change:
            self._actions.append(
                Update(
                    where,
                    observed,
                    change,
                    subresource,
                    desired.step,
                    desired.as_leader_of,
                    rank,
                    awaited,
                )
            )

    def add_removal(self, removal: Removal) -> None:
        """Add the deletion of an object for a cause, if it is there with the removal's uid.

        Nothing if it is being deleted already; nor if it is paused, or its cluster cannot be
        written now, which is recorded.
        """
        place = removal.target
        observed = self._snapshot.find(place)
        if observed is None or observed.metadata.uid != removal.uid:
            return
        if observed.metadata.deletion_timestamp is not None or self._is_paused(observed, place):
            return
        if self._is_writable(place, type(observed), removal.as_leader_of):
            self._actions.append(
                Delete(
                    place.where,
                    observed,
                    removal.cause,
                    removal.step,
                    removal.as_leader_of,
                    removal.as_seen,
                )
            )

    def add_omitted(self, where: ClusterId, owner: Owner, obj: Object, step: int) -> None:
        """Add the deletion of an owned object that its plan omits, once all its sources are synced.

        It is kept, with an obstacle, while a source is not synced or is recovering, or if a newer
        leader wrote it; neither counts in a cluster that is being left. Nothing for an object of
        another agent or leader, one that is paused or being deleted, a shared one in a cluster that
        is being left, or where the cluster cannot be written now.
        """
        snapshot = self._snapshot
        leader_of = owner.serves if owner.led else None
        if leader_of is None and owner.serves not in (SHARED, snapshot.local):
            return  # another cluster's agent looks after it
        if leader_of is not None and not _is_leader_of(leader_of, snapshot):
            return
        if owner.serves == SHARED and _is_leaving(where, snapshot):
            return  # the agents that stay look after it
        place = ClusterObjectRef(where, object_ref(obj))
        if obj.metadata.deletion_timestamp is not None or self._is_paused(obj, place):
            return
        if not self._is_writable(place, type(obj), leader_of):
            return
        if _is_deleted_by_leaving(where, owner.led, snapshot):  # whatever its sources are
            self._actions.append(Delete(where, obj, LEFT, step, leader_of))
            return
        if self._hold_for_sources(obj, place):
            return
        if epoch_of(obj) > _leader_epoch(leader_of, snapshot):
            self._add_obstacle(place, "Fenced", f"{place.ref} was written by a newer leader")
            return
        self._actions.append(Delete(where, obj, OMITTED, step, leader_of))

    def add_patch(self, patch: Patch) -> None:
        """Add a patch of fields of an object, if it is there, not paused, and would change.

        Nothing if its cluster cannot be written now. That, and a pause, is recorded.
        """
        observed = self._snapshot.find(patch.target)
        if observed is None or self._is_paused(observed, patch.target):
            return
        if not patch_has_effect(patch.change, observed):
            return
        if self._is_writable(patch.target, type(observed), patch.as_leader_of):
            self._actions.append(
                Update(
                    patch.target.where,
                    observed,
                    patch.change,
                    patch.subresource,
                    patch.step,
                    patch.as_leader_of,
                    patch.rank,
                    entry=patch.entry,
                )
            )

    def _is_paused(self, observed: Object, place: ClusterObjectRef) -> bool:
        """Whether a person paused an object, which is then recorded."""
        if is_paused(observed):
            self._paused.add(place)
            return True
        return False

    def _add_obstacle(self, place: ClusterObjectRef, result: WriteResult, message: str) -> None:
        self._obstacles.append(Obstacle(place, result, message))

    def _stop_after(self, where: ClusterId, step: int) -> None:
        """Record that a step cannot be completed in a cluster; the lowest such step counts.

        `build` leaves out the actions of later steps there, but no omissions.
        """
        self._stopped[where] = min(step, self._stopped.get(where, step))

    def _is_stopped(self, action: Action) -> bool:
        """Whether an action is of a later step than one that cannot be completed in its cluster."""
        return action.step > self._stopped.get(action.where, action.step)

    def _is_writable(
        self, place: ClusterObjectRef, kind: type[Object], leader_of: ClusterId | None
    ) -> bool:
        """Whether the cluster takes writes, the kind is served and listed, and we lead if needed.

        A leader writes once the member is listed in full. False also for an object that cannot be
        decoded. The cause is recorded as an obstacle or as a cluster that is waited for.
        """
        snapshot = self._snapshot
        if leader_of is not None and not _is_leader_of(leader_of, snapshot):
            self._add_obstacle(place, "Fenced", f"{leader_of} is led by another supervisor")
            return False
        if snapshot.serves(place.where, kind) is False:
            self._add_obstacle(place, "Refused", f"{place.where} does not serve {kind.kind}")
            self._waiting_for.add(place.where)
            return False
        state = snapshot.fact(ClusterState, place.where)
        if state is None or not state.phase.writable or not snapshot.listed(place.where, kind):
            self._waiting_for.add(place.where)
            return False
        if leader_of is not None and _is_partial(leader_of, snapshot):
            self._waiting_for.add(leader_of)
            return False
        if why := snapshot.unreadable_reason(place):  # its known version is old: no write succeeds
            message = f"{place.ref} cannot be read: {why}; mend it by hand, or delete it"
            self._add_obstacle(place, "Refused", message)
            self._blocked_by.add(place)
            self._unreadable = True
            return False
        return True

    def _may_overwrite(
        self,
        observed: Object,
        owner: Owner,
        desired: Desired,
        epoch: int,
        place: ClusterObjectRef,
    ) -> bool:
        """Whether an object has this owner, or is taken over, and no newer leader has written it.

        Else an obstacle is added, Foreign or Fenced. False, without one, if it is paused, which is
        recorded, or being deleted.
        """
        if observed.metadata.deletion_timestamp is not None or self._is_paused(observed, place):
            return False  # its deletion enqueues the key
        found = owner_of(observed)
        if found != owner and not isinstance(desired.ownership, TakeOver):
            whose = f"it belongs to {found}" if found else "it was not made by Hanse"
            self._add_obstacle(place, "Foreign", f"{place.ref} exists already and {whose}")
            return False
        if epoch_of(observed) > epoch:
            self._add_obstacle(place, "Fenced", f"{place.ref} was written by a newer leader")
            return False
        return True

    def _hold_for_sources(self, obj: Object, place: ClusterObjectRef) -> bool:
        """Whether to keep an object: a source of it is not synced, or was restored a moment ago.

        The local cluster always counts as a source; a departed one need not be synced. If True, an
        obstacle `Held` and the clusters waited for are recorded.
        """
        snapshot = self._snapshot
        sources = sources_of(obj) | {snapshot.local}
        unsynced = {
            source
            for source in sources
            if not snapshot.synced(source)
            and (source == snapshot.local or not _has_departed(source, snapshot))
        }
        if unsynced:
            self._waiting_for |= unsynced
            message = f"kept while {', '.join(sorted(unsynced))} cannot be seen"
            self._add_obstacle(place, "Held", message)
            return True
        if recovering := {source for source in sources if _is_recovering(source, snapshot)}:
            self._waiting_for |= recovering
            message = f"kept for now, since {', '.join(sorted(recovering))} was restored"
            self._add_obstacle(place, "Held", message)
            return True
        return False


def _is_deleted_by_leaving(where: ClusterId, led: bool, snapshot: Snapshot) -> bool:
    """Whether an object is to be deleted because this agent leaves its cluster.

    In the local cluster only one that is written as its leader (`led`).
    """
    return _is_leaving(where, snapshot) and (led or where != snapshot.local)


def _is_leaving(where: ClusterId, snapshot: Snapshot) -> bool:
    """Whether this agent is leaving a cluster, by its ClusterState; False if not connected."""
    state = snapshot.fact(ClusterState, where)
    return state is not None and state.leaving


def _is_recovering(source: ClusterId, snapshot: Snapshot) -> bool:
    """Whether a source was restored a moment ago, and others may be writing objects back.

    False if it is not connected.
    """
    state = snapshot.fact(ClusterState, source)
    return state is not None and state.recovering


def _is_partial(source: ClusterId, snapshot: Snapshot) -> bool:
    """Whether a connected source was not listed in full yet, or not since we lead.

    False if it is not connected.
    """
    state = snapshot.fact(ClusterState, source)
    return state is not None and state.is_partial


def _has_departed(source: ClusterId, snapshot: Snapshot) -> bool:
    """Whether there is a ClusterDeparted fact of a source, which then keeps no object any more."""
    return snapshot.fact(ClusterDeparted, source) is not None


def _is_leader_of(member: ClusterId, snapshot: Snapshot) -> bool:
    """Whether this agent leads a member, by its Leadership fact."""
    leadership = snapshot.fact(Leadership, member)
    return leadership is not None and leadership.ours


def _leader_epoch(member: ClusterId | None, snapshot: Snapshot) -> int:
    """The epoch of a member's current leader; 0 without a member or a known leader."""
    leadership = snapshot.fact(Leadership, member) if member is not None else None
    return leadership.epoch if leadership is not None else 0
