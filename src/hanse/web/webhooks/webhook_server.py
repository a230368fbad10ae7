"""Answers webhooks with the certificate that a Secret holds, as soon as and whenever it changes."""

import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from hanse.model.admission import AdmissionHook
from hanse.model.kinds.core import Secret
from hanse.model.snapshot import Change, ObjectChange, Snapshot
from hanse.web.webhooks.server import LiveLookup, review_response, serving

log = logging.getLogger(__name__)


class WebhookServer:
    """One agent's hooks behind one door; without a certificate nobody gets in."""

    def __init__(
        self,
        hooks: Sequence[AdmissionHook],
        snapshot: Callable[[], Snapshot],
        ask: LiveLookup,
        *,
        namespace: str,
        secret: str,
    ) -> None:
        self._hooks = {hook.name: hook for hook in hooks}
        self._snapshot = snapshot
        self._ask = ask
        self._secret = (namespace, secret)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2

    def on_change(self, change: Change) -> None:
        """Take a new certificate into use from the next connection on."""
        match change:
            case ObjectChange(where, _, Secret() as secret):
                meta = secret.metadata
                here = where == self._snapshot().local
                if here and (meta.namespace, meta.name) == self._secret:
                    self._take(secret)
            case _:
                return

    async def answer(self, hook: str, body: bytes) -> bytes:
        """The answer to one AdmissionReview, for API servers in this process."""
        return await review_response(self._hooks[hook], body, self._snapshot, self._ask)

    @asynccontextmanager
    async def running(self, listener: socket.socket) -> AsyncIterator[None]:
        """Answer on a socket until the block ends."""
        hooks = tuple(self._hooks.values())
        async with serving(hooks, self._snapshot, self._ask, listener, self._tls):
            yield

    def _take(self, secret: Secret) -> None:
        certificate, key = secret.data.get("tls.crt", b""), secret.data.get("tls.key", b"")
        # The ssl module reads certificates from files only; the folder is readable by us alone.
        with TemporaryDirectory(prefix="hanse-tls-") as folder:
            pem = Path(folder, "pem")
            pem.write_bytes(certificate + key)
            try:
                self._tls.load_cert_chain(pem)
            except (ssl.SSLError, OSError, ValueError) as error:
                log.warning("webhook certificate not usable", extra={"error": type(error).__name__})
