"""What a list-and-watch tells: one endless stream of these per kind and selector."""

from typing import Generic

from msgspec import Struct

from hanse.kube.errors import KubeError
from hanse.model.objects import K


class Unreadable(Struct, frozen=True):
    """An object that the server has and that does not fit our shape of its kind.

    It is there: what was last read of it stands, however old.
    """

    namespace: str
    name: str
    reason: str
    resource_version: str = ""


class Listed(Struct, Generic[K], frozen=True):
    """Everything there is, as of a resourceVersion."""

    objects: tuple[K, ...]
    resource_version: str
    unreadable: tuple[Unreadable, ...] = ()


class Applied(Struct, Generic[K], frozen=True):
    """An object was created or changed."""

    object: K


class Deleted(Struct, Generic[K], frozen=True):
    """An object is gone; this is how it was last."""

    object: K


class DeletedUnreadable(Struct, frozen=True):
    """An object is gone, and how it was last cannot be read."""

    namespace: str
    name: str
    resource_version: str = ""


class Progress(Struct, frozen=True):
    """The watch stands and nothing happened up to this resourceVersion."""

    resource_version: str


class Interrupted(Struct, frozen=True):
    """The stream is down and will try again by itself; what was told before may be out of date."""

    error: KubeError


class NotServed(Struct, frozen=True):
    """The server does not know the kind (any more); the stream goes on when it does."""


WatchEvent = (
    Listed[K]
    | Applied[K]
    | Deleted[K]
    | Unreadable
    | DeletedUnreadable
    | Progress
    | Interrupted
    | NotServed
)
