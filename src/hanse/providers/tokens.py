"""Issues tokens of service accounts in other clusters, by TokenRequest."""

from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, StaticCredentials
from hanse.kube.errors import BadCredentials, KubeError
from hanse.kube.kubeconfig import Kubeconfig, KubeconfigSource
from hanse.kube.token_requests import issued_token, token_request
from hanse.kube.transport import Request, Response
from hanse.model.kinds.core import Secret
from hanse.model.objects import ClusterId, Wire
from hanse.model.tokens import BoundSecret, token_digest
from hanse.runtime.api import ClusterClient
from hanse.runtime.informers import ClusterInformers
from hanse.runtime.managed_connection import TransportFactory


class TokenIssuer:
    """The provider that requests a token of an account in another cluster."""

    def __init__(self, new_transport: TransportFactory) -> None:
        """`new_transport` connects by kubeconfig; no cluster is known until `informers` is set."""
        self.informers: ClusterInformers | None = None
        """Set once the reconciler exists, which is built with its providers."""
        self._new_transport = new_transport

    async def __call__(
        self,
        namespace: str,
        account: str,
        seconds: int,
        replaces: str,
        cluster: ClusterId = "",
        secret: str = "",
        bound: tuple[str, str] | None = None,
    ) -> Wire:
        """Request a new token of an account, for at least 600 s, from a cluster's API server.

        That is the connected `cluster`, or with `secret` (`namespace/name/key` of a kubeconfig, in
        the own cluster) that of its context with the token whose digest is `replaces`. `bound` is
        the name and uid of the Secret there with which the new one ends, too.
        Returns the new one as `token`; raises KubeError if there is no such cluster, or it issues
        none.
        """
        binding = BoundSecret(*bound) if bound is not None else None
        request = token_request(namespace, account, max(seconds, 600), binding)
        send = self._send_by_kubeconfig(secret, replaces, request) if secret else None
        token = issued_token(await (send or self._send_to_connected(cluster, request)))
        if not token:
            raise KubeError(f"{cluster or secret} issued no token for {account}")
        return {"token": token}

    async def _send_to_connected(self, cluster: ClusterId, request: Request) -> Response:
        """Send by the agent's connection to a cluster; a status other than 2xx is raised.

        Raises `KubeError` without a connection.
        """
        connection = self.informers.connections.get(cluster) if self.informers is not None else None
        if connection is None or not isinstance(connection.api, ClusterClient):
            raise KubeError(f"{cluster} is not connected")
        return await connection.api.send(request)

    async def _send_by_kubeconfig(self, place: str, replaces: str, request: Request) -> Response:
        """Send by the kubeconfig context whose token has the digest `replaces`, and close it again.

        `place` is the `namespace/name/key` of the kubeconfig's Secret; raises `KubeError` if it has
        no such token. Followers, which are not connected to sites, send this way.
        """
        for context, config in self._contexts(place):
            if config.identity.token and token_digest(config.identity.token) == replaces:
                transport = self._new_transport(context, StaticCredentials(config))
                try:
                    return await Client(transport).send(request)
                finally:
                    await transport.close()
        raise KubeError(f"{place} has no such token any more")

    def _contexts(self, place: str) -> list[tuple[str, ClientConfig]]:
        """The contexts with usable credentials of the kubeconfig in a Secret of the own cluster.

        Each with its configuration; none if the Secret, as cached, or its key is missing. `place`
        is `namespace/name/key`. Raises `BadCredentials` for a text that is no kubeconfig.
        """
        namespace, name, key = place.split("/")
        snapshot = self.informers.snapshot() if self.informers is not None else None
        secret = snapshot.get(snapshot.local, Secret, name, namespace) if snapshot else None
        text = secret.data.get(key, b"") if secret is not None else b""
        found: list[tuple[str, ClientConfig]] = []
        kubeconfig = Kubeconfig([KubeconfigSource(text, f"Secret {place}")], trusted=False)
        for context in kubeconfig.contexts:
            try:
                found.append((context, kubeconfig.resolve(context).config))
            except BadCredentials:
                continue
        return found
