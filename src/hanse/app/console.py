"""The page over snapshots that somebody else takes, for people with their own tokens."""

import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from hanse.app.views import views
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.view import View
from hanse.web.dashboard.actions import PageActions
from hanse.web.dashboard.items import ItemCache
from hanse.web.dashboard.people import People, Send
from hanse.web.dashboard.server import serving
from hanse.web.dashboard.updates import LiveUpdates


@asynccontextmanager
async def serving_console(
    take_snapshot: Callable[[], MultiClusterSnapshot],
    beside: Iterable[View],
    list_namespaces: Callable[[], Iterable[str]],
    send: Send,
    listener: socket.socket,
    hosts: tuple[str, ...],
) -> AsyncIterator[Callable[[], None]]:
    """Serve the page until the block ends; gives a function to call when snapshots changed.

    It shows `beside`, further views, with all others. `send` sends reviews of people's tokens and
    rights to an API server; `hosts` are the host names that requests may have.
    """
    items = ItemCache((*views(), *beside), take_snapshot)
    people = People(send, list_namespaces)
    async with serving(LiveUpdates(items), people, PageActions(), listener, hosts):
        yield items.invalidate
