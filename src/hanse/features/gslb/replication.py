"""The federation of configuration: the leader's objects are copied to every follower."""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.gslb.configuration import list_deployment_policies
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
    local_amko_cluster,
    misplaced_amko_clusters,
    misplaced_amko_condition,
)
from hanse.features.gslb.monitors import MonitorSpec, list_referenced_monitors
from hanse.features.gslb.names import (
    CONFIG_FEDERATION,
    LED_BY,
    NOT_FEDERATED,
    PARENTS,
    POLICY_FEDERATION,
    RULE_FEDERATION,
    UUID,
)
from hanse.features.gslb.replication_status import (
    condition_events,
    conditions_patch,
    federation_condition,
    is_recovering_here,
    last_copies_message,
    list_local_amko_clusters,
    local_status_patches,
    present_condition,
    term_patch,
)
from hanse.features.gslb.terms import leader_term
from hanse.model.facts import Role
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
from hanse.model.plan import Desired, Key, Patch, Plan, Question, Removal, Shared, TakeOver
from hanse.model.snapshot import Snapshot

FEDERATION_KEY = Key("federation")
STRAY_CAUSE = "it is not among the leader's objects"
_STAGES: dict[type[Object], str] = {
    GSLBConfig: CONFIG_FEDERATION,
    GlobalDeploymentPolicy: POLICY_FEDERATION,
    GSLBHostRule: RULE_FEDERATION,
}
_SINGLETONS = (GSLBConfig, GlobalDeploymentPolicy)


class _KindPlan(Struct, frozen=True):
    """The part of the plan for one kind, and its federation condition."""

    desired: tuple[Desired, ...] = ()
    removals: tuple[Removal, ...] = ()
    condition: StageCondition | None = None
    questions: tuple[Question, ...] = ()


def plan_federation(snapshot: Snapshot) -> Plan:
    """Copy the leader's configuration to its followers, and patch conditions of AMKOClusters here.

    Their AMKOClusters are annotated with its term. Who does not lead, or not yet, keeps all copies;
    a new leader first writes its epoch.
    """
    state = leader_state(snapshot)
    misplaced = tuple(
        conditions_patch(each, (misplaced_amko_condition(each),), snapshot)
        for each in misplaced_amko_clusters(snapshot)
    )
    match state:
        case Undecided():
            return Plan(desired=tuple(current_copies(snapshot)), patches=misplaced)
        case NotLeading(conditions):
            patches = local_status_patches(conditions, snapshot)
            events = tuple(condition_events(conditions, snapshot))
            return Plan(
                desired=tuple(current_copies(snapshot)), patches=patches + misplaced, events=events
            )
        case StartingTerm(epoch):
            patches = tuple(
                term_patch(local, str(epoch), snapshot)
                for local in list_local_amko_clusters(snapshot)
            )
            return Plan(desired=tuple(current_copies(snapshot)), patches=patches + misplaced)
        case Leading():
            plan = _plan_leading(state, snapshot)
            return replace(plan, patches=plan.patches + misplaced)


def current_copies(snapshot: Snapshot) -> Iterator[Desired]:
    """The existing copies in sites that this leader wrote, as desired objects, so that they stay.

    Those of any leader, if there is not exactly one AMKOCluster here. Also copied ConfigMaps of any
    leader, here and in sites.
    """
    local = local_amko_cluster(snapshot)
    for where in snapshot.clusters(Role.SITE):
        for kind in REPLICATED_KINDS:
            for obj in snapshot.all(where, kind):
                term = leader_term(obj)
                if term is not None and (
                    local is None or term.context == local.spec.cluster_context
                ):
                    yield Desired(without_server_metadata(obj), where)
    for where in (snapshot.local, *snapshot.clusters(Role.SITE)):
        for config_map in snapshot.in_namespace(where, ConfigMap, NAMESPACE):
            if leader_term(config_map) is not None:
                yield Desired(without_server_metadata(config_map), where, ownership=Shared())


def _monitor_copies(state: Leading, snapshot: Snapshot) -> Iterator[Desired]:
    """Copies of the ConfigMaps of monitors that policies and rules name, for every follower.

    ConfigMaps of the same name that users made there are not overwritten.
    """
    annotations = {LED_BY: state.term_annotation}
    rules = snapshot.in_namespace(snapshot.local, GSLBHostRule, NAMESPACE)
    specs: list[MonitorSpec] = [p.spec for p in list_deployment_policies(snapshot)]
    specs += [r.spec for r in rules]
    for name in list_referenced_monitors(specs):
        monitor = snapshot.get(snapshot.local, ConfigMap, name, NAMESPACE)
        if monitor is None:
            continue
        meta = Meta(name=name, namespace=NAMESPACE, annotations=annotations)
        for where in state.followers:
            copy = ConfigMap(metadata=meta, data=monitor.data)
            yield Desired(copy, where, sources=frozenset({snapshot.local}), ownership=Shared())


def build_copy(obj: Object, term: str, parents: str) -> Object:
    """The follower's copy, annotated with the leader's term and the uids of namespace and CRD.

    It has no labels and a blank status; a GSLBConfig keeps its AMKO uuid.
    """
    meta = obj.metadata
    annotations = {LED_BY: term, PARENTS: parents}
    if UUID in meta.annotations and isinstance(obj, GSLBConfig):
        annotations[UUID] = meta.annotations[UUID]
    copied = Meta(name=meta.name, namespace=meta.namespace, annotations=annotations)
    blank = type(obj.status)() if hasattr(obj, "status") else None
    return replace(obj, metadata=copied, status=blank)


def _plan_leading(state: Leading, snapshot: Snapshot) -> Plan:
    """The leader's copies, removals, questions, conditions; sites that do not follow keep theirs.

    Followers' AMKOClusters are annotated with its term. If no configured follower is valid, all is
    kept and none annotated. With questions it is planned again later.
    """
    if not state.federates:
        return Plan(
            desired=tuple(current_copies(snapshot)),
            patches=local_status_patches(state.conditions, snapshot),
            events=tuple(condition_events(state.conditions, snapshot)),
        )
    kind_plans = [_plan_kind(kind, state, snapshot) for kind in REPLICATED_KINDS]
    federation = [p.condition for p in kind_plans if p.condition is not None]
    conditions = (*state.conditions, *federation)
    named = {ClusterObjectRef(d.where, object_ref(d.object)) for p in kind_plans for d in p.desired}
    others = [
        d
        for d in current_copies(snapshot)
        if d.where not in state.followers
        and ClusterObjectRef(d.where, object_ref(d.object)) not in named
    ]
    questions = tuple(q for p in kind_plans for q in p.questions)
    return Plan(
        desired=(
            *(d for p in kind_plans for d in p.desired),
            *_monitor_copies(state, snapshot),
            *others,
        ),
        removals=tuple(r for p in kind_plans for r in p.removals),
        questions=questions,
        requeue_after=RECHECK_INTERVAL if questions else None,
        patches=(
            *_leader_annotation_patches(state, snapshot),
            *local_status_patches(conditions, snapshot),
        ),
        events=tuple(condition_events(conditions, snapshot)),
    )


def _leader_annotation_patches(state: Leading, snapshot: Snapshot) -> Iterator[Patch]:
    """Patches that annotate every follower's AMKOClusters with this leader's term."""
    change = {"metadata": {"annotations": {LED_BY: state.term_annotation}}}
    for where in state.followers:
        for theirs in snapshot.in_namespace(where, AMKOCluster, NAMESPACE):
            yield Patch(ClusterObjectRef(where, object_ref(theirs)), change)


def _plan_kind(kind: type[Object], state: Leading, snapshot: Snapshot) -> _KindPlan:
    """The copies of a kind in all followers, and removal of what the leader does not have.

    Existing copies are kept, and none removed, after a restore here, or if there are several
    GSLBConfigs or policies. Objects that are being deleted count as absent.
    """
    stage = _STAGES[kind]
    sources = sorted(
        snapshot.in_namespace(snapshot.local, kind, NAMESPACE), key=lambda o: o.metadata.name
    )
    sources = [o for o in sources if o.metadata.deletion_timestamp is None]
    copies = [
        d
        for d in current_copies(snapshot)
        if isinstance(d.object, kind) and d.where in state.followers
    ]
    if kind in _SINGLETONS and len(sources) > 1:
        listed = ", ".join(o.metadata.name for o in sources)
        reason = f"more than one {kind.kind.name} in {NAMESPACE}: {listed}; delete all but one"
        failed = StageCondition(type=stage, status=NOT_FEDERATED, reason=reason)
        return _KindPlan(tuple(copies), condition=failed)
    if is_recovering_here(snapshot):
        return _KindPlan(tuple(copies), condition=present_condition(stage, snapshot))
    local, parents = frozenset({snapshot.local}), parent_uids(kind, snapshot)
    desired = tuple(
        Desired(
            build_copy(o, state.term_annotation, parents),
            where,
            sources=local,
            ownership=TakeOver(),
        )
        for where in state.followers
        for o in sources
    )
    names = {o.metadata.name for o in sources}
    strays = [
        (where, obj)
        for where in state.followers
        for obj in snapshot.in_namespace(where, kind, NAMESPACE)
        if obj.metadata.name not in names and obj.metadata.deletion_timestamp is None
    ]
    if strays:
        stray = _StrayCopies(stage, kind, tuple(strays), bool(sources), tuple(copies))
        return _plan_removals(stray, desired, state, snapshot)
    condition = federation_condition(stage, desired, (), state, snapshot)
    return _KindPlan(desired, condition=condition)


class _StrayCopies(Struct, frozen=True):
    """Objects of a kind that followers have and the leader has not."""

    stage: str
    kind: type[Object]
    strays: tuple[tuple[ClusterId, Object], ...]
    leader_has_others: bool
    copies: tuple[Desired, ...]


def _plan_removals(
    stray: _StrayCopies, desired: tuple[Desired, ...], state: Leading, snapshot: Snapshot
) -> _KindPlan:
    """Removes strays, copies whose original the leader lacks, if namespace and CRD here exist.

    They are kept until live reads say so. Without any object of the kind here, strays of another
    leader or of an earlier namespace or CRD are kept and reported, and so is a GSLBConfig or policy
    that is no copy: it may be the original of a former leader.
    """
    strays = {ClusterObjectRef(where, object_ref(obj)) for where, obj in stray.strays}
    kept = (
        *desired,
        *(d for d in stray.copies if ClusterObjectRef(d.where, object_ref(d.object)) in strays),
    )
    match check_parents(stray.kind, (obj.metadata.name for _, obj in stray.strays), snapshot):
        case ParentsUnknown(questions):
            return _KindPlan(kept, (), present_condition(stray.stage, snapshot), questions)
        case ParentGone(message):
            condition = StageCondition(type=stray.stage, status=NOT_FEDERATED, reason=message)
            return _KindPlan(kept, condition=condition)
        case ParentsExist(parents):
            pass
    last_copies = [
        (where, obj)
        for where, obj in ([] if stray.leader_has_others else stray.strays)
        if _is_from_other_leader(obj, state)
        or has_other_parents(obj, parents)
        or (stray.kind in _SINGLETONS and leader_term(obj) is None)
    ]
    if last_copies:
        condition = StageCondition(
            type=stray.stage, status=NOT_FEDERATED, reason=last_copies_message(last_copies)
        )
        return _KindPlan(kept, condition=condition)
    removals = tuple(
        Removal(ClusterObjectRef(where, object_ref(obj)), obj.metadata.uid, STRAY_CAUSE)
        for where, obj in stray.strays
    )
    return _KindPlan(
        desired,
        removals,
        federation_condition(stray.stage, desired, removals, state, snapshot),
    )


def _is_from_other_leader(obj: Object, state: Leading) -> bool:
    """Whether an object is a copy that another context's leader wrote."""
    term = leader_term(obj)
    return term is not None and term.context != state.context


def without_server_metadata(obj: Object) -> Object:
    """An existing object without server-set metadata, to be desired unchanged.

    Of its metadata only name, namespace, labels and annotations are kept.
    """
    meta = obj.metadata
    kept = Meta(
        name=meta.name,
        namespace=meta.namespace,
        labels=meta.labels,
        annotations=meta.annotations,
    )
    return replace(obj, metadata=kept)
