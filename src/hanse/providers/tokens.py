"""Issues tokens of service accounts in connected clusters, by TokenRequest."""

import msgspec

from hanse.kube.errors import KubeError
from hanse.kube.requests import resource_path
from hanse.kube.transport import Request
from hanse.model.json_input import decode_json
from hanse.model.kinds.core import ServiceAccount
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
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": max(seconds, 600)},
        }
        path = resource_path(ServiceAccount.kind, namespace, account, "token")
        request = Request("POST", path, body=msgspec.json.encode(body))
        answer = await connection.api.send(request)
        token = decode_json(answer.body).get("status", {}).get("token", "")
        if not token:
            raise KubeError(f"{cluster} issued no token for {account}")
        return {"token": token}
