"""Dry runs of objects against one cluster."""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from hanse.cli.plan.documents import Document
from hanse.kube.client import Client
from hanse.kube.discovery import refresh
from hanse.kube.errors import ApiError, NotFound
from hanse.kube.requests import resource_path
from hanse.kube.transport import MERGE_PATCH, Request
from hanse.model.json_input import decode_json
from hanse.model.objects import Kind, ObjectRef, Wire

Verb = Literal["create", "update", "delete", "unchanged", "refused"]

_DRY_RUN_QUERY = (("dryRun", "All"), ("fieldManager", "hanse-plan"), ("fieldValidation", "Strict"))
_SERVER_FIELDS = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")


class DryRunResult(Struct, frozen=True):
    """The outcome of one document: the object as the server would store it, or why not."""

    document: Document
    verb: Verb
    ref: ObjectRef
    object: Wire = {}
    why: str = ""


async def dry_run_all(
    client: Client, documents: Iterable[Document], namespace: str
) -> list[DryRunResult]:
    """Send each document to the API server with dryRun=All; results are in order.

    `namespace` is for objects without one. A kind that is not served, or an error of the API
    server, is a result `refused`; no answer raises `KubeError`. Creates in namespaces that are
    among the documents are not sent, and count as successful.
    """
    await refresh(client)
    served = client.rest_mapper.served
    kinds = {(one.api_version, one.name): one for one in (served.kinds if served else ())}
    all_documents = tuple(documents)
    new_namespaces = {one.name for one in all_documents if one.wire["kind"] == "Namespace"}
    results = []
    for one in all_documents:
        kind = kinds.get((one.wire["apiVersion"], one.wire["kind"]))
        if kind is None:
            group, _, version = one.wire["apiVersion"].rpartition("/")
            unknown = ObjectRef(Kind(group, version, one.wire["kind"], ""), one.name, one.namespace)
            why = (
                f"{one.at}: the cluster does not serve {one.wire['apiVersion']} {unknown.kind.name}"
            )
            results.append(DryRunResult(one, "refused", unknown, why=f"{why}; see `hanse crds`"))
        else:
            results.append(
                await _dry_run(client, one, kind, one.namespace or namespace, new_namespaces)
            )
    return results


async def _dry_run(
    client: Client, document: Document, kind: Kind, namespace: str, new_namespaces: set[str]
) -> DryRunResult:
    """Dry-run one document as a create, or as a merge patch if the object exists.

    The verb is `unchanged` if the patch changes nothing but what the server sets, and `refused`
    after an error of the API server. A create in one of `new_namespaces` is not sent, and counts as
    a success.
    """
    place = namespace if kind.namespaced else ""
    ref = ObjectRef(kind, document.name, place)
    wire = {**document.wire, "metadata": {**document.wire["metadata"]}}
    if place:
        wire["metadata"]["namespace"] = place
    path = resource_path(kind, place, document.name)
    try:
        existing = await _get_or_none(client, path)
        if existing is None:
            if place in new_namespaces:  # the server would refuse for want of the namespace
                return DryRunResult(document, "create", ref, wire)
            request = Request(
                "POST", resource_path(kind, place), _DRY_RUN_QUERY, msgspec.json.encode(wire)
            )
            return DryRunResult(document, "create", ref, await _send_and_decode(client, request))
        body = msgspec.json.encode(wire)
        request = Request("PATCH", path, _DRY_RUN_QUERY, body, content_type=MERGE_PATCH)
        after = await _send_and_decode(client, request)
    except ApiError as error:
        return DryRunResult(document, "refused", ref, why=f"{document.at}: {error}")
    same = _without_server_fields(after) == _without_server_fields(existing)
    return DryRunResult(document, "unchanged" if same else "update", ref, after)


async def _get_or_none(client: Client, path: str) -> Wire | None:
    """GET the object at a path; None if it does not exist."""
    try:
        return await _send_and_decode(client, Request("GET", path))
    except NotFound:
        return None


async def _send_and_decode(client: Client, request: Request) -> Wire:
    """Send the request and decode the JSON of the response."""
    answer: Wire = decode_json((await client.send(request)).body)
    return answer


def _without_server_fields(obj: Wire) -> dict[str, Any]:
    """The object without resourceVersion and other metadata that the API server sets."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _SERVER_FIELDS}
    return {**obj, "metadata": metadata}
