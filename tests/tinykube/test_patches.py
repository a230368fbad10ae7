"""JSON patch, merge patch and strategic merge patch."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tinykube.api_client import (
    CONFIGMAPS,
    DEPLOYMENTS,
    Cluster,
    configmap,
    deployment,
)
from tinykube.handlers.patches import merge
from tinykube.json_patch import PatchFailed, apply_json_patch
from tinykube.request import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tinykube.strategic_merge import BadDirective, strategic_merge

POD = "core/v1.Pod"


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        pytest.param([{"op": "add", "path": "/a/1", "value": 9}], {"a": [1, 9, 2]}, id="insert"),
        pytest.param([{"op": "add", "path": "/a/-", "value": 9}], {"a": [1, 2, 9]}, id="append"),
        pytest.param([{"op": "remove", "path": "/a/0"}], {"a": [2]}, id="remove"),
        pytest.param([{"op": "replace", "path": "/a/0", "value": 5}], {"a": [5, 2]}, id="replace"),
        pytest.param(
            [{"op": "move", "from": "/a", "path": "/b~1c"}], {"b/c": [1, 2]}, id="move, escaped"
        ),
        pytest.param(
            [{"op": "copy", "from": "/a/0", "path": "/b"}], {"a": [1, 2], "b": 1}, id="copy"
        ),
        pytest.param(
            [{"op": "test", "path": "/a/0", "value": 1}, {"op": "remove", "path": "/a"}],
            {},
            id="test",
        ),
    ],
)
def test_json_patches_do_what_they_say(operations: list[Any], expected: Any) -> None:
    assert apply_json_patch({"a": [1, 2]}, operations) == expected


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/b"},
        {"op": "add", "path": "/b/c", "value": 1},
        {"op": "add", "path": "/a/7", "value": 1},
        {"op": "test", "path": "/a", "value": 1},
        {"op": "test", "path": "/a/0", "value": True},
        {"op": "test", "path": "/a", "value": [True, 2]},
        {"op": "paint", "path": "/a"},
        {"op": "add", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
    ],
)
def test_json_patches_that_cannot_be_done_fail(operation: dict[str, Any]) -> None:
    with pytest.raises(PatchFailed):
        apply_json_patch({"a": [1, 2]}, [operation])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text(max_size=2), json_values, max_size=4)


@given(json_objects, json_objects)
def test_a_merge_patch_applied_twice_changes_nothing_more(target: Any, patch: Any) -> None:
    once = merge(target, patch)

    assert merge(once, patch) == once


def test_lists_of_known_keys_are_merged_and_others_replaced() -> None:
    pod = {
        "spec": {
            "containers": [
                {"name": "web", "image": "a", "args": ["x", "y"]},
                {"name": "log", "image": "b"},
            ]
        }
    }
    patch = {"spec": {"containers": [{"name": "web", "image": "c", "args": ["z"]}]}}

    merged = strategic_merge(POD, pod, patch)

    assert merged["spec"]["containers"] == [
        {"name": "web", "image": "c", "args": ["z"]},
        {"name": "log", "image": "b"},
    ]


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param(
            {"containers": [{"$patch": "delete", "name": "web"}]}, ["log"], id="delete one"
        ),
        pytest.param(
            {"containers": [{"$patch": "replace"}, {"name": "new"}]}, ["new"], id="replace all"
        ),
        pytest.param({"containers": [{"name": "new"}]}, ["new", "web", "log"], id="add"),
        pytest.param(
            {
                "$setElementOrder/containers": [{"name": "log"}, {"name": "new"}, {"name": "web"}],
                "containers": [{"name": "new"}],
            },
            ["log", "new", "web"],
            id="order",
        ),
        pytest.param(
            {"$setElementOrder/containers": [{"name": "log"}, {"name": "web"}]},
            ["log", "web"],
            id="order alone",
        ),
        pytest.param({"$patch": "replace", "containers": [{"name": "x"}]}, ["x"], id="whole"),
        pytest.param({"$retainKeys": ["containers"]}, ["web", "log"], id="retain"),
    ],
)
def test_directives_are_followed(patch: dict[str, Any], expected: list[str]) -> None:
    pod = {"spec": {"containers": [{"name": "web"}, {"name": "log"}], "hostname": "h"}}

    merged = strategic_merge(POD, pod, {"spec": patch})["spec"]

    assert [container["name"] for container in merged["containers"]] == expected
    assert ("hostname" in merged) == (not {"$patch", "$retainKeys"} & set(patch))


def test_values_are_deleted_from_primitive_lists() -> None:
    obj = {"metadata": {"finalizers": ["a/b", "c/d"]}}
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/b"], "finalizers": ["e/f"]}}

    merged = strategic_merge("core/v1.ConfigMap", obj, patch)

    assert merged["metadata"]["finalizers"] == ["e/f", "c/d"]


def test_an_unknown_directive_is_refused() -> None:
    with pytest.raises(BadDirective):
        strategic_merge(POD, {}, {"$patch": "paint"})


async def test_nothing_stored_is_changed_by_a_patch() -> None:
    cluster = Cluster()
    await cluster.create(DEPLOYMENTS, deployment("web"))
    before = cluster.api.storage.get("deployments.apps", "default", "web")
    image = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}}}

    for kind, patch in (
        (STRATEGIC_MERGE_PATCH, image),
        (JSON_PATCH, [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]),
        (MERGE_PATCH, {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 2}}}}),
    ):
        answer = await cluster.send("PATCH", f"{DEPLOYMENTS}/web", patch, kind=kind)
        assert answer.status == 200, answer.body

    assert before is not None
    assert before["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:1.27"
    assert before["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == "25%"
    assert "labels" not in before["metadata"]


@pytest.mark.parametrize(
    ("kind", "body", "status", "message"),
    [
        (MERGE_PATCH, b"{", 400, "error decoding patch: unexpected end of JSON input"),
        (MERGE_PATCH, b"[]", 400, "cannot unmarshal array into Go value of type map[string]"),
        (JSON_PATCH, b"{}", 400, "cannot unmarshal object into Go value of type []handlers"),
        (JSON_PATCH, b'[{"op":"remove","path":"/x"}]', 422, "the server rejected our request"),
        (MERGE_PATCH, b'{"data":{"x":5}}', 422, "cannot unmarshal number into Go struct field"),
        (MERGE_PATCH, b'{"metadata":{"name":"b"}}', 400, "does not match the name on the URL (a)"),
        (MERGE_PATCH, b'{"kind":"Secret"}', 422, "patch: Invalid value"),
        ("application/apply-patch+yaml", b"{}", 415, "415: Unsupported Media Type"),
        ("text/plain", b"{}", 415, "415: Unsupported Media Type"),
    ],
)
async def test_a_patch_that_is_none_is_refused(
    kind: str, body: bytes, status: int, message: str
) -> None:
    cluster = Cluster()
    made = await cluster.create(CONFIGMAPS, configmap("a", x="1"))

    answer = await cluster.send("PATCH", f"{CONFIGMAPS}/a", body, kind=kind)

    assert answer.status == status
    assert message in answer.message
    assert await cluster.get(f"{CONFIGMAPS}/a") == made


async def test_a_patch_may_carry_the_version_it_rests_on() -> None:
    cluster = Cluster()
    made = await cluster.create(CONFIGMAPS, configmap("a"))
    version = made["metadata"]["resourceVersion"]
    await cluster.merge(f"{CONFIGMAPS}/a", {"data": {"x": "1"}})

    patch = {"metadata": {"resourceVersion": version}, "data": {"x": "2"}}
    answer = await cluster.send("PATCH", f"{CONFIGMAPS}/a", patch, kind=MERGE_PATCH)

    assert answer.status == 409
