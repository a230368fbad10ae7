"""The clusters that a command works on: which they are, and how commands read them.

Commands open no connections of their own. `read_clusters` reads many clusters concurrently and
returns a `ReadFailure` for each that cannot be read; `connect` opens one cluster, and turns its
errors into the one line that the user sees.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TypeVar

from msgspec import Struct

from hanse.cli.errors import CommandFailed, InputError, credentials_error
from hanse.cli.settings import GlobalOptions
from hanse.kube import credentials
from hanse.kube.client import Client
from hanse.kube.client_config import Credentials
from hanse.kube.concurrency_limit import AdaptiveConcurrencyLimit
from hanse.kube.errors import (
    ApiError,
    BadCredentials,
    Forbidden,
    KubeError,
    ServerError,
    Throttled,
    Unreachable,
)
from hanse.kube.retry import retry_delay
from hanse.kube.transport import Request, Response, Transport

LOCAL_FOLDER = Path(".hanse")
KUBECONFIG = "kubeconfig"
CONTROL_SOCKET = "control.sock"
LOCK_FILE = "lock"
FOLDER_VARIABLE = "HANSE_DIR"
"""The environment variable that names the folder of a local federation."""
IN_CLUSTER = "in-cluster"

MAX_CONCURRENT_READS = 16
"""Clusters that are read at a time: with more, their time-outs include waiting for our own CPU."""

MAX_CONNECTIONS = 128
"""Connections to all clusters of `open_clients`, and clusters of those that are read at a time.

Each connection costs a TLS handshake, and so many carry as many requests as our own CPU can
follow: many clusters at once by few connections each wait less for the network than few by many.
"""

BROKER_CONNECTIONS = 4
"""Connections to a broker, at least: it has more to list than its members, and all wait for it."""

READ_TIMEOUT = timedelta(seconds=10)
REQUEST_TIMEOUT = timedelta(seconds=5)
"""For one request of a command that makes several; `READ_TIMEOUT` is for a whole cluster."""

ATTEMPTS = 5
"""How often a request is sent, within about three seconds, to a server that is busy or fails."""

MAX_PAUSE = timedelta(seconds=3)
"""How long a command waits for a server that says when to try again."""

T = TypeVar("T")


class ClusterAccess(Struct, frozen=True):
    """A cluster by the name of its context, and the credentials for it."""

    name: str
    credentials: Credentials


async def check_readable(found: Credentials) -> Credentials:
    """Load the credentials, and return them unchanged; raises `InputError` for `BadCredentials`."""
    try:
        await found.config()
    except BadCredentials as error:
        raise credentials_error(error) from None
    return found


class ReadFailure(Struct, frozen=True):
    """A cluster that could not be read, and the error."""

    cluster: str
    error: KubeError | TimeoutError

    def message(self, on_timeout: str) -> str:
        """The error's text, or the given text where the cluster did not answer in time."""
        return on_timeout if isinstance(self.error, TimeoutError) else str(self.error)


# -- reading


async def read_clusters(
    clusters: Iterable[ClusterAccess],
    read: Callable[[ClusterAccess, Client], Awaitable[T]],
    *,
    limit: timedelta | None = READ_TIMEOUT,
    clients: Mapping[str, Client] | None = None,
) -> list[T | ReadFailure]:
    """Call `read` for every cluster, several at a time; results are in the order of the clusters.

    A `KubeError` of one, or more time than `limit`, becomes its `ReadFailure`; other errors are
    raised. `clients` by name are used instead of new ones, and are not closed; it needs one per
    cluster.
    """
    turns = asyncio.Semaphore(MAX_CONCURRENT_READS if clients is None else MAX_CONNECTIONS)

    async def read_in_turn(cluster: ClusterAccess) -> T | ReadFailure:
        """Read one cluster, when not too many are being read."""
        async with turns:
            return await read_cluster(cluster, read, limit=limit, clients=clients)

    return list(await asyncio.gather(*(read_in_turn(cluster) for cluster in clusters)))


async def read_cluster(
    cluster: ClusterAccess,
    read: Callable[[ClusterAccess, Client], Awaitable[T]],
    *,
    limit: timedelta | None = READ_TIMEOUT,
    clients: Mapping[str, Client] | None = None,
) -> T | ReadFailure:
    """Call `read` for one cluster; a `KubeError`, or the time-out, becomes a `ReadFailure`.

    With `clients`, the one of the cluster's name is used and left open; else a new one is closed.
    """
    seconds = limit.total_seconds() if limit is not None else None
    opened = (
        open_client(cluster.credentials) if clients is None else nullcontext(clients[cluster.name])
    )
    try:
        async with opened as client, asyncio.timeout(seconds):
            return await read(cluster, client)
    except (KubeError, TimeoutError) as error:
        return ReadFailure(cluster.name, error)


@asynccontextmanager
async def open_client(access: Credentials) -> AsyncIterator[Client]:
    """A client that retries after 429 and 5xx, closed at the end of the block.

    It connects at the first request, so that only requests in the block raise `KubeError`.
    """
    client = _RetryingClient(_transport(access))
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def open_clients(clusters: Iterable[ClusterAccess]) -> AsyncIterator[dict[str, Client]]:
    """A client that retries for each cluster, by name; all are closed at the end of the block.

    They share `MAX_CONNECTIONS`: each has 16 for up to 8 clusters, fewer for more, at least one. A
    slow server is asked as much at a time as a quick one: a person waits, and few requests follow.
    """
    chosen = list(clusters)
    width = max(MAX_CONNECTIONS // max(len(chosen), 8), 1)
    clients: dict[str, Client] = {
        one.name: _RetryingClient(
            _transport(one.credentials),
            limit=AdaptiveConcurrencyLimit(first=width, most=width, slow=READ_TIMEOUT),
        )
        for one in chosen
    }
    try:
        yield clients
    finally:
        await asyncio.gather(*(one.close() for one in clients.values()))


@asynccontextmanager
async def connect(cluster: ClusterAccess) -> AsyncIterator[Client]:
    """A client for one cluster; a `KubeError` in the block becomes `InputError` or `CommandFailed`.

    The error names the cluster whose client raised it, also where such blocks are nested. The
    client retries after 429 and 5xx, and is closed at the end.
    """
    client = _NamedClient(cluster)
    try:
        yield client
    except KubeError as error:
        (name, *_) = getattr(error, "__notes__", [cluster.name])
        raise _user_error(name, error) from None
    finally:
        await client.close()


def _transport(access: Credentials) -> Transport:
    """A new HTTP transport; it connects at the first request."""
    from hanse.kube.http_transport import HttpTransport  # aiohttp, which completion does without

    return HttpTransport(access)


class _RetryingClient(Client):
    """A client that sends a request again if the server answers 429 or 5xx: it may be busy.

    All that commands send may be repeated: a create that was executed is then found to exist.
    People wait for lists, so that pages are larger than those of agents.
    """

    page_size = 5_000

    async def send(self, request: Request) -> Response:
        """Send a request, after 429 or 5xx again, `ATTEMPTS` times in all; raises the last error.

        Between attempts it waits for a growing time or the server's Retry-After, at most
        `MAX_PAUSE`. Other errors are raised at once.
        """
        for attempt in range(ATTEMPTS - 1):
            try:
                return await super().send(request)
            except (Throttled, ServerError) as error:
                jitter = Random()  # noqa: S311
                pause = retry_delay(error, attempt, jitter) or timedelta(0)
                await asyncio.sleep(min(pause, MAX_PAUSE).total_seconds())
        return await super().send(request)


class _NamedClient(_RetryingClient):
    """A client that notes in each error which cluster it came from: blocks may nest clients."""

    def __init__(self, cluster: ClusterAccess) -> None:
        super().__init__(_transport(cluster.credentials))
        self._name = cluster.name

    async def send(self, request: Request) -> Response:
        """Send a request with retries; a `KubeError` gets the cluster's name as a note."""
        try:
            return await super().send(request)
        except KubeError as error:
            error.add_note(self._name)
            raise


def _user_error(name: str, error: KubeError) -> InputError | CommandFailed:
    """The error that the user sees for a cluster's error, returned to be raised.

    `InputError` for bad credentials, else `CommandFailed`; with a remedy for bad credentials, no
    answer and missing rights, and else without one.
    """
    match error:
        case BadCredentials():
            return InputError(f"{name}: {error}; check the credentials of that context")
        case Unreachable():
            text = f"{name} does not answer: {error}; start it, or name another context"
            return CommandFailed(text)
        case Forbidden():
            return CommandFailed(f"{name}: {error}; use the credentials of an administrator")
        case ApiError():
            return CommandFailed(f"{name} refused: {error}")
        case _:
            return CommandFailed(f"{name}: {error}")


# -- selecting


def select_clusters(settings: GlobalOptions) -> tuple[ClusterAccess, ...]:
    """The clusters of `configured_clusters`, whose `BadCredentials` is raised as `InputError`."""
    try:
        return configured_clusters(settings)
    except BadCredentials as error:
        raise credentials_error(error) from None


def select_cluster(settings: GlobalOptions, context: str = "") -> ClusterAccess:
    """The cluster of `context`, else of `--context`, else of the current context.

    In a pod without a kubeconfig only the pod's own cluster is known, as `in-cluster`. Raises
    `InputError` for an unknown context, an unusable kubeconfig, or if no context is chosen.
    """
    try:
        chosen = context or settings.context or current_context(settings)
        if not chosen:
            raise InputError("the kubeconfig has no current context; name one with --context")
        return configured_clusters(settings._replace(context=chosen))[0]
    except BadCredentials as error:
        raise credentials_error(error) from None


def all_contexts(settings: GlobalOptions) -> tuple[ClusterAccess, ...]:
    """Every cluster of the kubeconfig, ignoring --context; `InputError` if it is unusable."""
    return select_clusters(settings._replace(context=""))


def own_and_others(
    settings: GlobalOptions, name: str, environment: Mapping[str, str] = os.environ
) -> tuple[ClusterAccess, ...]:
    """The cluster of this pod under `name`, then those of the kubeconfig, if one exists.

    A context that is also called `name` is left out; `--context` narrows the others to one. Raises
    `InputError` for an unusable kubeconfig.
    """
    own = ClusterAccess(name, credentials.in_cluster(environment))
    files = kubeconfig_files(settings, environment) or ()
    others = select_clusters(settings) if any(file.exists() for file in files) else ()
    return (own, *(one for one in others if one.name != name))


def configured_clusters(
    settings: GlobalOptions, environment: Mapping[str, str] = os.environ
) -> tuple[ClusterAccess, ...]:
    """All contexts of the kubeconfig, or only that of `--context`; no API server is asked.

    In a pod without a kubeconfig it is the pod's own cluster, called `in-cluster`. Raises
    `BadCredentials` for an unknown context, and for a kubeconfig that cannot be used, or of a local
    federation that has ended.
    """
    files = kubeconfig_files(settings, environment)
    if files is None:
        if settings.context not in ("", IN_CLUSTER):
            raise BadCredentials(
                f"no context {settings.context!r}: this pod has no kubeconfig and knows its own "
                f"cluster alone, {IN_CLUSTER}; give --kubeconfig FILE"
            )
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


def kubeconfig_files(
    settings: GlobalOptions, environment: Mapping[str, str]
) -> tuple[Path, ...] | None:
    """The kubeconfig paths, which need not exist; None in a pod that has only its service account.

    In this order: --kubeconfig, $KUBECONFIG, a local federation's ($HANSE_DIR or one that runs in
    ./.hanse), ~/.kube/config.
    """
    if settings.kubeconfig is not None:
        return (settings.kubeconfig,)
    if environment.get("KUBECONFIG"):
        return credentials.kubeconfig_paths(environment["KUBECONFIG"])
    folder = _default_folder(environment)
    if (folder / CONTROL_SOCKET).exists() or environment.get(FOLDER_VARIABLE):
        return (folder / KUBECONFIG,)
    home = Path(environment.get("HOME", "~")).expanduser() / ".kube/config"
    if not home.exists() and environment.get("KUBERNETES_SERVICE_HOST"):
        return None
    return (home,)


def current_context(settings: GlobalOptions, environment: Mapping[str, str] = os.environ) -> str:
    """The kubeconfig's current-context, "" without one; `in-cluster` in a pod that has no file.

    Raises `BadCredentials` for a kubeconfig that is missing or cannot be used.
    """
    files = kubeconfig_files(settings, environment)
    if files is None:
        return IN_CLUSTER
    return credentials.load_kubeconfig(files).current


# -- local federations


def is_local(settings: GlobalOptions, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether `hanse up` runs in the folder of the local federation, by its control socket."""
    return (local_folder(settings, environment) / CONTROL_SOCKET).exists()


def local_folder(settings: GlobalOptions, environment: Mapping[str, str] = os.environ) -> Path:
    """The folder where a local federation may run: that of --kubeconfig or $KUBECONFIG, if given.

    Of several files the first beside which `hanse up` runs, else the first; without any file
    $HANSE_DIR or ./.hanse.
    """
    if settings.kubeconfig is None and not environment.get("KUBECONFIG"):
        return _default_folder(environment)
    files = kubeconfig_files(settings, environment) or ()
    beside = (file.parent for file in files if (file.parent / CONTROL_SOCKET).exists())
    return next(beside, files[0].parent if files else _default_folder(environment))


def has_ended(folder: Path) -> bool:
    """Whether a folder has a local federation's kubeconfig, and a lock file that nobody holds."""
    try:
        with (folder / LOCK_FILE).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False  # there is no lock file, or the running federation holds it
    return (folder / KUBECONFIG).exists()


def _default_folder(environment: Mapping[str, str]) -> Path:
    """$HANSE_DIR, else ./.hanse; it need not exist."""
    return Path(environment.get(FOLDER_VARIABLE) or LOCAL_FOLDER)
