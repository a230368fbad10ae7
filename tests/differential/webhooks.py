"""Admission webhooks: what they are told, what they may change, and what happens when they fail."""

from typing import Any

from tests.differential.cases import (
    CONFIGMAPS,
    DEPLOYMENTS,
    MUTATING,
    VALIDATING,
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
    put,
)

C = f"{CONFIGMAPS}/c"
ANY = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
WHERE = {"matchLabels": {"kubernetes.io/metadata.name": "$ns"}}


def hook(path: str, *operations: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": "hook.example.com",
        "clientConfig": {"url": f"$webhook{path}", "caBundle": "$bundle"},
        "rules": [{**ANY, "operations": list(operations or ("CREATE",))}],
        "namespaceSelector": WHERE,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
        **fields,
    }


def configuration(kind: str, *hooks: dict[str, Any]) -> dict[str, Any]:
    api_version = "admissionregistration.k8s.io/v1"
    return obj(api_version, f"{kind}WebhookConfiguration", "$ns", webhooks=list(hooks))


def mutating(*hooks: dict[str, Any]) -> RequestStep:
    return create(MUTATING, configuration("Mutating", *hooks), setup=True)


def validating(*hooks: dict[str, Any]) -> RequestStep:
    return create(VALIDATING, configuration("Validating", *hooks), setup=True)


MADE = create(CONFIGMAPS, configmap())

VERDICTS = (
    case("allowed", validating(hook("/allow")), MADE),
    case("denied", validating(hook("/deny")), MADE, get(C)),
    case("denied as a conflict", validating(hook("/deny-as-conflict")), MADE),
    case("denied without a word", validating(hook("/deny-silently")), MADE),
    case("a warning", validating(hook("/warn")), MADE),
    case(
        "an update denied",
        validating(hook("/deny", "UPDATE")),
        MADE,
        put(C, configmap(data={"a": "b"})),
        merge(C, {"data": {"a": "b"}}),
        get(C),
    ),
    case("a deletion denied", validating(hook("/deny", "DELETE")), MADE, delete(C), get(C)),
    case(
        "a deletion of many denied",
        validating(hook("/deny", "DELETE")),
        MADE,
        delete(CONFIGMAPS),
        get(CONFIGMAPS),
    ),
    case("another operation", validating(hook("/deny", "DELETE")), MADE),
    case(
        "another namespace",
        validating(hook("/deny", namespaceSelector={"matchLabels": {"a": "b"}})),
        MADE,
    ),
    case(
        "objects by label",
        validating(hook("/deny", objectSelector={"matchLabels": {"a": "b"}})),
        MADE,
        create(CONFIGMAPS, configmap("d", metadata={"labels": {"a": "b"}})),
    ),
    case(
        "a label that is taken away",
        validating(hook("/deny", "UPDATE", objectSelector={"matchLabels": {"a": "b"}})),
        create(CONFIGMAPS, configmap(metadata={"labels": {"a": "b"}})),
        merge(C, {"metadata": {"labels": None}}),
    ),
    case(
        "a dry run",
        validating(hook("/deny")),
        create(CONFIGMAPS, configmap(), query={"dryRun": "All"}),
    ),
)

CHANGES = (
    case("a label is added", mutating(hook("/label")), MADE, get(C)),
    case("what it is told of a creation", mutating(hook("/tell")), MADE),
    case(
        "what it is told of a generated name",
        mutating(hook("/tell")),
        create(CONFIGMAPS, configmap("", metadata={"generateName": "g-"})),
    ),
    case(
        "what it is told of an update",
        mutating(hook("/tell", "UPDATE")),
        MADE,
        merge(C, {"data": {"a": "b"}}),
    ),
    case(
        "what it is told of a dry run",
        mutating(hook("/tell")),
        create(CONFIGMAPS, configmap(), query={"dryRun": "All"}),
    ),
    case("an invalid change", mutating(hook("/bad-label")), MADE),
    case("a patch that does not apply", mutating(hook("/bad-patch")), MADE),
    case(
        "a change that is then denied",
        mutating(hook("/label")),
        validating(hook("/deny", objectSelector={"matchLabels": {"seen": "yes"}})),
        MADE,
    ),
    case(
        "two in the order of their names",
        mutating(hook("/label", name="a.example.com"), hook("/tell", name="b.example.com")),
        MADE,
    ),
    case(
        "a scale",
        validating(
            hook(
                "/deny",
                rules=[
                    {
                        "apiGroups": ["apps"],
                        "apiVersions": ["v1"],
                        "resources": ["deployments/scale"],
                        "operations": ["UPDATE"],
                    }
                ],
            )
        ),
        create(DEPLOYMENTS, deployment(), setup=True),
        merge(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 2}}),
    ),
    case(
        "a status",
        validating(
            hook(
                "/deny",
                rules=[
                    {
                        "apiGroups": ["*"],
                        "apiVersions": ["*"],
                        "resources": ["*/status"],
                        "operations": ["*"],
                    }
                ],
            )
        ),
        create(DEPLOYMENTS, deployment(), setup=True),
        merge(f"{DEPLOYMENTS}/d/status", {"status": {"replicas": 2}}),
        merge(f"{DEPLOYMENTS}/d", {"spec": {"replicas": 2}}),
    ),
)

FAILURES = (
    case("broken, and it matters", validating(hook("/broken")), MADE),
    case("broken, and ignored", validating(hook("/broken", failurePolicy="Ignore")), MADE),
    case("nonsense", validating(hook("/nonsense")), MADE),
    case("nonsense, and ignored", mutating(hook("/nonsense", failurePolicy="Ignore")), MADE),
    case(
        "side effects and a dry run",
        validating(hook("/allow", sideEffects="NoneOnDryRun")),
        create(CONFIGMAPS, configmap(), query={"dryRun": "All"}),
    ),
    case(
        "a configuration without a name",
        create(VALIDATING, configuration("Validating", hook("/allow", name=""))),
    ),
    case(
        "a configuration with a bad URL",
        create(
            VALIDATING,
            configuration("Validating", hook("/allow", clientConfig={"url": "http://a.example"})),
        ),
    ),
    case(
        "a configuration with side effects unknown",
        create(VALIDATING, configuration("Validating", hook("/allow", sideEffects="Some"))),
    ),
    case(
        "a configuration without review versions",
        create(VALIDATING, configuration("Validating", hook("/allow", admissionReviewVersions=[]))),
    ),
    case(
        "a configuration and its defaults",
        create(MUTATING, configuration("Mutating", hook("/allow"))),
    ),
)

CASES = [
    *grouped("webhook", VERDICTS),
    *grouped("webhook changes", CHANGES),
    *grouped("webhook fails", FAILURES),
]
