"""Providers of networks outside of Hanse: asked over HTTP, and never waited for too long."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from hanse.providers import network_ipam
from hanse.providers.network_ipam import AddressProvider, network_providers

pytestmark = pytest.mark.anyio
WANTED = {"network": "acme.far", "namespace": "acme-web", "service": "web", "request": "u-1"}


@asynccontextmanager
async def provider(answer: Any) -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """A provider that answers so; gives its URL, and what it was asked."""
    asked: list[dict[str, Any]] = []

    async def respond(request: web.Request) -> web.StreamResponse:
        asked.append(await request.json())
        found: web.StreamResponse = await answer(request)
        return found

    app = web.Application()
    app.router.add_post("/addresses", respond)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, listener).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/addresses", asked
    finally:
        await runner.cleanup()


async def test_a_provider_gets_the_whole_request_and_its_answer_is_used() -> None:
    async def gives(_: web.Request) -> web.Response:
        return web.json_response({"address": "10.60.0.4"})

    async with provider(gives) as (url, asked):
        answer = await network_providers([("mizar", url)])["network-mizar"](**WANTED)

    assert answer == {"address": "10.60.0.4"}
    assert asked == [WANTED]


async def test_an_answer_may_be_long_and_come_in_parts() -> None:
    addresses = [f"10.60.{high}.{low}" for high in range(40) for low in range(256)]

    async def lists(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        text = json.dumps({"addresses": addresses}).encode()
        for part in (text[:100], text[100:]):
            await response.write(part)
            await asyncio.sleep(0.01)
        return response

    async with provider(lists) as (url, _):
        answer = await AddressProvider(url)(action="list")

    assert answer == {"addresses": addresses}


async def test_an_answer_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_ipam, "MAX_RESPONSE", 1000)

    async def goes_on(_: web.Request) -> web.Response:
        return web.Response(text="x" * 1001)

    async with provider(goes_on) as (url, _):
        with pytest.raises(OSError, match="larger than 1000 bytes"):
            await AddressProvider(url)(action="list")


async def _fails(_: web.Request) -> web.Response:
    return web.Response(status=500, text="no")


async def _babbles(_: web.Request) -> web.Response:
    return web.Response(text="10.60.0.4")


@pytest.mark.parametrize(
    ("answer", "why"), [(_fails, "it answered 500"), (_babbles, "its answer is not JSON")]
)
async def test_an_invalid_answer_is_reported_as_such(answer: Any, why: str) -> None:
    async with provider(answer) as (url, _):
        with pytest.raises(OSError, match=why):
            await AddressProvider(url)(**WANTED)


async def test_one_that_is_not_there_or_does_not_answer_in_time_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network_ipam, "REQUEST_TIMEOUT", network_ipam.REQUEST_TIMEOUT / 10)

    async def sleeps(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    with pytest.raises(OSError, match="does not answer"):
        await AddressProvider("http://127.0.0.1:1/")(**WANTED)
    async with provider(sleeps) as (url, _):
        with pytest.raises(TimeoutError):
            await AddressProvider(url)(**WANTED)
