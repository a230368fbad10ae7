"""What shells know that is not a Kubernetes object: keyed values that wake as objects do."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, TypeVar

from msgspec import Struct

from hanse.model.objects import ClusterId, ClusterObjectRef, Kind, Wire


class Role(StrEnum):
    """What a cluster is to this agent; one cluster may have several roles."""

    LOCAL = "local"
    BROKER = "broker"
    MEMBER = "member"
    LED = "led"
    SITE = "site"
    OUTSIDE = "outside"
    """No cluster at all, but a system that is written in the same way: a name server."""


class Phase(StrEnum):
    """How a connection to a cluster stands."""

    CONNECTING = "Connecting"
    SYNCED = "Synced"
    UNREACHABLE = "Unreachable"
    RESTORED = "Restored"
    LEAVING = "Leaving"

    @property
    def writable(self) -> bool:
        """Whether writes to the cluster make sense now."""
        return self in (Phase.SYNCED, Phase.CONNECTING, Phase.LEAVING)


class Fact(Struct, frozen=True):
    """A keyed value; each kind of fact says what its key is."""

    @property
    def key(self) -> object:
        raise NotImplementedError


class ClusterState(Fact, frozen=True):
    """Whether what is known of a cluster can be relied on, and since when."""

    cluster: ClusterId
    roles: frozenset[Role]
    phase: Phase
    since: datetime
    reason: str = ""
    listed: bool = False
    """Whether everything watched in it was listed in full once: before that, all is partial."""
    recovering: bool = False
    """Whether it was restored a moment ago: what is missing there may be about to come back."""
    leaving: bool = False
    """Whether we are on our way out of it, reachable or not: nothing is wanted there."""

    @property
    def key(self) -> ClusterId:
        return self.cluster


class ClusterDeparted(Fact, frozen=True):
    """A cluster that has left the fleet for certain: nothing is kept for its sake."""

    cluster: ClusterId
    since: datetime

    @property
    def key(self) -> ClusterId:
        return self.cluster


class ClusterAbandoned(Fact, frozen=True):
    """A cluster that was given up, and what of ours stays behind there as far as it was known."""

    cluster: ClusterId
    since: datetime
    objects: tuple[ClusterObjectRef, ...] = ()

    @property
    def key(self) -> ClusterId:
        return self.cluster


class InvalidConnection(Fact, frozen=True):
    """A cluster that somebody named and that we cannot go to, or not by what they changed."""

    source: str
    cluster: ClusterId
    field: str
    """What to mend, as people wrote it: `spec.members[1].secret`."""
    reason: str
    message: str

    @property
    def key(self) -> tuple[str, ClusterId]:
        return (self.source, self.cluster)


class KindServed(Fact, frozen=True):
    """Whether a cluster serves a kind; there is no such fact while that is unknown."""

    cluster: ClusterId
    kind: Kind
    served: bool

    @property
    def key(self) -> tuple[ClusterId, Kind]:
        return (self.cluster, self.kind)


class LeaseLiveness(Fact, frozen=True):
    """Whether the party that renews a Lease is alive, by our own observation of its renewals."""

    where: ClusterId
    namespace: str
    lease: str
    holder: str
    alive: bool
    since: datetime

    @property
    def key(self) -> tuple[ClusterId, str, str]:
        return (self.where, self.namespace, self.lease)


class Leadership(Fact, frozen=True):
    """Who leads a member, in which epoch, and whether that is us."""

    member: ClusterId
    holder: str
    epoch: int
    ours: bool

    @property
    def key(self) -> ClusterId:
        return self.member


WriteResult = Literal["Done", "Foreign", "Fenced", "Refused", "Forbidden", "Failed", "Held"]


class WriteOutcome(Fact, frozen=True):
    """How the last write of an object that did not go as wished ended; gone once one succeeds."""

    place: ClusterObjectRef
    result: WriteResult
    message: str
    since: datetime

    @property
    def key(self) -> ClusterObjectRef:
        return self.place


class Answer(Fact, frozen=True):
    """What a question of an earlier plan was answered with: a value, or why there is none."""

    question: str
    value: Wire | None
    error: str
    at: datetime

    @property
    def key(self) -> str:
        return self.question


F = TypeVar("F", bound=Fact)


class Facts:
    """All facts of one agent. Shells put them in; snapshots read them."""

    def __init__(self) -> None:
        self._by_type: dict[type[Fact], dict[object, Any]] = {}

    def put(self, fact: Fact) -> Fact | None:
        """Keep a fact; gives the one it replaces."""
        known = self._by_type.setdefault(type(fact), {})
        before: Fact | None = known.get(fact.key)
        known[fact.key] = fact
        return before

    def drop(self, type_: type[F], key: object) -> F | None:
        """Forget a fact; gives what it was."""
        dropped: F | None = self._by_type.get(type_, {}).pop(key, None)
        return dropped

    def get(self, type_: type[F], key: object) -> F | None:
        found: F | None = self._by_type.get(type_, {}).get(key)
        return found

    def all(self, type_: type[F]) -> Iterator[F]:
        yield from self._by_type.get(type_, {}).values()


def age(since: datetime, now: datetime) -> timedelta:
    """How long something has been so; never negative, whatever clocks say."""
    return max(now - since, timedelta(0))
