"""OpenAPI v3 documents, as far as kubectl apply, edit, create and explain read them."""

import hashlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from tinykube.builtin_types import Field, fields_of, is_kind, json_fields, type_of
from tinykube.request import JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tinykube.resources import Object, Registry, Resource

_GVK = "x-kubernetes-group-version-kind"
_META = "meta/v1.ObjectMeta"
_LIST_META = "meta/v1.ListMeta"
_SCALARS: dict[str, Object] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "number": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "duration": {"type": "string"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}], "type": "string"},
    "intorstring": {"type": "string", "format": "int-or-string"},
    "json": {"type": "object"},
    "items": {"type": "array", "items": {"type": "string"}},
    "any": {},
}
_PACKAGES = {
    "meta": "io.k8s.apimachinery.pkg.apis.meta",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
}
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "pretty")


def document(registry: Registry, path: str, version: str) -> Object | None:
    """The index for an empty path, else the document of a group version like `apis/apps/v1`.

    None if that group version is not served; `version` is the release in its `info`.
    """
    groups = _group_versions(registry)
    if not path:
        links = {name: {"serverRelativeURL": _link(name, own)} for name, own in groups.items()}
        return {"paths": links}
    if path not in groups:
        return None
    schemas: Object = {}
    paths: Object = {}
    for resource in groups[path]:
        _add_schemas(schemas, resource)
        paths |= _paths(resource)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.items()))},
    }


def _group_versions(registry: Registry) -> dict[str, list[Resource]]:
    """The resources by the path of their document, `api/v1` or `apis/apps/v1`."""
    found: dict[str, list[Resource]] = {}
    for resource in registry:
        found.setdefault(resource.prefix[1:], []).append(resource)
    return found


def _link(path: str, resources: list[Resource]) -> str:
    """The URL of a document, with a hash of its resources by which clients cache it."""
    digest = hashlib.sha256(msgspec.msgpack.encode([_hashed_fields(one) for one in resources]))
    return f"/openapi/v3/{path}?hash={digest.hexdigest()[:32].upper()}"


def _hashed_fields(resource: Resource) -> Any:
    """What the hash of a document depends on for one resource: plural, verbs, custom schema."""
    return (resource.plural, resource.verbs, resource.custom and resource.custom.schema)


def _add_schemas(schemas: Object, resource: Resource) -> None:
    """Add the schemas of a resource, its list, and all types that they refer to, to `schemas`."""
    if resource.custom is not None:
        schemas[_schema_name(resource)] = _custom_schema(resource, resource.custom.schema)
        needed = [_META]
    else:
        needed = [_type_name(resource)]
        needed += [type_of(*resource.body_kind(sub.name)) for sub in resource.subresources]
    if "list" in resource.verbs:
        schemas[f"{_schema_name(resource)}List"] = _list_schema(resource)
        needed.append(_LIST_META)
    for name in _reachable(needed, schemas):
        schemas[_component(name)] = _schema(name)
    if resource.custom is None and (own := schemas.get(_schema_name(resource))) is not None:
        schemas[_schema_name(resource)] = own | {_GVK: [_group_version_kind(resource)]}


def _reachable(names: list[str], known: Object) -> Iterator[str]:
    """The given types and all types that they refer to, each once.

    Left out are types not in the table of built-ins, and those with a schema in `known`.
    """
    waiting, seen = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen or _component(name) in known or fields_of(name) is None:
            continue
        seen.add(name)
        yield name
        waiting += [field.type for field in json_fields(name).values() if field.is_message]


@cache
def _schema(type_name: str) -> Object:
    """The schema of a built-in type, cached: not to be modified."""
    fields = json_fields(type_name)
    properties = {name: _property_schema(field) for name, field in sorted(fields.items())}
    if is_kind(type_name):
        properties = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}} | properties
    required = sorted(name for name, field in fields.items() if field.required)
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
    }


def _property_schema(field: Field) -> Object:
    """The schema of a field with its shape and its patch strategy and merge key."""
    value: Object = (
        {"$ref": f"#/components/schemas/{_component(field.type)}"}
        if field.is_message
        else _SCALARS[field.type]
    )
    match field.shape:
        case "list":
            value = {"type": "array", "items": value}
        case "map":
            value = {"type": "object", "additionalProperties": value}
        case "one":
            # a $ref may have no siblings, so allOf wraps it
            value = {"allOf": [value]} if field.is_message and field.patch else value
    patch = {"x-kubernetes-patch-strategy": field.patch} if field.patch else {}
    key = {"x-kubernetes-patch-merge-key": field.merge_key} if field.merge_key else {}
    return {**value, **patch, **key}


def _custom_schema(resource: Resource, written: Object) -> Object:
    """The schema of a CRD as a component, with its group, version and kind.

    Its apiVersion, kind and metadata are replaced by the standard ones.
    """
    properties = {
        "apiVersion": {
            "type": "string",
            "description": "The version of this representation of the object.",
        },
        "kind": {"type": "string", "description": "The kind of resource this object is."},
        "metadata": {
            "allOf": [{"$ref": f"#/components/schemas/{_component(_META)}"}],
            "description": "Standard object metadata.",
        },
    }
    return {
        "type": "object",
        **written,
        "properties": {**written.get("properties", {}), **properties},
        _GVK: [_group_version_kind(resource)],
    }


def _list_schema(resource: Resource) -> Object:
    """The schema of a resource's list, which refers to that of its items."""
    items = {"$ref": f"#/components/schemas/{_schema_name(resource)}"}
    kind = _group_version_kind(resource) | {"kind": resource.list_kind or f"{resource.kind}List"}
    return {
        "type": "object",
        "description": f"A list of {resource.kind}.",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"$ref": f"#/components/schemas/{_component(_LIST_META)}"},
            "items": {"type": "array", "items": items},
        },
        _GVK: [kind],
    }


def _paths(resource: Resource) -> Object:
    """The operations of a resource by path and method, for its collection and one object.

    Those of a namespaced one are within a namespace; subresources and watches have none.
    """
    prefix = (
        f"{resource.prefix}/namespaces/{{namespace}}" if resource.namespaced else resource.prefix
    )
    collection, single = f"{prefix}/{resource.plural}", f"{prefix}/{resource.plural}/{{name}}"
    by_path = {
        collection: {"list": "get", "create": "post", "deletecollection": "delete"},
        single: {"get": "get", "update": "put", "patch": "patch", "delete": "delete"},
    }
    return {
        path: {
            method: _operation(resource, verb)
            for verb, method in verbs.items()
            if verb in resource.verbs
        }
        for path, verbs in by_path.items()
        if any(verb in resource.verbs for verb in verbs)
    }


def _operation(resource: Resource, verb: str) -> Object:
    """The OpenAPI operation of a verb; writes have parameters and body, delete parameters only."""
    reference = {"$ref": f"#/components/schemas/{_schema_name(resource)}"}
    content = {JSON: {"schema": reference}}
    operation: Object = {
        "x-kubernetes-action": {"create": "post", "update": "put"}.get(verb, verb),
        _GVK: _group_version_kind(resource),
        "responses": {"200": {"description": "OK", "content": content}},
    }
    if verb in ("create", "update", "patch"):
        names = (*_WRITE_PARAMETERS, *(("force",) if verb == "patch" else ()))
        operation["parameters"] = [_query_parameter(name) for name in names]
        operation["requestBody"] = {
            "required": True,
            "content": _patch_content(resource) if verb == "patch" else content,
        }
    elif verb == "delete":
        names = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
        operation["parameters"] = [_query_parameter(name) for name in names]
    return operation


def _patch_content(resource: Resource) -> Object:
    """The media types of patches in a requestBody; strategic merge patch for built-ins only."""
    own = () if resource.custom else (STRATEGIC_MERGE_PATCH,)
    return {media: {"schema": {"type": "object"}} for media in (JSON_PATCH, MERGE_PATCH, *own)}


def _query_parameter(name: str) -> Object:
    """The OpenAPI v3 parameter object of a query parameter; its type is always string."""
    return {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}


def _group_version_kind(resource: Resource) -> Object:
    """Group, version and kind of a resource, as in `x-kubernetes-group-version-kind`."""
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _type_name(resource: Resource) -> str:
    """The name of a built-in resource's type in the table, such as `apps/v1.Deployment`."""
    return type_of(resource.api_version, resource.kind)


def _schema_name(resource: Resource) -> str:
    """The component name: of a built-in that of its type, else such as `com.example.v1.Widget`."""
    if resource.custom is None:
        return _component(_type_name(resource))
    backwards = ".".join(reversed(resource.group.split(".")))
    return f"{backwards}.{resource.version}.{resource.kind}"


def _component(type_name: str) -> str:
    """The schema name of a type: `apps/v1.Deployment` is `io.k8s.api.apps.v1.Deployment`."""
    package, _, rest = type_name.partition("/")
    return f"{_PACKAGES.get(package, f'io.k8s.api.{package}')}.{rest}"
