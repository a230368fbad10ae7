"""Providers of networks outside of Hanse, asked over HTTP for the addresses of Services."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import aiohttp
import msgspec

from hanse.model.objects import Wire

PATIENCE = timedelta(milliseconds=900)
"""Less than an admission decision may take."""
LARGEST_ANSWER = 64 * 1024


class AddressProvider:
    """The provider `network-TYPE`: one POST with what is wanted, answered with `address`.

    The same `request` may be sent again and must be answered alike.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    async def __call__(self, **wanted: Any) -> Wire:
        timeout = aiohttp.ClientTimeout(total=PATIENCE.total_seconds())
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(self._url, json=wanted) as response,
            ):
                body = await response.content.read(LARGEST_ANSWER)
                status = response.status
        except aiohttp.ClientError as error:
            raise OSError(f"it does not answer: {type(error).__name__}") from error
        if status != 200:
            raise OSError(f"it answered {status}")
        try:
            return msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.DecodeError:
            raise OSError("its answer is not JSON") from None


def network_providers(told: Iterable[tuple[str, str]]) -> dict[str, AddressProvider]:
    """A provider for each type of network that has one."""
    return {f"network-{type_}": AddressProvider(url) for type_, url in told}
