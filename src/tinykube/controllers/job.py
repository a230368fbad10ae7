"""The Job controller: runs pods until enough of them have succeeded."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from tinykube.controllers.conditions import merge_conditions, new_condition, status_patch
from tinykube.controllers.controller import (
    DONE,
    JOBS,
    PODS,
    Create,
    Delete,
    Key,
    Lister,
    RecordEvent,
    Result,
    Write,
)
from tinykube.controllers.objects import (
    format_time,
    get_condition,
    is_active,
    is_deleting,
    key_of,
    name_of,
    parse_time,
    spec_of,
    status_of,
    uid_of,
)
from tinykube.controllers.owner_references import controller_keys
from tinykube.controllers.pod_template import pod_from_template
from tinykube.resources import Object
from tinykube.storage import Change

_COMPONENT = "job-controller"


class JobController:
    """Enqueues a Job, and the owner of a pod."""

    name = "job"
    watches = frozenset((JOBS, PODS))

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:  # noqa: ARG002 - the contract's
        """The Job itself, or the controller of a pod."""
        if change.store == JOBS:
            yield key_of(JOBS, change.object)
        else:
            yield from controller_keys(change, "Job", JOBS)

    def reconcile(self, key: Key, lister: Lister) -> Result:
        """The writes that sync a Job with the pods it controls; none if absent or terminating."""
        job = lister.get(JOBS, key.namespace, key.name)
        if job is None or is_deleting(job):
            return DONE
        return sync_job(job, lister.controlled(PODS, job), lister.now)


def sync_job(job: Object, pods: Sequence[Object], now: datetime) -> Result:
    """The writes that create missing pods, delete surplus ones, and set counts and conditions.

    A finished Job is only deleted after its TTL; a suspended one has no active pods. With more
    failed pods than backoffLimit it fails, and its active pods are deleted. Without completions it
    is a work queue: after the first success no pod is created, and active ones end by themselves.
    """
    if _final_condition(job) is not None:
        return _expiry_result(job, now)
    active = [pod for pod in pods if is_active(pod)]
    succeeded = sum(status_of(pod).get("phase") == "Succeeded" for pod in pods)
    failed = sum(status_of(pod).get("phase") == "Failed" for pod in pods)
    spec = spec_of(job)
    parallelism = int(spec.get("parallelism", 1))
    completions = spec.get("completions")
    needed = int(completions) if completions is not None else 1
    final_conditions: list[Object] = []
    if completions is not None:
        desired = min(parallelism, max(0, needed - succeeded))
    else:
        desired = len(active) if succeeded else parallelism
    if succeeded >= needed and not active:
        final_conditions = [
            new_condition("SuccessCriteriaMet", True, "CompletionsReached", _COMPLETIONS_REACHED),
            new_condition("Complete", True, "CompletionsReached", _COMPLETIONS_REACHED),
        ]
    elif failed > int(spec.get("backoffLimit", 6)):
        final_conditions = [
            new_condition("FailureTarget", True, "BackoffLimitExceeded", _BACKOFF_LIMIT_EXCEEDED),
            new_condition("Failed", True, "BackoffLimitExceeded", _BACKOFF_LIMIT_EXCEEDED),
        ]
        desired = 0
    if spec.get("suspend"):
        desired = 0
    writes = _scaling_writes(job, active, desired)
    status = _job_status(job, (len(active), succeeded, failed), final_conditions, now)
    return Result((*writes, *status_patch(JOBS, job, status)))


_COMPLETIONS_REACHED = "Reached expected number of succeeded pods"
_BACKOFF_LIMIT_EXCEEDED = "Job has reached the specified backoff limit"


def _scaling_writes(job: Object, active: Sequence[Object], desired: int) -> list[Write]:
    """The writes that create or delete pods to reach the desired number of active ones.

    Creations also record an Event.
    """
    template = spec_of(job).get("template") or {}
    labels = {
        "batch.kubernetes.io/controller-uid": uid_of(job),
        "batch.kubernetes.io/job-name": name_of(job),
        "controller-uid": uid_of(job),
        "job-name": name_of(job),
    }
    metadata = {"generateName": f"{name_of(job)}-", "labels": labels}
    missing = desired - len(active)
    writes: list[Write] = [
        Create(PODS, pod_from_template(template, job, metadata)) for _ in range(missing)
    ]
    if missing > 0:
        text = f"Created {missing} pods" if missing > 1 else "Created 1 pod"
        writes.append(RecordEvent(job, "SuccessfulCreate", text, _COMPONENT))
    surplus = active[: max(0, -missing)]
    return [*writes, *(Delete(PODS, pod) for pod in surplus)]


def _job_status(
    job: Object, counts: tuple[int, int, int], final_conditions: Sequence[Object], now: datetime
) -> Object:
    """The status; startTime is kept, and set unless suspended; completionTime only on success.

    `counts` are active, succeeded and failed pods, of which zeros are left out; `ready` is always
    0.
    """
    active, succeeded, failed = counts
    existing = status_of(job)
    counts_by_field = {"active": active, "succeeded": succeeded, "failed": failed}
    status: Object = {name: count for name, count in counts_by_field.items() if count}
    if not spec_of(job).get("suspend") or existing.get("startTime"):
        status["startTime"] = existing.get("startTime") or format_time(now)
    if final_conditions:
        status["conditions"] = merge_conditions(
            existing.get("conditions") or (), final_conditions, now
        )
        if final_conditions[-1]["type"] == "Complete":
            status["completionTime"] = format_time(now)
    return {"ready": 0, **status}


def _final_condition(job: Object) -> Object | None:
    """The condition Complete, else Failed, whatever its status; None if the Job has neither."""
    return get_condition(job, "Complete") or get_condition(job, "Failed")


def _expiry_result(job: Object, now: datetime) -> Result:
    """The deletion of a finished Job after its TTL, a requeue until then; nothing without TTL.

    Nothing, too, if the final condition has no lastTransitionTime.
    """
    seconds = spec_of(job).get("ttlSecondsAfterFinished")
    since = parse_time((_final_condition(job) or {}).get("lastTransitionTime"))
    if seconds is None or since is None:
        return DONE
    remaining = since + timedelta(seconds=int(seconds)) - now
    if remaining > timedelta():
        return Result(requeue_after=remaining)
    return Result((Delete(JOBS, job),))
