"""One cluster's API: everything about a request is decided here; HTTP only carries it."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from hanse.kube.clock import Clock
from hanse.kube.errors import error_of
from hanse.kube.request import Request, Response
from hanse.local.embedded.builtins import BUILTINS
from hanse.local.embedded.failures import Refusal
from hanse.local.embedded.resources import Registry
from hanse.local.embedded.storage import Snapshot, Storage
from hanse.local.embedded.users import ADMIN, User


class ApiServer:
    """A Kubernetes API over one storage; `service_range` is one CIDR or two, parted by a comma."""

    def __init__(
        self,
        name: str,
        *,
        clock: Clock,
        service_range: str = "10.0.0.0/16",
        history: int = 4096,
        snapshot: Snapshot | None = None,
    ) -> None:
        self.name = name
        self.clock = clock
        self.service_range = service_range
        self.storage = Storage(history=history)
        self.registry = Registry(BUILTINS)
        if snapshot is not None:
            self.storage.restore(snapshot)

    async def send(self, request: Request, user: User = ADMIN) -> Response:
        """Answer one request that is not a watch; any status, never an exception."""
        try:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        except Refusal as refusal:
            return refusal.response

    def stream(
        self, request: Request, user: User = ADMIN
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Answer one watch, line by line; entering it raises `Refusal` for any other status than 200."""
        raise Refusal(404, "NotFound", "the server could not find the requested resource")

    def authenticate(self, token: str) -> User | None:
        """Whose bearer token this is, if it is one that TokenRequest issued here and still holds."""
        return None


def is_watch(request: Request) -> bool:
    """Whether a request asks for a stream."""
    return request.method == "GET" and any(
        key == "watch" and value not in ("false", "0") for key, value in request.query
    )


class InProcess:
    """The way to one embedded cluster without sockets, as one user."""

    def __init__(self, server: ApiServer, user: User = ADMIN) -> None:
        self._server = server
        self._user = user

    async def send(self, request: Request) -> Response:
        return await self._server.send(request, self._user)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        try:
            async with self._server.stream(request, self._user) as lines:
                yield lines
        except Refusal as refusal:
            raise error_of(refusal.response) from refusal

    async def close(self) -> None:
        """Nothing is held."""
