"""The events of a list-and-watch: one endless stream of these per kind and selector."""

from typing import Generic

from msgspec import Struct

from hanse.kube.errors import KubeError
from hanse.model.objects import K


class Unreadable(Struct, frozen=True):
    """An object that exists and cannot be decoded as its kind.

    The last version that could be decoded stays in use, however old.
    """

    namespace: str
    name: str
    reason: str
    resource_version: str = ""


class Listed(Struct, Generic[K], frozen=True):
    """All objects, as of a resourceVersion."""

    objects: tuple[K, ...]
    resource_version: str
    unreadable: tuple[Unreadable, ...] = ()
    restored: bool = False
    """Whether the server was found to have another history than the one observed before."""


class Counted(Struct, Generic[K], frozen=True):
    """The first objects of a kind, and how many there are."""

    first: tuple[K, ...]
    total: int | None
    """None where the server does not say."""


class Applied(Struct, Generic[K], frozen=True):
    """An object was created or changed."""

    object: K


class Deleted(Struct, Generic[K], frozen=True):
    """An object was deleted; this is its last state."""

    object: K


class DeletedUnreadable(Struct, frozen=True):
    """An object was deleted, and its last state cannot be decoded."""

    namespace: str
    name: str
    resource_version: str = ""


class Progress(Struct, frozen=True):
    """The watch works, and there was no other change up to this resourceVersion."""

    resource_version: str


class Interrupted(Struct, frozen=True):
    """The watch failed and is retried; earlier events may be out of date."""

    error: KubeError


class NotServed(Struct, frozen=True):
    """The server does not serve the kind (any more); the stream continues when it does."""


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
