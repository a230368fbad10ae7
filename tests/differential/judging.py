"""What the webhooks of these tests answer, by the path at which they are asked; pure."""

import base64
import json
from typing import Any

import msgspec


def judge(path: str, body: bytes) -> bytes:
    """The body of a webhook's answer; raises ValueError for a path whose webhook is broken."""
    review = msgspec.json.decode(body)
    asked = review["request"]
    if path == "/nonsense":
        return b"this is no review"
    if path == "/broken":
        raise ValueError("the webhook is broken")
    response = {"uid": asked["uid"], **_response(path, asked)}
    return msgspec.json.encode({**review, "request": None, "response": response})


def _response(path: str, asked: dict[str, Any]) -> dict[str, Any]:
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
            return _patch({"op": "add", "path": "/metadata/annotations", "value": _told(asked)})
        case _:
            return {"allowed": True}


def _patch(*operations: dict[str, Any]) -> dict[str, Any]:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def _told(asked: dict[str, Any]) -> dict[str, str]:
    """What the webhook was told, as annotations that can be compared."""
    shown = ("kind", "resource", "requestKind", "name", "namespace", "operation", "dryRun")
    told = {name: json.dumps(asked.get(name), sort_keys=True) for name in shown}
    told["old"] = str(asked.get("oldObject") is not None)
    told["options"] = json.dumps((asked.get("options") or {}).get("kind"))
    return told
