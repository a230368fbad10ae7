"""Where credentials come from: kubeconfig files, a Secret, or the pod that we run in."""

import asyncio
import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

from hanse.kube.client_config import (
    ClientConfig,
    Credentials,
    Identity,
    ServerEndpoint,
    StaticCredentials,
)
from hanse.kube.clock import Clock, WallClock
from hanse.kube.errors import BadCredentials
from hanse.kube.exec_plugin import run_plugin
from hanse.kube.kubeconfig import (
    Kubeconfig,
    KubeconfigSource,
    ResolvedContext,
    read_file,
    token_text,
)

LOOK_AGAIN = timedelta(seconds=10)
"""How often files are looked at for changes."""

BEFORE_EXPIRY = timedelta(seconds=30)
"""How long before its end a plugin's credential is no longer used."""

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

AFTER_FAILURE = timedelta(seconds=5)
"""How long a failure stands for everyone who asks, so that plugins are not run in a frenzy."""

_Stamp = tuple[int, int, int]


class ReloadingCredentials:
    """Credentials from files and plugins, read again on a change, an expiry or a 401.

    A change that cannot be read (a file half written) leaves what was read before in use.
    """

    def __init__(self, load: Callable[[], ResolvedContext], *, clock: Clock | None = None) -> None:
        self._load = load
        self._clock = clock or WallClock()
        self._lock = asyncio.Lock()
        self._resolved: ResolvedContext | None = None
        self._stamps: tuple[_Stamp | None, ...] = ()
        self._access: ClientConfig | None = None
        self._look_at = 0.0
        self._failure: BadCredentials | None = None
        self._fails_until = 0.0

    async def config(self) -> ClientConfig:
        if self._access is not None and self._current(self._access):
            return self._access
        async with self._lock:
            if self._access is None or not self._current(self._access):
                self._access = await self._attempted()
            return self._access

    async def refreshed(self, rejected: ClientConfig) -> ClientConfig:
        async with self._lock:
            if self._access is None or self._access == rejected:
                self._reload()
                self._access = await self._from_resolved()
            return self._access

    def _current(self, access: ClientConfig) -> bool:
        now = asyncio.get_running_loop().time()
        return now < self._look_at and not self._expired(access)

    def _expired(self, access: ClientConfig) -> bool:
        expires = access.expires
        return expires is not None and self._clock.now() >= expires - BEFORE_EXPIRY

    async def _attempted(self) -> ClientConfig:
        now = asyncio.get_running_loop().time()
        if self._failure is not None and now < self._fails_until:
            raise BadCredentials(str(self._failure))
        try:
            return await self._refreshed(self._access)
        except BadCredentials as error:
            self._failure, self._fails_until = error, now + AFTER_FAILURE.total_seconds()
            raise

    async def _refreshed(self, known: ClientConfig | None) -> ClientConfig:
        self._look_at = asyncio.get_running_loop().time() + LOOK_AGAIN.total_seconds()
        if self._resolved is None:
            self._reload()
            return await self._from_resolved()
        if self._stamps != _stamps(self._resolved):
            try:
                self._reload()
            except BadCredentials:
                if known is not None and not self._expired(known):
                    return known
                raise
            return await self._from_resolved()
        if known is None or self._expired(known):
            return await self._from_resolved()
        return known

    def _reload(self) -> None:
        resolved = self._load()
        self._resolved, self._stamps = resolved, _stamps(resolved)

    async def _from_resolved(self) -> ClientConfig:
        assert self._resolved is not None, "it was loaded just before"
        access, plugin = self._resolved.access, self._resolved.plugin
        if plugin is None:
            return access
        given = await run_plugin(plugin)
        identity = Identity(
            token=given.token or access.identity.token,
            certificate=given.client_certificate_data.encode() or access.identity.certificate,
            key=given.client_key_data.encode() or access.identity.key,
            impersonate=access.identity.impersonate,
        )
        return ClientConfig(access.endpoint, identity, access.namespace, given.expiration_timestamp)


def from_files(
    files: tuple[Path, ...], *, context: str = "", clock: Clock | None = None
) -> Credentials:
    """Credentials of one context of the kubeconfig files, merged as kubectl merges them."""

    def load() -> ResolvedContext:
        resolved = load_kubeconfig(files).resolve(context)
        return ResolvedContext(resolved.access, resolved.plugin, (*files, *resolved.files))

    return ReloadingCredentials(load, clock=clock)


def load_kubeconfig(files: tuple[Path, ...]) -> Kubeconfig:
    """The kubeconfig files as one; of several, those that do not exist are passed over."""
    there = [file for file in files if file.exists()] if len(files) > 1 else list(files)
    if not there:
        names = ", ".join(str(file) for file in files)
        raise BadCredentials(f"no kubeconfig: none of {names} exists; set KUBECONFIG")
    sources = [
        KubeconfigSource(read_file(file, "kubeconfig"), str(file), file.parent) for file in there
    ]
    return Kubeconfig(sources, trusted=True)


def from_secret(text: bytes, *, origin: str, context: str = "") -> Credentials:
    """Credentials from a kubeconfig that somebody else wrote; nothing of this machine is used."""
    return StaticCredentials(config_from_kubeconfig(text, origin=origin, context=context))


def config_from_kubeconfig(text: bytes, *, origin: str, context: str = "") -> ClientConfig:
    """The way in by a kubeconfig that somebody else wrote; nothing of this machine is used."""
    return Kubeconfig([KubeconfigSource(text, origin)], trusted=False).resolve(context).access


def in_cluster(
    environment: Mapping[str, str] | None = None,
    folder: Path = SERVICE_ACCOUNT,
    *,
    clock: Clock | None = None,
) -> Credentials:
    """Credentials of the pod that we run in; its token is renewed under our feet."""
    variables = os.environ if environment is None else environment

    def load() -> ResolvedContext:
        host = variables.get("KUBERNETES_SERVICE_HOST", "")
        port = variables.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise BadCredentials("not in a cluster: KUBERNETES_SERVICE_HOST is not set")
        files = (folder / "token", folder / "ca.crt")
        token, ca = (read_file(file, "in-cluster credentials") for file in files)
        url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        namespace = folder / "namespace"
        return ResolvedContext(
            ClientConfig(
                ServerEndpoint(url, ca),
                Identity(token=token_text(token)),
                namespace.read_text().strip() if namespace.exists() else "",
            ),
            files=files,
        )

    return ReloadingCredentials(load, clock=clock)


def found(
    file: Path | None = None,
    *,
    context: str = "",
    environment: Mapping[str, str] | None = None,
    folder: Path = SERVICE_ACCOUNT,
) -> Credentials:
    """The credentials there are: the file given, $KUBECONFIG, the pod's own, ~/.kube/config."""
    variables = os.environ if environment is None else environment
    if file is not None:
        return from_files((file,), context=context)
    listed = variables.get("KUBECONFIG", "")
    if listed:
        return from_files(kubeconfig_paths(listed), context=context)
    if not context and variables.get("KUBERNETES_SERVICE_HOST") and (folder / "token").exists():
        return in_cluster(variables, folder)
    return from_files(
        (Path(variables.get("HOME", "~")).expanduser() / ".kube/config",), context=context
    )


def kubeconfig_paths(listed: str) -> tuple[Path, ...]:
    """The files of a KUBECONFIG variable."""
    return tuple(Path(name).expanduser() for name in listed.split(os.pathsep) if name)


def _stamps(resolved: ResolvedContext) -> tuple[_Stamp | None, ...]:
    """What tells whether files changed: kubelets swap links, people write in place."""
    return tuple(_stamp(file) for file in resolved.files)


def _stamp(file: Path) -> _Stamp | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_ino, status.st_size)
