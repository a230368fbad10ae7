"""The way to embedded clusters by URL, certificate and token, as over HTTPS but without sockets."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from msgspec import Struct

from hanse.kube.access import Access, Credentials
from hanse.kube.errors import Unreachable, error_of
from hanse.kube.request import Request, Response
from tinykube.failures import Refusal
from tinykube.http import Api
from tinykube.users import User


class Listed(Struct, frozen=True):
    """What answers at a URL, and the certificate it is known by."""

    api: Api
    ca: bytes


Directory = Callable[[str], Listed | None]
"""Who answers at a URL; None where nobody does."""

_UNAUTHORIZED = Refusal(401, "Unauthorized", "Unauthorized")


class Dialled:
    """A transport that looks its server up at each request, and is known there by its token."""

    def __init__(self, credentials: Credentials, directory: Directory) -> None:
        self._credentials = credentials
        self._directory = directory

    async def send(self, request: Request) -> Response:
        try:
            api, user = await self._admitted()
            return await api.send(request, user)
        except Refusal as refusal:
            return refusal.response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        try:
            api, user = await self._admitted()
            async with api.stream(request, user) as lines:
                yield lines
        except Refusal as refusal:
            raise error_of(refusal.response) from refusal

    async def close(self) -> None:
        """Nothing is held."""

    async def _admitted(self) -> tuple[Api, User]:
        access = await self._credentials.access()
        try:
            return self._admit(access)
        except Refusal:
            renewed = await self._credentials.renewed(access)
            if renewed == access:
                raise
            return self._admit(renewed)

    def _admit(self, access: Access) -> tuple[Api, User]:
        url = access.endpoint.url
        listed = self._directory(url)
        if listed is None:
            raise Unreachable(f"cannot connect to {url}: connection refused")
        if access.endpoint.ca.strip() != listed.ca.strip():
            raise Unreachable(f"the certificate of {url} is not signed by the given authority")
        user = listed.api.authenticate(access.identity.token)
        if user is None:
            raise _UNAUTHORIZED
        return listed.api, user
