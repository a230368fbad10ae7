"""Calls to admission webhooks over HTTPS."""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

import aiohttp
from msgspec import Struct

IDLE_TIMEOUT = timedelta(seconds=15)
"""How long an idle connection is kept."""


class WebhookFailed(Exception):
    """A webhook could not be called, or its response is unusable."""


class WebhookCall(Struct, frozen=True):
    """One POST to a webhook; `authority` is a PEM bundle, the system's when empty."""

    url: str
    authority: bytes
    body: bytes
    timeout: timedelta
    server_name: str = ""
    """The expected name in its certificate, if not the host of the URL."""


WebhookCaller = Callable[[WebhookCall], Awaitable[bytes]]
"""Makes a call and returns the body of a 200 response; raises `WebhookFailed`."""

ServiceResolver = Callable[[Mapping[str, Any], WebhookCall], WebhookCall]
"""Resolves a service reference to a call with a URL; raises `WebhookFailed`."""


def no_services(service: Mapping[str, Any], call: WebhookCall) -> WebhookCall:
    """Raise `WebhookFailed` for every service reference: nothing serves the cluster's Services."""
    port, path = service.get("port", 443), service.get("path") or ""
    host = f"{service['name']}.{service['namespace']}.svc"
    seconds = int(call.timeout.total_seconds())
    raise WebhookFailed(
        f'Post "https://{host}:{port}{path}?timeout={seconds}s": no endpoints available for '
        f'service "{service["name"]}"'
    )


async def call_over_https(call: WebhookCall) -> bytes:
    """POST a review over TLS on a new connection, closed afterwards; returns the body.

    Raises `WebhookFailed` if it cannot be called or does not answer 200.
    """
    caller = HttpsCaller()
    try:
        return await caller(call)
    finally:
        await caller.close()


class HttpsCaller:
    """Calls webhooks over TLS on connections that are kept alive."""

    def __init__(self) -> None:
        """No connection is opened before the first call."""
        self._sessions: dict[bytes, aiohttp.ClientSession] = {}

    async def __call__(self, call: WebhookCall) -> bytes:
        """POST the review and return the body; tried once more if the server disconnects.

        Raises WebhookFailed for a URL that is not https, a bad CA bundle, a connection error, a
        timeout, and a status other than 200.
        """
        if not call.url.startswith("https://"):
            raise WebhookFailed(f'Post "{call.url}": only https is spoken to webhooks')
        session = self._session_for(call.authority)
        try:
            try:
                return await _post_review(session, call)
            except aiohttp.ServerDisconnectedError:  # an idle connection that the server has closed
                return await _post_review(session, call)
        except (aiohttp.ClientError, OSError) as error:
            raise WebhookFailed(f'Post "{call.url}": {error}') from error

    async def close(self) -> None:
        """Close every connection; a later call opens new ones."""
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

    def _session_for(self, authority: bytes) -> aiohttp.ClientSession:
        """The session of a CA bundle, kept for later calls; the system's CAs if it is empty.

        Raises WebhookFailed for a bad bundle.
        """
        known = self._sessions.get(authority)
        if known is not None:
            return known
        try:
            context = ssl.create_default_context(cadata=authority.decode() or None)
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise WebhookFailed(f"unable to load root certificates: {error}") from error
        connector = aiohttp.TCPConnector(
            ssl=context, keepalive_timeout=IDLE_TIMEOUT.total_seconds()
        )
        made = self._sessions[authority] = aiohttp.ClientSession(connector=connector)
        return made


async def _post_review(session: aiohttp.ClientSession, call: WebhookCall) -> bytes:
    """POST the review within the call's timeout and return the body of the response.

    Raises WebhookFailed for a status other than 200; errors of the connection and timeouts are
    those of aiohttp.
    """
    async with session.post(
        call.url,
        data=call.body,
        headers={"content-type": "application/json"},
        server_hostname=call.server_name or None,
        timeout=aiohttp.ClientTimeout(total=call.timeout.total_seconds()),
    ) as response:
        answered = await response.read()
        if response.status != 200:
            text = answered[:200].decode("utf-8", "replace")
            raise WebhookFailed(f"the server responded with {response.status}: {text}")
        return answered
