"""Serves the console until it is ended."""

import socket
from collections.abc import Sequence

from hanse.app.console import serving_console
from hanse.cli.clusters import ClusterAccess, open_client
from hanse.cli.console.poller import FleetPoller


async def serve_console(
    clusters: Sequence[ClusterAccess],
    home: ClusterAccess,
    listener: socket.socket,
    hosts: tuple[str, ...],
    *,
    local: bool,
) -> None:
    """Read the clusters and serve the page; never returns.

    People's tokens are reviewed by the API server of `home`, with our credentials.
    """
    poller = FleetPoller(clusters, local=local)
    async with (
        open_client(home.credentials) as client,
        serving_console(
            poller.snapshot, (poller.checks,), poller.namespaces, client.send, listener, hosts
        ) as poller.on_change,
    ):
        await poller.run()
