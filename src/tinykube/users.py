"""Users, and those that every cluster knows."""

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
