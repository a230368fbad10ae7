"""Patches of all three kinds, and what they cannot do."""

from tests.differential.cases import (
    CONFIGMAPS,
    DEPLOYMENTS,
    RV,
    SERVICES,
    RequestStep,
    case,
    configmap,
    create,
    deployment,
    get,
    grouped,
    json_patch,
    merge,
    service,
    strategic,
    template,
)

C = f"{CONFIGMAPS}/c"
D = f"{DEPLOYMENTS}/d"
FILLED = create(CONFIGMAPS, configmap(data={"a": "1", "b": "2"}))
TWO = [
    {"name": "web", "image": "nginx"},
    {"name": "log", "image": "fluent", "env": [{"name": "A", "value": "1"}]},
]
DEPLOYED = create(DEPLOYMENTS, deployment(template={**template(), "spec": {"containers": TWO}}))


def containers(*changed: dict[str, object]) -> dict[str, object]:
    return {"spec": {"template": {"spec": {"containers": list(changed)}}}}


PATCHES = (
    case("merge: add, change, remove", FILLED, merge(C, {"data": {"a": "9", "b": None, "c": "3"}})),
    case("merge: nothing", FILLED, merge(C, {}), get(C)),
    case("merge: into nothing", merge(C, {"data": {"a": "9"}})),
    case("merge: a list is replaced", DEPLOYED, merge(D, containers({"name": "x", "image": "y"}))),
    case("merge: a stale version", FILLED, merge(C, {"metadata": {"resourceVersion": "1"}})),
    case(
        "merge: the current version",
        create(CONFIGMAPS, configmap(), save=RV),
        merge(C, {"metadata": {"resourceVersion": "$rv"}, "data": {"x": "y"}}),
    ),
    case("merge: the name", FILLED, merge(C, {"metadata": {"name": "other"}})),
    case("merge: the kind", FILLED, merge(C, {"kind": "Secret"})),
    case("merge: a wrong type", FILLED, merge(C, {"data": {"a": 5}})),
    case("merge: broken", FILLED, merge(C, "{")),
    case("merge: a list", FILLED, merge(C, [])),
    case(
        "merge: an unknown field, strictly",
        FILLED,
        merge(C, {"dat": {}}, query={"fieldValidation": "Strict"}),
    ),
    case(
        "merge: an unknown field, warned about",
        FILLED,
        merge(C, {"dat": {}}, query={"fieldValidation": "Warn"}),
    ),
    case(
        "merge: a dry run", FILLED, merge(C, {"data": {"a": "9"}}, query={"dryRun": "All"}), get(C)
    ),
    case(
        "json: every operation",
        FILLED,
        json_patch(
            C,
            {"op": "test", "path": "/data/a", "value": "1"},
            {"op": "add", "path": "/data/c", "value": "3"},
            {"op": "replace", "path": "/data/a", "value": "9"},
            {"op": "copy", "from": "/data/c", "path": "/data/d"},
            {"op": "move", "from": "/data/b", "path": "/data/e"},
            {"op": "remove", "path": "/data/c"},
        ),
    ),
    case(
        "json: a list, at an index and at its end",
        DEPLOYED,
        json_patch(
            D,
            {
                "op": "add",
                "path": "/spec/template/spec/containers/0",
                "value": {"name": "first", "image": "x"},
            },
            {
                "op": "add",
                "path": "/spec/template/spec/containers/-",
                "value": {"name": "last", "image": "x"},
            },
            {"op": "remove", "path": "/spec/template/spec/containers/1"},
        ),
    ),
    case(
        "json: escaped names",
        create(CONFIGMAPS, configmap(metadata={"annotations": {"a/b": "1"}})),
        json_patch(C, {"op": "replace", "path": "/metadata/annotations/a~1b", "value": "2"}),
    ),
    case(
        "json: a test that fails",
        FILLED,
        json_patch(C, {"op": "test", "path": "/data/a", "value": "5"}),
    ),
    case(
        "json: a path that is not there",
        FILLED,
        json_patch(C, {"op": "replace", "path": "/data/z", "value": "5"}),
    ),
    case("json: a removal of nothing", FILLED, json_patch(C, {"op": "remove", "path": "/data/z"})),
    case("json: an operation unknown", FILLED, json_patch(C, {"op": "turn", "path": "/data/a"})),
    case(
        "json: an object",
        FILLED,
        RequestStep("PATCH", C, {"op": "add"}, content_type="application/json-patch+json"),
    ),
    case(
        "json: an invalid result",
        FILLED,
        json_patch(C, {"op": "add", "path": "/metadata/labels", "value": {"a b": "c"}}),
    ),
    case(
        "strategic: lists merge by key",
        DEPLOYED,
        strategic(D, containers({"name": "log", "image": "new"})),
    ),
    case(
        "strategic: a new element",
        DEPLOYED,
        strategic(D, containers({"name": "more", "image": "x"})),
    ),
    case(
        "strategic: an element deleted",
        DEPLOYED,
        strategic(D, containers({"name": "log", "$patch": "delete"})),
    ),
    case(
        "strategic: a list replaced",
        DEPLOYED,
        strategic(D, containers({"name": "only", "image": "x"}, {"$patch": "replace"})),
    ),
    case(
        "strategic: an order",
        DEPLOYED,
        strategic(
            D,
            {
                "spec": {
                    "template": {
                        "spec": {
                            "$setElementOrder/containers": [{"name": "log"}, {"name": "web"}],
                            "containers": [{"name": "log", "image": "fluent:2"}],
                        }
                    }
                }
            },
        ),
    ),
    case(
        "strategic: a deeper list",
        DEPLOYED,
        strategic(D, containers({"name": "log", "env": [{"name": "B", "value": "2"}]})),
    ),
    case(
        "strategic: retained keys",
        DEPLOYED,
        strategic(D, {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
    ),
    case("strategic: a map", FILLED, strategic(C, {"data": {"a": None, "c": "3"}})),
    case(
        "strategic: a map replaced", FILLED, strategic(C, {"data": {"$patch": "replace", "z": "1"}})
    ),
    case(
        "strategic: finalizers are a set",
        create(CONFIGMAPS, configmap(metadata={"finalizers": ["a.b/c"]})),
        strategic(C, {"metadata": {"finalizers": ["d.e/f"]}}),
        strategic(C, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/c", "d.e/f"]}}),
    ),
    case(
        "strategic: an element without its key", DEPLOYED, strategic(D, containers({"image": "x"}))
    ),
    case(
        "strategic: service ports merge by port",
        create(SERVICES, service(ports=[{"port": 80, "name": "a"}, {"port": 81, "name": "b"}])),
        strategic(f"{SERVICES}/s", {"spec": {"ports": [{"port": 81, "targetPort": 9}]}}),
    ),
    case("strategic: broken", DEPLOYED, strategic(D, "[")),
    case("strategic: a wrong type", DEPLOYED, strategic(D, {"spec": {"replicas": "three"}})),
    case(
        "a patch in a media type unknown",
        FILLED,
        RequestStep("PATCH", C, {}, content_type="application/json"),
    ),
    case(
        "a patch in YAML", FILLED, RequestStep("PATCH", C, "a: b", content_type="application/yaml")
    ),
)


CASES = grouped("patch", PATCHES)
