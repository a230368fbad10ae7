"""The status of the replication from the leader: conditions, Events and the leader's term."""

from collections.abc import Iterable, Iterator

from hanse.features.gslb.leadership import (
    Leading,
    local_amko_cluster,
)
from hanse.features.gslb.names import (
    FEDERATED,
    NOT_FEDERATED,
    SOME_FEDERATED,
    TERM,
    context_of,
)
from hanse.model.conditions import MAX_MESSAGE_LENGTH
from hanse.model.facts import ClusterState, WriteOutcome
from hanse.model.kinds.gslb import (
    NAMESPACE,
    AMKOCluster,
    StageCondition,
)
from hanse.model.objects import ClusterId, ClusterObjectRef, Object, object_ref
from hanse.model.plan import Desired, EventRequest, Patch, Removal
from hanse.model.snapshot import Snapshot

_FAILED_RESULTS = ("Foreign", "Fenced", "Refused", "Forbidden", "Failed")


def last_copies_message(last_copies: Iterable[tuple[ClusterId, Object]]) -> str:
    """The message for copies that followers keep since this leader never had their originals."""
    return ", ".join(
        f"cluster {context_of(where)} keeps {obj.metadata.name}, which nobody deleted here: "
        "create it here, or delete it there"
        for where, obj in last_copies
    )


def federation_condition(
    stage: str,
    desired: Iterable[Desired],
    removals: Iterable[Removal],
    state: Leading,
    snapshot: Snapshot,
) -> StageCondition | None:
    """The condition of a stage: whether all copies and removals of a kind are done in followers.

    Its reason has the first error of each follower. The present condition while writes are under
    way; None without copies and errors.
    """
    missing: dict[ClusterId, list[ClusterObjectRef]] = {where: [] for where in state.followers}
    for each in desired:
        ref = ClusterObjectRef(each.where, object_ref(each.object))
        if not _is_up_to_date(each.object, snapshot.find(ref)):
            missing[each.where].append(ref)
    for removal in removals:
        missing[removal.target.where].append(removal.target)
    errors: list[str] = []
    pending = False
    for where, refs in missing.items():
        failures = [e for ref in refs if (e := _write_error(ref, snapshot))]
        errors += [f"cluster {context_of(where)}: {error}" for error in failures[:1]]
        pending = pending or bool(refs and not failures)
    if pending:
        return present_condition(stage, snapshot)
    if not errors and not any(True for _ in desired):
        return None
    if not errors:
        return StageCondition(type=stage, status=FEDERATED)
    status = NOT_FEDERATED if len(errors) == len(missing) else SOME_FEDERATED
    return StageCondition(type=stage, status=status, reason=", ".join(errors))


def _is_up_to_date(copy: Object, observed: Object | None) -> bool:
    """Whether an observed copy has the desired spec and annotations; it may have others, too.

    False if it is missing or of another type.
    """
    if observed is None or type(observed) is not type(copy):
        return False
    same = getattr(observed, "spec", None) == getattr(copy, "spec", None)
    annotations = observed.metadata.annotations
    return same and all(annotations.get(n) == v for n, v in copy.metadata.annotations.items())


def _write_error(ref: ClusterObjectRef, snapshot: Snapshot) -> str:
    """The message of the last write if it failed; else empty."""
    outcome = snapshot.fact(WriteOutcome, ref)
    return outcome.message if outcome is not None and outcome.result in _FAILED_RESULTS else ""


def present_condition(stage: str, snapshot: Snapshot) -> StageCondition | None:
    """The stage's condition in the status of this cluster's AMKOCluster; None if there is none."""
    local = local_amko_cluster(snapshot)
    conditions = local.status.conditions if local is not None else ()
    return next((c for c in conditions if c.type == stage), None)


def is_recovering_here(snapshot: Snapshot) -> bool:
    """Whether this cluster was just restored from a backup, by its ClusterState."""
    state = snapshot.fact(ClusterState, snapshot.local)
    return state is not None and state.recovering


def list_local_amko_clusters(snapshot: Snapshot) -> list[AMKOCluster]:
    """The AMKOClusters of this cluster in the GSLB namespace."""
    return list(snapshot.in_namespace(snapshot.local, AMKOCluster, NAMESPACE))


def local_status_patches(
    conditions: tuple[StageCondition, ...], snapshot: Snapshot
) -> tuple[Patch, ...]:
    """Patches of AMKOClusters here: their conditions; followers lose the epoch annotation."""
    amko_clusters = list_local_amko_clusters(snapshot)
    ended = [o for o in amko_clusters if TERM in o.metadata.annotations and not o.spec.is_leader]
    return (
        *(conditions_patch(local, conditions, snapshot) for local in amko_clusters),
        *(term_patch(local, None, snapshot) for local in ended),
    )


def conditions_patch(
    local: AMKOCluster, conditions: tuple[StageCondition, ...], snapshot: Snapshot
) -> Patch:
    """The status patch of an AMKOCluster with its conditions, reasons cut to their limit."""
    encoded = [
        {
            "type": c.type,
            "status": c.status,
            **({"reason": c.reason[:MAX_MESSAGE_LENGTH]} if c.reason else {}),
        }
        for c in conditions
    ]
    ref = ClusterObjectRef(snapshot.local, object_ref(local))
    return Patch(ref, {"status": {"conditions": encoded}}, subresource="status")


def term_patch(local: AMKOCluster, epoch: str | None, snapshot: Snapshot) -> Patch:
    """The patch that annotates an AMKOCluster with its epoch; None removes the annotation."""
    return Patch(
        ClusterObjectRef(snapshot.local, object_ref(local)),
        {"metadata": {"annotations": {TERM: epoch}}},
    )


def condition_events(
    conditions: tuple[StageCondition, ...], snapshot: Snapshot
) -> Iterator[EventRequest]:
    """A Warning Event on this cluster's AMKOCluster with the last failed condition.

    Only if it leads and a condition has a reason.
    """
    bad = [c for c in conditions if c.reason]
    local = local_amko_cluster(snapshot)
    if bad and local is not None and local.spec.is_leader:
        message = f"{bad[-1].type}: {bad[-1].status}: {bad[-1].reason}"
        yield EventRequest(
            ClusterObjectRef(snapshot.local, object_ref(local)),
            "FederationTrouble",
            message[:1000],
            "Warning",
        )
