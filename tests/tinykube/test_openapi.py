from typing import Any

import msgspec
import pytest

from tinykube.builtin_resources import BUILTINS
from tinykube.builtin_types import fields_of, type_of
from tinykube.discovery import respond
from tinykube.request import Request
from tinykube.resources import CustomVersion, Object, Registry, Resource

GVK = "x-kubernetes-group-version-kind"
SCHEMA: Object = {
    "type": "object",
    "description": "A ship of the league.",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"masts": {"type": "integer", "description": "How many masts."}},
        }
    },
}


def ship(schema: Object) -> Resource:
    return Resource("sea.example.com", "v1", "Ship", "ships", custom=CustomVersion(schema=schema))


@pytest.fixture
def registry() -> Registry:
    made = Registry(BUILTINS)
    made.define("ships", (ship(SCHEMA),))
    return made


def fetch(registry: Registry, path: str) -> Any:
    found = respond(registry, Request("GET", path))
    assert found is not None
    return msgspec.json.decode(found.body)


def references(value: Any) -> set[str]:
    match value:
        case dict():
            own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
            return own.union(*(references(inner) for inner in value.values()))
        case list():
            return set().union(*(references(inner) for inner in value))
        case _:
            return set()


def test_the_index_leads_to_every_group_version(registry: Registry) -> None:
    index = fetch(registry, "/openapi/v3")["paths"]

    assert {"api/v1", "apis/apps/v1", "apis/sea.example.com/v1"} <= set(index)
    for entry in index.values():
        path, _, parameter = entry["serverRelativeURL"].partition("?")
        assert parameter.startswith("hash=")
        assert fetch(registry, path)["openapi"] == "3.0.0"


def test_a_hash_changes_when_its_schema_does_and_only_then(registry: Registry) -> None:
    before = fetch(registry, "/openapi/v3")["paths"]
    registry.define("ships", (ship(SCHEMA | {"description": "A boat."}),))
    after = fetch(registry, "/openapi/v3")["paths"]

    changed = {place for place in before if before[place] != after[place]}

    assert changed == {"apis/sea.example.com/v1"}


def places() -> list[str]:
    return sorted({resource.prefix for resource in BUILTINS.resources})


@pytest.mark.parametrize("place", places())
def test_every_reference_is_resolved_within_its_document(registry: Registry, place: str) -> None:
    found = fetch(registry, f"/openapi/v3{place}")

    names = {f"#/components/schemas/{name}" for name in found["components"]["schemas"]}

    assert references(found) <= names


@pytest.mark.parametrize("resource", BUILTINS.resources, ids=lambda one: one.group_resource)
def test_every_built_in_kind_has_its_fields_and_operations(
    registry: Registry, resource: Resource
) -> None:
    found = fetch(registry, f"/openapi/v3{resource.prefix}")
    gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}

    own = [one for one in found["components"]["schemas"].values() if gvk in one.get(GVK, [])]
    operations = [one[method] for one in found["paths"].values() for method in one]

    assert fields_of(type_of(resource.api_version, resource.kind)) is not None
    assert [set(one["properties"]) >= {"apiVersion", "kind", "metadata"} for one in own] == [True]
    assert gvk in [operation[GVK] for operation in operations]


def patch_of(registry: Registry, path: str) -> Any:
    place = path.split("/namespaces", maxsplit=1)[0]
    return fetch(registry, f"/openapi/v3{place}")["paths"][path]["patch"]


def test_patch_operations_have_the_parameter_field_validation(registry: Registry) -> None:
    patch = patch_of(registry, "/apis/apps/v1/namespaces/{namespace}/deployments/{name}")

    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]


def test_custom_resources_know_no_strategic_merge(registry: Registry) -> None:
    patch = patch_of(registry, "/apis/sea.example.com/v1/namespaces/{namespace}/ships/{name}")

    assert set(patch["requestBody"]["content"]) == {
        "application/json-patch+json",
        "application/merge-patch+json",
    }


def test_a_custom_schema_is_served_as_it_was_written(registry: Registry) -> None:
    found = fetch(registry, "/openapi/v3/apis/sea.example.com/v1")

    own = found["components"]["schemas"]["com.example.sea.v1.Ship"]

    assert own["description"] == SCHEMA["description"]
    assert own["required"] == ["spec"]
    assert own["properties"]["spec"] == SCHEMA["properties"]["spec"]
    assert own["properties"]["metadata"]["allOf"] == [
        {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
    ]


def test_lists_that_are_merged_by_key_say_so(registry: Registry) -> None:
    schemas = fetch(registry, "/openapi/v3/apis/apps/v1")["components"]["schemas"]

    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]

    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    assert "containers" in schemas["io.k8s.api.core.v1.PodSpec"]["required"]


def test_version_2_describes_nothing(registry: Registry) -> None:
    kind = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"

    answer = respond(registry, Request("GET", "/openapi/v2", accept=kind))

    assert answer is not None
    assert (answer.status, answer.body) == (200, b"\n\x032.0")  # field 1 is the version of Swagger
    assert fetch(registry, "/openapi/v2")["definitions"] == {}
