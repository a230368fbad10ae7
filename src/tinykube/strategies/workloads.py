"""Workloads (Deployments, Jobs and so on): defaulting and validation."""

from collections.abc import Callable, Iterator
from typing import Any

from tinykube.errors import (
    FieldError,
    forbidden,
    invalid,
    required,
    unsupported,
)
from tinykube.resources import Object
from tinykube.selectors import matches_labels
from tinykube.strategies.label_selectors import label_selector_errors
from tinykube.strategies.pods import default_pod_spec, pod_spec_errors
from tinykube.strategy import Strategy


def _default_template(spec: dict[str, Any]) -> None:
    """Default the pod template of a spec in place, adding it if absent."""
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def default_deployment(deployment: Object) -> None:
    """Default a Deployment in place: replicas, history, deadline, strategy, pod template."""
    spec = deployment.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    _default_template(spec)


def default_replica_set(found: Object) -> None:
    """Default replicas and pod template of a ReplicaSet in place."""
    spec = found.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _default_template(spec)


def default_stateful_set(found: Object) -> None:
    """Default a StatefulSet in place: replicas, history, policies, update strategy, templates.

    volumeClaimTemplates get kind, apiVersion, volumeMode and a status of phase Pending.
    """
    spec = found.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        claim["status"] = {"phase": "Pending", **(claim.get("status") or {})}
    _default_template(spec)


def default_daemon_set(found: Object) -> None:
    """Default a DaemonSet in place: history, update strategy, pod template."""
    spec = found.setdefault("spec", {})
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    _default_template(spec)


def default_job(job: Object) -> None:
    """Default a Job in place: parallelism, backoffLimit, completionMode, suspend, pod template.

    Also podReplacementPolicy. completions become 1 only if neither they nor parallelism are given.
    """
    spec = job.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
    _default_template(spec)


def prepare_job(job: Object) -> None:
    """Set the selector (by the Job's uid) and the labels of a new Job's template, in place.

    The labels name the Job and its uid; the Job itself gets those of the template if it has none.
    With manualSelector nothing is set.
    """
    spec = dict(job["spec"])
    spec.setdefault("manualSelector", False)
    if not spec["manualSelector"]:
        uid, name = job["metadata"]["uid"], job["metadata"]["name"]
        marks = {
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": name,
            "controller-uid": uid,
            "job-name": name,
        }
        template = spec["template"]
        labels = {**(template["metadata"].get("labels") or {}), **marks}
        metadata = {**template["metadata"], "labels": labels}
        spec["template"] = {**template, "metadata": metadata}
        if not job["metadata"].get("labels"):
            job["metadata"]["labels"] = labels
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    job["spec"] = spec


def default_cron_job(found: Object) -> None:
    """Default a CronJob in place: concurrencyPolicy, suspend, history limits, pod template.

    Of the jobTemplate only the pod template is defaulted.
    """
    spec = found.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    template = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
    _default_template(template)


def _workload_errors(found: Object) -> Iterator[FieldError]:
    """Errors of replicas, selector and pod template.

    The selector is required, must not be empty, and must match the template's labels; a
    restartPolicy other than Always is refused.
    """
    spec = found["spec"]
    replicas = spec.get("replicas", 1)
    if replicas < 0:
        yield invalid("spec.replicas", replicas, "must be greater than or equal to 0")
    selector = spec.get("selector")
    selector_errors = [*label_selector_errors(selector, "spec.selector")]
    yield from selector_errors
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    if selector is None:
        yield required("spec.selector")
        detail = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", labels, detail)
    elif not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield invalid("spec.selector", selector, "empty selector is invalid for deployment")
    elif not selector_errors and not matches_labels(selector, labels):
        detail = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", labels, detail)
    yield from pod_spec_errors(spec["template"]["spec"], "spec.template.spec")
    policy = spec["template"]["spec"].get("restartPolicy")
    if policy in ("Never", "OnFailure"):
        yield unsupported("spec.template.spec.restartPolicy", policy, ("Always",))


def deployment_errors(found: Object) -> Iterator[FieldError]:
    """Validation errors of a Deployment: strategy, replicas, selector and pod template."""
    strategy = found["spec"].get("strategy") or {}
    kind = strategy.get("type")
    rolling = strategy.get("rollingUpdate")
    if kind not in ("Recreate", "RollingUpdate"):
        told = {"Type": kind, "RollingUpdate": rolling}
        yield unsupported("spec.strategy", told, ("Recreate", "RollingUpdate"))
    elif kind == "Recreate" and rolling is not None:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        yield forbidden("spec.strategy.rollingUpdate", detail)
    elif rolling and all(rolling.get(s) in (0, "0%") for s in ("maxUnavailable", "maxSurge")):
        detail = "may not be 0 when `maxSurge` is 0"
        field = "spec.strategy.rollingUpdate.maxUnavailable"
        yield invalid(field, rolling["maxUnavailable"], detail)
    yield from _workload_errors(found)


def _selector_immutable_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """An error if the selector changes."""
    if new["spec"].get("selector") != old["spec"].get("selector"):
        yield invalid("spec.selector", new["spec"].get("selector"), "field is immutable")


_STATEFUL_FREE = frozenset(
    (
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    )
)
_STATEFUL_FIXED = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
    "'minReadySeconds' are forbidden"
)


def stateful_set_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """An error if a field of the spec changes that is not among the mutable ones."""
    sides = [
        {key: value for key, value in side["spec"].items() if key not in _STATEFUL_FREE}
        for side in (new, old)
    ]
    if sides[0] != sides[1]:
        yield forbidden("spec", _STATEFUL_FIXED)


def stateful_set_errors(found: Object) -> Iterator[FieldError]:
    """Errors of podManagementPolicy, the first ordinal, replicas, selector and pod template."""
    policy = found["spec"].get("podManagementPolicy")
    if policy not in ("OrderedReady", "Parallel"):
        detail = "must be 'OrderedReady' or 'Parallel'"
        yield invalid("spec.podManagementPolicy", policy, detail)
    start = (found["spec"].get("ordinals") or {}).get("start", 0)
    if start < 0:
        yield invalid("spec.ordinals.start", start, "must be greater than or equal to 0")
    yield from _workload_errors(found)


def _workload_strategy(default: Callable[[Object], None]) -> Strategy:
    """A strategy with these defaults, workload validation, and an immutable selector."""
    return Strategy(
        default=default,
        validate=_workload_errors,
        validate_update=_selector_immutable_errors,
        tracks_generation=True,
    )


DEPLOYMENT_STRATEGY = Strategy(
    default=default_deployment,
    validate=deployment_errors,
    validate_update=_selector_immutable_errors,
    tracks_generation=True,
    counts_annotations=True,
)
REPLICA_SET_STRATEGY = _workload_strategy(default_replica_set)
DAEMON_SET_STRATEGY = _workload_strategy(default_daemon_set)
STATEFUL_SET_STRATEGY = Strategy(
    default=default_stateful_set,
    validate=stateful_set_errors,
    validate_update=stateful_set_update_errors,
    tracks_generation=True,
)
JOB_STRATEGY = Strategy(default=default_job, prepare_for_create=prepare_job, tracks_generation=True)
CRON_JOB_STRATEGY = Strategy(default=default_cron_job, tracks_generation=True)
