"""Credentials whose token is replaced, without a restart, when a later one is stored elsewhere."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, Credentials
from hanse.kube.credentials import CHECK_INTERVAL, config_from_kubeconfig
from hanse.kube.errors import KubeError
from hanse.model.kinds.core import Secret
from hanse.model.tokens import parse_claims

READ_TIMEOUT = timedelta(seconds=5)
"""How long a request whose token was rejected waits for the store of another one."""

ReadStored = Callable[[], Awaitable[ClientConfig]]
"""Reads the stored configuration anew; raises `KubeError`."""


def secret_config(client: Client, namespace: str, name: str, key: str) -> ReadStored:
    """A function that reads the kubeconfig under `key` in a Secret live; it raises `KubeError`."""

    async def read() -> ClientConfig:
        """Read the Secret live and resolve the current context of the kubeconfig in it.

        Raises `KubeError` of the read, and `BadCredentials` if there is no usable kubeconfig.
        """
        secret = await client.read(Secret, name, namespace)
        return config_from_kubeconfig(secret.data.get(key, b""), origin=f"Secret {name}")

    return read


class FollowedCredentials:
    """Given credentials, with the stored token where that is of the same account, and later.

    A stored token for another server is never used. One that was rejected is not used while there
    is another.
    """

    def __init__(self, given: Credentials, read_stored: ReadStored) -> None:
        """Use `given`, with the token of `read_stored` if that is later, for the same account.

        Nothing is read yet.
        """
        self._given = given
        self._read_stored = read_stored
        self._stored: ClientConfig | None = None
        self._rejected = ""
        self._used: tuple[ClientConfig, ClientConfig] | None = None
        """The given configuration, and what it became: every request asks for it."""

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """While the block runs, read the stored configuration now and every CHECK_INTERVAL."""
        task = asyncio.create_task(self._follow(), name="follow stored token")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def config(self) -> ClientConfig:
        """The given configuration, with the stored token as last read if that is the later one.

        It does not read the stored configuration.
        """
        given = await self._given.config()
        if self._used is None or self._used[0] is not given:
            self._used = (given, self._with_latest_token(given))
        return self._used[1]

    async def refreshed(self, rejected: ClientConfig) -> ClientConfig:
        """The configuration after a 401, with both places read anew.

        The rejected token is used only if there is no other. The stored one is read for
        READ_TIMEOUT at most; the one that is known stays if it cannot be read.
        """
        self._rejected = rejected.identity.token
        with suppress(TimeoutError):
            async with asyncio.timeout(READ_TIMEOUT.total_seconds()):
                await self._read()
        given = await self._given.refreshed(rejected)
        self._used = (given, self._with_latest_token(given))
        return self._used[1]

    async def _follow(self) -> None:
        """Read the stored configuration every CHECK_INTERVAL until cancelled."""
        while True:
            await self._read()
            await asyncio.sleep(CHECK_INTERVAL.total_seconds())

    async def _read(self) -> None:
        """Read the stored configuration; the one that is known stays if it cannot be read."""
        with suppress(KubeError):
            self._stored = await self._read_stored()
            self._used = None

    def _with_latest_token(self, given: ClientConfig) -> ClientConfig:
        """The given configuration, with the stored token unless that was issued before its own.

        Only a stored token for the same server and account counts, and only if the given token is a
        JWT; one that was rejected is not used while there is another.
        """
        stored, own = self._stored, parse_claims(given.identity.token)
        if stored is None or own is None or stored.endpoint.url != given.endpoint.url:
            return given
        other = parse_claims(stored.identity.token)
        if other is None or other.subject != own.subject:
            return given
        usable = [
            (claims.issued or datetime.min.replace(tzinfo=UTC), token)
            for claims, token in ((other, stored.identity.token), (own, given.identity.token))
            if token != self._rejected
        ]
        if not usable:
            return given
        latest = max(usable, key=lambda one: one[0])[1]
        return replace(given, identity=replace(given.identity, token=latest))
