"""Reviews: who is asking, and what they may do; everything is allowed, as RBAC is not evaluated."""

from typing import Any

from hanse.local.embedded.resources import Object
from hanse.local.embedded.tokens import Tokens
from hanse.local.embedded.users import User

_EVERYTHING = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
_EVERYWHERE = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]


def user_info(user: User) -> dict[str, Any]:
    """A user as reviews and admission show one."""
    info: dict[str, Any] = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = user.extra
    return info


def reviewed(review: Object, user: User, tokens: Tokens) -> Object:
    """A review with its answer."""
    status: dict[str, Any]
    match review["kind"]:
        case "SelfSubjectReview":
            status = {"userInfo": user_info(user)}
        case "TokenReview":
            status = _token_status((review.get("spec") or {}).get("token", ""), tokens)
        case "SelfSubjectRulesReview":
            status = {
                "resourceRules": _EVERYTHING,
                "nonResourceRules": _EVERYWHERE,
                "incomplete": False,
            }
        case _:
            status = {"allowed": True}
    return {**review, "status": status}


def _token_status(token: str, tokens: Tokens) -> dict[str, Any]:
    user = tokens.user_of(token)
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": user_info(user)}
