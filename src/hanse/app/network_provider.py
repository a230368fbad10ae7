"""The reference provider of Service addresses, as a server."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Network
from pathlib import Path

from hanse.providers import address_book
from hanse.providers.address_book import AddressBook, serving_book

DEFAULT_POOL = "10.60.0.0/16"
SMALLEST_POOL_PREFIX = address_book.SMALLEST_POOL_PREFIX


@asynccontextmanager
async def providing_addresses(
    listener: socket.socket | None = None, pool: str = DEFAULT_POOL, file: Path | None = None
) -> AsyncIterator[str]:
    """Serve addresses of a pool until the block ends, by default on loopback; gives the URL.

    With `file` what is given out is kept there, else only in memory.
    """
    book = AddressBook(IPv4Network(pool), file)
    async with serving_book(listener or socket.create_server(("127.0.0.1", 0)), book) as url:
        yield url
