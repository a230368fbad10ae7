"""The rules of workloads and of the other built-in kinds that federations write."""

from tests.differential.cases import (
    CORE,
    DEPLOYMENTS,
    LEASES,
    NETWORKING,
    PODS,
    RV,
    STATEFULSETS,
    TABLE,
    case,
    create,
    deployment,
    get,
    grouped,
    merge,
    obj,
    pod,
    put,
    statefulset,
    template,
)

WORKLOADS = (
    case(
        "a deployment's defaults",
        create(DEPLOYMENTS, deployment()),
        get(f"{DEPLOYMENTS}/d", accept=TABLE),
    ),
    case("a deployment without a selector", create(DEPLOYMENTS, deployment(selector=None))),
    case("a deployment with an empty selector", create(DEPLOYMENTS, deployment(selector={}))),
    case(
        "a selector that misses its template",
        create(DEPLOYMENTS, deployment(template=template(app="x"))),
    ),
    case("negative replicas", create(DEPLOYMENTS, deployment(replicas=-1))),
    case("a strategy unknown", create(DEPLOYMENTS, deployment(strategy={"type": "Big"}))),
    case(
        "a strategy with both at zero",
        create(
            DEPLOYMENTS,
            deployment(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
        ),
    ),
    case(
        "a selector does not change",
        create(DEPLOYMENTS, deployment()),
        merge(
            f"{DEPLOYMENTS}/d",
            {
                "spec": {
                    "selector": {"matchLabels": {"app": "y"}},
                    "template": {"metadata": {"labels": {"app": "y"}}},
                }
            },
        ),
    ),
    case(
        "a stateful set's defaults",
        create(STATEFULSETS, statefulset()),
        get(f"{STATEFULSETS}/t", accept=TABLE),
    ),
    case(
        "ordinals and claims",
        create(
            STATEFULSETS,
            statefulset(
                ordinals={"start": 3},
                volumeClaimTemplates=[
                    {
                        "metadata": {"name": "v"},
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "resources": {"requests": {"storage": "1Gi"}},
                        },
                    }
                ],
            ),
        ),
    ),
    case(
        "what a stateful set forbids to change",
        create(STATEFULSETS, statefulset()),
        merge(f"{STATEFULSETS}/t", {"spec": {"serviceName": "other"}}),
    ),
    case(
        "what a stateful set lets change",
        create(STATEFULSETS, statefulset()),
        merge(f"{STATEFULSETS}/t", {"spec": {"replicas": 2, "ordinals": {"start": 1}}}),
    ),
    case("a pod policy unknown", create(STATEFULSETS, statefulset(podManagementPolicy="Now"))),
    case("negative ordinals", create(STATEFULSETS, statefulset(ordinals={"start": -1}))),
    case(
        "restart policy of a template",
        create(
            DEPLOYMENTS,
            deployment(
                template={**template(), "spec": {**template()["spec"], "restartPolicy": "Never"}}
            ),
        ),
    ),
    case(
        "a pod's image changes",
        create(PODS, pod()),
        merge(
            f"{PODS}/p", {"spec": {"containers": [{"name": "web", "image": "x"}], "nodeName": "n"}}
        ),
    ),
    case(
        "a job",
        create(
            "/apis/batch/v1/namespaces/$ns/jobs",
            obj(
                "batch/v1",
                "Job",
                "j",
                spec={
                    "template": {
                        "spec": {
                            "containers": [{"name": "a", "image": "x"}],
                            "restartPolicy": "Never",
                        }
                    }
                },
            ),
        ),
    ),
)

OTHER = (
    case(
        "an ingress class",
        create(
            "/apis/networking.k8s.io/v1/ingressclasses",
            obj(
                "networking.k8s.io/v1", "IngressClass", "$ns", spec={"controller": "example.com/x"}
            ),
        ),
    ),
    case(
        "a network policy",
        create(
            f"{NETWORKING}/networkpolicies",
            obj("networking.k8s.io/v1", "NetworkPolicy", "n", spec={"podSelector": {}}),
        ),
    ),
    case(
        "a role",
        create(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/roles",
            obj(
                "rbac.authorization.k8s.io/v1",
                "Role",
                "r",
                rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
            ),
        ),
    ),
    case(
        "an event",
        create(
            f"{CORE}/events",
            obj(
                "v1",
                "Event",
                "e",
                involvedObject={"kind": "Pod", "name": "p", "namespace": "$ns"},
                reason="R",
                message="m",
                type="Normal",
            ),
        ),
        get(f"{CORE}/events", query={"fieldSelector": "involvedObject.name=p"}),
        get("/apis/events.k8s.io/v1/namespaces/$ns/events"),
    ),
    case(
        "an event about another namespace",
        create(
            f"{CORE}/events",
            obj(
                "v1",
                "Event",
                "e",
                involvedObject={"kind": "Pod", "name": "p", "namespace": "other"},
            ),
        ),
    ),
    case(
        "a lease by put",
        create(
            LEASES,
            obj("coordination.k8s.io/v1", "Lease", "l", spec={"holderIdentity": "a"}),
            save=RV,
        ),
        put(
            f"{LEASES}/l",
            obj(
                "coordination.k8s.io/v1",
                "Lease",
                "l",
                metadata={"resourceVersion": "$rv"},
                spec={"holderIdentity": "b"},
            ),
        ),
    ),
    case(
        "a node",
        create("/api/v1/nodes", obj("v1", "Node", "$ns")),
        get("/api/v1/nodes/$ns", accept=TABLE),
    ),
    case(
        "a priority class",
        create(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            obj("scheduling.k8s.io/v1", "PriorityClass", "$ns", value=5),
        ),
    ),
    case(
        "a budget",
        create(
            "/apis/policy/v1/namespaces/$ns/poddisruptionbudgets",
            obj(
                "policy/v1",
                "PodDisruptionBudget",
                "b",
                spec={"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
            ),
        ),
    ),
    case(
        "a claim",
        create(
            f"{CORE}/persistentvolumeclaims",
            obj(
                "v1",
                "PersistentVolumeClaim",
                "v",
                spec={
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            ),
        ),
        get(f"{CORE}/persistentvolumeclaims/v", accept=TABLE),
    ),
)


CASES = [*grouped("workload", WORKLOADS), *grouped("other", OTHER)]
