"""What a feature wants: all that should exist for one key, and little else."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Literal, Protocol

from msgspec import Struct

from hanse.model.objects import ClusterId, ClusterObjectRef, Object, Wire
from hanse.model.snapshot import Change, Snapshot, Watch


class Key(Struct, frozen=True, order=True):
    """One unit of decision of one feature: it is queued, planned and owned as a whole.

    `topic` parts a feature's kinds of decision (`export`, `import`).
    """

    topic: str
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.topic}/{self.namespace}/{self.name}"


def parse_key(text: str) -> Key | None:
    """The key that `str` gave, or None where the text is not one."""
    topic, _, rest = text.partition("/")
    namespace, slash, name = rest.partition("/")
    return Key(topic, name, namespace) if topic and slash else None


class Desired(Struct, frozen=True):
    """An object that should exist in a cluster, owned by the key that desires it."""

    object: Object
    where: ClusterId
    step: int = 0
    """Order of writes: a step goes to a destination only after the one before it."""
    sources: frozenset[ClusterId] = frozenset()
    """Whose observation this rests on: never deleted by omission while one is unsynced."""
    as_leader_of: ClusterId | None = None
    shared: bool = False
    """Any agent may write it; all compute the same."""
    takes_over: bool = False
    """Whether a foreign object of that name is overwritten; only where the spec says so."""
    rank: int = 0
    """For shared objects: how many seconds to leave the write to agents before us in the order."""
    awaited: bool = False
    """For shared objects that others wait for: the first in the order writes at once."""
    unowned: bool = False
    """Made where it is missing and nobody's from then on: we never change or delete it."""


class Removal(Struct, frozen=True):
    """The deletion of an object that we do not own, or of one whose going has a known cause."""

    place: ClusterObjectRef
    uid: str
    cause: str
    step: int = 0
    as_leader_of: ClusterId | None = None
    as_seen: bool = False
    """Whether a change that we have not seen saves it: the deletion then waits for another plan."""


class Patch(Struct, frozen=True):
    """A change to fields of an object that others own too; `change` is a merge patch."""

    place: ClusterObjectRef
    change: Wire
    subresource: Literal["", "status", "scale"] = ""
    step: int = 0
    as_leader_of: ClusterId | None = None
    rank: int | None = None
    """Where all agents say the same: how many seconds to leave it to those before us."""


class Read(Struct, frozen=True):
    """A question answered by a live read of one object; its value is None where it is absent."""

    place: ClusterObjectRef
    since: str = ""
    """What was known when it was asked: an answer to it tells of the time after that."""

    @property
    def id(self) -> str:
        return f"read {self.place} since {self.since}" if self.since else f"read {self.place}"


class Call(Struct, frozen=True):
    """A question answered by a provider (a resolver, a probe, an outside controller)."""

    provider: str
    arguments: tuple[tuple[str, Any], ...] = ()

    @property
    def id(self) -> str:
        return f"{self.provider} {dict(self.arguments)}"


class Question(Struct, frozen=True):
    """Something a plan needs that no watch tells; asked again when the answer is too old."""

    ask: Read | Call
    max_age: timedelta = timedelta(seconds=30)


class EventRequest(Struct, frozen=True):
    """A Kubernetes Event about an object, sent only with a write of it that was needed."""

    place: ClusterObjectRef
    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"
    recorded_with: ClusterObjectRef | None = None
    """Another object whose write this goes with; what it is about need not exist then."""


class Plan(Struct, frozen=True):
    """All that one key wants. What it owns and does not name here is deleted."""

    desired: tuple[Desired, ...] = ()
    removals: tuple[Removal, ...] = ()
    patches: tuple[Patch, ...] = ()
    questions: tuple[Question, ...] = ()
    events: tuple[EventRequest, ...] = ()
    requeue_after: timedelta | None = None
    kept: tuple[ClusterObjectRef, ...] = ()
    """What the key owns and leaves exactly as it stands: neither written nor deleted."""
    keep_all: bool = False
    """Nothing can be decided by what was read: all that the key owns stays as it stands."""


class Feature(Protocol):
    """A capability: a pure function from what was seen to what should be."""

    @property
    def name(self) -> str: ...

    @property
    def watches(self) -> tuple[Watch, ...]: ...

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The keys whose plan may differ after this change."""
        ...

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        """Everything that should exist for this key."""
        ...
