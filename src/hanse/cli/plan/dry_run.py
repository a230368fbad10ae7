"""What a cluster would do with objects if they were applied: asked with dry runs."""

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
from hanse.model.objects import Kind, ObjectRef, Wire

Verb = Literal["create", "update", "delete", "unchanged", "refused"]

_DRY = (("dryRun", "All"), ("fieldManager", "hanse-plan"), ("fieldValidation", "Strict"))
_SERVERS_OWN = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")


class DryRunResult(Struct, frozen=True):
    """What would become of one document: the object as the server would have it, or why not."""

    document: Document
    verb: Verb
    ref: ObjectRef
    object: Wire = {}
    why: str = ""


async def dry_run_all(
    client: Client, documents: Iterable[Document], namespace: str
) -> list[DryRunResult]:
    """Ask a cluster about each document in turn; nothing is written."""
    await refresh(client)
    served = client.rest_mapper.served
    kinds = {(one.api_version, one.name): one for one in (served.kinds if served else ())}
    wanted = tuple(documents)
    coming = {one.name for one in wanted if one.wire["kind"] == "Namespace"}
    dry_runs = []
    for one in wanted:
        kind = kinds.get((one.wire["apiVersion"], one.wire["kind"]))
        if kind is None:
            group, _, version = one.wire["apiVersion"].rpartition("/")
            unknown = ObjectRef(Kind(group, version, one.wire["kind"], ""), one.name, one.namespace)
            why = (
                f"{one.at}: the cluster does not serve {one.wire['apiVersion']} {unknown.kind.name}"
            )
            dry_runs.append(DryRunResult(one, "refused", unknown, why=f"{why}; see `hanse crds`"))
        else:
            dry_runs.append(await _tried(client, one, kind, one.namespace or namespace, coming))
    return dry_runs


async def _tried(
    client: Client, document: Document, kind: Kind, namespace: str, coming: set[str]
) -> DryRunResult:
    place = namespace if kind.namespaced else ""
    ref = ObjectRef(kind, document.name, place)
    wire = {**document.wire, "metadata": {**document.wire["metadata"]}}
    if place:
        wire["metadata"]["namespace"] = place
    path = resource_path(kind, place, document.name)
    try:
        standing = await _standing(client, path)
        if standing is None:
            if place in coming:  # the dry run would miss the namespace
                return DryRunResult(document, "create", ref, wire)
            request = Request("POST", resource_path(kind, place), _DRY, msgspec.json.encode(wire))
            return DryRunResult(document, "create", ref, await _answer(client, request))
        body = msgspec.json.encode(wire)
        request = Request("PATCH", path, _DRY, body, content_type=MERGE_PATCH)
        after = await _answer(client, request)
    except ApiError as error:
        return DryRunResult(document, "refused", ref, why=f"{document.at}: {error}")
    same = _comparable(after) == _comparable(standing)
    return DryRunResult(document, "unchanged" if same else "update", ref, after)


async def _standing(client: Client, path: str) -> Wire | None:
    try:
        return await _answer(client, Request("GET", path))
    except NotFound:
        return None


async def _answer(client: Client, request: Request) -> Wire:
    answer: Wire = msgspec.json.decode((await client.send(request)).body)
    return answer


def _comparable(obj: Wire) -> dict[str, Any]:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _SERVERS_OWN}
    return {**obj, "metadata": metadata}
