"""The clusters that a scenario runs on, of one engine, and the operations on them."""

import socket
from datetime import timedelta
from typing import Any, Protocol

from msgspec import Struct

from hanse.kube.client_config import Credentials, ServerEndpoint
from hanse.kube.clock import Clock
from hanse.kube.lease import LeaseTimings
from hanse.kube.transport import Transport
from hanse.model.objects import ClusterId
from hanse.web.webhooks.server import WebhookServer
from tests.support.service_accounts import Account


class WebhookEndpoint(Struct, frozen=True):
    """Where an API server calls an agent's webhooks."""

    url: str
    listener: socket.socket | None = None
    """None where API servers run in this process and call it directly."""


class ClusterTestbed(Protocol):
    """Clusters of one engine, including the broker, and the operations on them."""

    @property
    def names(self) -> tuple[ClusterId, ...]:
        """The clusters that have agents; the broker has none."""
        ...

    @property
    def clock(self) -> Clock: ...

    @property
    def timings(self) -> LeaseTimings:
        """Lease durations, short where time is real."""
        ...

    @property
    def poll_interval(self) -> timedelta:
        """How often checks are polled."""
        ...

    @property
    def settle_time(self) -> timedelta:
        """How long nothing must be written for a fleet to count as settled."""
        ...

    @property
    def slack(self) -> timedelta:
        """What a busy machine may add to a timeout."""
        ...

    def connect(self, cluster: ClusterId) -> Transport:
        """An administrator's transport to a cluster; the caller closes it."""
        ...

    async def agent_transport(self, account: Account, cluster: ClusterId) -> Transport:
        """A transport authenticated as an agent's account, with RBAC where the engine has it."""
        ...

    def endpoint(self, cluster: ClusterId) -> ServerEndpoint:
        """The address of a cluster's API server, as it stands in kubeconfigs."""
        ...

    def dial(self, cluster: ClusterId, credentials: Credentials) -> Transport:
        """A transport to a cluster by given credentials."""
        ...

    def webhook_endpoint(self, name: str) -> WebhookEndpoint:
        """Reserve the endpoint at which an agent will serve webhooks."""
        ...

    def set_webhook_server(
        self, endpoint_for_webhooks: WebhookEndpoint, server: WebhookServer | None
    ) -> None:
        """Set or remove the server behind a webhook endpoint, where it is called in process."""
        ...

    async def restart_server(self, cluster: ClusterId) -> None:
        """Restart a cluster's API server: watches break, and history may be lost."""
        ...

    async def back_up(self, cluster: ClusterId) -> object:
        """A backup of all objects of a cluster."""
        ...

    async def restore(self, cluster: ClusterId, backup: Any, *, bump: int = 0) -> None:
        """Restore a cluster from a backup; `bump` moves its versions forward."""
        ...
