"""A connection that was made for a connection source, and the transport to its cluster."""

from typing import Protocol

from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, Credentials, UpdatableCredentials
from hanse.kube.http_transport import HttpTransport
from hanse.kube.transport import Transport
from hanse.model.connections import ClusterConnection
from hanse.model.objects import ClusterId


class TransportFactory(Protocol):
    """Makes the transport to a cluster; it reads the credentials at each request."""

    def __call__(self, cluster: ClusterId, credentials: Credentials, /) -> Transport: ...


def http_transport(cluster: ClusterId, credentials: Credentials, /) -> Transport:  # noqa: ARG001 - a `TransportFactory`
    """The HTTP transport to the API server in the credentials, which it reads at each request.

    The cluster's id is not used.
    """
    return HttpTransport(credentials)


class ManagedConnection:
    """A connection that was made for a connection source."""

    def __init__(
        self,
        desired: ClusterConnection,
        config: ClientConfig,
        client: Client,
        credentials: UpdatableCredentials | None,
    ) -> None:
        """Only keeps these; the connection was made by the caller."""
        self.desired = desired
        self.config = config
        self.client = client
        self.credentials = credentials
        """The credentials to rotate; None for the local cluster, which has its own."""
