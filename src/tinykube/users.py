"""Users, and those that every cluster knows."""

from typing import Any

from msgspec import Struct


class User(Struct, frozen=True):
    """An authenticated or impersonated user."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, list[str]] = {}


MASTERS = "system:masters"
"""The group whose members may do everything."""

ADMIN = User("kubernetes-admin", (MASTERS, "system:authenticated"))
CONTROLLERS = User("system:kube-controller-manager", ("system:authenticated",))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


def user_info(user: User) -> dict[str, Any]:
    """A user as in a userInfo field; uid, groups and extra only if there are any."""
    info: dict[str, Any] = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = user.extra
    return info
