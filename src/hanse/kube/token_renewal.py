"""Renews the token of a ServiceAccount before it expires, where it is stored."""

import asyncio
import logging
import os
from base64 import b64encode
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from hanse.kube.client import Client
from hanse.kube.client_config import Credentials
from hanse.kube.clock import Clock
from hanse.kube.errors import BadCredentials, KubeError
from hanse.kube.kubeconfig import Kubeconfig, KubeconfigSource, read_file
from hanse.kube.token_requests import issued_token, token_request
from hanse.model.kinds.core import Secret
from hanse.model.naming import account_user
from hanse.model.tokens import TokenClaims, parse_claims
from hanse.model.write_rules import MAX_TOKEN_SECONDS

log = logging.getLogger(__name__)

CHECK_INTERVAL = timedelta(minutes=10)
"""How often tokens are checked for renewal."""

MIN_LIFETIME = timedelta(minutes=10)
"""The shortest lifetime that API servers issue."""

MAX_LIFETIME = timedelta(seconds=MAX_TOKEN_SECONDS)
"""The longest lifetime that our admission policies allow."""


class ServiceAccountName(Struct, frozen=True):
    """The namespace and name of a ServiceAccount."""

    namespace: str
    name: str

    @property
    def subject(self) -> str:
        """The subject of its tokens: `system:serviceaccount:NAMESPACE:NAME`."""
        return account_user(self.namespace, self.name)


def token_account(token: str) -> ServiceAccountName | None:
    """The ServiceAccount that a token is issued for; None if it is not a ServiceAccount's."""
    claims = parse_claims(token)
    match claims.subject.split(":") if claims is not None else ():
        case ["system", "serviceaccount", namespace, name]:
            return ServiceAccountName(namespace, name)
        case _:
            return None


class TokenStore(Protocol):
    """Stores a kubeconfig with a token; failures are raised as `KubeError`."""

    async def token(self) -> str:
        """The stored token, read anew at each call, empty without one; raises `KubeError`."""
        ...

    async def store_token(self, token: str) -> None:
        """Replace the stored token; all else in the kubeconfig stays. Raises `KubeError`."""
        ...


class FileTokenStore:
    """A kubeconfig file; one that a kubelet mounts is read-only and updated by the kubelet."""

    def __init__(self, file: Path, context: str = "") -> None:
        """The token of a context, by default the current one, of a file; nothing is read yet."""
        self._file = file
        self._context = context

    async def token(self) -> str:
        """Read the kubeconfig file and return its inline token, empty without one.

        Raises `BadCredentials` if it cannot be read, or names files or programs.
        """
        text = read_file(self._file, "kubeconfig")
        return _inline_token(text, str(self._file), self._context)

    async def store_token(self, token: str) -> None:
        """Replace the inline token in the kubeconfig file, wherever it occurs, in one step.

        Raises `BadCredentials` if there is none, or the file cannot be read or written.
        """
        text = read_file(self._file, "kubeconfig")
        current = _inline_token(text, str(self._file), self._context)
        try:
            _replace_file(self._file, _replace_token(text, current, token))
        except OSError as error:
            reason = error.strerror or "it cannot be written"
            raise BadCredentials(f"{self._file}: {reason}") from None


class SecretTokenStore:
    """A kubeconfig in a Secret of the local cluster."""

    def __init__(self, client: Client, namespace: str, name: str, key: str) -> None:
        """The kubeconfig under `key` in a Secret; nothing is read yet."""
        self._client = client
        self._namespace = namespace
        self._name = name
        self._key = key

    async def token(self) -> str:
        """Read the Secret live and return the inline token of its kubeconfig, empty without one.

        Raises `BadCredentials` for a kubeconfig that names files or programs, and `KubeError` of
        the read.
        """
        secret = await self._client.read(Secret, self._name, self._namespace)
        return _inline_token(secret.data.get(self._key, b""), f"Secret {self._name}")

    async def store_token(self, token: str) -> None:
        """Read the Secret and patch the token of the kubeconfig in it.

        Raises `Conflict` if the Secret changed meanwhile, and `BadCredentials` if no token is in
        it.
        """
        secret = await self._client.read(Secret, self._name, self._namespace)
        text = secret.data.get(self._key, b"")
        after = _replace_token(text, _inline_token(text, f"Secret {self._name}"), token)
        change = {
            "metadata": {"resourceVersion": secret.metadata.resource_version},
            "data": {self._key: b64encode(after).decode()},
        }
        await self._client.patch(Secret, self._name, self._namespace, change)


class TokenRenewer:
    """Renews the token of one account in each store that can be read and written.

    The freshest stored token is copied to all stores; only when it is past half its lifetime is
    another requested, so that replicas do not all request one. Tokens of other accounts, and
    tokens that never expire, are left alone.
    """

    def __init__(
        self,
        account: ServiceAccountName,
        server: Client,
        credentials: Credentials,
        stores: Sequence[TokenStore],
        clock: Clock,
    ) -> None:
        """Nothing is renewed yet; `server` is the cluster that issues tokens of `account`."""
        self._account = account
        self._server = server
        self._credentials = credentials
        self._stores = stores
        self._clock = clock

    async def run(self) -> None:
        """Renew until cancelled; failures are logged and retried at the next check."""
        while True:
            await self.renew_if_due()
            await asyncio.sleep(CHECK_INTERVAL.total_seconds())

    async def renew_if_due(self) -> None:
        """Write the freshest token to each store whose own is past half its lifetime.

        If the freshest is past half as well, a new one is requested. Nothing if the token in use is
        another account's or never expires. Errors are logged, not raised.
        """
        try:
            own = (await self._credentials.config()).identity.token
            if self._lifetime(own) is None:
                return
            stored = await asyncio.gather(*(self._read_stored(store) for store in self._stores))
            freshest = max((own, *stored), key=self._remaining_lifetime)
            if self._needs_renewal(freshest):
                freshest = await self._request_token(freshest)
        except KubeError as error:
            log.warning("token not renewed", extra={"why": str(error)})
            return
        await self._store_everywhere(freshest, stored)

    async def _store_everywhere(self, token: str, stored: Sequence[str]) -> None:
        """Store a token wherever the stored one is past half its lifetime; errors are logged.

        Stores without a token of our account stay, as do those that could not be read.
        """
        for store, current in zip(self._stores, stored, strict=True):
            if current == token or not self._needs_renewal(current):
                continue
            try:
                await store.store_token(token)
            except KubeError as error:
                log.warning("token not kept", extra={"why": str(error)})
            else:
                log.info("token renewed", extra={"account": self._account.subject})

    async def _read_stored(self, store: TokenStore) -> str:
        """The stored token; "" if it cannot be read."""
        try:
            return await store.token()
        except KubeError:
            return ""  # absent, or not readable for us

    async def _request_token(self, before: str) -> str:
        """Request a token of our account that lasts as long as `before`, from 10 min to 30 days.

        It ends with the Secret to which `before` is bound. Raises BadCredentials if the answer
        holds none, Unreachable if it is no API server's.
        """
        lifetime, claims = self._lifetime(before) or MIN_LIFETIME, self._own_claims(before)
        seconds = min(max(lifetime, MIN_LIFETIME), MAX_LIFETIME).total_seconds()
        bound = claims.bound if claims is not None else None
        request = token_request(self._account.namespace, self._account.name, int(seconds), bound)
        token = issued_token(await self._server.send(request))
        if self._lifetime(token) is None:
            raise BadCredentials(f"no token was issued for {self._account.subject}")
        return token

    def _own_claims(self, token: str) -> TokenClaims | None:
        """The claims of a token of our own account; None for any other."""
        claims = parse_claims(token)
        ours = claims is not None and claims.subject == self._account.subject
        return claims if ours else None

    def _lifetime(self, token: str) -> timedelta | None:
        """The lifetime of a token of this account; None if it is another's or never expires."""
        claims = self._own_claims(token)
        if claims is None or claims.expires is None or claims.issued is None:
            return None
        return claims.expires - claims.issued

    def _remaining_lifetime(self, token: str) -> timedelta:
        """The time until a token of our account expires, negative if it has.

        `timedelta.min` if it is another's or has no end.
        """
        claims = self._own_claims(token)
        if claims is None or claims.expires is None:
            return timedelta.min
        return claims.expires - self._clock.now()

    def _needs_renewal(self, token: str) -> bool:
        """Whether a token of this account is past half its lifetime; False for any other token."""
        lifetime = self._lifetime(token)
        return lifetime is not None and self._remaining_lifetime(token) < lifetime / 2


def _replace_file(file: Path, text: bytes) -> None:
    """Replace a file atomically, with mode 0600: readers see all of the old or all of the new."""
    temporary = file.with_name(f".{file.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file_object:
        file_object.write(text)
    temporary.replace(file)


def _inline_token(text: bytes, origin: str, context: str = "") -> str:
    """The token that a kubeconfig holds verbatim; empty without one.

    Raises BadCredentials for a kubeconfig that names files or programs.
    """
    token = (
        Kubeconfig([KubeconfigSource(text, origin)], trusted=False)
        .resolve(context)
        .config.identity.token
    )
    return token if token.encode() in text else ""


def _replace_token(text: bytes, current: str, after: str) -> bytes:
    """A kubeconfig with the text `after` in place of the token `current`, wherever it occurs.

    Raises `BadCredentials` if `current` is empty.
    """
    if not current:
        raise BadCredentials("there is no token to replace")
    return text.replace(current.encode(), after.encode())
