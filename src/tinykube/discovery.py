"""Discovery documents, health and version endpoints, made from the registry."""

import hashlib
import platform
import sys
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from tinykube import openapi
from tinykube.request import JSON, RequestLike, Response
from tinykube.resources import Group, Object, Registry, Resource, Subresource

VERSION = "v1.35.4"
"""The Kubernetes release that is emulated."""

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
_CHECKS = {"/healthz": "healthz", "/livez": "livez", "/readyz": "readyz"}
_cached: WeakKeyDictionary[Registry, tuple[int, dict[tuple[str, str], Response]]] = (
    WeakKeyDictionary()
)


def respond(registry: Registry, request: RequestLike) -> Response | None:
    """The response to a GET or HEAD of discovery, health, version or OpenAPI.

    None for other methods and paths. A 304 if the request's If-None-Match has the ETag of the
    document; health checks and OpenAPI v2 are always sent in full. Slashes at the end of the path
    are ignored.
    """
    if request.method not in ("GET", "HEAD"):
        return None
    path = request.path.rstrip("/") or "/"
    if check := _health(path, request):
        return check
    if path == "/openapi/v2":
        return _openapi_v2(request.accept)
    answer = _cached_document(registry, path, _aggregated_version(request.accept))
    if answer is None:
        return None
    return _unless_cached(request, answer)


def _cached_document(registry: Registry, path: str, aggregated_version: str) -> Response | None:
    """The response to a GET of discovery, `/version` or OpenAPI v3; None if nothing is at the path.

    It is cached until the registry changes. `aggregated_version` is the version of aggregated
    discovery that the client accepts, such as v2; empty for the plain documents.
    """
    generation, documents = _cached.get(registry, (-1, {}))
    if generation != registry.generation:
        documents = {}
        _cached[registry] = (registry.generation, documents)
    key = (path, aggregated_version if path in ("/api", "/apis") else "")
    if key not in documents:
        made = _build_document(registry, path, aggregated_version)
        if made is None:
            return None
        documents[key] = made
    return documents[key]


def _build_document(registry: Registry, path: str, aggregated_version: str) -> Response | None:
    """The response at a path of discovery, `/version` or OpenAPI v3, built anew.

    None if nothing is served at it. `aggregated_version` matters only at `/api` and `/apis`; it is
    empty for the plain document.
    """
    match path.split("/")[1:]:
        case [""]:
            return _json_response({"paths": _root_paths(registry)})
        case ["version"]:
            return _json_response(_version_info())
        case ["api"]:
            return _aggregated_list(
                registry, [Group("", ("v1",))], aggregated_version
            ) or _json_response(_CORE_VERSIONS)
        case ["apis"]:
            groups = registry.groups()
            return _aggregated_list(registry, groups, aggregated_version) or _json_response(
                _group_list(groups)
            )
        case ["api", version]:
            return _resource_list(registry, "", version)
        case ["apis", name]:
            return _group_response(registry, name)
        case ["apis", group, version]:
            return _resource_list(registry, group, version)
        case ["openapi", "v3", *place]:
            found = openapi.document(registry, "/".join(place), VERSION)
            return None if found is None else _json_response(found)
        case _:
            return None


def _json_response(document: Any, content_type: str = JSON) -> Response:
    """A 200 response with the encoded document, its hash as ETag, and `Vary: Accept`."""
    body = msgspec.json.encode(document)
    etag = hashlib.sha256(body).hexdigest().upper()
    headers = {"content-type": content_type, "etag": f'"{etag}"', "vary": "Accept"}
    return Response(200, body, headers)


def _openapi_v2(accept: str) -> Response:
    """An OpenAPI v2 document without paths and definitions, in protobuf if the client accepts that.

    kubectl requests one for `kind: List`, and finds all schemas in v3.
    """
    if "protobuf" not in accept:
        info = {"title": "Kubernetes", "version": VERSION}
        return _json_response({"swagger": "2.0", "info": info, "paths": {}, "definitions": {}})
    headers = {"content-type": "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"}
    return Response(200, b"\x0a\x032.0", headers)


def _unless_cached(request: RequestLike, answer: Response) -> Response:
    """The answer, or a 304 without a body if the If-None-Match of the request contains its ETag.

    Of several such headers the first counts.
    """
    known = next((value for name, value in request.headers if name.lower() == "if-none-match"), "")
    etag = answer.headers["etag"]
    return Response(304, b"", {"etag": etag}) if etag in known else answer


def _health(path: str, request: RequestLike) -> Response | None:
    """The answer of `/healthz`, `/livez`, `/readyz` or their `/ping`, always ok, in plain text.

    None for other paths. With the query `verbose` it lists the checks, but not of `/ping`.
    """
    root, _, part = path[1:].partition("/")
    name = _CHECKS.get(f"/{root}")
    if name is None or part not in ("", "ping"):
        return None
    verbose = any(key == "verbose" for key, _ in request.query) and not part
    text = f"[+]ping ok\n[+]storage ok\n{name} check passed\n" if verbose else "ok"
    return Response(200, text.encode(), {"content-type": "text/plain; charset=utf-8"})


def _version_info() -> Object:
    """The document at `/version`: the emulated release with `+hanse`, this machine's platform."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    _, minor, _ = VERSION[1:].split(".")
    return {
        "major": "1",
        "minor": minor,
        "gitVersion": f"{VERSION}+hanse",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": sys.implementation.name,
        "platform": f"{sys.platform}/{machine}",
    }


def _root_paths(registry: Registry) -> list[str]:
    """The sorted paths that `/` lists: groups, versions, OpenAPI, version and health checks."""
    groups = registry.groups()
    named = [f"/apis/{group.name}" for group in groups]
    versions = [f"/apis/{group.name}/{version}" for group in groups for version in group.versions]
    other = ["/api", "/api/v1", "/apis", "/openapi/v2", "/openapi/v3", "/version", *_CHECKS]
    return sorted([*other, *named, *versions])


_CORE_VERSIONS: Object = {
    "kind": "APIVersions",
    "versions": ["v1"],
    "serverAddressByClientCIDRs": [],
}


def _group_list(groups: Iterable[Group]) -> Object:
    """The APIGroupList of the groups."""
    shown = [_group_versions(group) for group in groups]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": shown}


def _group_response(registry: Registry, name: str) -> Response | None:
    """The APIGroup of this name, or None if no such group is served."""
    found = next((group for group in registry.groups() if group.name == name), None)
    if found is None:
        return None
    return _json_response({"kind": "APIGroup", "apiVersion": "v1", **_group_versions(found)})


def _group_versions(group: Group) -> Object:
    """An APIGroup without kind and apiVersion; the first version is the preferred one."""
    versions = [
        {"groupVersion": f"{group.name}/{version}", "version": version}
        for version in group.versions
    ]
    return {"name": group.name, "versions": versions, "preferredVersion": versions[0]}


def _group_version_resources(registry: Registry, group: str, version: str) -> list[Resource]:
    """The resources of one group version, sorted by plural; empty if it is not served."""
    found = [one for one in registry if (one.group, one.version) == (group, version)]
    return sorted(found, key=lambda one: one.plural)


def _resource_list(registry: Registry, group: str, version: str) -> Response | None:
    """The APIResourceList of a group version, subresources included, or None if not served."""
    found = _group_version_resources(registry, group, version)
    if not found:
        return None
    shown = [entry for resource in found for entry in _list_entries(resource)]
    head = {"kind": "APIResourceList", **({"apiVersion": "v1"} if group else {})}
    return _json_response({**head, "groupVersion": found[0].api_version, "resources": shown})


def _list_entries(resource: Resource) -> Iterable[Object]:
    """The entries of a resource, then of its subresources by name, in an APIResourceList."""
    yield {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
        **({"shortNames": list(resource.short_names)} if resource.short_names else {}),
        **({"categories": list(resource.categories)} if resource.categories else {}),
    }
    for sub in sorted(resource.subresources, key=lambda sub: sub.name):
        yield {
            "name": f"{resource.plural}/{sub.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            **({"group": sub.group, "version": sub.version} if sub.group else {}),
            "kind": sub.kind,
            "verbs": list(sub.verbs),
        }


def _aggregated_version(accept: str) -> str:
    """`v2` or `v2beta1` if an Accept header asks for that aggregated discovery, else empty.

    The first acceptable media type decides: empty if plain JSON or `*/*` comes before it. Quality
    values are ignored.
    """
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        given = dict(parameter.partition("=")[::2] for parameter in parameters)
        asked = (given.get("g"), given.get("as"))
        if asked == ("apidiscovery.k8s.io", "APIGroupDiscoveryList"):
            if media == JSON and given.get("v") in ("v2", "v2beta1"):
                return given["v"]
        elif media in (JSON, "*/*"):
            return ""
    return ""


def _aggregated_list(registry: Registry, groups: list[Group], version: str) -> Response | None:
    """The APIGroupDiscoveryList of these groups in a version such as v2, as a 200 response.

    None if the version is empty.
    """
    if not version:
        return None
    document = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [_aggregated_group(registry, group) for group in groups],
    }
    return _json_response(document, _AGGREGATED.format(version=version))


def _aggregated_group(registry: Registry, group: Group) -> Object:
    """The APIGroupDiscovery of a group, with the resources of all its versions."""

    def resources(version: str) -> list[Object]:
        """The entries of the group's resources in one version."""
        return [
            _aggregated_resource(one)
            for one in _group_version_resources(registry, group.name, version)
        ]

    return {
        "metadata": {"name": group.name} if group.name else {},
        "versions": [
            {"version": version, "resources": resources(version), "freshness": "Current"}
            for version in group.versions
        ],
    }


def _aggregated_resource(resource: Resource) -> Object:
    """The entry of a resource in aggregated discovery."""
    return {
        "resource": resource.plural,
        "responseKind": _response_kind(resource, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
        **_optional_list("shortNames", resource.short_names, str),
        **_optional_list("categories", resource.categories, str),
        **_optional_list(
            "subresources",
            sorted(resource.subresources, key=lambda sub: sub.name),
            lambda sub: _aggregated_subresource(resource, sub),
        ),
    }


def _aggregated_subresource(resource: Resource, sub: Subresource) -> Object:
    """The entry of a subresource in aggregated discovery."""
    foreign = {"group": sub.group, "version": sub.version, "kind": sub.kind}
    return {
        "subresource": sub.name,
        "responseKind": foreign if sub.group else _response_kind(resource, sub.kind),
        "verbs": list(sub.verbs),
    }


def _optional_list(name: str, values: Iterable[Any], shown: Callable[[Any], Any]) -> Object:
    """A field with the values, each as `shown`; no field at all if there are none."""
    found = [shown(value) for value in values]
    return {name: found} if found else {}


def _response_kind(resource: Resource, kind: str) -> Object:
    """The responseKind; for built-ins group and version are empty, as in the API server."""
    if resource.custom is None:
        return {"group": "", "version": "", "kind": kind}
    return {"group": resource.group, "version": resource.version, "kind": kind}
