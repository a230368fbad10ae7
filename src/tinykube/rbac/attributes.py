"""What a request asks for, as authorization sees it: read from method, path and query alone."""

from functools import lru_cache
from urllib.parse import unquote

from msgspec import Struct

from tinykube.errors import StatusError, quoted
from tinykube.request import RequestLike
from tinykube.users import User

_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_OF_COLLECTIONS = {"get": "list", "delete": "deletecollection"}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


class Attributes(Struct, frozen=True):
    """A verb on a resource, or on a path that is not below a group version.

    The name is empty for collections, also of a new object, and the namespace for all namespaces.
    """

    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def endpoint(self) -> str:
        """The resource as rules name it: `pods`, `pods/status`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def attributes_of(request: RequestLike) -> Attributes:
    """The attributes of a request, whether or not its resource is served."""
    return _parse_attributes(request.method, request.path, request.query)


Query = tuple[tuple[str, str], ...]


@lru_cache(1024)  # each request asks several times
def _parse_attributes(method: str, path: str, query: Query) -> Attributes:
    """The attributes of a request by method, path and query.

    A path that is not below a group version has the method in lower case as verb, and only the
    path.
    """
    parts = [unquote(part) for part in path.strip("/").split("/")]
    match parts:
        case ["api", _, first, *rest]:
            return _resource_attributes(method, path, query, "", [first, *rest])
        case ["apis", group, _, first, *rest]:
            return _resource_attributes(method, path, query, group, [first, *rest])
        case _:
            return Attributes(method.lower(), path=path)


def _resource_attributes(
    method: str, path: str, options: Query, group: str, parts: list[str]
) -> Attributes:
    """The attributes of a path below a group version.

    A field selector for one name gives a collection that name. A namespace is inside itself:
    `/namespaces/x` has the namespace `x`. It is a watch by the prefix `/watch/`, or of a collection
    by the query, which does not count for one object.
    """
    verb = _VERBS.get(method, "")
    if parts[0] == "watch" and len(parts) > 1:
        verb, parts = "watch", parts[1:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    resource, name, subresource = (*parts, "", "")[:3]
    if not name:
        verb = _OF_COLLECTIONS.get(verb, verb)
        query = dict(options)
        if verb == "list" and query.get("watch", "false").lower() not in ("false", "0"):
            verb = "watch"
        if verb in ("list", "watch", "deletecollection"):
            name = _selected_name(query.get("fieldSelector", ""))
    return Attributes(verb, path, group, resource, subresource, namespace, name)


def _selected_name(selector: str) -> str:
    """The name that a field selector requires, or empty."""
    for term in selector.split(","):
        key, _, value = term.partition("=")
        if key == "metadata.name":
            return value.removeprefix("=")
    return ""


def forbidden(user: User, attributes: Attributes, reason: str = "") -> StatusError:
    """The 403 to raise for a user who may not do what was asked, in the words of Kubernetes."""
    why = f"User {quoted(user.name)} cannot {attributes.verb} {_describe_access(attributes)}"
    if reason:
        why = f"{why}: {reason}"
    named = {
        "name": attributes.name,
        "group": attributes.group,
        "kind": attributes.resource,
    }
    details = {key: value for key, value in named.items() if value}
    qualified = f"{attributes.resource}.{attributes.group}".removesuffix(".")
    subject = f"{qualified} {quoted(attributes.name)}" if attributes.name else qualified
    message = f"{subject} is forbidden: {why}" if qualified else f"forbidden: {why}"
    return StatusError(403, "Forbidden", message, details)


def _describe_access(attributes: Attributes) -> str:
    """What a request asks for as the message of a 403 names it: a path, or a resource and scope."""
    if not attributes.resource:
        return f"path {quoted(attributes.path)}"
    where = (
        f"in the namespace {quoted(attributes.namespace)}"
        if attributes.namespace
        else "at the cluster scope"
    )
    endpoint, group = quoted(attributes.endpoint), quoted(attributes.group)
    return f"resource {endpoint} in API group {group} {where}"
