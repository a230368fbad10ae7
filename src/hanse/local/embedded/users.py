"""Who sends a request; admission sees it as userInfo."""

from msgspec import Struct


class User(Struct, frozen=True):
    """An authenticated caller, or the one it impersonates."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, list[str]] = {}


ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))
CONTROLLERS = User("system:kube-controller-manager", ("system:authenticated",))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
