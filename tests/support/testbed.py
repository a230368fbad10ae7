"""What a stage stands on: clusters of one engine, and what can be done to them."""

import socket
from datetime import timedelta
from typing import Any, Protocol

from msgspec import Struct

from hanse.kube.access import Credentials, Endpoint
from hanse.kube.clock import Clock
from hanse.kube.lease import Terms
from hanse.kube.request import Transport
from hanse.model.objects import ClusterId
from hanse.web.webhooks.webhook_server import WebhookServer
from tests.support.service_accounts import Account


class WebhookEndpoint(Struct, frozen=True):
    """Where an API server asks an agent."""

    url: str
    listener: socket.socket | None = None
    """None where API servers are in this process and just call."""


class ClusterTestbed(Protocol):
    """Clusters of one engine, the broker among them, and what can be done to them."""

    @property
    def names(self) -> tuple[ClusterId, ...]:
        """The clusters that have agents; the broker is not one of them."""
        ...

    @property
    def clock(self) -> Clock: ...

    @property
    def terms(self) -> Terms:
        """The terms of leases, short where time is real."""
        ...

    @property
    def poll_interval(self) -> timedelta:
        """How often it makes sense to look whether something has come true."""
        ...

    @property
    def settle_time(self) -> timedelta:
        """How long nothing must be written for a fleet to count as settled."""
        ...

    @property
    def slack(self) -> timedelta:
        """What a busy machine may add to a time within which something comes true."""
        ...

    def connect(self, cluster: ClusterId) -> Transport:
        """A person's way to a cluster; the caller closes it."""
        ...

    async def agent_transport(self, account: Account, cluster: ClusterId) -> Transport:
        """An agent's way to a cluster, with the account's rights where the engine has rights."""
        ...

    def endpoint(self, cluster: ClusterId) -> Endpoint:
        """Where a cluster is, as others write it down."""
        ...

    def dial(self, cluster: ClusterId, credentials: Credentials) -> Transport:
        """The way to a cluster by credentials that an agent was given."""
        ...

    def webhook_endpoint(self, name: str) -> WebhookEndpoint:
        """Where an agent of that name will answer webhooks."""
        ...

    def set_webhook_server(
        self, endpoint_for_webhooks: WebhookEndpoint, keeper: WebhookServer | None
    ) -> None:
        """Who answers at a door from now on, where that is not heard on a socket."""
        ...

    async def restart_server(self, cluster: ClusterId) -> None:
        """Stop a cluster's API server and start it again: watches break, history may be lost."""
        ...

    async def back_up(self, cluster: ClusterId) -> object:
        """All that a cluster holds now."""
        ...

    async def restore(self, cluster: ClusterId, backup: Any) -> None:
        """Take a cluster back to what it held then."""
        ...
