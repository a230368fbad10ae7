"""Evaluates connection sources to the clusters that should be connected; pure."""

from collections.abc import Callable, Collection, Iterable
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint
from hanse.kube.credentials import config_from_kubeconfig
from hanse.kube.errors import BadCredentials
from hanse.model.connections import (
    AbandonedCluster,
    ClusterConnection,
    ConnectionSource,
    KubeconfigCredentials,
    LeavingCluster,
    ReleasedCluster,
    ServerCredentials,
    UnknownClusters,
)
from hanse.model.facts import InvalidConnection
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Snapshot


class DesiredConnections(Struct, frozen=True):
    """The last valid answer of one connection source."""

    connections: dict[ClusterId, ClusterConnection] = {}
    leaving: dict[ClusterId, ClusterConnection] = {}
    released: frozenset[ClusterId] = frozenset()
    abandoned: frozenset[ClusterId] = frozenset()
    invalid: dict[ClusterId, InvalidConnection] = {}
    complete: bool = True
    """Whether a cluster that is not named has departed."""
    ended: dict[ClusterId, ClusterConnection] = {}
    """The last connections of clusters that are left or released, until that is done."""


def evaluate(
    source: ConnectionSource,
    snapshot: Snapshot,
    before: DesiredConnections,
    is_taken: Callable[[ClusterId], bool],
    ending: Collection[ClusterId],
) -> DesiredConnections:
    """The connections, leaves, releases and abandoned clusters that a source intends now.

    A connection whose id `is_taken` or whose credentials are bad goes to `invalid`; its cluster
    keeps the connection in `before`, if any, also that of a leave or release under way (`ending`).
    An invalid leave is dropped; `complete` is False if the source does not know all its clusters;
    `ended` has the last connections of clusters that are not in `connections` now.
    """
    connections: dict[ClusterId, ClusterConnection] = {}
    leaving: dict[ClusterId, ClusterConnection] = {}
    invalid: dict[ClusterId, InvalidConnection] = {}
    released: set[ClusterId] = set()
    abandoned: set[ClusterId] = set()
    complete = True
    for intent in source.connection_intents(snapshot):
        match intent:
            case ClusterConnection(cluster):
                error = _validate_connection(source.name, intent, is_taken)
                if error is None:
                    connections[cluster] = intent
                else:
                    invalid[cluster] = error
            case InvalidConnection(_, cluster):
                invalid[cluster] = intent
            case LeavingCluster(connection):
                if _validate_connection(source.name, connection, is_taken) is None:
                    leaving[connection.cluster] = connection
            case ReleasedCluster(cluster):
                released.add(cluster)
            case AbandonedCluster(cluster):
                abandoned.add(cluster)
            case UnknownClusters():
                complete = False
            case _:
                assert_never(intent)
    last = {c: known for c, known in before.ended.items() if c in ending} | before.connections
    kept = invalid.keys() & last.keys() - connections.keys()
    connections |= {cluster: last[cluster] for cluster in kept}
    return DesiredConnections(
        connections,
        leaving,
        frozenset(released),
        frozenset(abandoned),
        invalid,
        complete,
        {c: connection for c, connection in (last | leaving).items() if c not in connections},
    )


def _validate_connection(
    source: str, connection: ClusterConnection, is_taken: Callable[[ClusterId], bool]
) -> InvalidConnection | None:
    """Why a connection cannot be made: its id is taken or its credentials are invalid.

    None if it can.
    """
    cluster, field = connection.cluster, connection.field
    if is_taken(cluster):
        text = f"{cluster!r} is something else here; give the cluster another id"
        return InvalidConnection(source, cluster, field, "NameTaken", text)
    try:
        client_config(connection.credentials)
    except BadCredentials as error:
        return InvalidConnection(source, cluster, field, "BadCredentials", str(error))
    return None


def merge_connections(
    sources: Iterable[DesiredConnections],
) -> dict[ClusterId, ClusterConnection]:
    """The connections of all sources by cluster: the first source's, with the roles of all.

    An election is run if any source wants it. Of the desired connections only `connections` count.
    """
    merged: dict[ClusterId, ClusterConnection] = {}
    for desired in sources:
        for cluster, connection in desired.connections.items():
            first = merged.get(cluster, connection)
            merged[cluster] = replace(
                first,
                roles=first.roles | connection.roles,
                runs_election=first.runs_election or connection.runs_election,
            )
    return merged


def client_config(credentials: ServerCredentials | KubeconfigCredentials) -> ClientConfig:
    """The client configuration for credentials; raises `BadCredentials` for a bad kubeconfig."""
    match credentials:
        case ServerCredentials(server, ca, token, certificate, key):
            identity = Identity(token=token, certificate=certificate, key=key)
            return ClientConfig(ServerEndpoint(server.rstrip("/"), ca), identity)
        case KubeconfigCredentials(text, context, origin):
            return config_from_kubeconfig(text, origin=origin, context=context)
        case _:
            assert_never(credentials)
