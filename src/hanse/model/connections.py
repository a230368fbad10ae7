"""Connections to other clusters, as sources derive them from local objects."""

from typing import Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from hanse.model.facts import InvalidConnection, Role
from hanse.model.objects import ClusterId, Object
from hanse.model.snapshot import Snapshot, Watch


class ServerCredentials(Struct, frozen=True):
    """An API server and the credentials for it; the representation shows no secret."""

    server: str
    ca: bytes = b""
    token: str = ""
    certificate: bytes = b""
    key: bytes = b""

    def __repr__(self) -> str:
        """The URL of the server, without any secret."""
        return f"ServerCredentials({self.server!r}, <secret>)"


class KubeconfigCredentials(Struct, frozen=True):
    """A context of an untrusted kubeconfig: files and programs of this machine are not used."""

    text: bytes
    context: str
    origin: str
    """Where the kubeconfig comes from, for messages."""

    def __repr__(self) -> str:
        """The origin and the context, without the kubeconfig."""
        return f"KubeconfigCredentials({self.origin!r}, {self.context!r}, <secret>)"


class ClusterConnection(Struct, frozen=True):
    """A cluster to connect to, with its roles and credentials."""

    cluster: ClusterId
    roles: frozenset[Role]
    credentials: ServerCredentials | KubeconfigCredentials
    field: str = ""
    """The field that names the cluster, for messages."""
    runs_election: bool = False
    """Whether to take part in its leader election."""
    preferred_leaders: tuple[ClusterId, ...] = ()
    """The supervisors that are preferred as its leader: each gets a little time first."""


class LeavingCluster(Struct, frozen=True):
    """A cluster that is no longer named and not left yet, with the connection to leave it by."""

    connection: ClusterConnection


class ReleasedCluster(Struct, frozen=True):
    """A cluster that other supervisors name and we do not: our objects stay, it has not departed.

    One that is connected is handed over: we resign, wait for a successor, and disconnect.
    """

    cluster: ClusterId


class UnknownClusters(Struct, frozen=True):
    """Others may name clusters that we do not know: none that we do not name has departed."""


class AbandonedCluster(Struct, frozen=True):
    """A cluster that a person abandoned: our objects stay behind in it."""

    cluster: ClusterId


ConnectionIntent: TypeAlias = (
    ClusterConnection
    | InvalidConnection
    | LeavingCluster
    | ReleasedCluster
    | AbandonedCluster
    | UnknownClusters
)
"""What to do with a cluster; one without an intent is left, its owned objects deleted first."""


@runtime_checkable
class ConnectionSource(Protocol):
    """A source of connections; a feature may be one."""

    @property
    def name(self) -> str: ...

    @property
    def watches(self) -> tuple[Watch, ...]: ...

    @property
    def source_kinds(self) -> tuple[type[Object], ...]:
        """The local kinds it reads; it is not called before all are listed."""
        ...

    def connection_intents(self, snapshot: Snapshot) -> tuple[ConnectionIntent, ...]:
        """An intent for every cluster that local objects name; those without one are left."""
        ...
