"""A ServiceAccount's own token, renewed before it ends and kept where it was found."""

import asyncio
import logging
import os
from base64 import b64encode
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from hanse.kube.client import Client
from hanse.kube.client_config import Credentials
from hanse.kube.clock import Clock
from hanse.kube.errors import BadCredentials, KubeError
from hanse.kube.kubeconfig import Kubeconfig, KubeconfigSource, read_file
from hanse.kube.requests import resource_path
from hanse.kube.transport import Request
from hanse.model.kinds.core import Secret
from hanse.model.objects import Kind
from hanse.model.tokens import TokenClaims, parse_claims

log = logging.getLogger(__name__)

LOOK_AGAIN = timedelta(minutes=10)
"""How often it is looked whether a token is past half its life."""

SHORTEST = timedelta(minutes=10)
"""No API server issues a token for less."""

_ACCOUNTS = Kind("", "v1", "ServiceAccount", "serviceaccounts")


class ServiceAccountName(Struct, frozen=True):
    """A ServiceAccount by its name."""

    namespace: str
    name: str

    @property
    def subject(self) -> str:
        """How its tokens call it."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


class TokenStore(Protocol):
    """Where a kubeconfig with a token is kept; what fails is told as a `KubeError`."""

    async def token(self) -> str:
        """The token that is kept there."""
        ...

    async def keep(self, token: str) -> None:
        """Put another in its place; all else stays."""
        ...


class FileTokenStore:
    """A kubeconfig file of ours; one that a kubelet mounts cannot be written and changes by it."""

    def __init__(self, file: Path, context: str = "") -> None:
        self._file = file
        self._context = context

    async def token(self) -> str:
        text = read_file(self._file, "kubeconfig")
        return _token_in(text, str(self._file), self._context)

    async def keep(self, token: str) -> None:
        text = read_file(self._file, "kubeconfig")
        before = _token_in(text, str(self._file), self._context)
        try:
            _replaced(self._file, _with_token(text, before, token))
        except OSError as error:
            why = error.strerror or "it cannot be written"
            raise BadCredentials(f"{self._file}: {why}") from None


class SecretTokenStore:
    """A kubeconfig in a Secret of our own cluster."""

    def __init__(self, client: Client, namespace: str, name: str, key: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._key = key

    async def token(self) -> str:
        secret = await self._client.read(Secret, self._name, self._namespace)
        return _token_in(secret.data.get(self._key, b""), f"Secret {self._name}")

    async def keep(self, token: str) -> None:
        secret = await self._client.read(Secret, self._name, self._namespace)
        text = secret.data.get(self._key, b"")
        after = _with_token(text, _token_in(text, f"Secret {self._name}"), token)
        change = {
            "metadata": {"resourceVersion": secret.metadata.resource_version},
            "data": {self._key: b64encode(after).decode()},
        }
        await self._client.patch(Secret, self._name, self._namespace, change)


class TokenRenewer:
    """Keeps one account's token alive, in each place that can be read and written.

    The freshest token that is kept anywhere goes everywhere; only when that is past half its life
    is another asked for, so that several replicas do not all ask. Tokens of others, and such that
    never end, are left alone.
    """

    def __init__(
        self,
        account: ServiceAccountName,
        server: Client,
        credentials: Credentials,
        places: Sequence[TokenStore],
        clock: Clock,
    ) -> None:
        self._account = account
        self._server = server
        self._credentials = credentials
        self._places = places
        self._clock = clock

    async def run(self) -> None:
        """Renew for as long as we run; what fails is told and tried again in its time."""
        while True:
            await self.once()
            await asyncio.sleep(LOOK_AGAIN.total_seconds())

    async def once(self) -> None:
        """Look at what is kept, and renew it where that is due."""
        try:
            own = (await self._credentials.config()).identity.token
            if self._life_of(own) is None:
                return
            kept = await asyncio.gather(*(self._kept(place) for place in self._places))
            freshest = max((own, *kept), key=self._left_of)
            if self._is_old(freshest):
                freshest = await self._issued(self._life_of(freshest) or SHORTEST)
        except KubeError as error:
            log.warning("token not renewed", extra={"why": str(error)})
            return
        await self._spread(freshest, kept)

    async def _spread(self, token: str, kept: Sequence[str]) -> None:
        """Keep a token wherever another is kept that is past half its life."""
        for place, before in zip(self._places, kept, strict=True):
            if before == token or not self._is_old(before):
                continue
            try:
                await place.keep(token)
            except KubeError as error:
                log.warning("token not kept", extra={"why": str(error)})
            else:
                log.info("token renewed", extra={"account": self._account.subject})

    async def _kept(self, place: TokenStore) -> str:
        try:
            return await place.token()
        except KubeError:
            return ""  # not there, or not ours to read

    async def _issued(self, life: timedelta) -> str:
        path = resource_path(_ACCOUNTS, self._account.namespace, self._account.name, "token")
        wanted = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": int(max(life, SHORTEST).total_seconds())},
        }
        request = Request("POST", path, body=msgspec.json.encode(wanted))
        answer = await self._server.send(request)
        token = str(msgspec.json.decode(answer.body).get("status", {}).get("token", ""))
        if self._life_of(token) is None:
            raise BadCredentials(f"no token was issued for {self._account.subject}")
        return token

    def _claims(self, token: str) -> TokenClaims | None:
        claims = parse_claims(token)
        ours = claims is not None and claims.subject == self._account.subject
        return claims if ours else None

    def _life_of(self, token: str) -> timedelta | None:
        """How long a token of this account holds in all; None where it is not one that ends."""
        claims = self._claims(token)
        if claims is None or claims.expires is None or claims.issued is None:
            return None
        return claims.expires - claims.issued

    def _left_of(self, token: str) -> timedelta:
        claims = self._claims(token)
        if claims is None or claims.expires is None:
            return timedelta.min
        return claims.expires - self._clock.now()

    def _is_old(self, token: str) -> bool:
        """Whether a token of this account is past half its life; others are not ours to judge."""
        life = self._life_of(token)
        return life is not None and self._left_of(token) < life / 2


def _replaced(file: Path, text: bytes) -> None:
    """Write a file as one: whoever reads it sees all of the old or all of the new."""
    beside = file.with_name(f".{file.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as made:
        made.write(text)
    beside.replace(file)


def _token_in(text: bytes, origin: str, context: str = "") -> str:
    """The token that stands in a kubeconfig itself, not in a file that it names."""
    token = (
        Kubeconfig([KubeconfigSource(text, origin)], trusted=False)
        .resolve(context)
        .access.identity.token
    )
    return token if token.encode() in text else ""


def _with_token(text: bytes, before: str, after: str) -> bytes:
    if not before:
        raise BadCredentials("there is no token to replace")
    return text.replace(before.encode(), after.encode())
