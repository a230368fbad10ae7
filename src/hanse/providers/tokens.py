"""Issues tokens of service accounts in connected clusters, by TokenRequest."""

from hanse.kube.errors import KubeError
from hanse.kube.token_requests import issued_token, token_request
from hanse.model.objects import ClusterId, Wire
from hanse.runtime.api import ClusterClient
from hanse.runtime.informers import ClusterInformers


class TokenIssuer:
    """The provider that requests a token of an account in a connected cluster."""

    def __init__(self) -> None:
        self.informers: ClusterInformers | None = None
        """Set once the reconciler exists, which is built with its providers."""

    async def __call__(
        self,
        cluster: ClusterId,
        namespace: str,
        account: str,
        seconds: int,
        replaces: str,  # noqa: ARG002 - makes the question unique
    ) -> Wire:
        """Request a new token of an account, for at least 600 s, from a cluster's API server.

        Returns it as `token`; raises KubeError if the cluster is not connected or issues none.
        """
        connection = self.informers.connections.get(cluster) if self.informers is not None else None
        if connection is None or not isinstance(connection.api, ClusterClient):
            raise KubeError(f"{cluster} is not connected")
        request = token_request(namespace, account, max(seconds, 600))
        token = issued_token(await connection.api.send(request))
        if not token:
            raise KubeError(f"{cluster} issued no token for {account}")
        return {"token": token}
