"""The HTTPS server that API servers ask; what no store knows is asked for once, within a second."""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from aiohttp import web

from hanse.model.admission import AdmissionHook, AdmissionRequest, Allow, Deny, NeedsAnswer
from hanse.model.plan import Call, Read
from hanse.model.snapshot import Snapshot
from hanse.web.webhooks.admission import InvalidReview, answer, parse_request

log = logging.getLogger(__name__)

LOOKUP_TIMEOUT = timedelta(seconds=1)
LARGEST_BODY = 8 * 1024 * 1024
"""An AdmissionReview holds an object twice, and an object may have 3 MiB."""

LiveLookup = Callable[[Read | Call], Awaitable[Snapshot]]
"""Finds something out and gives the snapshot that knows it."""


async def decide(
    hook: AdmissionHook, review: AdmissionRequest, snapshot: Callable[[], Snapshot], ask: LiveLookup
) -> Allow | Deny:
    """One verdict; what the store does not know is asked for, never taken as absent."""
    verdict = hook.review(review, snapshot())
    if not isinstance(verdict, NeedsAnswer):
        return verdict
    try:
        async with asyncio.timeout(LOOKUP_TIMEOUT.total_seconds()):
            seen = await ask(verdict.question)
    except TimeoutError:
        return Deny("Hanse could not find out in time; try again", 503)
    second = hook.review(review, seen)
    if isinstance(second, NeedsAnswer):
        return Deny(f"Hanse could not find out about {second.question.id}; try again", 503)
    return second


@asynccontextmanager
async def serving(
    hooks: Sequence[AdmissionHook],
    snapshot: Callable[[], Snapshot],
    ask: LiveLookup,
    listener: socket.socket,
    tls: ssl.SSLContext,
) -> AsyncIterator[None]:
    """Answer `POST /<hook>` on a socket until the block ends."""
    app = web.Application(client_max_size=LARGEST_BODY)
    for hook in hooks:
        app.router.add_post(f"/{hook.name}", _answering(hook, snapshot, ask))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listener, ssl_context=tls).start()
        yield
    finally:
        await runner.cleanup()


async def review_response(
    hook: AdmissionHook, body: bytes, snapshot: Callable[[], Snapshot], ask: LiveLookup
) -> bytes:
    """The answer to an AdmissionReview, whatever happens; raises `InvalidReview`."""
    question = parse_request(body)
    try:
        verdict = await decide(hook, question.review, snapshot, ask)
    except Exception:
        log.exception("webhook failed", extra={"hook": hook.name})
        verdict = Deny(f"Hanse failed to decide ({hook.name}); its log says why", 500)
    return answer(question, verdict)


def _answering(
    hook: AdmissionHook, snapshot: Callable[[], Snapshot], ask: LiveLookup
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def respond(request: web.Request) -> web.Response:
        try:
            body = await review_response(hook, await request.read(), snapshot, ask)
        except InvalidReview as error:
            return web.Response(status=400, text=f"{error}\n")
        return web.Response(body=body, content_type="application/json")

    return respond
