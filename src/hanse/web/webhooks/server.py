"""The HTTPS server of admission webhooks; a verdict may need one live lookup within a second."""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from aiohttp import web

from hanse.kube.server_tls import KeyPair, replace_certificate
from hanse.model.admission import AdmissionHook, AdmissionRequest, Allow, Deny, NeedsAnswer
from hanse.model.kinds.core import Secret
from hanse.model.plan import Call, Read
from hanse.model.snapshot import Change, ObjectChange, Snapshot
from hanse.web.webhooks.admission import InvalidReview, encode_response, parse_request

log = logging.getLogger(__name__)

LOOKUP_TIMEOUT = timedelta(seconds=1)
LARGEST_BODY = 8 * 1024 * 1024
"""An AdmissionReview holds an object twice, and an object may have 3 MiB."""

LiveLookup = Callable[[Read | Call], Awaitable[Snapshot]]
"""Reads or calls something, and returns a snapshot that includes the result."""


async def decide(
    hook: AdmissionHook, review: AdmissionRequest, snapshot: Callable[[], Snapshot], ask: LiveLookup
) -> Allow | Deny:
    """One verdict; if the hook needs an answer, that is looked up once and the hook asked again.

    Deny with 503 if the lookup takes more than LOOKUP_TIMEOUT, or the hook needs another one;
    errors of the hook and of `ask` are raised.
    """
    verdict = hook.review(review, snapshot())
    if not isinstance(verdict, NeedsAnswer):
        return verdict
    try:
        async with asyncio.timeout(LOOKUP_TIMEOUT.total_seconds()):
            fresh = await ask(verdict.question)
    except TimeoutError:
        return Deny("Hanse could not find out in time; try again", 503)
    second = hook.review(review, fresh)
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
    """Serve `POST /<hook>` for each hook over TLS on a socket until the block ends."""
    app = web.Application(client_max_size=LARGEST_BODY)
    for hook in hooks:
        app.router.add_post(f"/{hook.name}", _review_handler(hook, snapshot, ask))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listener, ssl_context=tls).start()
        yield
    finally:
        await runner.cleanup()


async def respond(
    hook: AdmissionHook, body: bytes, snapshot: Callable[[], Snapshot], ask: LiveLookup
) -> bytes:
    """The AdmissionReview in response to one; an error of the hook is logged and denies with 500.

    So does an error of `ask`. Raises `InvalidReview` if the body is none.
    """
    request = parse_request(body)
    try:
        verdict = await decide(hook, request.review, snapshot, ask)
    except Exception:
        log.exception("webhook failed", extra={"hook": hook.name})
        verdict = Deny(f"Hanse failed to decide ({hook.name}); its log says why", 500)
    return encode_response(request, verdict)


def _review_handler(
    hook: AdmissionHook, snapshot: Callable[[], Snapshot], ask: LiveLookup
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """A request handler that answers reviews of a hook; 400 if a review is invalid."""

    async def handle(request: web.Request) -> web.Response:
        """Answer one AdmissionReview; 400 if it is invalid."""
        try:
            body = await respond(hook, await request.read(), snapshot, ask)
        except InvalidReview as error:
            return web.Response(status=400, text=f"{error}\n")
        return web.Response(body=body, content_type="application/json")

    return handle


class WebhookServer:
    """An agent's webhooks over HTTPS, with the current certificate of a Secret."""

    def __init__(
        self,
        hooks: Sequence[AdmissionHook],
        snapshot: Callable[[], Snapshot],
        ask: LiveLookup,
        *,
        namespace: str,
        secret: str,
    ) -> None:
        """Nothing is served until there is a certificate in the Secret `namespace`/`secret`.

        `ask` answers the one question that a hook may need, and returns a snapshot with the answer.
        """
        self._hooks = {hook.name: hook for hook in hooks}
        self._snapshot = snapshot
        self._ask = ask
        self._secret = (namespace, secret)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2

    def on_change(self, change: Change) -> None:
        """Load the certificate for new connections when its Secret in the local cluster is written.

        Ignored if it is deleted, or not usable, which is logged.
        """
        match change:
            case ObjectChange(where, _, Secret() as secret):
                meta = secret.metadata
                here = where == self._snapshot().local
                if here and (meta.namespace, meta.name) == self._secret:
                    self._load_certificate(secret)
            case _:
                return

    async def answer(self, hook: str, body: bytes) -> bytes:
        """The response to one AdmissionReview, for API servers in this process.

        Raises `InvalidReview` if the body is none, and KeyError for an unknown hook.
        """
        return await respond(self._hooks[hook], body, self._snapshot, self._ask)

    @asynccontextmanager
    async def running(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serve on a socket until the block ends; handshakes fail until there is a certificate."""
        hooks = tuple(self._hooks.values())
        async with serving(hooks, self._snapshot, self._ask, listener, self._tls):
            yield

    def _load_certificate(self, secret: Secret) -> None:
        """Load a certificate into the TLS context; an unusable one is logged and ignored."""
        issued = KeyPair(secret.data.get("tls.crt", b""), secret.data.get("tls.key", b""))
        try:
            replace_certificate(self._tls, issued)
        except (OSError, ValueError) as error:
            log.warning("webhook certificate not usable", extra={"error": type(error).__name__})
