"""External IPAM of networks: providers that allocate Service addresses over HTTP."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import aiohttp
import msgspec

from hanse.kube.loop_connector import LoopConnector
from hanse.model.json_input import decode_json
from hanse.model.objects import Wire

REQUEST_TIMEOUT = timedelta(milliseconds=900)
"""Less than an admission review may take."""
MAX_RESPONSE = 16 * 1024 * 1024
"""Bytes that an answer may have: the addresses of a large network are in one."""


class AddressProvider:
    """The provider `network-TYPE`: POSTs the request with its `action`, and returns the answer.

    A request may be sent again and must then get the same answer.
    """

    def __init__(self, url: str) -> None:
        """Send requests to this URL; no connection is kept between them."""
        self._url = url

    async def __call__(self, **request: Any) -> Wire:
        """POST the arguments as JSON and return the JSON object of the answer.

        Raises OSError for any status but 200, with the answer's `error`, and without a usable
        answer within REQUEST_TIMEOUT.
        """
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT.total_seconds())
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, connector=LoopConnector()) as session,
                session.post(self._url, json=request) as response,
            ):
                body = await _read_body(response.content)
                status = response.status
        except aiohttp.ClientError as error:
            raise OSError(f"it does not answer: {type(error).__name__}") from error
        try:
            answer = decode_json(body, type=dict[str, Any])
        except msgspec.DecodeError:
            answer = None
        if status != 200:
            said = f": {answer['error']}"[:200] if answer and answer.get("error") else ""
            raise OSError(f"it answered {status}{said}")
        if answer is None:
            raise OSError("its answer is not JSON")
        return answer


async def _read_body(content: aiohttp.StreamReader) -> bytes:
    """The whole body of a response; raises OSError if it is larger than `MAX_RESPONSE`."""
    body = bytearray()
    async for chunk in content.iter_any():
        body += chunk
        if len(body) > MAX_RESPONSE:
            raise OSError(f"its answer is larger than {MAX_RESPONSE} bytes")
    return bytes(body)


def network_providers(urls: Iterable[tuple[str, str]]) -> dict[str, AddressProvider]:
    """Providers by their name `network-TYPE`, for pairs of network type and URL."""
    return {f"network-{type_}": AddressProvider(url) for type_, url in urls}
