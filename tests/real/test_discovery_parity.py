"""Discovery and OpenAPI of an embedded cluster are those of a real one, field by field."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from hanse.kube.transport import JSON, Request, Transport
from hanse.local.real.fleet import RealFleet
from tinykube.builtin_resources import BUILTINS
from tinykube.discovery import respond
from tinykube.resources import Registry

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
PREFIXES = sorted({resource.prefix for resource in BUILTINS.resources})
REGISTRY = Registry(BUILTINS)


@pytest.fixture
async def real(real_clusters: RealFleet) -> AsyncIterator[Transport]:
    transport = real_clusters.broker.connect()
    yield transport
    await transport.close()


async def both(real: Transport, path: str, accept: str = JSON) -> tuple[Any, Any]:
    """The responses of the embedded and of the real cluster."""
    request = Request("GET", path, accept=accept)
    embedded, real_response = respond(REGISTRY, request), await real.send(request)
    assert embedded is not None
    return msgspec.json.decode(embedded.body), msgspec.json.decode(real_response.body)


async def test_resources_are_listed_alike(real: Transport) -> None:
    for prefix in PREFIXES:
        embedded, real_response = await both(real, prefix)
        listed = {one["name"]: one for one in real_response["resources"]}

        for one in embedded["resources"]:
            expected = listed[one["name"]]
            expected.pop("storageVersionHash", None)
            assert one == expected


async def test_resources_are_discovered_alike(real: Transport) -> None:
    for path in ("/api", "/apis"):
        embedded, real_response = await both(real, path, AGGREGATED)
        listed = {
            (group["metadata"].get("name"), version["version"], one["resource"]): one
            for group in real_response["items"]
            for version in group["versions"]
            for one in version["resources"]
        }

        for group in embedded["items"]:
            for version in group["versions"]:
                for one in version["resources"]:
                    key = (group["metadata"].get("name"), version["version"], one["resource"])
                    assert one == _with_served_subresources(listed[key], one)


def _with_served_subresources(real_response: Any, embedded: Any) -> Any:
    """A resource without the subresources that the embedded cluster does not serve."""
    known = {sub["subresource"] for sub in embedded.get("subresources", ())}
    kept = [sub for sub in real_response.get("subresources", ()) if sub["subresource"] in known]
    rest = {name: value for name, value in real_response.items() if name != "subresources"}
    return rest | ({"subresources": kept} if kept else {})


@pytest.mark.parametrize("prefix", PREFIXES)
async def test_kinds_have_the_same_fields(real: Transport, prefix: str) -> None:
    async with asyncio.timeout(30):
        embedded, real_response = await both(real, f"/openapi/v3{prefix}")
    schemas = real_response["components"]["schemas"]

    for name, schema in embedded["components"]["schemas"].items():
        if name in schemas:
            assert _fields(schema) == _fields(schemas[name]), name
            assert schema.get("required", []) == sorted(schemas[name].get("required", [])), name


def _fields(schema: Any) -> dict[str, str]:
    """The fields of an object by the type they have."""
    return {name: _type(value) for name, value in schema.get("properties", {}).items()}


def _type(value: Any) -> str:
    match value:
        case {"items": inner}:
            return f"[]{_type(inner)}"
        case {"additionalProperties": inner} if isinstance(inner, dict):
            return f"map {_type(inner)}"
        case {"allOf": [inner]} | {"anyOf": [inner]}:
            return _type(inner)
        case {"$ref": reference}:
            return str(_INLINED_TYPES.get(reference.rpartition(".")[2], reference))
        case _:
            return str(value.get("type", "any"))


_INLINED_TYPES = {
    "Time": "string",
    "MicroTime": "string",
    "Quantity": "string",
    "IntOrString": "string",
    "FieldsV1": "object",
    "RawExtension": "object",
    "JSON": "any",
    "JSONSchemaPropsOrArray": "any",
    "JSONSchemaPropsOrBool": "any",
    "JSONSchemaPropsOrStringArray": "any",
}
"""Types that a real server references and the embedded one inlines."""
