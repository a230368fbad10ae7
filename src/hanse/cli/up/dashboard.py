"""The dashboard of a local federation: all its agents, and fault injection."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec

from hanse.app.agent import Agent
from hanse.app.dashboard import Dashboard
from hanse.cli.errors import InputError
from hanse.cli.plan.changes import change_rows, plan_changes_in_process
from hanse.cli.plan.documents import parse_documents
from hanse.kube.client import Client
from hanse.kube.errors import KubeError
from hanse.kube.transport import Transport
from hanse.local.up.control import ControlRequest
from hanse.local.up.errors import UpError
from hanse.local.up.federation import LocalFederation
from hanse.web.dashboard.actions import ActionRefused
from hanse.web.dashboard.auth import Authenticator

LOOPBACK = "127.0.0.1"
ACTION_TIMEOUT = 20.0
"""Seconds that an action of the page may take."""


class LocalDashboard:
    """The dashboard server over all agents in this process."""

    def __init__(self, port: int) -> None:
        """Listen on a loopback port, 0 for any; raises `InputError` if it cannot be used."""
        self._listener = _listen(port)
        self._auth = Authenticator()
        self._federation: LocalFederation | None = None
        self._dashboard = Dashboard(self._auth, self._local_state)

    @property
    def address(self) -> str:
        """The URL of the page."""
        return "http://{}:{}".format(*self._listener.getsockname()[:2])

    def login_link(self) -> str:
        """A new link with a code that logs a browser in, once."""
        return f"{self.address}/enter/{self._auth.issue_code()}"

    @property
    def token(self) -> str:
        """The bearer token for programs."""
        return self._auth.token

    def showing(self, agent: Agent) -> AbstractAsyncContextManager[None]:
        """A context manager: in its block the page includes what an agent sees."""
        return self._dashboard.showing(agent)

    @asynccontextmanager
    async def running(self, federation: LocalFederation) -> AsyncIterator[None]:
        """Serve the page on the socket bound before, with its actions, until the block ends."""
        self._federation = federation
        async with self._dashboard.serving(
            self._listener, plan=self._plan, order=self._run_control_request
        ):
            yield

    def close(self) -> None:
        """Close the listening socket."""
        self._listener.close()

    def _local_state(self) -> Any:
        """The status of the local federation for the page; None before there is one."""
        return self._federation.status() if self._federation is not None else None

    def _transport_for(self, cluster: str) -> Transport | None:
        """A new connection to a cluster, which the caller closes.

        None for an unknown one, or before there is a federation.
        """
        known = self._federation is not None and cluster in self._federation.names
        return (
            self._federation.transport_to(cluster)
            if self._federation is not None and known
            else None
        )

    async def _plan(self, query: Mapping[str, Any]) -> Any:
        """The changes that applying `yaml` to `cluster` would cause; nothing is written.

        The cluster's API server gets dry runs, the agents of this process are asked. Raises
        `ActionRefused` for an unknown cluster, invalid YAML, an error, or no answer within
        `ACTION_TIMEOUT`.
        """
        where, text = str(query.get("cluster", "")), str(query.get("yaml", ""))
        transport = self._transport_for(where)
        if transport is None:
            raise ActionRefused(
                f"nothing can be tried in {where!r} from here; choose another cluster"
            )
        client = Client(transport)
        try:
            async with asyncio.timeout(ACTION_TIMEOUT):
                planned = await plan_changes_in_process(
                    self._dashboard.reconcilers, client, where, parse_documents(text, "line")
                )
        except TimeoutError:
            raise ActionRefused(f"{where} did not answer within {ACTION_TIMEOUT:.0f} s") from None
        except InputError as error:
            raise ActionRefused(error.message) from None
        except KubeError as error:
            raise ActionRefused(str(error)) from None
        finally:
            await client.close()
        return {"changes": change_rows(planned)}

    async def _run_control_request(self, query: Mapping[str, Any]) -> Any:
        """Run a control request of the page, such as cutting a link, and return its result.

        Raises `ActionRefused` for an invalid request, or one that the federation refuses.
        """
        assert self._federation is not None, "requests come while the federation runs"
        try:
            return await self._federation.execute(msgspec.convert(query, ControlRequest))
        except msgspec.ValidationError as error:
            raise ActionRefused(f"that is no order: {error}") from None
        except UpError as error:
            raise ActionRefused(str(error)) from None


def _listen(port: int) -> socket.socket:
    """A listening socket on a loopback port, 0 for any free one.

    Raises `InputError` if the port cannot be used.
    """
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"--dashboard-port: cannot listen on {LOOPBACK}:{port} ({reason}); choose another"
        ) from None
