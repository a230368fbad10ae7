"""Users and impersonation."""

from collections.abc import Iterable
from urllib.parse import unquote

from msgspec import Struct

from tinykube.errors import StatusError

_PREFIX = "impersonate-"


class User(Struct, frozen=True):
    """An authenticated or impersonated user."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, list[str]] = {}


ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))
CONTROLLERS = User("system:kube-controller-manager", ("system:authenticated",))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


def effective_user(headers: Iterable[tuple[str, str]], caller: User) -> User:
    """The user of the Impersonate headers, or else the caller.

    Every caller may impersonate any user; groups without a user are an error.
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
    return User(name, named, next(iter(found.get("uid", ())), ""), extra)


def _account_groups(name: str) -> tuple[str, ...]:
    """The groups of a ServiceAccount user name."""
    match name.split(":"):
        case ["system", "serviceaccount", namespace, _]:
            return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        case _:
            return ("system:unauthenticated",) if name == ANONYMOUS.name else ()
