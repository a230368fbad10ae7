"""The Deployment controller: one ReplicaSet per template, and rollouts between them."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from tinykube.controllers.conditions import status_patch
from tinykube.controllers.controller import (
    DEPLOYMENTS,
    DONE,
    PODS,
    REPLICA_SETS,
    Create,
    Delete,
    Key,
    Lister,
    Patch,
    RecordEvent,
    Result,
    Write,
)
from tinykube.controllers.deployment_rollout import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    ReplicaTarget,
    is_scaling,
    max_pods,
    new_replica_set_size,
    rolling_targets,
    scaling_targets,
)
from tinykube.controllers.deployment_status import (
    ReplicaSetState,
    deployment_status,
    is_complete,
)
from tinykube.controllers.objects import (
    annotations_of,
    creation_timestamp,
    desired_replicas,
    generation_of,
    is_deleting,
    is_finished,
    merge_patch,
    name_of,
    namespace_of,
    owner_reference,
    owner_references_of,
    spec_of,
    status_of,
)
from tinykube.controllers.owner_references import claim_objects, owner_keys
from tinykube.controllers.pod_template import (
    HASH_LABEL,
    normalized_template,
    template_hash,
    with_label,
)
from tinykube.resources import Object
from tinykube.storage import Change

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
_NOT_INHERITED = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
    )
)
_COMPONENT = "deployment-controller"


class DeploymentController:
    """Enqueues a Deployment, the owner of a ReplicaSet, and (for Recreate) of a finished pod."""

    name = "deployment"
    watches = frozenset((DEPLOYMENTS, REPLICA_SETS, PODS))

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        """The key of a Deployment; for a ReplicaSet, those of its owner or that may adopt it.

        For a finished or deleted pod, that of the Deployment that owns its ReplicaSet; other
        changes of pods enqueue nothing.
        """
        match change.store:
            case "deployments.apps":
                yield Key(DEPLOYMENTS, namespace_of(change.object), name_of(change.object))
            case "replicasets.apps":
                yield from owner_keys(change, "Deployment", DEPLOYMENTS, lister)
            case _:
                if change.type == "DELETED" or is_finished(change.object):
                    yield from self._keys_for_pod(change.object, lister)

    def _keys_for_pod(self, pod: Object, lister: Lister) -> Iterable[Key]:
        """The key of the Deployment that owns the ReplicaSet of a pod; none for other pods."""
        for reference in owner_references_of(pod):
            if reference.get("kind") == "ReplicaSet":
                replica_set = lister.get(REPLICA_SETS, namespace_of(pod), reference["name"])
                for owner in owner_references_of(replica_set) if replica_set is not None else ():
                    if owner.get("kind") == "Deployment":
                        yield Key(DEPLOYMENTS, namespace_of(pod), owner["name"])

    def reconcile(self, key: Key, lister: Lister) -> Result:
        """The writes that adopt or release ReplicaSets, if any; otherwise the next rollout step.

        If a ReplicaSet of another owner has the new one's name, only collisionCount is incremented.
        No writes for an absent Deployment.
        """
        deployment = lister.get(DEPLOYMENTS, key.namespace, key.name)
        if deployment is None:
            return DONE
        claims = claim_objects(deployment, REPLICA_SETS, lister)
        if claims.writes:
            return Result(claims.writes)
        new, old = _split(deployment, claims.claimed)
        if new is None and lister.get(
            REPLICA_SETS, key.namespace, _new_replica_set_name(deployment)
        ):
            return _increment_collision_count(deployment)
        old_pods = any(not is_finished(pod) for one in old for pod in lister.controlled(PODS, one))
        return sync_deployment(
            deployment, claims.claimed, lister.now, old_pods, lister.last_error(self.name, key)
        )


def sync_deployment(
    deployment: Object,
    replica_sets: Sequence[Object],
    now: datetime,
    old_pods: bool = False,
    last_error: str = "",
) -> Result:
    """The writes of the next rollout step and the status; requeues for the progress deadline.

    A terminating Deployment only gets its status; a paused or resized one is only scaled. Recreate
    scales the old ReplicaSets to zero first, and creates the new one when no `old_pods` run any
    more. A complete rollout also deletes old ReplicaSets above the limit. `last_error` is that of
    the last attempt, for the condition Progressing.
    """
    new, old = _split(deployment, replica_sets)
    state = ReplicaSetState(new, old, last_error=last_error)
    if is_deleting(deployment):
        return _with_status(deployment, state, (), now)
    if spec_of(deployment).get("paused") or is_scaling(deployment, replica_sets):
        targets = scaling_targets(deployment, new, old)
        return _with_status(deployment, state, _scale_patches(deployment, targets), now)
    recreate = (spec_of(deployment).get("strategy") or {}).get("type") == "Recreate"
    scale_down = (
        [ReplicaTarget(one, 0) for one in old if desired_replicas(one) > 0] if recreate else []
    )
    if recreate and (scale_down or (old_pods and new is None)):
        return _with_status(deployment, state, _scale_patches(deployment, scale_down), now)
    if new is None:
        return _create_replica_set(deployment, state, now)
    revision_writes = _revision_writes(deployment, new, old)
    if recreate:
        targets = [ReplicaTarget(new, desired_replicas(deployment))]
    else:
        targets = rolling_targets(deployment, new, old)
    return _with_status(
        deployment, state, (*revision_writes, *_scale_patches(deployment, targets)), now
    )


def _split(
    deployment: Object, replica_sets: Iterable[Object]
) -> tuple[Object | None, list[Object]]:
    """The ReplicaSet of the current template (the oldest if there are several) and the others.

    None if none has that template; the others are sorted, the oldest first.
    """
    desired = normalized_template(spec_of(deployment).get("template") or {})
    by_age = sorted(replica_sets, key=lambda one: (creation_timestamp(one), name_of(one)))
    new = next(
        (
            one
            for one in by_age
            if normalized_template(spec_of(one).get("template") or {}) == desired
        ),
        None,
    )
    return new, [one for one in by_age if one is not new]


def _create_replica_set(deployment: Object, state: ReplicaSetState, now: datetime) -> Result:
    """The writes that create the current template's ReplicaSet, set the revision, record an Event.

    Its size is that of `new_replica_set_size`. The status comes last, but first if the last attempt
    failed.
    """
    total = sum(map(desired_replicas, state.old))
    created = _new_replica_set(deployment, state.old, new_replica_set_size(deployment, 0, total))
    revision = annotations_of(created)[REVISION]
    steps: list[Write] = [Create(REPLICA_SETS, created)]
    if annotations_of(deployment).get(REVISION) != revision:
        steps.append(_revision_patch(deployment, revision))
    if size := desired_replicas(created):
        text = f"Scaled up replica set {name_of(created)} from 0 to {size}"
        steps.append(RecordEvent(deployment, "ScalingReplicaSet", text, _COMPONENT))
    # after a failed attempt the status is written first, since the create may fail again
    creating = "" if state.last_error else name_of(created)
    with_status = _with_status(
        deployment, ReplicaSetState(state.new, state.old, creating, state.last_error), (), now
    )
    return Result(
        (*with_status.writes, *steps) if state.last_error else (*steps, *with_status.writes)
    )


def _template_hash(deployment: Object) -> str:
    """The hash of the current template and the Deployment's collision count."""
    collisions = int(status_of(deployment).get("collisionCount") or 0)
    return template_hash(spec_of(deployment)["template"], collisions)


def _new_replica_set_name(deployment: Object) -> str:
    """The name of the current template's ReplicaSet: the Deployment's and the template hash."""
    return f"{name_of(deployment)}-{_template_hash(deployment)}"


def _increment_collision_count(deployment: Object) -> Result:
    """The patch of status.collisionCount, on which the name of the next ReplicaSet depends."""
    count = int(status_of(deployment).get("collisionCount") or 0) + 1
    body = {"status": {"collisionCount": count}}
    return Result((Patch(DEPLOYMENTS, deployment, body, subresource="status"),))


def _new_replica_set(deployment: Object, old: Sequence[Object], size: int) -> Object:
    """The ReplicaSet for the current template, with the next revision.

    Its name, labels and selector have the template's hash. It inherits the Deployment's
    annotations, but not kubectl's, and minReadySeconds, has the annotations of desired and maximum
    replicas, and is controlled by it.
    """
    template = spec_of(deployment)["template"]
    suffix = _template_hash(deployment)
    labelled_template = with_label(template, HASH_LABEL, suffix)
    selector = spec_of(deployment).get("selector") or {}
    matched = {**(selector.get("matchLabels") or {}), HASH_LABEL: suffix}
    spec: Object = {
        "replicas": size,
        "selector": {**selector, "matchLabels": matched},
        "template": labelled_template,
    }
    if ready := spec_of(deployment).get("minReadySeconds"):
        spec["minReadySeconds"] = ready
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{name_of(deployment)}-{suffix}",
            "namespace": namespace_of(deployment),
            "labels": labelled_template["metadata"]["labels"],
            "annotations": {
                **_inherited_annotations(deployment),
                DESIRED_REPLICAS: str(desired_replicas(deployment)),
                MAX_REPLICAS: str(max_pods(deployment)),
                REVISION: str(max(map(_revision, old), default=0) + 1),
            },
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": spec,
    }


def _revision_writes(deployment: Object, new: Object, old: Sequence[Object]) -> list[Write]:
    """The patches that give the new ReplicaSet a higher revision than all others have.

    A former revision is added to its history annotation. They also copy the Deployment's
    annotations and minReadySeconds to it, and set the Deployment's own revision annotation. Empty
    if nothing differs.
    """
    latest = max(map(_revision, old), default=0) + 1
    revision = str(max(latest, _revision(new)))
    existing = annotations_of(new)
    desired = {**existing, **_inherited_annotations(deployment), REVISION: revision}
    if existing.get(REVISION) not in (None, revision):
        earlier = existing.get(HISTORY)
        desired[HISTORY] = f"{earlier},{existing[REVISION]}" if earlier else existing[REVISION]
    body: Object = {}
    if changes := merge_patch(existing, desired):
        body["metadata"] = {"annotations": changes}
    if spec_of(new).get("minReadySeconds", 0) != spec_of(deployment).get("minReadySeconds", 0):
        body["spec"] = {"minReadySeconds": spec_of(deployment).get("minReadySeconds", 0)}
    writes: list[Write] = [Patch(REPLICA_SETS, new, body)] if body else []
    if annotations_of(deployment).get(REVISION) != revision:
        writes.append(_revision_patch(deployment, revision))
    return writes


def _revision_patch(deployment: Object, revision: str) -> Patch:
    """The patch that sets the Deployment's own revision annotation."""
    return Patch(DEPLOYMENTS, deployment, {"metadata": {"annotations": {REVISION: revision}}})


def _scale_patches(deployment: Object, targets: Sequence[ReplicaTarget]) -> list[Write]:
    """The patches of ReplicaSets' replicas and size annotations, with an Event for each scaling.

    None for those that are so already.
    """
    writes: list[Write] = []
    sizes = {
        DESIRED_REPLICAS: str(desired_replicas(deployment)),
        MAX_REPLICAS: str(max_pods(deployment)),
    }
    for target in targets:
        one, before = target.replica_set, desired_replicas(target.replica_set)
        body: Object = {}
        if changes := {k: v for k, v in sizes.items() if annotations_of(one).get(k) != v}:
            body["metadata"] = {"annotations": changes}
        if target.replicas != before:
            body["spec"] = {"replicas": target.replicas}
        if not body:
            continue
        writes.append(Patch(REPLICA_SETS, one, body))
        if target.replicas != before:
            direction = "up" if target.replicas > before else "down"
            text = (
                f"Scaled {direction} replica set {name_of(one)} from {before} to {target.replicas}"
            )
            writes.append(RecordEvent(deployment, "ScalingReplicaSet", text, _COMPONENT))
    return writes


def _with_status(
    deployment: Object, state: ReplicaSetState, writes: Sequence[Write], now: datetime
) -> Result:
    """The writes, then the status; a complete rollout also deletes ReplicaSets above the limit.

    A terminating Deployment deletes none. The result is requeued for the progress deadline, if any.
    """
    status_result = deployment_status(deployment, state, now)
    steps = [*writes, *status_patch(DEPLOYMENTS, deployment, status_result.status)]
    if not is_deleting(deployment) and is_complete(deployment, status_result.status):
        steps += _cleanup_history(deployment, state.old)
    return Result(tuple(steps), status_result.requeue_after)


def _cleanup_history(deployment: Object, old: Sequence[Object]) -> list[Write]:
    """The deletions of as many old ReplicaSets as exceed revisionHistoryLimit, 10 by default.

    Only those without desired and actual replicas, whose status is observed and that are not
    terminating, the lowest revision first; fewer if not as many are so.
    """
    limit = spec_of(deployment).get("revisionHistoryLimit", 10)
    idle = [
        one
        for one in old
        if not desired_replicas(one)
        and not status_of(one).get("replicas")
        and not is_deleting(one)
        and status_of(one).get("observedGeneration", 0) >= generation_of(one)
    ]
    surplus = len(old) - int(limit)
    if surplus <= 0:
        return []
    return [Delete(REPLICA_SETS, one) for one in sorted(idle, key=_revision)[:surplus]]


def _inherited_annotations(deployment: Object) -> dict[str, str]:
    """The annotations that ReplicaSets get: not kubectl's, nor those the controller computes."""
    return {k: v for k, v in annotations_of(deployment).items() if k not in _NOT_INHERITED}


def _revision(replica_set: Object) -> int:
    """The revision annotation of a ReplicaSet as a number; zero if absent or not a number."""
    text = annotations_of(replica_set).get(REVISION, "")
    return int(text) if text.isdecimal() else 0
