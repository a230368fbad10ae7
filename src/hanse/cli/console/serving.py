"""Serves the console until it is ended."""

import socket
from collections.abc import Sequence

from hanse.app.console import serving_console
from hanse.cli.clusters import ClusterAccess, open_client
from hanse.cli.console.poller import FleetPoller
from hanse.cli.errors import InputError


def listening_socket(address: str) -> socket.socket:
    """A listening TCP socket at ADDRESS:PORT; raises `InputError` where it cannot be used."""
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
    """Read the clusters and serve the page; never returns.

    People's tokens are reviewed by the API server of `home`, with our credentials.
    """
    poller = FleetPoller(clusters, local=local)
    async with (
        open_client(home.credentials) as client,
        serving_console(
            poller.snapshot, poller.namespaces, client.send, listener, hosts
        ) as poller.on_change,
    ):
        await poller.run()
