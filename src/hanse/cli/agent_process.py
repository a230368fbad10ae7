"""The process of an agent: its ways to clusters, and its end by a signal."""

import asyncio
import logging
import signal
import socket
from pathlib import Path

from msgspec import Struct

from hanse import app
from hanse.cli.oops import bad_credentials
from hanse.kube import credentials
from hanse.kube.access import Credentials
from hanse.kube.errors import BadCredentials
from hanse.kube.http import HttpTransport

log = logging.getLogger(__name__)


class Ways(Struct, frozen=True):
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


async def run_agent(settings: app.Settings, ways: Ways, listener: socket.socket) -> int:
    """Work until a signal says to stop; raises `Oops` if credentials cannot even be read."""
    home, broker = await _readable(ways.home), ways.broker
    agent = app.Agent(
        settings,
        HttpTransport(home),
        broker=HttpTransport(await _readable(broker)) if broker is not None else None,
        features=app.features(settings.options),
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for which in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(which, stop.set)
    try:
        async with agent.running(listener):
            host, port = listener.getsockname()[:2]
            log.info("agent runs", extra={"cluster": settings.cluster, "listen": f"{host}:{port}"})
            await stop.wait()
            log.info("agent stops", extra={"cluster": settings.cluster})
    finally:
        await agent.close()
    return 0


async def _readable(found: Credentials) -> Credentials:
    try:
        await found.access()
    except BadCredentials as error:
        raise bad_credentials(error) from None
    return found
