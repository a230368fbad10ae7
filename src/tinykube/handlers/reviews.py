"""Authentication and authorization reviews; every access is allowed."""

from datetime import datetime
from typing import Any

from tinykube.errors import invalid, invalid_object
from tinykube.object_meta import timestamp
from tinykube.resources import Object
from tinykube.service_account_tokens import TokenIssuer
from tinykube.users import User

_EVERYTHING = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
_EVERYWHERE = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]


def user_info(user: User) -> dict[str, Any]:
    """A user as in a userInfo field."""
    info: dict[str, Any] = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = user.extra
    return info


def complete_review(review: Object, user: User, tokens: TokenIssuer, now: datetime) -> Object:
    """A review with its status."""
    status: dict[str, Any]
    _check_attributes(review)
    match review["kind"]:
        case "SelfSubjectReview":
            metadata = {**review["metadata"], "creationTimestamp": timestamp(now)}
            review = {**review, "metadata": metadata}
            status = {"userInfo": user_info(user)}
        case "TokenReview":
            status = _token_review_status((review.get("spec") or {}).get("token", ""), tokens)
        case "SelfSubjectRulesReview":
            status = {
                "resourceRules": _EVERYTHING,
                "nonResourceRules": _EVERYWHERE,
                "incomplete": False,
            }
        case _:
            status = {"allowed": True}
    return {**review, "status": status}


def _check_attributes(review: Object) -> None:
    """An access review has either resource or non-resource attributes."""
    if not review["kind"].endswith("SubjectAccessReview"):
        return
    spec = review.get("spec") or {}
    given = [spec.get(field) for field in ("resourceAttributes", "nonResourceAttributes")]
    if sum(value is not None for value in given) != 1:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        error = invalid("spec.resourceAttributes", given[0], detail)
        raise invalid_object("", "authorization.k8s.io", "", [error])


def _token_review_status(token: str, tokens: TokenIssuer) -> dict[str, Any]:
    """The TokenReview status: the user of the token, or an error if it is invalid."""
    user = tokens.authenticate(token)
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": user_info(user)}
