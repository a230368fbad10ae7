"""The answers of the webhooks of these tests, by path."""

import base64
import json
from typing import Any

import msgspec


def admission_response(path: str, body: bytes) -> bytes:
    """The AdmissionReview that a webhook answers; raises ValueError for one that fails."""
    review = msgspec.json.decode(body)
    request = review["request"]
    if path == "/nonsense":
        return b"this is no review"
    if path == "/broken":
        raise ValueError("the webhook is broken")
    response = {"uid": request["uid"], **_response(path, request)}
    return msgspec.json.encode({**review, "request": None, "response": response})


def _response(path: str, request: dict[str, Any]) -> dict[str, Any]:
    match path:
        case "/deny":
            return {"allowed": False, "status": {"message": "not on my watch"}}
        case "/deny-as-conflict":
            status = {"message": "taken", "reason": "Conflict", "code": 409}
            return {"allowed": False, "status": status}
        case "/deny-silently":
            return {"allowed": False}
        case "/warn":
            return {"allowed": True, "warnings": ["mind the gap"]}
        case "/label":
            return _patch({"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}})
        case "/bad-label":
            return _patch({"op": "add", "path": "/metadata/labels", "value": {"a b": "c"}})
        case "/bad-patch":
            return _patch({"op": "replace", "path": "/none/of/this", "value": 1})
        case "/tell":
            return _patch(
                {
                    "op": "add",
                    "path": "/metadata/annotations",
                    "value": _request_annotations(request),
                }
            )
        case _:
            return {"allowed": True}


def _patch(*operations: dict[str, Any]) -> dict[str, Any]:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def _request_annotations(request: dict[str, Any]) -> dict[str, str]:
    """The review request as annotations, so that servers can be compared."""
    table_case = ("kind", "resource", "requestKind", "name", "namespace", "operation", "dryRun")
    annotations = {name: json.dumps(request.get(name), sort_keys=True) for name in table_case}
    annotations["old"] = str(request.get("oldObject") is not None)
    annotations["options"] = json.dumps((request.get("options") or {}).get("kind"))
    return annotations
