"""One cluster's API: everything about a request is decided here; HTTP only carries it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from random import Random

from hanse.kube.clock import Clock
from hanse.kube.errors import error_of
from hanse.kube.request import Request, Response
from hanse.local.embedded import discovery, reads
from hanse.local.embedded.addresses import Addresses
from hanse.local.embedded.admission import Admission
from hanse.local.embedded.bootstrap import Bootstrap
from hanse.local.embedded.builtins import BUILTINS
from hanse.local.embedded.calls import Call
from hanse.local.embedded.crds import Definitions
from hanse.local.embedded.deletion import Deletion
from hanse.local.embedded.failures import NoSuchPath, Refusal, method_not_allowed
from hanse.local.embedded.paths import is_resource_path, locate
from hanse.local.embedded.render import answer, list_answer
from hanse.local.embedded.resources import Registry
from hanse.local.embedded.storage import Snapshot, Storage
from hanse.local.embedded.users import ADMIN, User
from hanse.local.embedded.watch import Watches
from hanse.local.embedded.writes import Writes


class ApiServer:
    """A Kubernetes API over one storage; `service_range` is one CIDR or two, parted by a comma."""

    def __init__(
        self,
        name: str,
        *,
        clock: Clock,
        service_range: str = "10.0.0.0/16",
        advertise: str = "192.0.2.1",
        port: int = 6443,
        history: int = 4096,
        seed: int | None = None,
        snapshot: Snapshot | None = None,
    ) -> None:
        self.name = name
        self.clock = clock
        self.storage = Storage(history=history)
        self.registry = Registry(BUILTINS)
        random = Random(seed)  # noqa: S311 -- names and uids, not secrets; seeded runs replay
        addresses = Addresses(self.storage, clock, random)
        admission = Admission(self.storage)
        self._writes = Writes(self.storage, clock, admission, addresses, random)
        self._deletion = Deletion(self.storage, clock, admission, addresses)
        self._watches = Watches(self.storage, clock)
        self._definitions = Definitions(self.storage, self.registry, clock, self._deletion.remove)
        if snapshot is None:
            bootstrap = Bootstrap(self.storage, clock, random, addresses)
            bootstrap.fill(service_range, advertise, port)
        else:
            self.storage.restore(snapshot)

    async def send(self, request: Request, user: User = ADMIN) -> Response:
        """Answer one request that is not a watch; any status, never a refusal as an exception."""
        try:
            return await self._answer(request, user)
        except Refusal as refusal:
            return refusal.response

    @asynccontextmanager
    async def stream(
        self, request: Request, user: User = ADMIN
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Answer one watch, line by line; entering it raises `Refusal` for any status but 200."""
        call = self._call(request, user)
        if call.verb != "watch" or "watch" not in call.resource.verbs:
            raise method_not_allowed()
        watch = self._watches.open(call)
        try:
            yield watch.lines()
        finally:
            watch.close()

    def authenticate(self, token: str) -> User | None:
        """Whose bearer token this is, if TokenRequest issued it here and it still holds."""
        return None

    def drop_watches(self) -> None:
        """End every watch, as a server that restarts does."""
        self._watches.drop()

    def _call(self, request: Request, user: User) -> Call:
        if not is_resource_path(request.path):
            raise NoSuchPath
        return Call(request, locate(self.registry, request.path), user)

    async def _answer(self, request: Request, user: User) -> Response:
        if not is_resource_path(request.path):
            document = discovery.respond(self.registry, request)
            if document is None:
                raise NoSuchPath
            return document
        call = self._call(request, user)
        now = self.clock.now()
        verb = self._checked_verb(call)
        try:
            return await self._answer_verb(call, verb, now)
        finally:
            if verb not in ("get", "list"):
                self._definitions.settle(call.resource)

    async def _answer_verb(self, call: Call, verb: str, now: datetime) -> Response:
        match verb:
            case "get":
                return reads.get(self.storage, call, now)
            case "list":
                return reads.list_objects(self.storage, call, now)
            case "create":
                outcome = await self._writes.create(call)
            case "update":
                outcome = await self._writes.update(call)
            case "patch":
                outcome = await self._writes.patch(call)
            case "delete":
                removed = await self._deletion.delete(call)
                return answer(call, removed.code, removed.object, now)
            case "deletecollection":
                items = await self._deletion.delete_many(call)
                return list_answer(call, items, {"resourceVersion": str(self.storage.version)}, now)
            case _:
                raise method_not_allowed()
        return answer(call, outcome.code, outcome.object, now)

    def _checked_verb(self, call: Call) -> str:
        subresource = call.resource.subresource(call.target.subresource)
        verbs = subresource.verbs if subresource is not None else call.resource.verbs
        if call.verb not in verbs:
            raise method_not_allowed()
        if call.verb == "create" and bool(call.target.name) != (subresource is not None):
            raise method_not_allowed()
        return call.verb


def is_watch(request: Request) -> bool:
    """Whether a request asks for a stream."""
    if request.method != "GET":
        return False
    return "/watch/" in request.path or any(
        key == "watch" and value.lower() not in ("false", "0") for key, value in request.query
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
