"""The dashboard of a local federation: all its agents, and fault injection."""

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec

from hanse.app.agent import Agent
from hanse.app.dashboard import DashboardBackend
from hanse.cli.errors import InputError
from hanse.kube.transport import Transport
from hanse.local.up.control import ControlRequest
from hanse.local.up.errors import UpError
from hanse.local.up.federation import LocalFederation
from hanse.web.dashboard.auth import Authenticator
from hanse.web.dashboard.server import ActionRefused, PageActions, serving

LOOPBACK = "127.0.0.1"


class LocalDashboard:
    """The dashboard server over all agents in this process."""

    def __init__(self, port: int) -> None:
        self._listener = _listen(port)
        self._auth = Authenticator()
        self._federation: LocalFederation | None = None
        self._backend = DashboardBackend(self._transport_for, self._local_state)

    @property
    def address(self) -> str:
        """The URL of the page."""
        return "http://{}:{}".format(*self._listener.getsockname()[:2])

    def login_link(self) -> str:
        """A link that logs a browser in, once."""
        return f"{self.address}/enter/{self._auth.issue_code()}"

    @property
    def token(self) -> str:
        """The bearer token for programs."""
        return self._auth.token

    def showing(self, agent: Agent) -> AbstractAsyncContextManager[None]:
        """Include an agent's snapshot until the block ends."""
        return self._backend.showing(agent)

    @asynccontextmanager
    async def running(self, federation: LocalFederation) -> AsyncIterator[None]:
        """Serve the page until the block ends."""
        self._federation = federation
        actions = PageActions(self._backend.resolve, self._backend.plan, self._execute)
        async with serving(self._backend.updates, self._auth, actions, self._listener):
            yield

    def close(self) -> None:
        """Close the listening socket."""
        self._listener.close()

    def _local_state(self) -> Any:
        return self._federation.status() if self._federation is not None else None

    def _transport_for(self, cluster: str) -> Transport | None:
        known = self._federation is not None and cluster in self._federation.names
        return (
            self._federation.transport_to(cluster)
            if self._federation is not None and known
            else None
        )

    async def _execute(self, query: Mapping[str, Any]) -> Any:
        """Run a control request of the page, such as cutting a connection."""
        assert self._federation is not None, "requests come while the federation runs"
        try:
            return await self._federation.execute(msgspec.convert(query, ControlRequest))
        except msgspec.ValidationError as error:
            raise ActionRefused(f"that is no order: {error}") from None
        except UpError as error:
            raise ActionRefused(str(error)) from None


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"--dashboard-port: cannot listen on {LOOPBACK}:{port} ({reason}); choose another"
        ) from None
