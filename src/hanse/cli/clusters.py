"""Which clusters a command is about: those of a kubeconfig, or of a local federation that runs."""

import asyncio
import fcntl
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from hanse.cli.settings import Settings
from hanse.kube import credentials
from hanse.kube.client_config import Credentials
from hanse.kube.errors import BadCredentials

LOCAL_FOLDER = Path(".hanse")
KUBECONFIG = "kubeconfig"
CONTROL = "control.sock"
LOCK = "lock"
FOLDER = "HANSE_DIR"
"""The variable that names the folder of a local federation."""
IN_CLUSTER = "in-cluster"


AT_ONCE = 8
"""Clusters that are asked at a time: more, and they wait for us while we count how long."""

T = TypeVar("T")


class ClusterAccess(Struct, frozen=True):
    """A cluster by the name of its context, and how to get in."""

    name: str
    credentials: Credentials


async def at_each(
    ways: Iterable[ClusterAccess], ask: Callable[[ClusterAccess], Awaitable[T]]
) -> list[T]:
    """Ask every cluster, some at a time, and give the answers in their order."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def in_turn(way: ClusterAccess) -> T:
        async with turn:
            return await ask(way)

    return list(await asyncio.gather(*(in_turn(way) for way in ways)))


def ways(
    settings: Settings, environment: Mapping[str, str] = os.environ
) -> tuple[ClusterAccess, ...]:
    """The clusters asked for; raises `BadCredentials` when the kubeconfig is at fault."""
    files = kubeconfig_files(settings, environment)
    if files is None:
        return (ClusterAccess(IN_CLUSTER, credentials.in_cluster(environment)),)
    for file in files:
        if has_ended(file.parent) and file.name == KUBECONFIG:
            again = f"hanse up --dir {file.parent}"
            raise BadCredentials(f"the federation in {file.parent} has ended; start it: {again}")
    known = credentials.load_kubeconfig(files).contexts
    if settings.context and settings.context not in known:
        listed = ", ".join(known) or "none"
        raise BadCredentials(
            f"no context {settings.context!r} in the kubeconfig; there is: {listed}"
        )
    names = (settings.context,) if settings.context else known
    if not names:
        shown = ", ".join(str(file) for file in files)
        raise BadCredentials(f"{shown} names no cluster; add a context, or start `hanse up`")
    return tuple(ClusterAccess(name, credentials.from_files(files, context=name)) for name in names)


def kubeconfig_files(settings: Settings, environment: Mapping[str, str]) -> tuple[Path, ...] | None:
    """The files to read; None inside a pod that has nothing but its own account."""
    if settings.kubeconfig is not None:
        return (settings.kubeconfig,)
    if environment.get("KUBECONFIG"):
        return credentials.kubeconfig_paths(environment["KUBECONFIG"])
    folder = _here(environment)
    if (folder / CONTROL).exists() or environment.get(FOLDER):
        return (folder / KUBECONFIG,)
    home = Path(environment.get("HOME", "~")).expanduser() / ".kube/config"
    if not home.exists() and environment.get("KUBERNETES_SERVICE_HOST"):
        return None
    return (home,)


def current_context(settings: Settings, environment: Mapping[str, str] = os.environ) -> str:
    """The context that kubectl would take."""
    files = kubeconfig_files(settings, environment)
    if files is None:
        return IN_CLUSTER
    return credentials.load_kubeconfig(files).current


def is_local(settings: Settings, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the clusters are those of a local federation."""
    return (local_folder(settings, environment) / CONTROL).exists()


def local_folder(settings: Settings, environment: Mapping[str, str] = os.environ) -> Path:
    """Where the local federation runs that a person means: beside the kubeconfig, or here."""
    if settings.kubeconfig is None and not environment.get("KUBECONFIG"):
        return _here(environment)
    files = kubeconfig_files(settings, environment) or ()
    beside = (file.parent for file in files if (file.parent / CONTROL).exists())
    return next(beside, files[0].parent if files else _here(environment))


def has_ended(folder: Path) -> bool:
    """Whether a local federation has run in a folder and does no more, however it ended."""
    try:
        with (folder / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False  # there is none, or somebody holds it
    return (folder / KUBECONFIG).exists()


def _here(environment: Mapping[str, str]) -> Path:
    """The folder of a local federation that nobody names otherwise."""
    return Path(environment.get(FOLDER) or LOCAL_FOLDER)
