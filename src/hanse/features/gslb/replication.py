"""The federation of configuration: the leader's objects, the same on every follower."""

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.gslb.configuration import list_referenced_monitors
from hanse.features.gslb.deletion import (
    RECHECK_INTERVAL,
    REPLICATED_KINDS,
    ParentGone,
    ParentsExist,
    ParentsUnknown,
    check_parents,
    has_other_parents,
    parent_uids,
)
from hanse.features.gslb.leadership import (
    Leading,
    NotLeading,
    StartingTerm,
    Undecided,
    leader_state,
    leader_term,
    local_amko_cluster,
    misplaced_amko_clusters,
    misplaced_amko_condition,
)
from hanse.features.gslb.names import (
    CONFIG_FEDERATION,
    FEDERATED,
    LED_BY,
    NOT_FEDERATED,
    PARENTS,
    POLICY_FEDERATION,
    RULE_FEDERATION,
    SOME_FEDERATED,
    TERM,
    UUID,
    context_of,
)
from hanse.model.facts import ClusterState, Role, WriteOutcome
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.gslb import (
    NAMESPACE,
    AMKOCluster,
    GlobalDeploymentPolicy,
    GSLBConfig,
    GSLBHostRule,
    StageCondition,
)
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, Object, object_ref
from hanse.model.plan import Desired, EventRequest, Key, Patch, Plan, Question, Removal
from hanse.model.snapshot import Snapshot

FEDERATION_KEY = Key("federation")
MAX_REASON_LENGTH = 32768
"""Letters that a condition may have: what is longer would not be told at all."""
STRAY_CAUSE = "it is not among the leader's objects"
_STAGES: dict[type[Object], str] = {
    GSLBConfig: CONFIG_FEDERATION,
    GlobalDeploymentPolicy: POLICY_FEDERATION,
    GSLBHostRule: RULE_FEDERATION,
}
_SINGLE = (GSLBConfig, GlobalDeploymentPolicy)
_TROUBLE = ("Foreign", "Fenced", "Refused", "Forbidden", "Failed")


class _Share(Struct, frozen=True):
    """What one kind asks for, and how far it has come."""

    desired: tuple[Desired, ...] = ()
    removals: tuple[Removal, ...] = ()
    condition: StageCondition | None = None
    questions: tuple[Question, ...] = ()


def plan_federation(snapshot: Snapshot) -> Plan:
    """Copy what the leader has to its followers, and tell how that went."""
    standing = leader_state(snapshot)
    strangers = tuple(
        _told(one, (misplaced_amko_condition(one),), snapshot)
        for one in misplaced_amko_clusters(snapshot)
    )
    match standing:
        case Undecided():
            return Plan(desired=tuple(current_copies(snapshot)), patches=strangers)
        case NotLeading(conditions):
            patches = _told_here(conditions, snapshot)
            events = tuple(_notices(conditions, snapshot))
            return Plan(
                desired=tuple(current_copies(snapshot)), patches=patches + strangers, events=events
            )
        case StartingTerm(epoch):
            patches = tuple(_term(own, str(epoch), snapshot) for own in _own(snapshot))
            return Plan(desired=tuple(current_copies(snapshot)), patches=patches + strangers)
        case Leading():
            plan = _leading(standing, snapshot)
            return replace(plan, patches=plan.patches + strangers)


def current_copies(snapshot: Snapshot) -> Iterator[Desired]:
    """Every copy of ours that stands, as it stands: nothing is written and nothing is deleted."""
    own = local_amko_cluster(snapshot)
    for where in snapshot.clusters(Role.SITE):
        for kind in REPLICATED_KINDS:
            for obj in snapshot.all(where, kind):
                term = leader_term(obj)
                if term is not None and (own is None or term.context == own.spec.cluster_context):
                    yield Desired(_bare(obj), where)
    for where in (snapshot.local, *snapshot.clusters(Role.SITE)):
        for told in snapshot.in_namespace(where, ConfigMap, NAMESPACE):
            if leader_term(told) is not None:
                yield Desired(_bare(told), where, shared=True)


def _monitors(standing: Leading, snapshot: Snapshot) -> Iterator[Desired]:
    """The monitors that policies name, wherever may lead next; those of others stay as they are."""
    mark = {LED_BY: standing.mark}
    for name in list_referenced_monitors(snapshot):
        told = snapshot.get(snapshot.local, ConfigMap, name, NAMESPACE)
        if told is None:
            continue
        meta = Meta(name=name, namespace=NAMESPACE, annotations=mark)
        for where in standing.followers:
            copy = ConfigMap(metadata=meta, data=told.data)
            yield Desired(copy, where, sources=frozenset({snapshot.local}), shared=True)


def build_copy(obj: Object, mark: str, home: str) -> Object:
    """The object as a follower has it: its spec, its uuid, by whom it was written, and where."""
    meta = obj.metadata
    notes = {LED_BY: mark, PARENTS: home}
    if UUID in meta.annotations and isinstance(obj, GSLBConfig):
        notes[UUID] = meta.annotations[UUID]
    copied = Meta(name=meta.name, namespace=meta.namespace, annotations=notes)
    blank = type(obj.status)() if hasattr(obj, "status") else None
    return replace(obj, metadata=copied, status=blank)


def _leading(standing: Leading, snapshot: Snapshot) -> Plan:
    if not standing.federates:
        return Plan(
            desired=tuple(current_copies(snapshot)),
            patches=_told_here(standing.conditions, snapshot),
            events=tuple(_notices(standing.conditions, snapshot)),
        )
    shares = [_share(kind, standing, snapshot) for kind in REPLICATED_KINDS]
    told = [s.condition for s in shares if s.condition is not None]
    conditions = (*standing.conditions, *told)
    named = {ClusterObjectRef(d.where, object_ref(d.object)) for s in shares for d in s.desired}
    others = [
        d
        for d in current_copies(snapshot)
        if d.where not in standing.followers
        and ClusterObjectRef(d.where, object_ref(d.object)) not in named
    ]
    questions = tuple(q for s in shares for q in s.questions)
    return Plan(
        desired=(*(d for s in shares for d in s.desired), *_monitors(standing, snapshot), *others),
        removals=tuple(r for s in shares for r in s.removals),
        questions=questions,
        requeue_after=RECHECK_INTERVAL if questions else None,
        patches=(*_claims(standing, snapshot), *_told_here(conditions, snapshot)),
        events=tuple(_notices(conditions, snapshot)),
    )


def _claims(standing: Leading, snapshot: Snapshot) -> Iterator[Patch]:
    """Every follower's AMKOCluster says whom it follows, so that an earlier leader can see it."""
    change = {"metadata": {"annotations": {LED_BY: standing.mark}}}
    for where in standing.followers:
        for theirs in snapshot.in_namespace(where, AMKOCluster, NAMESPACE):
            yield Patch(ClusterObjectRef(where, object_ref(theirs)), change)


def _share(kind: type[Object], standing: Leading, snapshot: Snapshot) -> _Share:
    stage = _STAGES[kind]
    sources = sorted(
        snapshot.in_namespace(snapshot.local, kind, NAMESPACE), key=lambda o: o.metadata.name
    )
    sources = [o for o in sources if o.metadata.deletion_timestamp is None]
    standing_copies = [
        d
        for d in current_copies(snapshot)
        if isinstance(d.object, kind) and d.where in standing.followers
    ]
    if kind in _SINGLE and len(sources) > 1:
        listed = ", ".join(o.metadata.name for o in sources)
        reason = f"more than one {kind.kind.name} in {NAMESPACE}: {listed}; delete all but one"
        told = StageCondition(type=stage, status=NOT_FEDERATED, reason=reason)
        return _Share(tuple(standing_copies), condition=told)
    if _recovers(snapshot):
        return _Share(tuple(standing_copies), condition=_standing_condition(stage, snapshot))
    local, home = frozenset({snapshot.local}), parent_uids(kind, snapshot)
    desired = tuple(
        Desired(build_copy(o, standing.mark, home), where, sources=local, takes_over=True)
        for where in standing.followers
        for o in sources
    )
    names = {o.metadata.name for o in sources}
    strays = [
        (where, obj)
        for where in standing.followers
        for obj in snapshot.in_namespace(where, kind, NAMESPACE)
        if obj.metadata.name not in names and obj.metadata.deletion_timestamp is None
    ]
    gone = _Gone(stage, kind, tuple(strays), bool(sources), tuple(standing_copies))
    return (
        _without(gone, desired, standing, snapshot)
        if strays
        else _Share(desired, (), _result(stage, kind, desired, (), standing, snapshot))
    )


class _Gone(Struct, frozen=True):
    """What followers have of a kind and the leader has not."""

    stage: str
    kind: type[Object]
    strays: tuple[tuple[ClusterId, Object], ...]
    some_left: bool
    """Whether the leader has others of the kind."""
    copies: tuple[Desired, ...]


def _without(
    gone: _Gone, desired: tuple[Desired, ...], standing: Leading, snapshot: Snapshot
) -> _Share:
    """Take from followers what somebody deleted here, and nothing that went by itself."""
    strays = {ClusterObjectRef(where, object_ref(obj)) for where, obj in gone.strays}
    kept = (
        *desired,
        *(d for d in gone.copies if ClusterObjectRef(d.where, object_ref(d.object)) in strays),
    )
    match check_parents(gone.kind, (obj.metadata.name for _, obj in gone.strays), snapshot):
        case ParentsUnknown(questions):
            return _Share(kept, (), _standing_condition(gone.stage, snapshot), questions)
        case ParentGone(why):
            told = StageCondition(type=gone.stage, status=NOT_FEDERATED, reason=why)
            return _Share(kept, condition=told)
        case ParentsExist(home):
            pass
    legacy = [
        (where, obj)
        for where, obj in ([] if gone.some_left else gone.strays)
        if _is_anothers(obj, standing) or has_other_parents(obj, home)
    ]
    if legacy:
        told = StageCondition(type=gone.stage, status=NOT_FEDERATED, reason=_only_left(legacy))
        return _Share(kept, condition=told)
    removals = tuple(
        Removal(ClusterObjectRef(where, object_ref(obj)), obj.metadata.uid, STRAY_CAUSE)
        for where, obj in gone.strays
    )
    return _Share(
        desired, removals, _result(gone.stage, gone.kind, desired, removals, standing, snapshot)
    )


def _is_anothers(obj: Object, standing: Leading) -> bool:
    term = leader_term(obj)
    return term is not None and term.context != standing.context


def _only_left(legacy: Iterable[tuple[ClusterId, Object]]) -> str:
    """A leader that never had what was copied before does not delete the last of it."""
    return ", ".join(
        f"cluster {context_of(where)} keeps {obj.metadata.name}, which nobody deleted here: "
        "create it here, or delete it there"
        for where, obj in legacy
    )


def _result(
    stage: str,
    kind: type[Object],
    desired: Iterable[Desired],
    removals: Iterable[Removal],
    standing: Leading,
    snapshot: Snapshot,
) -> StageCondition | None:
    """How far the copies of a kind have come; what is under way leaves what was told."""
    wanted: dict[ClusterId, list[ClusterObjectRef]] = {where: [] for where in standing.followers}
    for one in desired:
        place = ClusterObjectRef(one.where, object_ref(one.object))
        if not _in_step(one.object, snapshot.find(place)):
            wanted[one.where].append(place)
    for removal in removals:
        wanted[removal.place.where].append(removal.place)
    faults: list[str] = []
    pending = False
    for where, places in wanted.items():
        troubles = [t for place in places if (t := _trouble(place, snapshot))]
        faults += [f"cluster {context_of(where)}: {text}" for text in troubles[:1]]
        pending = pending or bool(places and not troubles)
    if pending:
        return _standing_condition(stage, snapshot)
    if kind is GSLBHostRule and not faults and not any(True for _ in desired):
        return None
    if not faults:
        return StageCondition(type=stage, status=FEDERATED)
    status = NOT_FEDERATED if len(faults) == len(wanted) else SOME_FEDERATED
    return StageCondition(type=stage, status=status, reason=", ".join(faults))


def _in_step(copy: Object, standing: Object | None) -> bool:
    if standing is None or type(standing) is not type(copy):
        return False
    same = getattr(standing, "spec", None) == getattr(copy, "spec", None)
    notes = standing.metadata.annotations
    return same and all(notes.get(n) == v for n, v in copy.metadata.annotations.items())


def _trouble(place: ClusterObjectRef, snapshot: Snapshot) -> str:
    outcome = snapshot.fact(WriteOutcome, place)
    return outcome.message if outcome is not None and outcome.result in _TROUBLE else ""


def _standing_condition(stage: str, snapshot: Snapshot) -> StageCondition | None:
    own = local_amko_cluster(snapshot)
    told = own.status.conditions if own is not None else ()
    return next((c for c in told if c.type == stage), None)


def _recovers(snapshot: Snapshot) -> bool:
    """Whether home was restored a moment ago: what it lacks is no reason to delete."""
    state = snapshot.fact(ClusterState, snapshot.local)
    return state is not None and state.recovering


def _own(snapshot: Snapshot) -> list[AMKOCluster]:
    return list(snapshot.in_namespace(snapshot.local, AMKOCluster, NAMESPACE))


def _told_here(conditions: tuple[StageCondition, ...], snapshot: Snapshot) -> tuple[Patch, ...]:
    """The conditions on this cluster's own word; who no longer leads has no term any more."""
    several = _own(snapshot)
    ended = [o for o in several if TERM in o.metadata.annotations and not o.spec.is_leader]
    return (
        *(_told(own, conditions, snapshot) for own in several),
        *(_term(own, None, snapshot) for own in ended),
    )


def _told(own: AMKOCluster, conditions: tuple[StageCondition, ...], snapshot: Snapshot) -> Patch:
    told = [
        {
            "type": c.type,
            "status": c.status,
            **({"reason": c.reason[:MAX_REASON_LENGTH]} if c.reason else {}),
        }
        for c in conditions
    ]
    place = ClusterObjectRef(snapshot.local, object_ref(own))
    return Patch(place, {"status": {"conditions": told}}, subresource="status")


def _term(own: AMKOCluster, epoch: str | None, snapshot: Snapshot) -> Patch:
    return Patch(
        ClusterObjectRef(snapshot.local, object_ref(own)),
        {"metadata": {"annotations": {TERM: epoch}}},
    )


def _notices(conditions: tuple[StageCondition, ...], snapshot: Snapshot) -> Iterator[EventRequest]:
    """The last thing that went wrong, as an Event."""
    bad = [c for c in conditions if c.reason]
    own = local_amko_cluster(snapshot)
    if bad and own is not None and own.spec.is_leader:
        told = f"{bad[-1].type}: {bad[-1].status}: {bad[-1].reason}"
        yield EventRequest(
            ClusterObjectRef(snapshot.local, object_ref(own)),
            "FederationTrouble",
            told[:1000],
            "Warning",
        )


def _bare(obj: Object) -> Object:
    """An object as it would have to be desired to stay as it is."""
    meta = obj.metadata
    kept = Meta(
        name=meta.name,
        namespace=meta.namespace,
        labels=meta.labels,
        annotations=meta.annotations,
    )
    return replace(obj, metadata=kept)
