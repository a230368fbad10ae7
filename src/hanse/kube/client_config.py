"""Client configuration for one API server: endpoint, TLS and identity, as in a kubeconfig."""

from datetime import datetime
from typing import Protocol

from msgspec import Struct


class ServerEndpoint(Struct, frozen=True):
    """The URL of an API server, and how its certificate is verified."""

    url: str
    ca: bytes = b""
    """CA certificates in PEM; empty means those of the system."""
    server_name: str = ""
    insecure: bool = False
    proxy: str = ""


class Identity(Struct, frozen=True):
    """The identity of the client; its representation shows no secret."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""
    username: str = ""
    password: str = ""
    impersonate: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        """The name of the class and no value, since most are secret."""
        return "Identity(<secret>)"


class ExecPlugin(Struct, frozen=True):
    """An exec credential plugin of a kubeconfig."""

    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    api_version: str = ""
    interactive: str = "IfAvailable"
    install_hint: str = ""
    cluster: bytes = b""
    """The cluster info passed to the plugin as JSON, if `provideClusterInfo` is set."""
    origin: str = ""

    def __repr__(self) -> str:
        """The name of the class and the command; arguments and variables may be secret."""
        return f"ExecPlugin({self.command!r})"


class ClientConfig(Struct, frozen=True):
    """All that it takes to send requests; after `expires` the credentials are refreshed."""

    endpoint: ServerEndpoint
    identity: Identity = Identity()
    namespace: str = ""
    expires: datetime | None = None


class Credentials(Protocol):
    """A source of client configurations; raises `BadCredentials`."""

    async def config(self) -> ClientConfig:
        """The current configuration; cheap, since every request calls it."""
        ...

    async def refreshed(self, rejected: ClientConfig) -> ClientConfig:
        """A new configuration after a 401; the rejected one if there is no other."""
        ...


class StaticCredentials:
    """Credentials that never change."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config

    async def config(self) -> ClientConfig:
        """The configuration that was given at first, always."""
        return self._config

    async def refreshed(self, rejected: ClientConfig) -> ClientConfig:  # noqa: ARG002 - a protocol
        """The same configuration: there is no other."""
        return self._config


class UpdatableCredentials:
    """Credentials that are replaced by `update` whenever they change."""

    def __init__(self, config: ClientConfig) -> None:
        """Use this configuration until the first `update`."""
        self._config = config

    def update(self, config: ClientConfig) -> None:
        """Use this configuration from the next request on."""
        self._config = config

    async def config(self) -> ClientConfig:
        """The configuration of the last `update`, else the one that was given at first."""
        return self._config

    async def refreshed(self, rejected: ClientConfig) -> ClientConfig:  # noqa: ARG002 - a protocol
        """The configuration of the last `update`, which may be the rejected one.

        No new one is asked for.
        """
        return self._config
