"""Loads credentials from kubeconfig files, a Secret, or the pod's service account."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
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

CHECK_INTERVAL = timedelta(seconds=10)
"""How often files are checked for changes."""

REFRESH_BEFORE_EXPIRY = timedelta(seconds=30)
"""How long before its expiry a plugin's credential is refreshed."""

SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")

FAILURE_CACHE_TIME = timedelta(seconds=5)
"""How long a failure is returned to all callers, so that plugins do not run in a loop."""

_Stamp = tuple[int, int, int]


class ReloadingCredentials:
    """Credentials from files and plugins, reloaded on a change, an expiry or a 401.

    While a changed file cannot be read (half written), the previous configuration stays in use.
    """

    def __init__(self, load: Callable[[], ResolvedContext], *, clock: Clock | None = None) -> None:
        """Nothing is loaded until `config`; `load` reads the kubeconfig anew."""
        self._load = load
        self._clock = clock or WallClock()
        self._lock = asyncio.Lock()
        self._resolved: ResolvedContext | None = None
        self._file_stamps: tuple[_Stamp | None, ...] = ()
        self._cached: ClientConfig | None = None
        self._check_at = 0.0
        self._failure: BadCredentials | None = None
        self._fails_until = 0.0

    async def config(self) -> ClientConfig:
        """The cached configuration while it is current; else refresh it, one caller at a time.

        It is current for CHECK_INTERVAL (10 s) after a check of the files, unless it expires within
        REFRESH_BEFORE_EXPIRY. If changed files are invalid, it is returned until it expires.
        Otherwise `BadCredentials` is raised if the refresh fails, and for FAILURE_CACHE_TIME again
        without another attempt.
        """
        if self._cached is not None and self._is_current(self._cached):
            return self._cached
        async with self._lock:
            if self._cached is None or not self._is_current(self._cached):
                self._cached = await self._or_fail(lambda: self._refresh(self._cached))
            return self._cached

    async def refreshed(self, rejected: ClientConfig) -> ClientConfig:
        """Load anew and rebuild after a 401, unless another caller has replaced `rejected`.

        Returns the current configuration; raises `BadCredentials`, and for FAILURE_CACHE_TIME
        again without another attempt.
        """
        async with self._lock:
            if self._cached is None or self._cached == rejected:
                self._cached = await self._or_fail(self._rebuild)
            return self._cached

    def _is_current(self, config: ClientConfig) -> bool:
        """Whether a configuration needs no check of its files yet, and has not expired."""
        now = asyncio.get_running_loop().time()
        return now < self._check_at and not self._is_expired(config)

    def _is_expired(self, config: ClientConfig) -> bool:
        """Whether credentials expire within `REFRESH_BEFORE_EXPIRY`; never without an expiry."""
        expires = config.expires
        return expires is not None and self._clock.now() >= expires - REFRESH_BEFORE_EXPIRY

    async def _or_fail(self, attempt: Callable[[], Awaitable[ClientConfig]]) -> ClientConfig:
        """The configuration that an attempt returns.

        A BadCredentials error is raised again for FAILURE_CACHE_TIME without a new attempt.
        """
        now = asyncio.get_running_loop().time()
        if self._failure is not None and now < self._fails_until:
            raise BadCredentials(str(self._failure))
        try:
            return await attempt()
        except BadCredentials as error:
            self._failure, self._fails_until = error, now + FAILURE_CACHE_TIME.total_seconds()
            raise

    async def _rebuild(self) -> ClientConfig:
        """Reload and rebuild the configuration, whatever is known; raises `BadCredentials`."""
        self._reload()
        return await self._build_config()

    async def _refresh(self, known: ClientConfig | None) -> ClientConfig:
        """Reload if files changed, rebuild if expired, else return `known`; sets the next check.

        If the changed files are invalid, `known` stays in use until it expires.
        """
        self._check_at = asyncio.get_running_loop().time() + CHECK_INTERVAL.total_seconds()
        if self._resolved is None:
            return await self._rebuild()
        if self._file_stamps != _file_stamps(self._resolved):
            try:
                self._reload()
            except BadCredentials:
                if known is not None and not self._is_expired(known):
                    return known
                raise
            return await self._build_config()
        if known is None or self._is_expired(known):
            return await self._build_config()
        return known

    def _reload(self) -> None:
        """Load the context again and remember the stamps of its files.

        Raises `BadCredentials`, and keeps the former, if it cannot be loaded.
        """
        resolved = self._load()
        self._resolved, self._file_stamps = resolved, _file_stamps(resolved)

    async def _build_config(self) -> ClientConfig:
        """The loaded configuration; with an exec plugin, run that and merge what it issues.

        What the plugin issues replaces token, certificate and key, and its expiry holds; username
        and password are left out then. Raises `BadCredentials` if the plugin fails.
        """
        assert self._resolved is not None, "loaded just before"
        config, plugin = self._resolved.config, self._resolved.plugin
        if plugin is None:
            return config
        issued = await run_plugin(plugin)
        identity = Identity(
            token=issued.token or config.identity.token,
            certificate=issued.client_certificate_data.encode() or config.identity.certificate,
            key=issued.client_key_data.encode() or config.identity.key,
            impersonate=config.identity.impersonate,
        )
        return ClientConfig(
            config.endpoint, identity, config.namespace, issued.expiration_timestamp
        )


def from_files(
    files: tuple[Path, ...], *, context: str = "", clock: Clock | None = None
) -> Credentials:
    """Credentials of one context of the kubeconfig files, merged as kubectl merges them.

    Without a `context` it is the current one. The files are read at the first use, and again when
    they, or files that they name, change.
    """

    def load() -> ResolvedContext:
        """Read the files and resolve the context; raises `BadCredentials`."""
        resolved = load_kubeconfig(files).resolve(context)
        return ResolvedContext(resolved.config, resolved.plugin, (*files, *resolved.files))

    return ReloadingCredentials(load, clock=clock)


def load_kubeconfig(files: tuple[Path, ...]) -> Kubeconfig:
    """The merged kubeconfig files, which may name files and plugins; absent ones are skipped.

    Raises `BadCredentials` if none exists, or one cannot be read or is no kubeconfig.
    """
    existing = [file for file in files if file.exists()] if len(files) > 1 else list(files)
    if not existing:
        names = ", ".join(str(file) for file in files)
        raise BadCredentials(f"no kubeconfig: none of {names} exists; set KUBECONFIG")
    sources = [
        KubeconfigSource(read_file(file, "kubeconfig"), str(file), file.parent) for file in existing
    ]
    return Kubeconfig(sources, trusted=True)


def from_secret(text: bytes, *, origin: str, context: str = "") -> Credentials:
    """Credentials from an untrusted kubeconfig, which never change.

    Raises `BadCredentials` at once if it is invalid, or names files, programs or a proxy.
    """
    return StaticCredentials(config_from_kubeconfig(text, origin=origin, context=context))


def config_from_kubeconfig(text: bytes, *, origin: str, context: str = "") -> ClientConfig:
    """The configuration of a context, by default the current one, of an untrusted kubeconfig.

    Raises `BadCredentials` if it is invalid, or names files, programs or a proxy.
    """
    return Kubeconfig([KubeconfigSource(text, origin)], trusted=False).resolve(context).config


def in_cluster(
    environment: Mapping[str, str] | None = None,
    folder: Path = SERVICE_ACCOUNT_DIR,
    *,
    clock: Clock | None = None,
) -> Credentials:
    """The service account of this pod, from its files and environment; read again when it changes.

    Nothing is read before the first use, which raises `BadCredentials` outside a cluster.
    """
    variables = os.environ if environment is None else environment

    def load() -> ResolvedContext:
        """Read the in-cluster credentials; raises `BadCredentials` outside a cluster.

        Also if token or CA cannot be read. The namespace is empty if its file is absent, the port
        443 by default.
        """
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


def find_credentials(
    file: Path | None = None,
    *,
    context: str = "",
    environment: Mapping[str, str] | None = None,
    folder: Path = SERVICE_ACCOUNT_DIR,
) -> Credentials:
    """Credentials of the first of: the given file, $KUBECONFIG, the pod's, ~/.kube/config.

    If the given file, or all of $KUBECONFIG, is absent, the first use raises `BadCredentials`; no
    other is tried. The pod's are skipped with a context, or outside a cluster. Nothing is read
    before the first use.
    """
    variables = os.environ if environment is None else environment
    if file is not None:
        return from_files((file,), context=context)
    paths = variables.get("KUBECONFIG", "")
    if paths:
        return from_files(kubeconfig_paths(paths), context=context)
    if not context and variables.get("KUBERNETES_SERVICE_HOST") and (folder / "token").exists():
        return in_cluster(variables, folder)
    return from_files(
        (Path(variables.get("HOME", "~")).expanduser() / ".kube/config",), context=context
    )


def kubeconfig_paths(paths: str) -> tuple[Path, ...]:
    """The files that a KUBECONFIG variable lists, `~` expanded; empty entries are skipped."""
    return tuple(Path(name).expanduser() for name in paths.split(os.pathsep) if name)


def _file_stamps(resolved: ResolvedContext) -> tuple[_Stamp | None, ...]:
    """The stamp of each file that a context was read from, None for an unreadable one."""
    return tuple(_file_stamp(file) for file in resolved.files)


def _file_stamp(file: Path) -> _Stamp | None:
    """Modification time, inode and size of a file; None if it cannot be read."""
    try:
        status = file.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_ino, status.st_size)
