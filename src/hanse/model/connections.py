"""The ways to clusters that others name: what a guide reads out of objects at home. Pure."""

from typing import Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from hanse.model.facts import InvalidConnection, Role
from hanse.model.objects import ClusterId, Object
from hanse.model.snapshot import Snapshot, Watch


class ServerCredentials(Struct, frozen=True):
    """A server, by what its certificate is judged, and who we are there; never shown."""

    server: str
    ca: bytes = b""
    token: str = ""
    certificate: bytes = b""
    key: bytes = b""

    def __repr__(self) -> str:
        return f"ServerCredentials({self.server!r}, <secret>)"


class KubeconfigCredentials(Struct, frozen=True):
    """A context of a kubeconfig that somebody else wrote: nothing of this machine is used."""

    text: bytes
    context: str
    origin: str
    """What people know the text by, for messages."""

    def __repr__(self) -> str:
        return f"KubeconfigCredentials({self.origin!r}, {self.context!r}, <secret>)"


class ClusterConnection(Struct, frozen=True):
    """A cluster to be connected, and what it is to us."""

    cluster: ClusterId
    roles: frozenset[Role]
    credentials: ServerCredentials | KubeconfigCredentials
    field: str = ""
    """The field by which people named it, for messages."""
    runs_election: bool = False
    """Whether we stand for election in it."""
    preferred_leaders: tuple[ClusterId, ...] = ()
    """The supervisors that should lead it rather than we: each is given a little time."""


class LeavingCluster(Struct, frozen=True):
    """A cluster that is named no longer, and not left yet: the way by which it is."""

    connection: ClusterConnection


class ReleasedCluster(Struct, frozen=True):
    """A cluster that others look after from now on: nothing is withdrawn from it."""

    cluster: ClusterId


class AbandonedCluster(Struct, frozen=True):
    """A cluster that a person gave up: what is ours there stays behind."""

    cluster: ClusterId


ConnectionIntent: TypeAlias = (
    ClusterConnection | InvalidConnection | LeavingCluster | ReleasedCluster | AbandonedCluster
)
"""A cluster that is named by none is left: what is ours there is withdrawn first."""


@runtime_checkable
class ConnectionSource(Protocol):
    """Who says which clusters are connected; a feature may be one."""

    @property
    def name(self) -> str: ...

    @property
    def watches(self) -> tuple[Watch, ...]: ...

    @property
    def source_kinds(self) -> tuple[type[Object], ...]:
        """The kinds at home that it goes by: before all are read it is not asked."""
        ...

    def connection_intents(self, snapshot: Snapshot) -> tuple[ConnectionIntent, ...]:
        """All clusters to connect, and what is wrong with those that cannot be."""
        ...
