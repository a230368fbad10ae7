"""Tables of pods and of what runs them: columns and cells are the server's to choose."""

from typing import Any

from tests.differential.cases import (
    APPS,
    DEPLOYMENTS,
    PODS,
    STATEFULSETS,
    TABLE,
    Case,
    case,
    create,
    deployment,
    get,
    grouped,
    obj,
    pod,
    pod_spec,
    statefulset,
    table_case,
    template,
)

LONG_AGO = "2020-01-01T00:00:00Z"
RUNNING = {"ready": True, "restartCount": 0, "state": {"running": {}}, "image": "x", "imageID": ""}
BATCH = "/apis/batch/v1/namespaces/$ns"
JOB_POD = {"spec": pod_spec(restartPolicy="Never")}


def container(name: str, **fields: Any) -> dict[str, Any]:
    return {**RUNNING, "name": name, **fields}


def pod_in(name: str, status: dict[str, Any], **spec: Any) -> Case:
    return table_case(f"a pod: {name}", PODS, pod(**spec), status)


TERMINATED = {"exitCode": 0, "reason": "Completed", "startedAt": LONG_AGO, "finishedAt": LONG_AGO}
KILLED = {"exitCode": 137, "signal": 9, "startedAt": LONG_AGO, "finishedAt": LONG_AGO}
READY = [{"type": "Ready", "status": "True"}]
INITIAL = {"initContainers": [{"name": "i", "image": "x"}, {"name": "j", "image": "x"}]}
SIDECAR = {"initContainers": [{"name": "i", "image": "x", "restartPolicy": "Always"}]}

PODS_SHOWN = (
    pod_in("pending", {"phase": "Pending"}),
    pod_in(
        "running",
        {
            "phase": "Running",
            "podIP": "100.64.1.2",
            "podIPs": [{"ip": "100.64.1.2"}],
            "conditions": READY,
            "containerStatuses": [container("web")],
        },
        nodeName="n",
    ),
    pod_in("evicted", {"phase": "Failed", "reason": "Evicted"}),
    pod_in(
        "waiting",
        {
            "phase": "Running",
            "containerStatuses": [
                container(
                    "web",
                    ready=False,
                    restartCount=4,
                    state={"waiting": {"reason": "CrashLoopBackOff"}},
                    lastState={"terminated": KILLED},
                )
            ],
        },
    ),
    pod_in(
        "killed",
        {
            "phase": "Failed",
            "containerStatuses": [container("web", ready=False, state={"terminated": KILLED})],
        },
    ),
    pod_in(
        "completed",
        {
            "phase": "Succeeded",
            "containerStatuses": [container("web", ready=False, state={"terminated": TERMINATED})],
        },
    ),
    pod_in(
        "initializing",
        {
            "phase": "Pending",
            "initContainerStatuses": [
                container("i", ready=False, state={"terminated": TERMINATED}),
                container("j", ready=False, state={"running": {}}),
            ],
        },
        **INITIAL,
    ),
    pod_in(
        "an init container that failed",
        {
            "phase": "Pending",
            "initContainerStatuses": [container("i", ready=False, state={"terminated": KILLED})],
        },
        **INITIAL,
    ),
    pod_in(
        "a sidecar",
        {
            "phase": "Running",
            "conditions": READY,
            "initContainerStatuses": [container("i", started=True)],
            "containerStatuses": [container("web")],
        },
        **SIDECAR,
    ),
    pod_in(
        "readiness gates",
        {"phase": "Running", "conditions": [{"type": "a.b/c", "status": "True"}]},
        readinessGates=[{"conditionType": "a.b/c"}, {"conditionType": "d.e/f"}],
    ),
)

WORKLOADS_SHOWN = (
    table_case(
        "a deployment",
        DEPLOYMENTS,
        deployment(replicas=3),
        {"replicas": 3, "readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1},
    ),
    table_case(
        "a replica set",
        f"{APPS}/replicasets",
        deployment() | {"kind": "ReplicaSet"},
        {"replicas": 1, "readyReplicas": 1, "fullyLabeledReplicas": 1},
    ),
    table_case(
        "a stateful set", STATEFULSETS, statefulset(replicas=2), {"replicas": 2, "readyReplicas": 1}
    ),
    table_case(
        "a daemon set",
        f"{APPS}/daemonsets",
        deployment() | {"kind": "DaemonSet"},
        {
            "desiredNumberScheduled": 5,
            "currentNumberScheduled": 4,
            "numberReady": 3,
            "updatedNumberScheduled": 2,
            "numberAvailable": 1,
            "numberMisscheduled": 0,
        },
    ),
    table_case(
        "a controller revision",
        f"{APPS}/controllerrevisions",
        obj(
            "apps/v1",
            "ControllerRevision",
            "r",
            metadata={
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "StatefulSet",
                        "name": "t",
                        "uid": "u",
                        "controller": True,
                    }
                ]
            },
            revision=3,
            data={},
        ),
    ),
    table_case("a job", f"{BATCH}/jobs", obj("batch/v1", "Job", "j", spec={"template": JOB_POD})),
    table_case(
        "a cron job",
        f"{BATCH}/cronjobs",
        obj(
            "batch/v1",
            "CronJob",
            "c",
            spec={
                "schedule": "*/5 * * * *",
                "timeZone": "Europe/Berlin",
                "suspend": True,
                "jobTemplate": {"spec": {"template": JOB_POD}},
            },
        ),
        {"lastScheduleTime": "2020-01-01T00:00:00Z"},
    ),
    table_case(
        "a budget",
        "/apis/policy/v1/namespaces/$ns/poddisruptionbudgets",
        obj(
            "policy/v1",
            "PodDisruptionBudget",
            "b",
            spec={"maxUnavailable": "20%", "selector": {"matchLabels": {"a": "b"}}},
        ),
    ),
    case(
        "a selector with expressions",
        create(
            DEPLOYMENTS,
            deployment(
                selector={
                    "matchExpressions": [
                        {"key": "app", "operator": "In", "values": ["web", "api"]},
                        {"key": "tier", "operator": "DoesNotExist"},
                    ]
                },
                template=template(app="web"),
            ),
            setup=True,
        ),
        get(f"{DEPLOYMENTS}/d", accept=TABLE),
    ),
)

CASES = [*grouped("shown", PODS_SHOWN), *grouped("shown", WORKLOADS_SHOWN)]
