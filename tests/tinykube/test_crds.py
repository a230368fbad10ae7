"""CustomResourceDefinitions and custom resources."""

from copy import deepcopy
from typing import Any

import pytest

from tests.tinykube.api_client import CRDS, WIDGETS, Cluster, widget, widget_crd
from tinykube.request import MERGE_PATCH, STRATEGIC_MERGE_PATCH

WIDGET_CRD = f"{CRDS}/widgets.example.com"


async def with_widgets() -> Cluster:
    cluster = Cluster()
    await cluster.create(CRDS, widget_crd())
    return cluster


async def test_a_definition_is_accepted_and_served() -> None:
    cluster = Cluster()
    before = await cluster.send("GET", WIDGETS)

    await cluster.create(CRDS, widget_crd())

    assert before.status == 404
    assert await cluster.names(WIDGETS) == []
    crd = await cluster.get(WIDGET_CRD)
    conditions = {c["type"]: c["status"] for c in crd["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert crd["status"]["acceptedNames"]["listKind"] == "WidgetList"
    assert crd["status"]["storedVersions"] == ["v1"]


async def test_objects_get_defaults_and_lose_what_the_schema_does_not_know() -> None:
    cluster = await with_widgets()

    answer = await cluster.send(
        "POST", WIDGETS, widget("w", ports=[{"name": "a"}], colour="red", anything={"any": 1})
    )

    assert answer.body["spec"] == {
        "size": 1,
        "color": "red",
        "ports": [{"name": "a", "protocol": "TCP"}],
        "anything": {"any": 1},
    }
    assert answer.headers["warning"] == '299 - "unknown field \\"spec.colour\\""'


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"size": "big"},
            'spec.size: Invalid value: "string": spec.size in body must be of type integer: '
            '"string"',
            id="type",
        ),
        pytest.param(
            {"size": 0},
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
            id="minimum",
        ),
        pytest.param(
            {"size": 10},
            "spec.size: Invalid value: 10: spec.size in body should be less than or equal to 9",
            id="maximum",
        ),
        pytest.param(
            {"color": "pink"},
            'spec.color: Unsupported value: "pink": supported values: "red", "blue"',
            id="enum",
        ),
        pytest.param(
            {"code": "ABC"},
            "spec.code: Invalid value: \"ABC\": spec.code in body should match '^[a-z]+$'",
            id="pattern",
        ),
        pytest.param(
            {"code": "abcdef"}, "spec.code: Too long: may not be more than 5 bytes", id="length"
        ),
        pytest.param(
            {"code": "a"},
            'spec.code: Invalid value: "a": spec.code in body should be at least 2 chars long',
            id="short",
        ),
        pytest.param(
            {"when": "noon"},
            'spec.when: Invalid value: "noon": spec.when in body must be of type date-time: "noon"',
            id="format",
        ),
        pytest.param(
            {"notes": {"a": 1}},
            'spec.notes.a: Invalid value: "integer": spec.notes.a in body must be of type string: '
            '"integer"',
            id="map value",
        ),
        pytest.param(
            {"tags": ["a", "b", "c", "d"]},
            "spec.tags: Too many: 4: must have at most 3 items",
            id="items",
        ),
        pytest.param(
            {"tags": ["a", "a"]}, 'spec.tags[1]: Duplicate value: "a"', id="list as a set"
        ),
        pytest.param(
            {"ports": [{"name": "a"}, {"name": "a"}]},
            'spec.ports[1]: Duplicate value: {"name":"a"}',
            id="list as a map",
        ),
        pytest.param({"ports": [{}]}, "spec.ports[0].name: Required value", id="required"),
        pytest.param(
            {"either": True},
            'spec.either: Invalid value: "boolean": spec.either in body must be of type '
            'integer,string: "boolean"',
            id="int or string",
        ),
        pytest.param(
            {"anything": {}, "code": "abc"},
            '"spec" must validate one and only one schema (oneOf). Found 2 valid alternatives',
            id="one of",
        ),
        pytest.param(
            {"template": {"kind": "Pod"}}, "spec.template.apiVersion: Required value", id="embedded"
        ),
    ],
)
async def test_a_schema_violation_has_the_message_of_kubernetes(
    spec: dict[str, Any], message: str
) -> None:
    cluster = await with_widgets()

    answer = await cluster.send("POST", WIDGETS, widget("w", **spec))

    assert answer.status == 422
    assert answer.message.startswith('Widget.example.com "w" is invalid: ')
    assert message in answer.message


@pytest.mark.parametrize("value", [{"maybe": None}, {"either": 1}, {"either": "50%"}])
async def test_a_schema_lets_pass_what_it_allows(value: dict[str, Any]) -> None:
    cluster = await with_widgets()

    made = await cluster.create(WIDGETS, widget("w", **value))

    assert made["spec"] == {"size": 1, "color": "red", **value}


async def test_status_is_checked_and_written_alone() -> None:
    cluster = await with_widgets()
    await cluster.create(WIDGETS, {**widget("w"), "status": {"ready": True}})
    path = f"{WIDGETS}/w"

    bad = {"status": {"ready": "yes"}}
    wrong = await cluster.send("PATCH", f"{path}/status", bad, kind=MERGE_PATCH)
    done = await cluster.merge(
        f"{path}/status",
        {"status": {"ready": True}, "spec": {"size": 9}, "metadata": {"labels": {"a": "b"}}},
    )

    assert "status.ready in body must be of type boolean" in wrong.message
    assert done["spec"]["size"] == 1
    assert "labels" not in done["metadata"]
    assert done["metadata"]["generation"] == 1


async def test_an_update_needs_a_version_and_a_strategic_patch_is_not_known() -> None:
    cluster = await with_widgets()
    await cluster.create(WIDGETS, widget("w"))

    put = await cluster.send("PUT", f"{WIDGETS}/w", widget("w"))
    patched = await cluster.send("PATCH", f"{WIDGETS}/w", {"spec": {}}, kind=STRATEGIC_MERGE_PATCH)

    assert "metadata.resourceVersion: Invalid value: 0" in put.message
    assert patched.status == 415


async def test_objects_are_served_in_every_version_and_stored_in_one() -> None:
    cluster = await with_widgets()
    older = WIDGETS.replace("/v1/", "/v1beta1/")
    old = {**widget("w"), "apiVersion": "example.com/v1beta1"}

    created = await cluster.send("POST", older, old)
    current = await cluster.get(f"{WIDGETS}/w")

    assert created.status == 201
    assert created.body["apiVersion"] == "example.com/v1beta1"
    assert created.headers["warning"] == '299 - "example.com/v1beta1 Widget is deprecated"'
    assert current["apiVersion"] == "example.com/v1"
    stored = cluster.api.storage.get("widgets.example.com", "default", "w")
    assert stored is not None
    assert stored["apiVersion"] == "example.com/v1"


async def test_an_object_wrong_before_may_stay_wrong_but_not_become_worse() -> None:
    cluster = await with_widgets()
    await cluster.create(WIDGETS, widget("w", size=9))
    crd = await cluster.get(WIDGET_CRD)
    properties = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"]["properties"]["size"]["maximum"] = 5
    assert (await cluster.send("PUT", WIDGET_CRD, crd)).status == 200

    other = await cluster.merge(f"{WIDGETS}/w", {"spec": {"code": "abc"}})
    worse = await cluster.send("PATCH", f"{WIDGETS}/w", {"spec": {"size": 8}}, kind=MERGE_PATCH)

    assert other["spec"]["size"] == 9
    assert worse.status == 422


async def test_a_definition_is_removed_after_its_last_object() -> None:
    cluster = await with_widgets()
    await cluster.create(WIDGETS, widget("free"))
    held = widget("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await cluster.create(WIDGETS, held)

    going = await cluster.send("DELETE", WIDGET_CRD)
    left = await cluster.names(WIDGETS)
    late = await cluster.send("POST", WIDGETS, widget("late"))
    await cluster.merge(f"{WIDGETS}/held", {"metadata": {"finalizers": None}})

    assert going.status == 200
    assert left == ["held"]
    assert late.status == 405
    assert (await cluster.send("GET", WIDGET_CRD)).status == 404
    assert (await cluster.send("GET", WIDGETS)).status == 404


async def test_definitions_survive_in_a_snapshot() -> None:
    cluster = await with_widgets()
    await cluster.create(WIDGETS, widget("w"))

    again = Cluster(snapshot=cluster.api.storage.snapshot())

    assert await again.names(WIDGETS) == ["w"]
    await again.create(WIDGETS, widget("x"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group": "nodot"}, "spec.group: Invalid value"),
        ({"scope": "Galaxy"}, 'spec.scope: Unsupported value: "Galaxy"'),
        ({"versions": []}, "must have exactly one version marked as storage version"),
        ({"names": {"plural": "gadgets", "kind": "Gadget"}}, 'must be spec.names.plural+"."+'),
    ],
)
async def test_a_definition_that_contradicts_itself_is_refused(
    change: dict[str, Any], message: str
) -> None:
    answer = await Cluster().send("POST", CRDS, widget_crd(**change))

    assert answer.status == 422
    assert message in answer.message


async def test_two_definitions_cannot_share_a_kind() -> None:
    cluster = await with_widgets()
    other = widget_crd(names={"plural": "widgetries", "kind": "Widget"})
    other["metadata"]["name"] = "widgetries.example.com"

    await cluster.create(CRDS, other)

    crd = await cluster.get(f"{CRDS}/widgetries.example.com")
    conditions = {c["type"]: c for c in crd["status"]["conditions"]}
    assert conditions["NamesAccepted"]["reason"] == "KindConflict"
    assert conditions["Established"]["status"] == "False"


async def test_scope_and_group_stay() -> None:
    cluster = await with_widgets()

    answer = await cluster.send(
        "PATCH", WIDGET_CRD, {"spec": {"scope": "Cluster"}}, kind=MERGE_PATCH
    )

    assert 'spec.scope: Invalid value: "Cluster": field is immutable' in answer.message


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"rule": "self."}, "compilation failed"),
        ({"rule": "quantity('1').isInteger()"}, "function isInteger is not available"),
        ({"rule": "self == old"}, "variable old is not available"),
        ({"rule": "true", "optionalOldSelf": True}, "optionalOldSelf is not available"),
        ({"rule": " "}, "rule is not specified"),
        ({"rule": "true", "reason": "Because"}, "must be one of FieldValueInvalid"),
    ],
    ids=["syntax", "function", "variable", "optional", "empty", "reason"],
)
async def test_a_rule_that_cannot_be_evaluated_is_refused_with_its_definition(
    rule: dict[str, Any], why: str
) -> None:
    definition = deepcopy(widget_crd())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["x-kubernetes-validations"] = [rule]

    answer = await Cluster().send("POST", CRDS, definition)

    assert answer.status == 422
    assert "properties[spec].x-kubernetes-validations[0]" in answer.message
    assert why in answer.message


async def test_a_value_that_a_new_rule_refuses_may_stay_as_it_is() -> None:
    cluster = await with_widgets()
    await cluster.create(WIDGETS, widget("w", size=3))
    definition = await cluster.get(WIDGET_CRD)
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["size"]["x-kubernetes-validations"] = [{"rule": "self < 3"}]
    await cluster.send("PUT", WIDGET_CRD, definition)

    others = await cluster.send(
        "PATCH", f"{WIDGETS}/w", {"spec": {"color": "blue"}}, kind=MERGE_PATCH
    )
    worse = await cluster.send("PATCH", f"{WIDGETS}/w", {"spec": {"size": 4}}, kind=MERGE_PATCH)

    assert others.status == 200
    assert worse.status == 422
    assert "spec.size: Invalid value: 4: failed rule: self < 3" in worse.message
