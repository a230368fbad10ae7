"""The dashboard of a local federation: all agents side by side, and its faults by click."""

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec

from hanse import app
from hanse.cli.dashboard.backend import DashboardBackend
from hanse.cli.errors import InputError
from hanse.kube.transport import Transport
from hanse.local.up.control import ControlRequest
from hanse.local.up.errors import UpError
from hanse.local.up.federation import LocalFederation
from hanse.web.dashboard.auth import Authenticator
from hanse.web.dashboard.server import ActionRefused, PageActions, serving

LOOPBACK = "127.0.0.1"


class LocalDashboard:
    """One page over everything that runs here."""

    def __init__(self, port: int) -> None:
        self._listener = _bound(port)
        self._entry = Authenticator()
        self._whole: LocalFederation | None = None
        self._window = DashboardBackend(self._transport_for, self._surroundings)

    @property
    def address(self) -> str:
        """Where the page is."""
        return "http://{}:{}".format(*self._listener.getsockname()[:2])

    def login_link(self) -> str:
        """A link that lets a browser in, once."""
        return f"{self.address}/enter/{self._entry.code()}"

    @property
    def token(self) -> str:
        """What a program shows to be let in."""
        return self._entry.token

    def showing(self, agent: app.Agent) -> AbstractAsyncContextManager[None]:
        """Show what an agent sees for as long as it runs."""
        return self._window.showing(agent)

    @asynccontextmanager
    async def running(self, whole: LocalFederation) -> AsyncIterator[None]:
        """Show the page until the block ends."""
        self._whole = whole
        doors = PageActions(self._window.resolve, self._window.plan, self._order)
        async with serving(self._window.live, self._entry, doors, self._listener):
            yield

    def close(self) -> None:
        """Let go of the port."""
        self._listener.close()

    def _surroundings(self) -> Any:
        return self._whole.status() if self._whole is not None else None

    def _transport_for(self, cluster: str) -> Transport | None:
        known = self._whole is not None and cluster in self._whole.names
        return self._whole.transport_to(cluster) if self._whole is not None and known else None

    async def _order(self, query: Mapping[str, Any]) -> Any:
        assert self._whole is not None, "orders are taken while the federation runs"
        try:
            return await self._whole.execute(msgspec.convert(query, ControlRequest))
        except msgspec.ValidationError as error:
            raise ActionRefused(f"that is no order: {error}") from None
        except UpError as error:
            raise ActionRefused(str(error)) from None


def _bound(port: int) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"--dashboard-port: cannot listen on {LOOPBACK}:{port} ({reason}); choose another"
        ) from None
