"""Facts: keyed values that are no Kubernetes objects, and that requeue keys as objects do."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, TypeVar

from msgspec import Struct

from hanse.model.objects import ClusterId, ClusterObjectRef, Kind, Wire


class Role(StrEnum):
    """The role of a cluster for this agent; a cluster may have several."""

    LOCAL = "local"
    BROKER = "broker"
    MEMBER = "member"
    LED = "led"
    SITE = "site"
    OUTSIDE = "outside"
    """Not a cluster but an external system that is written in the same way, as a name server."""


class Phase(StrEnum):
    """The phase of a connection to a cluster."""

    CONNECTING = "Connecting"
    SYNCED = "Synced"
    UNREACHABLE = "Unreachable"
    RESTORED = "Restored"
    LEAVING = "Leaving"

    @property
    def writable(self) -> bool:
        """Whether writes may be sent: in phases Synced, Connecting and Leaving."""
        return self in (Phase.SYNCED, Phase.CONNECTING, Phase.LEAVING)


class Fact(Struct, frozen=True):
    """A keyed value; each type of fact defines its key."""

    @property
    def key(self) -> object:
        """What identifies the fact among those of its type; a subclass has to define it."""
        raise NotImplementedError


SLOW_ANSWER = timedelta(seconds=2)
"""From when on an API server is slow, by a small request over an open connection."""


class ClusterState(Fact, frozen=True):
    """The connection state of a cluster, and since when."""

    cluster: ClusterId
    roles: frozenset[Role]
    phase: Phase
    since: datetime
    reason: str = ""
    listed: bool = False
    """Whether every watched kind was listed once: before that its objects are partial."""
    recovering: bool = False
    """Whether it was restored a moment ago: missing objects may still come back."""
    leaving: bool = False
    """Whether this agent is leaving it, reachable or not: nothing is desired there."""
    silent: bool = False
    """Whether it answers nothing at all, and may be dead; errors and missing rights are answers."""
    rejected: bool = False
    """Whether it answers, and rejects our credentials."""
    forbidden: tuple[str, ...] = ()
    """The resources that the agent's account may not read in it, if that is all that is wrong."""
    untrusted: bool = False
    """Whether its certificate has expired, or is of another authority than the trusted one."""
    slow: bool = False
    """Whether it takes requests, and answers later than `SLOW_ANSWER`, or not in time at all."""

    @property
    def key(self) -> ClusterId:
        """The id of the cluster."""
        return self.cluster

    @property
    def is_partial(self) -> bool:
        """Whether it was never listed in full, or its phase is Connecting: it is being listed."""
        return not self.listed or self.phase is Phase.CONNECTING


class ClusterDeparted(Fact, frozen=True):
    """A cluster that has certainly left the fleet: it is no longer a reason to keep objects."""

    cluster: ClusterId
    since: datetime

    @property
    def key(self) -> ClusterId:
        """The id of the cluster."""
        return self.cluster


class ClusterAbandoned(Fact, frozen=True):
    """A cluster that was abandoned, and the owned objects known to stay behind in it."""

    cluster: ClusterId
    since: datetime
    objects: tuple[ClusterObjectRef, ...] = ()

    @property
    def key(self) -> ClusterId:
        """The id of the cluster."""
        return self.cluster


class InvalidConnection(Fact, frozen=True):
    """A named cluster that cannot be connected to as it is configured."""

    source: str
    cluster: ClusterId
    field: str
    """The field to correct: `spec.members[1].secret`."""
    reason: str
    message: str

    @property
    def key(self) -> tuple[str, ClusterId]:
        """The connection source and the cluster."""
        return (self.source, self.cluster)


class KindServed(Fact, frozen=True):
    """Whether a cluster serves a kind; there is no such fact while that is unknown."""

    cluster: ClusterId
    kind: Kind
    served: bool

    @property
    def key(self) -> tuple[ClusterId, Kind]:
        """The cluster and the kind."""
        return (self.cluster, self.kind)


class HolderState(StrEnum):
    """What is known of the holder of a Lease.

    An unknown one keeps what it has, and gets nothing new.
    """

    READY = "Ready"
    """Its Lease is renewed."""
    SILENT = "Silent"
    """Its Lease was seen to expire."""
    UNKNOWN = "Unknown"
    """Its Lease is missing, was old when we first saw it, or went back to an earlier renewal."""


class LeaseLiveness(Fact, frozen=True):
    """The state of the holder of a Lease, by our own observation of its renewals."""

    where: ClusterId
    namespace: str
    lease: str
    holder: str
    state: HolderState
    since: datetime
    outdated: bool = False
    """Whether the Lease was too old when it was first read, by the clock of its API server and in
    comparison with our own Lease, and has not changed since."""
    confirmed: bool = True
    """False for one that is ready, and was not renewed since its cluster had to be listed again: a
    server that was restored to a moment ago shows the same Lease as before."""
    acquired_version: int = 0
    """The resourceVersion of the Lease when we first saw that its holder had acquired it; 0 once it
    was renewed twice. What the holder wrote before may be seen later, by other watches."""

    @property
    def key(self) -> tuple[ClusterId, str, str]:
        """The cluster that has the Lease, its namespace and its name."""
        return (self.where, self.namespace, self.lease)


class LeasesRelisted(Fact, frozen=True):
    """How often Leases of a cluster were listed again: its server may have been restored."""

    cluster: ClusterId
    times: int

    @property
    def key(self) -> ClusterId:
        """The cluster that has the Leases."""
        return self.cluster


class LeaseFreshness(Fact, frozen=True):
    """Whether a Lease was seen to be renewed within its duration.

    Other than the liveness of its holder it ends also while the cluster cannot be reached: what
    its holder says is then no longer fresh, whoever is at fault.
    """

    where: ClusterId
    namespace: str
    lease: str
    fresh: bool

    @property
    def key(self) -> tuple[ClusterId, str, str]:
        """The cluster that has the Lease, its namespace and its name."""
        return (self.where, self.namespace, self.lease)


class HeartbeatState(Fact, frozen=True):
    """Whether this agent renews its own Lease on a cluster in time, and since when."""

    where: ClusterId
    renewed: bool
    since: datetime
    rejected: bool = False
    """Whether that is because the cluster does not know our credentials any more."""
    namespace: str = ""
    """Where the Lease is."""
    token: str = ""
    """A digest of the token with which it was last renewed; empty if that is not known."""
    forbidden: bool = False
    """Whether it is not renewed because our account may not do so."""
    refusal: str = ""
    """The message of a webhook, a policy or a quota that refuses renewals; empty if none does."""

    @property
    def key(self) -> ClusterId:
        """The cluster that has our Lease."""
        return self.where


class ServerClock(Fact, frozen=True):
    """How far the clock of a cluster's API server is ahead of ours."""

    cluster: ClusterId
    ahead: timedelta

    @property
    def key(self) -> ClusterId:
        """The id of the cluster."""
        return self.cluster


class Leadership(Fact, frozen=True):
    """The leader of a member, its epoch, and whether this agent is it."""

    member: ClusterId
    holder: str
    epoch: int
    ours: bool

    @property
    def key(self) -> ClusterId:
        """The member that is led."""
        return self.member


class AgentFeatures(Fact, frozen=True):
    """The features that the agent of a cluster runs, or has rights for."""

    cluster: ClusterId
    features: tuple[str, ...]

    @property
    def key(self) -> ClusterId:
        """The id of the cluster."""
        return self.cluster


class AgentRun(Fact, frozen=True):
    """What the Lease of a cluster's agent says, to somebody who is not that agent."""

    cluster: ClusterId
    holder: str
    """Empty where no agent has ever held it."""
    alive: bool
    renewed: datetime | None = None

    @property
    def key(self) -> ClusterId:
        """The id of the cluster."""
        return self.cluster


class CredentialsRefused(Fact, frozen=True):
    """A cluster that answers, and does not accept or cannot be asked with our credentials."""

    cluster: ClusterId
    reason: str

    @property
    def key(self) -> ClusterId:
        """The id of the cluster."""
        return self.cluster


class ListDenied(Fact, frozen=True):
    """A kind that could not be listed in a cluster: its objects are unknown, and not absent."""

    cluster: ClusterId
    kind: Kind
    reason: str

    @property
    def key(self) -> tuple[ClusterId, Kind]:
        """The cluster and the kind."""
        return (self.cluster, self.kind)


class KindCounted(Fact, frozen=True):
    """How many objects of a kind a cluster has, counted instead of listed."""

    cluster: ClusterId
    kind: Kind
    total: int | None
    """None where the server does not say."""

    @property
    def key(self) -> tuple[ClusterId, Kind]:
        """The cluster and the kind."""
        return (self.cluster, self.kind)


class ElectionFailure(Fact, frozen=True):
    """Why this agent cannot take part in the leader election of a member that answers."""

    member: ClusterId
    message: str
    since: datetime

    @property
    def key(self) -> ClusterId:
        """The member."""
        return self.member


class AgentLeaseRefused(Fact, frozen=True):
    """Why a cluster refuses the renewals of its agent's Lease, so that the agent stands by."""

    cluster: ClusterId
    namespace: str
    message: str
    since: datetime

    @property
    def key(self) -> ClusterId:
        """The cluster."""
        return self.cluster


WriteResult = Literal["Done", "Foreign", "Fenced", "Refused", "Forbidden", "Failed", "Held"]


class WriteOutcome(Fact, frozen=True):
    """Why the last write of an object failed; dropped once a write succeeds."""

    target: ClusterObjectRef
    result: WriteResult
    message: str
    since: datetime

    @property
    def key(self) -> ClusterObjectRef:
        """The object that was to be written, and its cluster."""
        return self.target

    @property
    def is_final(self) -> bool:
        """Whether it is Foreign, Refused or Forbidden: only people can mend that."""
        return self.result in ("Foreign", "Refused", "Forbidden")


class PausedObject(Fact, frozen=True):
    """An object that this agent would write, and that a person paused."""

    target: ClusterObjectRef

    @property
    def key(self) -> ClusterObjectRef:
        """The object and its cluster."""
        return self.target


class DeletionsHeld(Fact, frozen=True):
    """Deletions of a feature in one cluster that this agent holds, as too much vanished at once."""

    where: ClusterId
    feature: str

    @property
    def key(self) -> tuple[ClusterId, str]:
        """The cluster and the feature."""
        return (self.where, self.feature)


class Answer(Fact, frozen=True):
    """The answer to a question of an earlier plan: a value, or an error."""

    question: str
    value: Wire | None
    error: str
    at: datetime

    @property
    def key(self) -> str:
        """The id of the question."""
        return self.question


F = TypeVar("F", bound=Fact)


class Facts:
    """All facts of one agent, written by the runtime and read by snapshots."""

    def __init__(self) -> None:
        self._by_type: dict[type[Fact], dict[object, Any]] = {}

    def put(self, fact: Fact) -> Fact | None:
        """Store a fact in place of the one with its type and key; returns that one, or None."""
        known = self._by_type.setdefault(type(fact), {})
        before: Fact | None = known.get(fact.key)
        known[fact.key] = fact
        return before

    def drop(self, type_: type[F], key: object) -> F | None:
        """Remove a fact and return it; None if there is none."""
        dropped: F | None = self._by_type.get(type_, {}).pop(key, None)
        return dropped

    def get(self, type_: type[F], key: object) -> F | None:
        """The fact of that type and key; None if there is none."""
        found: F | None = self._by_type.get(type_, {}).get(key)
        return found

    def all(self, type_: type[F]) -> Iterator[F]:
        """Every fact of a type."""
        return iter(self._by_type.get(type_, {}).values())


def is_recent(at: datetime, now: datetime, limit: timedelta) -> bool:
    """Whether a moment is less than `limit` ago; not if it is yet to come: a clock went back."""
    return timedelta(0) <= now - at < limit


def age(since: datetime, now: datetime) -> timedelta:
    """The time since a moment, never negative."""
    return max(now - since, timedelta(0))
