"""The plan of one key: the desired objects, and other changes; and the Feature protocol."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Literal, Protocol

from msgspec import Struct

from hanse.model.objects import ClusterId, ClusterObjectRef, Object, Wire
from hanse.model.snapshot import Change, Snapshot, Watch


class Key(Struct, frozen=True, order=True):
    """The unit of reconciliation of a feature: it is queued, planned and owned as a whole.

    `topic` separates the sorts of keys of one feature (`export`, `import`).
    """

    topic: str
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        """`topic/namespace/name`, with both slashes also where a part is empty."""
        return f"{self.topic}/{self.namespace}/{self.name}"


class InOrder(tuple[Key, ...]):
    """Keys that are planned in this order."""

    __slots__ = ()


def parse_key(text: str) -> Key | None:
    """The key in a text `topic/namespace/name`, as `str` makes it; None for another text."""
    topic, _, rest = text.partition("/")
    namespace, slash, name = rest.partition("/")
    return Key(topic, name, namespace) if topic and slash else None


class Owned(Struct, frozen=True):
    """Written by the key's agent alone; a foreign object of that name stays as it is."""


class TakeOver(Struct, frozen=True):
    """As owned, but a foreign object of that name is overwritten; only where the spec says so."""


class CreateOnly(Struct, frozen=True):
    """Created if missing and not owned then: never changed or deleted."""


class Shared(Struct, frozen=True):
    """Any agent may write it; all compute the same."""

    rank: int = 0
    """How many seconds to leave the write to agents with a lower rank."""
    awaited: bool = False
    """Whether others wait for it: the agent of rank 0 writes at once."""


Ownership = Owned | TakeOver | CreateOnly | Shared


class Desired(Struct, frozen=True):
    """An object that should exist in a cluster, owned by the key that desires it."""

    object: Object
    where: ClusterId
    step: int = 0
    """The order of writes: a step is written to a cluster only after the previous one."""
    sources: frozenset[ClusterId] = frozenset()
    """The clusters it is derived from: it is not deleted by omission while one is unsynced."""
    as_leader_of: ClusterId | None = None
    ownership: Ownership = Owned()
    """Who writes it, and what becomes of a foreign object of that name."""


class Removal(Struct, frozen=True):
    """The deletion of an object that is not owned, or whose deletion has a known cause."""

    target: ClusterObjectRef
    uid: str
    cause: str
    step: int = 0
    as_leader_of: ClusterId | None = None
    as_seen: bool = False
    """Whether the observed resourceVersion is a precondition of the deletion."""


class EntryChange(Struct, frozen=True):
    """The fields of one entry of a list that this agent alone changes.

    They are written if the entry is as it was observed, whatever others have changed beside it.
    """

    path: tuple[str, ...]
    """From the object to the entry, the last part its index."""
    before: Wire
    """Fields that the entry must still have; None: it has none."""
    after: Wire
    """Fields that it gets; None: it has none then."""


class Patch(Struct, frozen=True):
    """A merge patch of an object that others own too."""

    target: ClusterObjectRef
    change: Wire
    subresource: Literal["", "status", "scale"] = ""
    step: int = 0
    as_leader_of: ClusterId | None = None
    rank: int | None = None
    """Where all agents write the same: the seconds to leave it to agents of a lower rank."""
    entry: EntryChange | None = None
    """All that is changed, if the object may have another version than the observed one."""


class Read(Struct, frozen=True):
    """A question answered by a live read of one object; its value is None where it is absent."""

    target: ClusterObjectRef
    since: str = ""
    """The state observed when it was asked; a new state makes a new question."""

    @property
    def id(self) -> str:
        """`read <target>`, with ` since <since>` if set: a new state makes a new question."""
        return f"read {self.target} since {self.since}" if self.since else f"read {self.target}"


class Call(Struct, frozen=True):
    """A question answered by a provider (a resolver, a probe, an external controller)."""

    provider: str
    arguments: tuple[tuple[str, Any], ...] = ()

    @property
    def id(self) -> str:
        """The provider and its arguments as text: calls with equal ones are the same question."""
        return f"{self.provider} {dict(self.arguments)}"


class Question(Struct, frozen=True):
    """A query whose answer a plan needs; asked again when the answer is older than `max_age`."""

    ask: Read | Call
    max_age: timedelta = timedelta(seconds=30)


class EventRequest(Struct, frozen=True):
    """A Kubernetes Event about an object, recorded only if that, or another, is written too."""

    target: ClusterObjectRef
    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"
    recorded_with: ClusterObjectRef | None = None
    """Another object whose write records the Event; the subject need not exist then."""


class Plan(Struct, frozen=True):
    """The desired state of one key. Owned objects that it does not name are deleted."""

    desired: tuple[Desired, ...] = ()
    removals: tuple[Removal, ...] = ()
    patches: tuple[Patch, ...] = ()
    questions: tuple[Question, ...] = ()
    events: tuple[EventRequest, ...] = ()
    requeue_after: timedelta | None = None
    kept: tuple[ClusterObjectRef, ...] = ()
    """Owned objects that are neither written nor deleted."""
    keep_all: bool = False
    """Keep all owned objects as they are: the plan cannot be decided."""


class Feature(Protocol):
    """A controller: a pure function from a snapshot to desired objects, per key."""

    @property
    def name(self) -> str: ...

    @property
    def watches(self) -> tuple[Watch, ...]:
        """All kinds that it reads or writes, by role: what it can own and its rights follow."""
        ...

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The keys to requeue after a change; planned sorted, unless they are `InOrder`."""
        ...

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        """The desired state of a key."""
        ...
