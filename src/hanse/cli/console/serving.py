"""Serves the console until it is ended."""

import asyncio
import socket
from collections.abc import Sequence

from hanse.app.views import views
from hanse.cli.clusters import ClusterAccess, open_client
from hanse.cli.console.poller import FleetPoller
from hanse.cli.errors import InputError
from hanse.web.dashboard.actions import PageActions
from hanse.web.dashboard.items import ItemCache
from hanse.web.dashboard.people import People
from hanse.web.dashboard.server import serving
from hanse.web.dashboard.updates import LiveUpdates


def listening_socket(address: str) -> socket.socket:
    """A socket at ADDRESS:PORT; raises `InputError` where it cannot be used."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise InputError(f"--listen: {address!r} is not ADDRESS:PORT, as 127.0.0.1:8088")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), int(port)), family=family)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"--listen: cannot listen on {address} ({reason}); choose another"
        ) from None


async def serve_console(
    clusters: Sequence[ClusterAccess],
    home: ClusterAccess,
    listener: socket.socket,
    hosts: tuple[str, ...],
    *,
    local: bool,
) -> None:
    """Read the clusters and serve the page; the home cluster knows the people. Never returns."""
    poller = FleetPoller(clusters, local=local)
    items = poller.items = ItemCache(views(), poller.snapshot)
    updates = LiveUpdates(items)
    async with open_client(home.credentials) as client:
        people = People(client.send, poller.namespaces)
        async with (
            serving(updates, people, PageActions(), listener, hosts),
            asyncio.TaskGroup() as group,
        ):
            group.create_task(poller.run(), name="console")
