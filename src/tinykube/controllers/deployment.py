"""Deployments: one ReplicaSet per template, rolled from the old to the new."""

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
    DESIRED,
    MAXIMUM,
    ReplicaTarget,
    is_scaling,
    max_pods,
    new_size,
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
    spec_of,
    status_of,
)
from tinykube.controllers.owner_references import (
    claim_objects,
    controller_keys,
    potential_owner_keys,
)
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
_NOT_COPIED = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        HISTORY,
        DESIRED,
        MAXIMUM,
    )
)
_BY = "deployment-controller"


class DeploymentController:
    """Wakes with a Deployment, its ReplicaSets, and (for Recreate) the end of its pods."""

    name = "deployment"
    watches = frozenset((DEPLOYMENTS, REPLICA_SETS, PODS))

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        match change.store:
            case "deployments.apps":
                yield Key(DEPLOYMENTS, namespace_of(change.object), name_of(change.object))
            case "replicasets.apps":
                yield from controller_keys(change, "Deployment", DEPLOYMENTS)
                yield from potential_owner_keys(change, DEPLOYMENTS, lister)
            case _:
                if change.type == "DELETED" or is_finished(change.object):
                    yield from self._grandparent(change.object, lister)

    def _grandparent(self, pod: Object, lister: Lister) -> Iterable[Key]:
        refs = pod["metadata"].get("ownerReferences") or ()
        for ref in refs:
            if ref.get("kind") == "ReplicaSet":
                parent = lister.get(REPLICA_SETS, namespace_of(pod), ref["name"])
                for above in (parent or {"metadata": {}})["metadata"].get("ownerReferences") or ():
                    if above.get("kind") == "Deployment":
                        yield Key(DEPLOYMENTS, namespace_of(pod), above["name"])

    def reconcile(self, key: Key, lister: Lister) -> Result:
        deployment = lister.get(DEPLOYMENTS, key.namespace, key.name)
        if deployment is None:
            return DONE
        claims = claim_objects(deployment, REPLICA_SETS, lister)
        if claims.writes:
            return Result(claims.writes)
        new, old = _split(deployment, claims.held)
        if new is None and lister.get(REPLICA_SETS, key.namespace, _name_of_new(deployment)):
            return _collided(deployment)
        old_pods = any(not is_finished(pod) for one in old for pod in lister.controlled(PODS, one))
        return sync_deployment(
            deployment, claims.held, lister.now, old_pods, lister.last_error(self.name, key)
        )


def sync_deployment(
    deployment: Object,
    held: Sequence[Object],
    now: datetime,
    old_pods: bool = False,
    last_error: str = "",
) -> Result:
    """One step of a Deployment; `old_pods` says whether pods of earlier templates still run."""
    new, old = _split(deployment, held)
    seen = ReplicaSetState(new, old, last_error=last_error)
    if is_deleting(deployment):
        return _told(deployment, seen, (), now)
    if spec_of(deployment).get("paused") or is_scaling(deployment, held):
        targets = scaling_targets(deployment, new, old)
        return _told(deployment, seen, _scale(deployment, targets), now)
    recreate = (spec_of(deployment).get("strategy") or {}).get("type") == "Recreate"
    shrinking = (
        [ReplicaTarget(one, 0) for one in old if desired_replicas(one) > 0] if recreate else []
    )
    if recreate and (shrinking or (old_pods and new is None)):
        return _told(deployment, seen, _scale(deployment, shrinking), now)
    if new is None:
        return _begin(deployment, seen, now)
    numbered = _numbered(deployment, new, old)
    if recreate:
        targets = [ReplicaTarget(new, desired_replicas(deployment))]
    else:
        targets = rolling_targets(deployment, new, old)
    return _told(deployment, seen, (*numbered, *_scale(deployment, targets)), now)


def _split(deployment: Object, held: Iterable[Object]) -> tuple[Object | None, list[Object]]:
    """The ReplicaSet of the present template (the oldest, should there be several) and the rest."""
    wanted = normalized_template(spec_of(deployment).get("template") or {})
    by_age = sorted(held, key=lambda one: (creation_timestamp(one), name_of(one)))
    new = next(
        (
            one
            for one in by_age
            if normalized_template(spec_of(one).get("template") or {}) == wanted
        ),
        None,
    )
    return new, [one for one in by_age if one is not new]


def _begin(deployment: Object, seen: ReplicaSetState, now: datetime) -> Result:
    """Make the ReplicaSet of a template that has none."""
    total = sum(map(desired_replicas, seen.old))
    made = _replica_set(deployment, seen.old, new_size(deployment, 0, total))
    revision = annotations_of(made)[REVISION]
    steps: list[Write] = [Create(REPLICA_SETS, made)]
    if annotations_of(deployment).get(REVISION) != revision:
        steps.append(_revision_patch(deployment, revision))
    if size := desired_replicas(made):
        text = f"Scaled up replica set {name_of(made)} from 0 to {size}"
        steps.append(RecordEvent(deployment, "ScalingReplicaSet", text, _BY))
    # a refused create is told on the next attempt; otherwise the condition names what was made
    making = "" if seen.last_error else name_of(made)
    told = _told(deployment, ReplicaSetState(seen.new, seen.old, making, seen.last_error), (), now)
    return Result((*told.writes, *steps) if seen.last_error else (*steps, *told.writes))


def _suffix(deployment: Object) -> str:
    collisions = int(status_of(deployment).get("collisionCount") or 0)
    return template_hash(spec_of(deployment)["template"], collisions)


def _name_of_new(deployment: Object) -> str:
    return f"{name_of(deployment)}-{_suffix(deployment)}"


def _collided(deployment: Object) -> Result:
    """Somebody else's ReplicaSet has the name: another hash is tried."""
    count = int(status_of(deployment).get("collisionCount") or 0) + 1
    body = {"status": {"collisionCount": count}}
    return Result((Patch(DEPLOYMENTS, deployment, body, subresource="status"),))


def _replica_set(deployment: Object, old: Sequence[Object], size: int) -> Object:
    template = spec_of(deployment)["template"]
    suffix = _suffix(deployment)
    labelled = with_label(template, HASH_LABEL, suffix)
    selector = spec_of(deployment).get("selector") or {}
    matched = {**(selector.get("matchLabels") or {}), HASH_LABEL: suffix}
    spec: Object = {
        "replicas": size,
        "selector": {**selector, "matchLabels": matched},
        "template": labelled,
    }
    if ready := spec_of(deployment).get("minReadySeconds"):
        spec["minReadySeconds"] = ready
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{name_of(deployment)}-{suffix}",
            "namespace": namespace_of(deployment),
            "labels": labelled["metadata"]["labels"],
            "annotations": {
                **_copied(deployment),
                DESIRED: str(desired_replicas(deployment)),
                MAXIMUM: str(max_pods(deployment)),
                REVISION: str(max(map(_revision, old), default=0) + 1),
            },
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": spec,
    }


def _numbered(deployment: Object, new: Object, old: Sequence[Object]) -> list[Write]:
    """Keep the newest ReplicaSet's revision above all others', as `rollout undo` counts."""
    latest = max(map(_revision, old), default=0) + 1
    revision = str(max(latest, _revision(new)))
    given = annotations_of(new)
    wanted = {**given, **_copied(deployment), REVISION: revision}
    if given.get(REVISION) not in (None, revision):
        earlier = given.get(HISTORY)
        wanted[HISTORY] = f"{earlier},{given[REVISION]}" if earlier else given[REVISION]
    body: Object = {}
    if changes := merge_patch(given, wanted):
        body["metadata"] = {"annotations": changes}
    if spec_of(new).get("minReadySeconds", 0) != spec_of(deployment).get("minReadySeconds", 0):
        body["spec"] = {"minReadySeconds": spec_of(deployment).get("minReadySeconds", 0)}
    writes: list[Write] = [Patch(REPLICA_SETS, new, body)] if body else []
    if annotations_of(deployment).get(REVISION) != revision:
        writes.append(_revision_patch(deployment, revision))
    return writes


def _revision_patch(deployment: Object, revision: str) -> Patch:
    return Patch(DEPLOYMENTS, deployment, {"metadata": {"annotations": {REVISION: revision}}})


def _scale(deployment: Object, targets: Sequence[ReplicaTarget]) -> list[Write]:
    writes: list[Write] = []
    sizes = {DESIRED: str(desired_replicas(deployment)), MAXIMUM: str(max_pods(deployment))}
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
            way = "up" if target.replicas > before else "down"
            text = f"Scaled {way} replica set {name_of(one)} from {before} to {target.replicas}"
            writes.append(RecordEvent(deployment, "ScalingReplicaSet", text, _BY))
    return writes


def _told(
    deployment: Object, seen: ReplicaSetState, writes: Sequence[Write], now: datetime
) -> Result:
    """The given writes, then the status, then the removal of history that is too old."""
    judged = deployment_status(deployment, seen, now)
    steps = [*writes, *status_patch(DEPLOYMENTS, deployment, judged.status)]
    if not is_deleting(deployment) and is_complete(deployment, judged.status):
        steps += _forgotten(deployment, seen.old)
    return Result(tuple(steps), judged.requeue_after)


def _forgotten(deployment: Object, old: Sequence[Object]) -> list[Write]:
    limit = spec_of(deployment).get("revisionHistoryLimit", 10)
    idle = [
        one
        for one in old
        if not desired_replicas(one)
        and not status_of(one).get("replicas")
        and not is_deleting(one)
        and status_of(one).get("observedGeneration", 0) >= generation_of(one)
    ]
    revisions_to_delete = len(old) - int(limit)
    if revisions_to_delete <= 0:
        return []
    return [Delete(REPLICA_SETS, one) for one in sorted(idle, key=_revision)[:revisions_to_delete]]


def _copied(deployment: Object) -> dict[str, str]:
    return {k: v for k, v in annotations_of(deployment).items() if k not in _NOT_COPIED}


def _revision(replica_set: Object) -> int:
    text = annotations_of(replica_set).get(REVISION, "")
    return int(text) if text.isdecimal() else 0
