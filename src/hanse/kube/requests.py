"""Builds the requests to an API server as values; no I/O is done here."""

from datetime import timedelta
from functools import lru_cache
from urllib.parse import quote

import msgspec

from hanse.kube.transport import JSON_PATCH, MERGE_PATCH, Request
from hanse.model.objects import Kind, Wire

PAGE_SIZE = 500
"""Objects per page of a list: small enough that decoding one never delays a lease."""

LIST_TIMEOUT = timedelta(seconds=60)
"""The time limit of a list, equal to the server's own."""

_SEGMENT = ":@!$&'()*+,;=~"
"""Characters not escaped in a path segment; role names and IPv6 addresses have colons."""

Query = tuple[tuple[str, str], ...]

JsonPatch = tuple[Wire, ...]
"""The operations of a JSON patch (RFC 6902)."""


def resource_path(kind: Kind, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The URL path of a collection, of its objects in one namespace, or of one object.

    A namespace is left out for kinds that have none; an empty one means all. Namespace and name are
    escaped.
    """
    parts = ["/apis", kind.group, kind.version] if kind.group else ["/api", kind.version]
    if kind.namespaced and namespace:
        parts += ["namespaces", _segment(namespace)]
    parts.append(kind.plural)
    if name:
        parts.append(_segment(name))
    if subresource:
        parts.append(subresource)
    return "/".join(parts)


@lru_cache(4096)  # the same few names are in nearly all requests
def _segment(name: str) -> str:
    """A name, escaped as a segment of a path."""
    return quote(name, safe=_SEGMENT)


def read(kind: Kind, name: str, namespace: str = "") -> Request:
    """A GET request for one object; raises ValueError for an empty name."""
    return Request("GET", resource_path(kind, namespace, _require_name(name)))


def create(
    kind: Kind, namespace: str, body: Wire, *, field_manager: str, dry_run: bool = False
) -> Request:
    """A POST request for a new object; with `dry_run` the server checks it and stores nothing."""
    query = _query(fieldManager=field_manager, dryRun="All" if dry_run else "")
    return Request("POST", resource_path(kind, namespace), query, msgspec.json.encode(body))


def patch(
    kind: Kind,
    name: str,
    namespace: str,
    change: Wire | JsonPatch,
    *,
    field_manager: str,
    subresource: str = "",
    dry_run: bool = False,
) -> Request:
    """A PATCH request: a JSON patch if `change` is a tuple of operations, else a merge patch.

    Preconditions are metadata.uid and metadata.resourceVersion of a merge patch, and the `test`
    operations of a JSON patch. Raises `ValueError` for an empty name.
    """
    return Request(
        "PATCH",
        resource_path(kind, namespace, _require_name(name), subresource),
        _query(fieldManager=field_manager, dryRun="All" if dry_run else ""),
        msgspec.json.encode(change),
        content_type=JSON_PATCH if isinstance(change, tuple) else MERGE_PATCH,
    )


def delete(
    kind: Kind,
    name: str,
    namespace: str,
    *,
    uid: str = "",
    resource_version: str = "",
    propagation: str = "Background",
) -> Request:
    """A DELETE request; uid and resourceVersion are preconditions if they are not empty.

    Raises `ValueError` for an empty name, which would delete the collection.
    """
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    options: Wire = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": propagation,
        "preconditions": {key: value for key, value in preconditions.items() if value},
    }
    if not options["preconditions"]:
        del options["preconditions"]
    return Request(
        "DELETE",
        resource_path(kind, namespace, _require_name(name)),
        body=msgspec.json.encode(options),
    )


def list_page(
    kind: Kind,
    namespace: str = "",
    *,
    labels: str = "",
    fields: str = "",
    limit: int = PAGE_SIZE,
    after: str = "",
) -> Request:
    """A GET request for a page of a consistent list: no resourceVersion means the newest state.

    `after` is the continue token of the page before; an empty namespace means all.
    """
    query = _query(
        labelSelector=labels, fieldSelector=fields, limit=str(limit), **{"continue": after}
    )
    return Request("GET", resource_path(kind, namespace), query, timeout=LIST_TIMEOUT)


def watch(
    kind: Kind,
    namespace: str = "",
    *,
    labels: str = "",
    fields: str = "",
    after: str,
    timeout: timedelta,
) -> Request:
    """A GET request that watches every change after a resourceVersion, with bookmarks.

    The server ends the watch after `timeout`, in whole seconds; an empty namespace means all.
    """
    query = _watch_query(labels, fields, timeout) + _query(resourceVersion=after)
    return Request("GET", resource_path(kind, namespace), query)


def watch_list(
    kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "", timeout: timedelta
) -> Request:
    """A request for a WatchList: all objects as events, a bookmark that ends them, then changes.

    The server ends the watch after `timeout`, in whole seconds; an empty namespace means all.
    """
    query = _watch_query(labels, fields, timeout) + _query(
        sendInitialEvents="true", resourceVersionMatch="NotOlderThan"
    )
    return Request("GET", resource_path(kind, namespace), query)


def _watch_query(labels: str, fields: str, timeout: timedelta) -> Query:
    """The query of a watch with bookmarks; empty selectors are left out.

    The timeout is sent in whole seconds, rounded down.
    """
    return _query(
        watch="true",
        allowWatchBookmarks="true",
        labelSelector=labels,
        fieldSelector=fields,
        timeoutSeconds=str(int(timeout.total_seconds())),
    )


def _query(**parameters: str) -> Query:
    """The parameters that are not empty, in order."""
    return tuple((key, value) for key, value in parameters.items() if value)


def _require_name(name: str) -> str:
    """The name; raises ValueError for an empty one, since that would request all objects."""
    if not name:
        raise ValueError("a request for one object needs its name")
    return name
