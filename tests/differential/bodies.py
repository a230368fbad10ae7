"""Subresources, reviews, and the bodies and media types that are refused."""

from tests.differential.cases import (
    CONFIGMAPS,
    CORE,
    DEPLOYMENTS,
    PODS,
    SERVICES,
    STATEFULSETS,
    RequestStep,
    case,
    configmap,
    create,
    delete,
    deployment,
    get,
    grouped,
    merge,
    obj,
    pod,
    put,
    service,
    statefulset,
    template,
)

C = f"{CONFIGMAPS}/c"
D = f"{DEPLOYMENTS}/d"
FILLED = create(CONFIGMAPS, configmap(data={"a": "1", "b": "2"}))
DEPLOYED = create(DEPLOYMENTS, deployment())

SUBRESOURCES = (
    case(
        "the status is not changed with the object",
        DEPLOYED,
        merge(D, {"status": {"replicas": 5}}),
        get(D),
    ),
    case(
        "the object is not changed with the status",
        DEPLOYED,
        merge(
            f"{D}/status",
            {"spec": {"replicas": 5}, "status": {"replicas": 1, "observedGeneration": 1}},
        ),
        get(D),
    ),
    case(
        "the generation counts changes of the spec",
        DEPLOYED,
        merge(D, {"spec": {"replicas": 2}}),
        merge(D, {"metadata": {"labels": {"a": "b"}}}),
        get(D),
    ),
    case(
        "a status by put", DEPLOYED, put(f"{D}/status", {**deployment(), "status": {"replicas": 3}})
    ),
    case(
        "labels through the status",
        DEPLOYED,
        merge(f"{D}/status", {"metadata": {"labels": {"a": "b"}}}),
    ),
    case(
        "a scale",
        DEPLOYED,
        get(f"{D}/scale"),
        merge(f"{D}/scale", {"spec": {"replicas": 4}}),
        get(D),
    ),
    case(
        "a scale by put",
        DEPLOYED,
        put(
            f"{D}/scale",
            obj(
                "autoscaling/v1", "Scale", "d", metadata={"namespace": "$ns"}, spec={"replicas": 2}
            ),
        ),
    ),
    case("a negative scale", DEPLOYED, merge(f"{D}/scale", {"spec": {"replicas": -1}})),
    case("a scale of nothing", get(f"{DEPLOYMENTS}/none/scale")),
    case(
        "a scale of a stateful set",
        create(STATEFULSETS, statefulset()),
        merge(f"{STATEFULSETS}/t/scale", {"spec": {"replicas": 3}}),
    ),
    case("a subresource unknown", FILLED, get(f"{C}/status")),
    case("an unknown subresource of a pod", create(PODS, pod()), get(f"{PODS}/p/nonsense")),
    case(
        "a service's load balancer",
        create(SERVICES, service(type="LoadBalancer")),
        merge(
            f"{SERVICES}/s/status",
            {"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.5"}]}}},
        ),
    ),
    case(
        "a pod's status",
        create(PODS, pod()),
        merge(
            f"{PODS}/p/status",
            {
                "status": {
                    "phase": "Running",
                    "podIP": "100.64.8.7",
                    "conditions": [{"type": "Ready", "status": "True"}],
                }
            },
        ),
    ),
    case(
        "a binding",
        create(PODS, pod()),
        create(
            f"{PODS}/p/binding", obj("v1", "Binding", "p", target={"kind": "Node", "name": "n"})
        ),
        get(f"{PODS}/p"),
    ),
    case(
        "an eviction",
        create(PODS, pod()),
        create(f"{PODS}/p/eviction", obj("policy/v1", "Eviction", "p")),
        get(f"{PODS}/p"),
    ),
    case(
        "a namespace's finalizers",
        create("/api/v1/namespaces", obj("v1", "Namespace", "$ns-f")),
        delete("/api/v1/namespaces/$ns-f"),
        create("/api/v1/namespaces/$ns-f/configmaps", configmap()),
    ),
)

BODIES = (
    case("broken JSON", create(CONFIGMAPS, "{")),
    case("an empty body", create(CONFIGMAPS, "")),
    case("a string", create(CONFIGMAPS, '"x"')),
    case("a list", create(CONFIGMAPS, [])),
    case("no kind", create(CONFIGMAPS, {"apiVersion": "v1", "metadata": {"name": "c"}})),
    case("no version", create(CONFIGMAPS, {"kind": "ConfigMap", "metadata": {"name": "c"}})),
    case("another kind", create(CONFIGMAPS, obj("v1", "Secret", "c"))),
    case("a kind unknown", create(CONFIGMAPS, obj("v1", "Ship", "c"))),
    case("another version", create(CONFIGMAPS, obj("v2", "ConfigMap", "c"))),
    case(
        "another group", create(DEPLOYMENTS, {**deployment(), "apiVersion": "extensions/v1beta1"})
    ),
    case(
        "YAML",
        create(
            CONFIGMAPS,
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n",
            content_type="application/yaml",
        ),
    ),
    case("broken YAML", create(CONFIGMAPS, "a: [", content_type="application/yaml")),
    case("a media type unknown", create(CONFIGMAPS, configmap(), content_type="text/plain")),
    case("no media type", create(CONFIGMAPS, configmap(), content_type="")),
    case(
        "a charset", create(CONFIGMAPS, configmap(), content_type="application/json; charset=utf-8")
    ),
    case("a wrong type in a field", create(DEPLOYMENTS, deployment(replicas="three"))),
    case("a string for an object", create(DEPLOYMENTS, deployment(template="x"))),
    case("a number for a string", create(CONFIGMAPS, configmap(data={"a": 1}))),
    case("an object for a list", create(PODS, pod(containers={}))),
    case("a fraction for a whole number", create(DEPLOYMENTS, deployment(replicas=1.5))),
    case("an unknown field is dropped", create(CONFIGMAPS, configmap(dat={"a": "b"}))),
    case(
        "an unknown field, strictly",
        create(CONFIGMAPS, configmap(dat={"a": "b"}), query={"fieldValidation": "Strict"}),
    ),
    case(
        "an unknown field, warned about",
        create(CONFIGMAPS, configmap(dat={"a": "b"}), query={"fieldValidation": "Warn"}),
    ),
    case(
        "an unknown field, ignored",
        create(CONFIGMAPS, configmap(dat={"a": "b"}), query={"fieldValidation": "Ignore"}),
    ),
    case(
        "two deep unknown fields, strictly",
        create(
            DEPLOYMENTS,
            deployment(
                template={
                    **template(),
                    "spec": {"containers": [{"name": "a", "image": "x", "imag": "y"}], "nod": 1},
                }
            ),
            query={"fieldValidation": "Strict"},
        ),
    ),
    case(
        "a field twice, strictly",
        create(
            CONFIGMAPS,
            '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{},"data":{}}',
            query={"fieldValidation": "Strict"},
        ),
    ),
    case(
        "a validation unknown", create(CONFIGMAPS, configmap(), query={"fieldValidation": "Maybe"})
    ),
    case("too large", create(CONFIGMAPS, "x" * (3 * 1024 * 1024 + 1))),
    case("a method unknown", RequestStep("PROPFIND", CONFIGMAPS)),
    case("a post to an object", create(C, configmap())),
    case("a put to a collection", put(CONFIGMAPS, configmap())),
    case("a patch of a collection", merge(CONFIGMAPS, {})),
    case(
        "a delete of a review", delete("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x")
    ),
)

REVIEWS = (
    case(
        "who am I",
        create(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            obj("authentication.k8s.io/v1", "SelfSubjectReview"),
        ),
    ),
    case(
        "may I",
        create(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            obj(
                "authorization.k8s.io/v1",
                "SelfSubjectAccessReview",
                spec={"resourceAttributes": {"verb": "get", "resource": "pods"}},
            ),
        ),
    ),
    case(
        "may I what",
        create(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            obj("authorization.k8s.io/v1", "SelfSubjectAccessReview", spec={}),
        ),
    ),
    case(
        "a token",
        create(f"{CORE}/serviceaccounts", obj("v1", "ServiceAccount", "r")),
        create(
            f"{CORE}/serviceaccounts/r/token",
            obj("authentication.k8s.io/v1", "TokenRequest", spec={"expirationSeconds": 600}),
        ),
    ),
    case(
        "a token that is too short",
        create(f"{CORE}/serviceaccounts", obj("v1", "ServiceAccount", "r")),
        create(
            f"{CORE}/serviceaccounts/r/token",
            obj("authentication.k8s.io/v1", "TokenRequest", spec={"expirationSeconds": 5}),
        ),
    ),
    case(
        "a token of nobody",
        create(
            f"{CORE}/serviceaccounts/none/token",
            obj("authentication.k8s.io/v1", "TokenRequest", spec={}),
        ),
    ),
)


CASES = [
    *grouped("subresource", SUBRESOURCES),
    *grouped("body", BODIES),
    *grouped("review", REVIEWS),
]
