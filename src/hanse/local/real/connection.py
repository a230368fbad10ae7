"""The way to a local cluster's API server: TLS that is verified, by the credential of an Access."""

import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import assert_never

import aiohttp

from hanse.kube.errors import Unreachable, error_of
from hanse.kube.request import Request, Response, Transport
from hanse.local.embedded.tls import client_context
from hanse.local.kubeconfig import Access, BearerToken, ClientCertificate


def connect(access: Access) -> Transport:
    """A transport for one user of one cluster; the caller closes it."""
    return _Connection(access)


class _Connection:
    def __init__(self, access: Access) -> None:
        context = client_context(access.authority)
        headers = {}
        match access.credential:
            case BearerToken(token):
                headers["Authorization"] = f"Bearer {token}"
            case ClientCertificate() as certificate:
                _present(certificate, context)
            case _:
                assert_never(access.credential)
        self._session = aiohttp.ClientSession(
            base_url=access.server,
            headers=headers,
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
        )

    async def send(self, request: Request) -> Response:
        try:
            async with self._call(request) as answer:
                return await _whole(answer)
        except (aiohttp.ClientError, TimeoutError) as problem:
            raise Unreachable(str(problem)) from problem

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._stream(request)

    @asynccontextmanager
    async def _stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        try:
            async with self._call(request) as answer:
                if answer.status != 200:
                    raise error_of(await _whole(answer))
                yield aiter(answer.content)
        except (aiohttp.ClientError, TimeoutError) as problem:
            raise Unreachable(str(problem)) from problem

    async def close(self) -> None:
        await self._session.close()

    def _call(self, request: Request) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        headers = {"Accept": request.accept, **dict(request.headers)}
        if request.body:
            headers["Content-Type"] = request.content_type
        timeout = aiohttp.ClientTimeout(total=request.timeout.total_seconds())
        return self._session.request(
            request.method,
            request.target,
            data=request.body or None,
            headers=headers,
            timeout=timeout,
        )


async def _whole(answer: aiohttp.ClientResponse) -> Response:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return Response(answer.status, await answer.read(), headers)


def _present(certificate: ClientCertificate, context: ssl.SSLContext) -> None:
    # The ssl module reads certificates from files only; the folder is readable by us alone.
    with TemporaryDirectory(prefix="hanse-tls-") as folder:
        pem = Path(folder, "pem")
        pem.write_bytes(certificate.certificate + certificate.key)
        context.load_cert_chain(pem)
