"""Admission webhooks over TLS, verified by their caBundle."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from aiohttp import web

from tinykube.serving import Certificate, self_signed, tls_context
from tinykube.webhook_client import WebhookCall, WebhookFailed, call_over_https


@asynccontextmanager
async def listening(authority: Certificate, status: int = 200) -> AsyncIterator[str]:
    """A webhook on a port of its own that answers with what it was sent."""

    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(status=status, body=await request.read())

    server = web.Server(answer)
    context = tls_context(authority)
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(server, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}/review"
    finally:
        listener.close()
        await server.shutdown()


def call(url: str, authority: Certificate, **more: str) -> WebhookCall:
    return WebhookCall(url, authority.certificate, b"{}", timedelta(seconds=5), **more)


async def test_a_webhook_with_a_trusted_certificate_is_called() -> None:
    authority = self_signed("ours")

    async with listening(authority) as url:
        assert await call_over_https(call(url, authority)) == b"{}"


async def test_a_webhook_of_another_authority_is_not_trusted() -> None:
    async with listening(self_signed("ours")) as url:
        with pytest.raises(WebhookFailed, match="certificate verify failed"):
            await call_over_https(call(url, self_signed("theirs")))


async def test_the_certificate_of_a_webhook_must_have_the_expected_name() -> None:
    authority = self_signed("ours")

    async with listening(authority) as url:
        with pytest.raises(WebhookFailed, match="certificate verify failed"):
            await call_over_https(call(url, authority, server_name="hook.other.svc"))


async def test_an_error_status_is_a_failure() -> None:
    authority = self_signed("ours")

    async with listening(authority, status=503) as url:
        with pytest.raises(WebhookFailed, match="503"):
            await call_over_https(call(url, authority))


async def test_a_refused_connection_is_a_failure() -> None:
    with pytest.raises(WebhookFailed, match="Post"):
        await call_over_https(call("https://127.0.0.1:1/", self_signed("ours")))
