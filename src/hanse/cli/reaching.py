"""One cluster that a command works on, and what is said when it does not play along."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from hanse.cli.clusters import IN_CLUSTER, ClusterAccess, current_context, ways
from hanse.cli.errors import CommandFailed, InputError, credentials_error
from hanse.cli.settings import Settings
from hanse.kube.client import Client
from hanse.kube.errors import (
    ApiError,
    BadCredentials,
    Forbidden,
    KubeError,
    Unreachable,
)
from hanse.kube.http_transport import HttpTransport
from hanse.kube.transport import Request, Response


def way_to(settings: Settings, context: str = "") -> ClusterAccess:
    """The cluster of a context, or of the one that kubectl would take; raises `InputError`."""
    try:
        chosen = context or settings.context or current_context(settings)
        if chosen == IN_CLUSTER:
            return ways(settings)[0]
        if not chosen:
            raise InputError("the kubeconfig has no current context; name one with --context")
        return ways(msgspec.structs.replace(settings, context=chosen))[0]
    except BadCredentials as error:
        raise credentials_error(error) from None


class _Named(Client):
    """A client whose errors say which cluster they came from."""

    def __init__(self, way: ClusterAccess) -> None:
        super().__init__(HttpTransport(way.credentials))
        self._name = way.name

    async def send(self, request: Request) -> Response:
        try:
            return await super().send(request)
        except KubeError as error:
            error.add_note(self._name)
            raise


@asynccontextmanager
async def reached(way: ClusterAccess) -> AsyncIterator[Client]:
    """A client of the cluster; what goes wrong in the block is told in one sentence."""
    client = _Named(way)
    try:
        yield client
    except KubeError as error:
        (name, *_) = getattr(error, "__notes__", [way.name])
        raise _told(name, error) from None
    finally:
        await client.close()


def _told(name: str, error: KubeError) -> InputError | CommandFailed:
    match error:
        case BadCredentials():
            return InputError(f"{name}: {error}; check the credentials of that context")
        case Unreachable():
            return CommandFailed(
                f"{name} does not answer: {error}; start it, or name another context"
            )
        case Forbidden():
            return CommandFailed(f"{name}: {error}; use the credentials of an administrator")
        case ApiError():
            return CommandFailed(f"{name} refused: {error}")
        case _:
            return CommandFailed(f"{name}: {error}")
