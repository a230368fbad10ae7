"""Authentication and authorization reviews."""

from typing import Any

from tinykube.errors import bad_request, invalid, invalid_object
from tinykube.handlers.calls import Call
from tinykube.object_meta import timestamp
from tinykube.rbac.attributes import Attributes
from tinykube.rbac.authorizer import Authorizer
from tinykube.resources import Object
from tinykube.service_account_tokens import TokenIssuer
from tinykube.users import User, user_info

_ACCESS_REVIEWS = ("SubjectAccessReview", "LocalSubjectAccessReview")


def complete_review(
    call: Call, review: Object, authorizer: Authorizer, tokens: TokenIssuer
) -> Object:
    """A review with its status, by kind; nothing is stored.

    Raises 422 for access reviews that are not valid, 400 for a rules review without namespace.
    """
    spec = review.get("spec") or {}
    match review["kind"]:
        case "SelfSubjectReview":
            metadata = {**review["metadata"], "creationTimestamp": timestamp(call.now)}
            review = {**review, "metadata": metadata}
            status = {"userInfo": user_info(call.user)}
        case "TokenReview":
            status = _token_review_status(spec.get("token", ""), tokens)
        case "SelfSubjectRulesReview":
            status = _rules_review_status(call.user, spec.get("namespace", ""), authorizer)
            review = {**review, "spec": {}}  # as the API server answers
        case kind:
            _check_attributes(spec)
            user = call.user
            if kind in _ACCESS_REVIEWS:
                _check_subject(spec)
                review = _in_namespace(review, call.target.namespace)
                user = User(spec.get("user", ""), tuple(spec.get("groups") or ()))
            status = _access_review_status(user, spec, authorizer)
    return {**review, "status": status}


def _check_attributes(spec: Object) -> None:
    """Raise 422 unless there is exactly one of resource and non-resource attributes."""
    given = [spec.get(field) for field in ("resourceAttributes", "nonResourceAttributes")]
    if sum(value is not None for value in given) != 1:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        error = invalid("spec.resourceAttributes", given[0], detail)
        raise invalid_object("", "authorization.k8s.io", "", [error])


def _check_subject(spec: Object) -> None:
    """Raise 422 if an access review names neither user nor groups."""
    if not spec.get("user") and not spec.get("groups"):
        error = invalid("spec.user", "", "at least one of user or group must be specified")
        raise invalid_object("", "authorization.k8s.io", "", [error])


def _in_namespace(review: Object, namespace: str) -> Object:
    """A review with the namespace of its path, if any.

    With one, raises 422 unless the resourceAttributes name the same.
    """
    if not namespace:
        return review
    asked = (review["spec"].get("resourceAttributes") or {}).get("namespace", "")
    if asked != namespace:
        field, detail = "spec.resourceAttributes.namespace", "must match metadata.namespace"
        error = invalid(field, asked, detail)
        raise invalid_object("", "authorization.k8s.io", "", [error])
    return {**review, "metadata": {**review["metadata"], "namespace": namespace}}


def _access_review_status(user: User, spec: Object, authorizer: Authorizer) -> dict[str, Any]:
    """The status of an access review: whether a user has the access, and the reason.

    The reason is the binding that allows it, or the missing role; left out if there is neither.
    """
    attributes = _reviewed_attributes(spec)
    status: dict[str, Any] = {"allowed": authorizer.allows(user, attributes)}
    reason = authorizer.reason(user, attributes)
    return {**status, "reason": reason} if reason else status


def _reviewed_attributes(spec: Object) -> Attributes:
    """The attributes that an access review asks about, of a resource or of a path."""
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes") or {}
    if resource is None:
        return Attributes(path.get("verb", ""), path=path.get("path", ""))
    names = ("group", "resource", "subresource", "namespace", "name")
    return Attributes(resource.get("verb", ""), **{one: resource.get(one, "") for one in names})


def _rules_review_status(user: User, namespace: str, authorizer: Authorizer) -> dict[str, Any]:
    """The status of a SelfSubjectRulesReview: the rules of a user in a namespace.

    Raises 400 without a namespace.
    """
    if not namespace:
        raise bad_request("no namespace on request")
    rules = list(dict.fromkeys(authorizer.rules_for(user, namespace)))
    return {
        "resourceRules": [rule.wire for rule in rules if not rule.paths],
        "nonResourceRules": [rule.wire for rule in rules if rule.paths],
        "incomplete": False,
    }


def _token_review_status(token: str, tokens: TokenIssuer) -> dict[str, Any]:
    """The TokenReview status: the user of the token, or an error if it is invalid."""
    user = tokens.authenticate(token)
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": user_info(user)}
