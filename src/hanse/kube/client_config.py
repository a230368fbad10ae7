"""The way into one API server, as values: where it is, how it is trusted, who we are there."""

from datetime import datetime
from typing import Protocol

from msgspec import Struct


class ServerEndpoint(Struct, frozen=True):
    """Where an API server is, and by what its certificate is judged."""

    url: str
    ca: bytes = b""
    """Trusted certificates in PEM; none means those of the system."""
    server_name: str = ""
    insecure: bool = False
    proxy: str = ""


class Identity(Struct, frozen=True):
    """Who we are to an API server; never shown."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""
    username: str = ""
    password: str = ""
    impersonate: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return "Identity(<secret>)"


class ExecPlugin(Struct, frozen=True):
    """A program that gives credentials when it is run."""

    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    api_version: str = ""
    interactive: str = "IfAvailable"
    install_hint: str = ""
    cluster: bytes = b""
    """What it is told about the cluster, as JSON, where it asked for that."""
    origin: str = ""

    def __repr__(self) -> str:
        return f"ExecPlugin({self.command!r})"


class ClientConfig(Struct, frozen=True):
    """All that it takes to send requests; an `expires` in the past asks for new credentials."""

    endpoint: ServerEndpoint
    identity: Identity = Identity()
    namespace: str = ""
    expires: datetime | None = None


class Credentials(Protocol):
    """Where an `ClientConfig` comes from, for as long as we need one; raises `BadCredentials`."""

    async def config(self) -> ClientConfig:
        """The way in as of now; cheap, since every request asks."""
        ...

    async def refreshed(self, rejected: ClientConfig) -> ClientConfig:
        """The way in after the server rejected one (401); the same again if there is no other."""
        ...


class StaticCredentials:
    """Credentials that never change."""

    def __init__(self, access: ClientConfig) -> None:
        self._access = access

    async def config(self) -> ClientConfig:
        return self._access

    async def refreshed(self, rejected: ClientConfig) -> ClientConfig:  # noqa: ARG002 - there is no other
        return self._access


class UpdatableCredentials:
    """Credentials that somebody hands us anew whenever they change."""

    def __init__(self, access: ClientConfig) -> None:
        self._access = access

    def hand(self, access: ClientConfig) -> None:
        """Use these from the next request on."""
        self._access = access

    async def config(self) -> ClientConfig:
        return self._access

    async def refreshed(self, rejected: ClientConfig) -> ClientConfig:  # noqa: ARG002 - what came since, if any
        return self._access
