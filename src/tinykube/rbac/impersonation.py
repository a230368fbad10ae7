"""Requests on behalf of another user, by the Impersonate headers."""

from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from tinykube.errors import StatusError
from tinykube.rbac.attributes import Attributes
from tinykube.rbac.authorizer import Authorizer
from tinykube.users import ANONYMOUS, User

_PREFIX = "impersonate-"
_VERB = "impersonate"
_AUTHENTICATION = "authentication.k8s.io"


def effective_user(
    headers: Iterable[tuple[str, str]], caller: User, authorizer: Authorizer
) -> User:
    """The user of the Impersonate headers; the caller without Impersonate-User.

    Raises 403 unless the caller may impersonate that user, groups, uid and extra, 400 for groups
    without a user. The user has the given groups, else those of a ServiceAccount, and
    `system:authenticated`; the anonymous user has `system:unauthenticated` unless groups are given.
    """
    found: dict[str, list[str]] = {}
    for name, value in headers:
        if name.lower().startswith(_PREFIX):
            found.setdefault(name.lower().removeprefix(_PREFIX), []).append(value)
    groups = tuple(found.get("group", ()))
    if "user" not in found:
        if groups:
            requested = " ".join(f"{{Group  {group}    }}" for group in groups)
            message = f"requested [{requested}] without impersonating a user"
            raise StatusError(400, "BadRequest", message)
        return caller
    name = found["user"][0]
    extra = {
        unquote(key.removeprefix("extra-")): values
        for key, values in found.items()
        if key.startswith("extra-")
    }
    authenticated = () if name == ANONYMOUS.name else ("system:authenticated",)
    named = tuple(dict.fromkeys((*(groups or _account_groups(name)), *authenticated)))
    user = User(name, named, next(iter(found.get("uid", ())), ""), extra)
    for asked in _impersonations(name, groups, user):
        authorizer.check(caller, asked)
    return user


def _impersonations(name: str, groups: tuple[str, ...], user: User) -> Iterator[Attributes]:
    """What the caller must be allowed to impersonate: user or account, `groups`, uid, extras."""
    match name.split(":"):
        case ["system", "serviceaccount", namespace, account]:
            yield Attributes(_VERB, resource="serviceaccounts", namespace=namespace, name=account)
        case _:
            yield Attributes(_VERB, resource="users", name=name)
    for group in groups:
        yield Attributes(_VERB, resource="groups", name=group)
    if user.uid:
        yield Attributes(_VERB, group=_AUTHENTICATION, resource="uids", name=user.uid)
    for key, values in user.extra.items():
        for value in values:
            yield Attributes(
                _VERB,
                group=_AUTHENTICATION,
                resource="userextras",
                subresource=key,
                name=value,
            )


def _account_groups(name: str) -> tuple[str, ...]:
    """The groups of a ServiceAccount user name, or of the anonymous user; none of others."""
    match name.split(":"):
        case ["system", "serviceaccount", namespace, _]:
            return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        case _:
            return ("system:unauthenticated",) if name == ANONYMOUS.name else ()
