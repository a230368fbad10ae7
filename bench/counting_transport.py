"""A transport that counts the writes it sends."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from hanse.kube.transport import Request, Response, Transport

_READING = frozenset({"GET", "HEAD"})
_LEASES = "/apis/coordination.k8s.io/"


class CountingTransport:
    """Counts writes and refused writes.

    Leases are counted separately: they are renewed by the clock, whatever the load.
    """

    def __init__(self, inner: Transport) -> None:
        self.leases = 0
        self.sent = 0
        self.refused = 0
        self._inner = inner

    async def send(self, request: Request) -> Response:
        if request.method in _READING:
            return await self._inner.send(request)
        if request.path.startswith(_LEASES):
            self.leases += 1
            return await self._inner.send(request)
        self.sent += 1
        response = await self._inner.send(request)
        self.refused += response.status >= 300
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()
