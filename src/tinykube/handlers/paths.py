"""Resource paths: which resource, object or subresource a request names."""

from urllib.parse import unquote

from msgspec import Struct

from tinykube.errors import NoSuchPath, StatusError, not_found, unknown_resource
from tinykube.resources import Registry, Resource


class Target(Struct, frozen=True):
    """A resource, with a namespace, an object and a subresource where the path has them."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class _PathParts(Struct, frozen=True):
    """Group, version, and the segments after them."""

    group: str
    version: str
    rest: tuple[str, ...]


def is_resource_path(path: str) -> bool:
    """Whether a path is below a group version, like `/api/v1/pods`; `/api/v1` itself is not."""
    parts = path.strip("/").split("/")
    return (parts[0] == "api" and len(parts) > 2) or (parts[0] == "apis" and len(parts) > 3)


def resolve_path(registry: Registry, path: str) -> Target:
    """The resource, namespace, name and subresource that a path names; the object need not exist.

    The path must be below a group version. Raises 404 if the resource or subresource is not served,
    for a namespace of a cluster-scoped resource, for a name without the namespace it needs, and for
    a name of a resource that cannot be listed.
    """
    parts = _parse_path(path)
    namespace, rest = _split_namespace(parts)
    if not 1 <= len(rest) <= 3:
        raise _path_not_found(registry, parts)
    resource = registry.find(parts.group, parts.version, rest[0])
    if resource is None or (namespace and not resource.namespaced):
        raise _path_not_found(registry, parts)
    name, subresource = (*rest[1:], "", "")[:2]
    if resource.namespaced and name and not namespace:
        raise _path_not_found(registry, parts)
    if subresource and resource.subresource(subresource) is None:
        raise not_found(resource, name) if resource.custom else unknown_resource()
    if name and "list" not in resource.verbs:
        raise unknown_resource()
    return Target(resource, namespace, name, subresource)


def _parse_path(path: str) -> _PathParts:
    """Group, version and remaining parts of a path, unquoted and without `watch`.

    The group is empty below `/api`.
    """
    parts = [unquote(part) if "%" in part else part for part in path.strip("/").split("/")]
    if parts[0] == "api":
        return _PathParts("", parts[1], _without_watch(parts[2:]))
    return _PathParts(parts[1], parts[2], _without_watch(parts[3:]))


def _without_watch(rest: list[str]) -> tuple[str, ...]:
    """The segments without the deprecated /watch/ prefix."""
    return tuple(rest[1:] if rest[:1] == ["watch"] else rest)


def _split_namespace(parts: _PathParts) -> tuple[str, tuple[str, ...]]:
    """The namespace of a path, or empty, and the segments after it.

    A Namespace itself and its subresources `status` and `finalize` are not inside it: its segments
    are all returned.
    """
    rest = parts.rest
    if len(rest) < 3 or rest[0] != "namespaces":
        return "", rest
    if len(rest) == 3 and not parts.group and rest[2] in ("status", "finalize"):
        return "", rest
    return rest[1], rest[2:]


def _path_not_found(registry: Registry, parts: _PathParts) -> StatusError:
    """The 404 to raise: a Status if the group has built-in resources, else plain text."""
    return unknown_resource() if registry.has_builtins(parts.group) else NoSuchPath()
