"""Decodes AdmissionReview requests and encodes the responses; pure."""

from typing import Any

import msgspec
from msgspec import Struct

from hanse.model.admission import AdmissionRequest, Allow, Deny, Operation
from hanse.model.json_input import too_deep
from hanse.model.objects import Wire


class _Kind(Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class _UserInfo(Struct, frozen=True):
    username: str = ""
    groups: tuple[str, ...] = ()


class _Request(Struct, frozen=True, rename="camel"):
    uid: str
    operation: Operation
    kind: _Kind = _Kind()
    name: str = ""
    namespace: str = ""
    object: Wire | None = None
    old_object: Wire | None = None
    user_info: _UserInfo = _UserInfo()
    dry_run: bool | None = None
    sub_resource: str = ""


class _Envelope(Struct, frozen=True, rename="camel"):
    request: _Request
    api_version: str = ""
    kind: str = ""


class DecodedReview(Struct, frozen=True):
    """A review, and the uid that the response repeats."""

    uid: str
    review: AdmissionRequest


class InvalidReview(ValueError):
    """The body is not an AdmissionReview of version v1."""


_decoder = msgspec.json.Decoder(_Envelope)


def parse_request(body: bytes) -> DecodedReview:
    """The review in a request's body; raises `InvalidReview` if it is no AdmissionReview of v1."""
    try:
        envelope = _decoder.decode(body)
    except RecursionError:
        raise InvalidReview(f"not an AdmissionReview: {too_deep()}") from None
    except msgspec.DecodeError as error:
        raise InvalidReview(f"not an AdmissionReview: {error}") from None
    if (envelope.api_version, envelope.kind) != ("admission.k8s.io/v1", "AdmissionReview"):
        raise InvalidReview("only AdmissionReview of admission.k8s.io/v1 is understood")
    request = envelope.request
    review = AdmissionRequest(
        operation=request.operation,
        group=request.kind.group,
        version=request.kind.version,
        kind=request.kind.kind,
        name=request.name,
        namespace=request.namespace,
        object=request.object or {},
        before=request.old_object or {},
        user=request.user_info.username,
        groups=request.user_info.groups,
        dry_run=bool(request.dry_run),
        subresource=request.sub_resource,
        uid=request.uid,
    )
    return DecodedReview(request.uid, review)


def encode_response(request: DecodedReview, verdict: Allow | Deny) -> bytes:
    """The AdmissionReview with a verdict; the merge patch of `Allow` is sent as a JSONPatch."""
    response: Wire = {"uid": request.uid}
    match verdict:
        case Allow(change, warnings):
            response["allowed"] = True
            if warnings:
                response["warnings"] = list(warnings)
            if operations := list(json_patch(request.review.object, change)):
                response["patchType"] = "JSONPatch"
                response["patch"] = msgspec.json.encode(operations)
        case Deny(message, code):
            response["allowed"] = False
            response["status"] = {"code": code, "message": message}
    return msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    )


def json_patch(target: Wire, change: Wire, path: str = "") -> list[Wire]:
    """The JSON patch operations that do what the merge patch `change` would do to an object.

    `path` is the JSON pointer of `target` in the whole object. Nothing for what is already so.
    """
    operations: list[Wire] = []
    for name, value in change.items():
        inner = f"{path}/{_escape_pointer(name)}"
        if value is None:
            if name in target:
                operations.append({"op": "remove", "path": inner})
        elif isinstance(value, dict) and isinstance(target.get(name), dict):
            operations += json_patch(target[name], value, inner)
        elif target.get(name) != value:
            operation = "replace" if name in target else "add"
            operations.append({"op": operation, "path": inner, "value": _without_nulls(value)})
    return operations


def _without_nulls(value: Any) -> Any:
    """A value without the null fields of nested dicts; lists are not searched."""
    if isinstance(value, dict):
        return {n: _without_nulls(v) for n, v in value.items() if v is not None}
    return value


def _escape_pointer(name: str) -> str:
    """A name as a segment of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")
