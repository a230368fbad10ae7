"""Rows as `kubectl get` shows them of workloads."""

from datetime import datetime

from tinykube.resources import Object
from tinykube.tables.cells import (
    NONE,
    UNSET,
    age,
    condition,
    containers,
    labels,
    name,
    reference,
    selector,
    time_since,
)
from tinykube.tables.columns import (
    AGE,
    NAME,
    Cell,
    Column,
    Printer,
    integer_columns,
    text_columns,
    value_at,
    wide_columns,
)

_TEMPLATE = wide_columns("Containers", "Images")
_TEMPLATE_AND_SELECTOR = wide_columns("Containers", "Images", "Selector")


def _template_cells(obj: Object) -> list[Cell]:
    """Cells of the names and images of the containers in spec.template."""
    return [*containers(value_at(obj, "spec", "template"))]


def _template_and_selector(obj: Object) -> list[Cell]:
    """Cells of container names, images and the selector, `<none>` if that is empty."""
    return [*_template_cells(obj), selector(value_at(obj, "spec", "selector")) or NONE]


def _number_at(obj: Object, *path: str) -> int:
    """The number at a path of an object, 0 if missing."""
    return int(value_at(obj, *path, default=0))


def _ready_replicas(obj: Object) -> str:
    """`ready/desired`: status.readyReplicas and spec.replicas."""
    return f"{_number_at(obj, 'status', 'readyReplicas')}/{_number_at(obj, 'spec', 'replicas')}"


def _deployment(obj: Object, now: datetime) -> list[Cell]:
    """Name, ready of desired, updated and available replicas, age.

    Then the containers, images and selector.
    """
    return [
        name(obj),
        _ready_replicas(obj),
        _number_at(obj, "status", "updatedReplicas"),
        _number_at(obj, "status", "availableReplicas"),
        age(obj, now),
        *_template_cells(obj),
        selector(value_at(obj, "spec", "selector")),
    ]


def _replica_set(obj: Object, now: datetime) -> list[Cell]:
    """Name, desired, current and ready replicas, age; containers, images and selector."""
    return [
        name(obj),
        _number_at(obj, "spec", "replicas"),
        _number_at(obj, "status", "replicas"),
        _number_at(obj, "status", "readyReplicas"),
        age(obj, now),
        *_template_and_selector(obj),
    ]


def _stateful_set(obj: Object, now: datetime) -> list[Cell]:
    """Name, ready of desired replicas and age; names and images of containers."""
    return [name(obj), _ready_replicas(obj), age(obj, now), *_template_cells(obj)]


def _daemon_set(obj: Object, now: datetime) -> list[Cell]:
    """Name, desired, current, ready, updated and available pods, nodeSelector and age.

    Then the containers, images and selector.
    """
    counted = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        name(obj),
        *(_number_at(obj, "status", field) for field in counted),
        labels(value_at(obj, "spec", "template", "spec", "nodeSelector")),
        age(obj, now),
        *_template_and_selector(obj),
    ]


def _controller_revision(obj: Object, now: datetime) -> list[Cell]:
    """Name, controller by its owner reference, such as `statefulset.apps/db`, revision and age.

    The controller is `<none>` without a controlling owner.
    """
    owners = value_at(obj, "metadata", "ownerReferences", default=[])
    owner = next((one for one in owners if one.get("controller")), None)
    controller = NONE
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        controller = reference(owner.get("kind", ""), group, "") + owner.get("name", "")
    return [name(obj), controller, _number_at(obj, "revision"), age(obj, now)]


def _job(obj: Object, now: datetime) -> list[Cell]:
    """Name, status, completions, duration and age; containers, images and selector."""
    return [
        name(obj),
        _job_status(obj),
        _completions(obj),
        _job_duration(obj, now),
        age(obj, now),
        *_template_and_selector(obj),
    ]


def _job_status(obj: Object) -> str:
    """Complete or Failed if such a condition is True, else Terminating while it is being deleted.

    Else the first condition that is True of Suspended, FailureTarget and SuccessCriteriaMet, else
    Running.
    """
    for kind, word in (("Complete", "Complete"), ("Failed", "Failed")):
        if condition(obj, kind) == "True":
            return word
    if value_at(obj, "metadata", "deletionTimestamp") is not None:
        return "Terminating"
    later = ("Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((kind for kind in later if condition(obj, kind) == "True"), "Running")


def _completions(obj: Object) -> str:
    """`succeeded/completions`; without completions `succeeded/1`.

    Then ` of parallelism` follows if the parallelism is above 1.
    """
    succeeded = _number_at(obj, "status", "succeeded")
    if (wanted := value_at(obj, "spec", "completions")) is not None:
        return f"{succeeded}/{wanted}"
    parallelism = _number_at(obj, "spec", "parallelism")
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(obj: Object, now: datetime) -> str:
    """Time from startTime to completionTime, else to now; empty if the Job has not started."""
    started, ended = (value_at(obj, "status", field) for field in ("startTime", "completionTime"))
    if started is None:
        return ""
    return time_since(started, now if ended is None else datetime.fromisoformat(ended))


def _cron_job(obj: Object, now: datetime) -> list[Cell]:
    """Name, schedule, time zone, suspend, number of active Jobs, time since the last schedule, age.

    Then the containers, images and selector of its Job template. A missing time zone or last
    schedule is `<none>`.
    """
    scheduled = value_at(obj, "status", "lastScheduleTime")
    job = value_at(obj, "spec", "jobTemplate")
    return [
        name(obj),
        value_at(obj, "spec", "schedule", default=""),
        value_at(obj, "spec", "timeZone", default=NONE),
        str(value_at(obj, "spec", "suspend", default=UNSET)),
        len(value_at(obj, "status", "active", default=[])),
        time_since(scheduled, now) if scheduled else NONE,
        age(obj, now),
        *_template_and_selector(job),
    ]


def _disruption_budget(obj: Object, now: datetime) -> list[Cell]:
    """Name, minAvailable and maxUnavailable (`N/A` if unset), allowed disruptions and age."""
    return [
        name(obj),
        str(value_at(obj, "spec", "minAvailable", default="N/A")),
        str(value_at(obj, "spec", "maxUnavailable", default="N/A")),
        _number_at(obj, "status", "disruptionsAllowed"),
        age(obj, now),
    ]


def _scale(obj: Object, now: datetime) -> list[Cell]:
    """Name, desired and current replicas, and age."""
    replicas = (_number_at(obj, place, "replicas") for place in ("spec", "status"))
    return [name(obj), *replicas, age(obj, now)]


WORKLOADS = {
    ("apps", "Deployment"): Printer(
        (NAME, *text_columns("Ready", "Up-to-date", "Available"), AGE, *_TEMPLATE_AND_SELECTOR),
        _deployment,
    ),
    ("apps", "ReplicaSet"): Printer(
        (NAME, *integer_columns("Desired", "Current", "Ready"), AGE, *_TEMPLATE_AND_SELECTOR),
        _replica_set,
    ),
    ("apps", "StatefulSet"): Printer(
        (NAME, *text_columns("Ready"), AGE, *_TEMPLATE), _stateful_set
    ),
    ("apps", "DaemonSet"): Printer(
        (
            NAME,
            *integer_columns("Desired", "Current", "Ready", "Up-to-date", "Available"),
            *text_columns("Node Selector"),
            AGE,
            *_TEMPLATE_AND_SELECTOR,
        ),
        _daemon_set,
    ),
    ("apps", "ControllerRevision"): Printer(
        (NAME, *text_columns("Controller", "Revision"), AGE), _controller_revision
    ),
    ("batch", "Job"): Printer(
        (NAME, *text_columns("Status", "Completions", "Duration"), AGE, *_TEMPLATE_AND_SELECTOR),
        _job,
    ),
    ("batch", "CronJob"): Printer(
        (
            NAME,
            *text_columns("Schedule", "Timezone"),
            Column("Suspend", "boolean"),
            *integer_columns("Active"),
            *text_columns("Last Schedule"),
            AGE,
            *_TEMPLATE_AND_SELECTOR,
        ),
        _cron_job,
    ),
    ("policy", "PodDisruptionBudget"): Printer(
        (
            NAME,
            *text_columns("Min Available", "Max Unavailable"),
            *integer_columns("Allowed Disruptions"),
            AGE,
        ),
        _disruption_budget,
    ),
    ("autoscaling", "Scale"): Printer(
        (Column("Name"), *integer_columns("Desired", "Available"), AGE), _scale
    ),
}
