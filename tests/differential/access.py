"""What users may do by their roles, and what they may grant."""

from typing import Any

from tests.differential.cases import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIGMAPS,
    CORE,
    DEPLOYMENTS,
    LEASES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    Case,
    RequestStep,
    Step,
    case,
    configmap,
    create,
    delete,
    deployment,
    get,
    grouped,
    merge,
    obj,
    put,
    watch,
)

GROUP = "rbac.authorization.k8s.io"
ANNA = "system:serviceaccount:$ns:anna"
REVIEWS = "/apis/authorization.k8s.io/v1"


def rule(verbs: str, resources: str = "configmaps", group: str = "", **more: Any) -> dict[str, Any]:
    return {
        "verbs": verbs.split(),
        "apiGroups": [group],
        "resources": resources.split(),
        **more,
    }


def role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return obj(f"{GROUP}/v1", "Role", name, rules=list(rules))


def cluster_role(name: str, *rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return obj(f"{GROUP}/v1", "ClusterRole", f"$ns-{name}", rules=list(rules), **more)


def account(name: str = "anna") -> dict[str, Any]:
    return {"kind": "ServiceAccount", "name": name, "namespace": "$ns"}


def group(name: str) -> dict[str, Any]:
    return {"kind": "Group", "apiGroup": GROUP, "name": name}


def binding(
    role: str, subject: dict[str, Any] | None = None, kind: str = "Role", name: str = ""
) -> dict[str, Any]:
    reference = {"apiGroup": GROUP, "kind": kind, "name": role}
    body = obj(f"{GROUP}/v1", "RoleBinding", name or role, roleRef=reference)
    return {**body, "subjects": [subject or account()]}


def cluster_binding(role: str, subject: dict[str, Any] | None = None) -> dict[str, Any]:
    body = binding(f"$ns-{role}", subject, "ClusterRole")
    return {**body, "kind": "ClusterRoleBinding"}


def given(*rules: dict[str, Any], to: dict[str, Any] | None = None) -> tuple[Step, ...]:
    """A Role with the rules, bound to Anna or to another subject."""
    return (
        create(ROLES, role("given", *rules), setup=True),
        create(ROLE_BINDINGS, binding("given", to), setup=True),
    )


def given_everywhere(*rules: dict[str, Any]) -> tuple[Step, ...]:
    """A ClusterRole with the rules, bound to Anna in all namespaces."""
    return (
        create(CLUSTER_ROLES, cluster_role("given", *rules), setup=True),
        create(CLUSTER_ROLE_BINDINGS, cluster_binding("given"), setup=True),
    )


def asked(step: RequestStep) -> RequestStep:
    """The step as Anna."""
    return RequestStep(
        step.method,
        step.path,
        step.body,
        step.query,
        step.content_type,
        step.accept,
        user=ANNA,
    )


def review(kind: str, path: str, **spec: Any) -> RequestStep:
    return create(path, obj("authorization.k8s.io/v1", kind, spec=spec))


def own_access(**attributes: str) -> RequestStep:
    path = f"{REVIEWS}/selfsubjectaccessreviews"
    return asked(review("SelfSubjectAccessReview", path, resourceAttributes=attributes))


def anothers_access(**spec: Any) -> RequestStep:
    return review("SubjectAccessReview", f"{REVIEWS}/subjectaccessreviews", **spec)


C = f"{CONFIGMAPS}/c"
MAP = create(CONFIGMAPS, configmap(), setup=True)
RESOURCE = {"verb": "get", "resource": "configmaps", "namespace": "$ns"}

_WITHOUT_RIGHTS = (
    case("get", asked(get(C))),
    case("list", asked(get(CONFIGMAPS))),
    case("list of all namespaces", asked(get("/api/v1/configmaps"))),
    case("list by name", asked(get(CONFIGMAPS, query={"fieldSelector": "metadata.name=c"}))),
    case("watch", watch(CONFIGMAPS, user=ANNA)),
    case("create", asked(create(CONFIGMAPS, configmap()))),
    case("create without a body", asked(create(CONFIGMAPS, None))),
    case("put", asked(put(C, configmap()))),
    case("patch", asked(merge(C, {"data": {"a": "b"}}))),
    case("delete", asked(delete(C))),
    case("delete of all", asked(delete(CONFIGMAPS))),
    case("status", asked(merge(f"{DEPLOYMENTS}/d/status", {"status": {}}))),
    case("scale", asked(get(f"{DEPLOYMENTS}/d/scale"))),
    case("a token", asked(create(f"{CORE}/serviceaccounts/anna/token", {}))),
    case("an eviction", asked(create(f"{PODS}/p/eviction", {}))),
    case("a namespace", asked(get("/api/v1/namespaces/$ns"))),
    case("namespaces", asked(get("/api/v1/namespaces"))),
    case("a new namespace", asked(create("/api/v1/namespaces", obj("v1", "Namespace", "x")))),
    case("what a namespace is finalized by", asked(put("/api/v1/namespaces/$ns/finalize", {}))),
    case("a cluster-scoped object", asked(get(f"{CLUSTER_ROLES}/view"))),
    case("an unknown resource", asked(get("/apis/apps/v1/namespaces/$ns/ships"))),
    case("an unknown group", asked(get("/apis/sea.example/v1/namespaces/$ns/ships/anna"))),
    case("an unknown path", asked(get("/ships"))),
    case("a metric", asked(get("/metrics"))),
    case("a dry run", asked(create(CONFIGMAPS, configmap(), query={"dryRun": "All"}))),
)

_WITH_RIGHTS = (
    case(
        "one verb",
        MAP,
        *given(rule("get")),
        asked(get(C)),
        asked(get(CONFIGMAPS)),
        asked(delete(C)),
    ),
    case("all verbs", *given(rule("*")), asked(create(CONFIGMAPS, configmap())), asked(delete(C))),
    case(
        "all resources of a group",
        *given(rule("create", "*", "apps")),
        asked(create(DEPLOYMENTS, deployment())),
        asked(create(CONFIGMAPS, configmap())),
    ),
    case(
        "a subresource",
        create(DEPLOYMENTS, deployment(), setup=True),
        *given(rule("patch", "deployments/status", "apps")),
        asked(merge(f"{DEPLOYMENTS}/d/status", {"status": {"replicas": 1}})),
        asked(merge(f"{DEPLOYMENTS}/d", {"spec": {"replicas": 1}})),
    ),
    case(
        "every status",
        create(DEPLOYMENTS, deployment(), setup=True),
        *given(rule("get", "*/status", "apps")),
        asked(get(f"{DEPLOYMENTS}/d/status")),
        asked(get(f"{DEPLOYMENTS}/d/scale")),
    ),
    case(
        "a name",
        MAP,
        *given(rule("get list watch patch create", resourceNames=["c"])),
        asked(get(C)),
        asked(get(f"{CONFIGMAPS}/d")),
        asked(get(CONFIGMAPS)),
        asked(get(CONFIGMAPS, query={"fieldSelector": "metadata.name=c"})),
        asked(create(CONFIGMAPS, configmap())),
        asked(merge(C, {"data": {"a": "b"}})),
    ),
    case(
        "a put that creates",
        *given(rule("update", "leases", "coordination.k8s.io")),
        asked(put(f"{LEASES}/l", obj("coordination.k8s.io/v1", "Lease", "l", spec={}))),
    ),
    case(
        "a put that creates, with both rights",
        *given(rule("update create", "leases", "coordination.k8s.io", resourceNames=["l"])),
        asked(put(f"{LEASES}/l", obj("coordination.k8s.io/v1", "Lease", "l", spec={}))),
    ),
    case(
        "accounts of the namespace",
        MAP,
        *given(rule("get"), to=group("system:serviceaccounts:$ns")),
        asked(get(C)),
    ),
    case(
        "accounts of another namespace",
        MAP,
        *given(rule("get"), to=group("system:serviceaccounts:default")),
        asked(get(C)),
    ),
    case("everyone", MAP, *given(rule("get"), to=group("system:authenticated")), asked(get(C))),
    case(
        "a user of the account's name",
        MAP,
        *given(rule("get"), to={"kind": "User", "apiGroup": GROUP, "name": ANNA}),
        asked(get(C)),
    ),
    case(
        "a ClusterRole in one namespace",
        MAP,
        create(CLUSTER_ROLES, cluster_role("reader", rule("get list")), setup=True),
        create(ROLE_BINDINGS, binding("$ns-reader", kind="ClusterRole"), setup=True),
        asked(get(C)),
        asked(get("/api/v1/configmaps")),
        asked(get("/api/v1/namespaces/default/configmaps")),
    ),
    case(
        "a ClusterRole everywhere",
        MAP,
        *given_everywhere(rule("get list")),
        asked(get(C)),
        asked(get("/api/v1/namespaces/default/configmaps/none")),
    ),
    case("its own namespace", *given(rule("get", "namespaces")), asked(get("/api/v1/namespaces"))),
    case(
        "a path",
        *given_everywhere({"verbs": ["get"], "nonResourceURLs": ["/ships/*"]}),
        asked(get("/ships/anna")),
        asked(get("/ships")),
    ),
    case("a missing role", create(ROLE_BINDINGS, binding("none"), setup=True), asked(get(C))),
    case(
        "a right that is taken away",
        MAP,
        *given(rule("get")),
        delete(f"{ROLE_BINDINGS}/given", setup=True),
        asked(get(C)),
    ),
)

MORE = role("more", rule("get list watch"), rule("create", "secrets", resourceNames=["s"]))

_GRANTS = (
    case("a role", *given(rule("create", "roles", GROUP)), asked(create(ROLES, MORE))),
    case(
        "a role whose rights are held",
        *given(rule("create", "roles", GROUP), rule("get list watch"), rule("create", "secrets")),
        asked(create(ROLES, MORE)),
    ),
    case(
        "a role with other names",
        *given(rule("create", "roles", GROUP), rule("get", resourceNames=["c"])),
        asked(create(ROLES, role("more", rule("get", resourceNames=["d"])))),
        asked(create(ROLES, role("more", rule("get")))),
        asked(create(ROLES, role("more", rule("get", resourceNames=["c"])))),
    ),
    case(
        "a role by escalation",
        *given(rule("create escalate", "roles", GROUP)),
        asked(create(ROLES, MORE)),
    ),
    case(
        "an update of a role",
        create(ROLES, MORE, setup=True),
        *given(rule("update patch", "roles", GROUP)),
        asked(merge(f"{ROLES}/more", {"metadata": {"labels": {"a": "b"}}})),
        asked(merge(f"{ROLES}/more", {"metadata": {"finalizers": ["sea.example/x"]}})),
        asked(merge(f"{ROLES}/more", {"rules": [rule("patch", "roles", GROUP)]})),
    ),
    case(
        "a ClusterRole",
        *given_everywhere(rule("create", "clusterroles", GROUP)),
        asked(create(CLUSTER_ROLES, cluster_role("more", rule("get", "secrets")))),
        asked(
            create(
                CLUSTER_ROLES,
                cluster_role("more", {"verbs": ["get"], "nonResourceURLs": ["/a", "/b"]}),
            )
        ),
    ),
    case(
        "an aggregated ClusterRole",
        *given_everywhere(rule("create", "clusterroles", GROUP)),
        asked(
            create(
                CLUSTER_ROLES,
                cluster_role(
                    "sum",
                    aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
                ),
            )
        ),
    ),
    case(
        "a binding",
        create(ROLES, MORE, setup=True),
        *given(rule("create", "rolebindings", GROUP)),
        asked(create(ROLE_BINDINGS, binding("more"))),
    ),
    case(
        "a binding whose rights are held",
        create(ROLES, MORE, setup=True),
        *given(rule("create", "rolebindings", GROUP), rule("*", "*")),
        asked(create(ROLE_BINDINGS, binding("more"))),
    ),
    case(
        "a binding to a role one may bind to",
        create(ROLES, MORE, setup=True),
        *given(
            rule("create", "rolebindings", GROUP),
            rule("bind", "roles", GROUP, resourceNames=["more"]),
        ),
        asked(create(ROLE_BINDINGS, binding("more"))),
        asked(create(ROLE_BINDINGS, binding("given", name="again"))),
    ),
    case(
        "a binding to a ClusterRole",
        *given(rule("create", "rolebindings", GROUP)),
        asked(create(ROLE_BINDINGS, binding("cluster-admin", kind="ClusterRole"))),
    ),
    case(
        "a binding to no role",
        *given(rule("create", "rolebindings", GROUP)),
        asked(create(ROLE_BINDINGS, binding("none", name="loose"))),
        asked(create(ROLE_BINDINGS, binding("$ns-none", kind="ClusterRole", name="loose"))),
    ),
    case(
        "a ClusterRoleBinding",
        create(CLUSTER_ROLES, cluster_role("more", rule("get", "secrets")), setup=True),
        *given_everywhere(rule("create", "clusterrolebindings", GROUP)),
        asked(create(CLUSTER_ROLE_BINDINGS, cluster_binding("more"))),
    ),
    case(
        "another subject",
        create(ROLES, MORE, setup=True),
        create(ROLE_BINDINGS, binding("more", account("berta")), setup=True),
        *given(rule("patch", "rolebindings", GROUP)),
        asked(merge(f"{ROLE_BINDINGS}/more", {"subjects": [account()]})),
    ),
)

_REVIEWS = (
    case("what one may", *given(rule("get")), own_access(**RESOURCE)),
    case("what one may not", *given(rule("get")), own_access(**{**RESOURCE, "verb": "list"})),
    case(
        "a name",
        *given(rule("get", resourceNames=["c"])),
        own_access(**RESOURCE),
        own_access(**RESOURCE, name="c"),
    ),
    case("everything", own_access(verb="*", resource="*", group="*")),
    case(
        "a path",
        asked(
            review(
                "SelfSubjectAccessReview",
                f"{REVIEWS}/selfsubjectaccessreviews",
                nonResourceAttributes={"verb": "get", "path": "/api"},
            )
        ),
    ),
    case(
        "another's access",
        *given(rule("get")),
        anothers_access(user=ANNA, resourceAttributes=RESOURCE),
        anothers_access(user="berta", resourceAttributes=RESOURCE),
        anothers_access(groups=["system:masters"], resourceAttributes=RESOURCE),
        anothers_access(resourceAttributes=RESOURCE),
        asked(anothers_access(user=ANNA, resourceAttributes=RESOURCE)),
    ),
    case(
        "another's access in a namespace",
        *given(rule("get"), rule("create", "localsubjectaccessreviews", "authorization.k8s.io")),
        asked(
            review(
                "LocalSubjectAccessReview",
                f"{REVIEWS}/namespaces/$ns/localsubjectaccessreviews",
                user=ANNA,
                resourceAttributes=RESOURCE,
            )
        ),
        asked(
            review(
                "LocalSubjectAccessReview",
                f"{REVIEWS}/namespaces/$ns/localsubjectaccessreviews",
                user=ANNA,
                resourceAttributes={**RESOURCE, "namespace": "default"},
            )
        ),
    ),
    case(
        "a missing role", create(ROLE_BINDINGS, binding("none"), setup=True), own_access(**RESOURCE)
    ),
    case(
        "all rules",
        *given(rule("get list"), rule("create", "pods", resourceNames=["p"])),
        asked(
            review("SelfSubjectRulesReview", f"{REVIEWS}/selfsubjectrulesreviews", namespace="$ns")
        ),
        asked(review("SelfSubjectRulesReview", f"{REVIEWS}/selfsubjectrulesreviews")),
    ),
)

CASES: list[Case] = [
    *grouped("no rights", _WITHOUT_RIGHTS),
    *grouped("rights", _WITH_RIGHTS),
    *grouped("grant", _GRANTS),
    *grouped("access review", _REVIEWS),
]
