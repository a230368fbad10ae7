"""The writes that a diff consists of, and why others wait."""

from typing import TypeAlias

from msgspec import Struct

from hanse.model.facts import WriteResult
from hanse.model.objects import ClusterId, ClusterObjectRef, Object, Wire, object_ref
from hanse.model.plan import EntryChange

OMITTED = "no longer wanted"
LEFT = "its cluster is being left"


class Create(Struct, frozen=True):
    """Create an object, which must not exist yet."""

    where: ClusterId
    object: Object
    step: int
    as_leader_of: ClusterId | None = None
    rank: int | None = None
    """Our rank among the agents that may write a shared object; None: it is ours alone."""
    awaited: bool = False


class Update(Struct, frozen=True):
    """Patch an object, which must still have the observed version, or the observed entry."""

    where: ClusterId
    base: Object
    change: Wire
    subresource: str
    step: int
    as_leader_of: ClusterId | None = None
    rank: int | None = None
    awaited: bool = False
    entry: EntryChange | None = None


class Delete(Struct, frozen=True):
    """Delete an object, by omission from its plan or for another cause."""

    where: ClusterId
    base: Object
    cause: str
    step: int
    as_leader_of: ClusterId | None = None
    as_seen: bool = True
    """Whether it must still have the observed version; else only the observed uid."""


Action: TypeAlias = Create | Update | Delete


class Obstacle(Struct, frozen=True):
    """Why an object is not written although it should be."""

    target: ClusterObjectRef
    result: WriteResult
    message: str


class Diff(Struct, frozen=True):
    """The writes to send now, the obstacles to others, and what to wait for."""

    actions: tuple[Action, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    waiting_for: frozenset[ClusterId] = frozenset()
    blocked_by: frozenset[ClusterObjectRef] = frozenset()
    """Objects that block a write: their change enqueues the key."""
    paused: frozenset[ClusterObjectRef] = frozenset()
    """Objects that a person paused, and that are not compared."""
    unreadable: bool = False
    """Whether an object that cannot be decoded as its kind blocks a write."""


def is_omission(action: Action) -> bool:
    """Whether an action deletes an owned object because its plan no longer names it.

    False for a deletion by leaving the cluster, or for another cause.
    """
    return isinstance(action, Delete) and action.cause == OMITTED


def target_ref(action: Action) -> ClusterObjectRef:
    """The reference to the object that an action writes, with its cluster."""
    obj = action.object if isinstance(action, Create) else action.base
    return ClusterObjectRef(action.where, object_ref(obj))
