"""The process of an agent: its ways to clusters, and its end by a signal."""

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from msgspec import Struct

from hanse import app
from hanse.cli.agent.broker_token import renewing
from hanse.cli.agent.log_level import following_log_level
from hanse.cli.errors import credentials_error
from hanse.kube import credentials
from hanse.kube.client_config import Credentials
from hanse.kube.errors import BadCredentials
from hanse.kube.http_transport import HttpTransport

log = logging.getLogger(__name__)


class AgentCredentials(Struct, frozen=True):
    """The kubeconfigs and contexts of an agent's cluster and of its broker."""

    home_file: Path | None = None
    home_context: str = ""
    broker_file: Path | None = None
    broker_context: str = ""

    @property
    def home(self) -> Credentials:
        return credentials.found(self.home_file, context=self.home_context)

    @property
    def broker(self) -> Credentials | None:
        if self.broker_file is None and not self.broker_context:
            return None
        return credentials.found(self.broker_file, context=self.broker_context)


class DashboardSettings(Struct, frozen=True):
    """Where and to whom an agent shows its dashboard."""

    listener: socket.socket
    token: str
    hosts: tuple[str, ...] = ()

    @asynccontextmanager
    async def showing(self, agent: app.Agent) -> AsyncIterator[None]:
        """Show what an agent sees until the block ends; nothing can be tried with its rights."""
        from hanse.cli.dashboard.backend import DashboardBackend
        from hanse.web.dashboard.auth import Authenticator
        from hanse.web.dashboard.server import PageActions, serving

        window = DashboardBackend(lambda _: None)
        door = Authenticator(self.token)
        asks = PageActions(resolve=window.resolve)
        async with (
            window.showing(agent),
            serving(window.live, door, asks, self.listener, self.hosts),
        ):
            yield


class Listeners(Struct, frozen=True):
    """Where an agent is asked: about its health, and by API servers."""

    health: socket.socket
    webhooks: socket.socket | None = None


async def run_agent(
    settings: app.Settings,
    ways: AgentCredentials,
    listeners: Listeners,
    shows: DashboardSettings | None = None,
) -> int:
    """Work until a signal says to stop; raises `InputError` if credentials cannot even be read."""
    home, broker = await _readable(ways.home), ways.broker
    agent = app.Agent(
        settings,
        HttpTransport(home),
        broker=HttpTransport(await _readable(broker)) if broker is not None else None,
        external_systems=app.external_systems(settings.options),
        features=app.features(settings.options),
        hooks=app.hooks(settings.options),
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for which in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(which, stop.set)
    try:
        async with AsyncExitStack() as stack:
            stack.enter_context(following_log_level(agent.reconciler))
            if shows is not None:
                await stack.enter_async_context(shows.showing(agent))
            await stack.enter_async_context(agent.running(listeners.health, listeners.webhooks))
            if broker is not None:
                file, context = ways.broker_file, ways.broker_context
                await stack.enter_async_context(renewing(settings, home, broker, file, context))
            host, port = listeners.health.getsockname()[:2]
            where = {"cluster": settings.cluster, "listen": f"{host}:{port}"}
            if shows is not None:
                where["dashboard"] = "{}:{}".format(*shows.listener.getsockname()[:2])
            log.info("agent runs", extra=where)
            await stop.wait()
            log.info("agent stops", extra={"cluster": settings.cluster})
    finally:
        await agent.close()
    return 0


async def _readable(found: Credentials) -> Credentials:
    try:
        await found.config()
    except BadCredentials as error:
        raise credentials_error(error) from None
    return found
