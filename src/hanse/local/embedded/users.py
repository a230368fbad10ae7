"""Who sends a request; admission sees it as userInfo."""

from msgspec import Struct

from hanse.kube.request import Request


class User(Struct, frozen=True):
    """An authenticated caller, or the one it impersonates."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, list[str]] = {}


ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))
CONTROLLERS = User("system:kube-controller-manager", ("system:authenticated",))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


def impersonated(request: Request, user: User) -> User:
    """Whom a request speaks for: the user that its Impersonate headers name, or its sender."""
    found: dict[str, list[str]] = {}
    for name, value in request.headers:
        if name.lower().startswith("impersonate-"):
            found.setdefault(name.lower().removeprefix("impersonate-"), []).append(value)
    if not found.get("user"):
        return user
    extra = {
        key.removeprefix("extra-"): values
        for key, values in found.items()
        if key.startswith("extra-")
    }
    groups = (*found.get("group", ()), "system:authenticated")
    uid = next(iter(found.get("uid", ())), "")
    return User(found["user"][0], tuple(dict.fromkeys(groups)), uid, extra)
