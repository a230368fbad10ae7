"""One cluster in this process: an API server with its controllers, also over HTTPS."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from tinykube.apiserver import ApiServer
from tinykube.clock import Clock, WallClock
from tinykube.controllers.controller_manager import ALL_CONTROLLERS, ControllerManager, Simulation
from tinykube.errors import StatusError, bad_request
from tinykube.http import serve
from tinykube.request import JSON, Request
from tinykube.resources import Object
from tinykube.serving import bind, new_token, self_signed, tls_context, write_kubeconfig
from tinykube.users import ADMIN


class Cluster:
    """An API server and its controllers, which run while the cluster is entered by `async with`.

    `api` is the server itself: for users, watches, storage and faults.
    """

    def __init__(
        self,
        name: str = "tinykube",
        *,
        clock: Clock | None = None,
        controllers: frozenset[str] = ALL_CONTROLLERS,
        simulation: Simulation | None = None,
        seed: int | None = None,
    ) -> None:
        """Create the API server with its initial objects.

        No controller runs before the cluster is entered. `simulation` defaults to three nodes; with
        a `seed`, uids and generated names repeat.
        """
        self.api = ApiServer(name, clock=clock or WallClock(), seed=seed)
        self._controllers = ControllerManager(self.api, enabled=controllers, simulation=simulation)
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start the controllers as a task and wait until they are idle."""
        self._running = asyncio.create_task(self._controllers.run(), name="controllers")
        await asyncio.sleep(0)  # the task has to start
        await self._controllers.idle()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Cancel the controllers, wait for their end, and end all open watches.

        An error of the controllers is not raised.
        """
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})
        self.api.drop_watches()

    async def request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        content_type: str = JSON,
        **query: str,
    ) -> Object:
        """Send one request as administrator without HTTP, and return the decoded object.

        Raises `StatusError` from status 300; an answer in plain text becomes `{"message": text}`.
        """
        sent = b"" if body is None else msgspec.json.encode(body)
        response = await self.api.send(
            Request(method, path, tuple(query.items()), sent, content_type)
        )
        try:
            answer: Object = msgspec.json.decode(response.body)
        except msgspec.DecodeError:  # health checks and unknown paths are answered with text
            answer = {"message": response.body.decode().strip()}
        if response.status >= 300:
            raise StatusError(
                response.status, answer.get("reason", ""), answer["message"], answer.get("details")
            )
        return answer

    async def create(self, obj: Object, namespace: str = "default") -> Object:
        """Create an object as administrator; returns it as created.

        Its namespace is its own or else the given one, which does not matter if it is
        cluster-scoped. Raises a 400 if its apiVersion and kind are not served, and the
        `StatusError` of a refusal.
        """
        resource = self.api.registry.of_kind(obj.get("apiVersion", ""), obj.get("kind", ""))
        if resource is None:
            raise bad_request(f"no matches for {obj.get('apiVersion')} {obj.get('kind')}")
        where = obj["metadata"].get("namespace", namespace)
        return await self.request("POST", resource.path(where), obj)

    async def wait_for(self, path: str, condition: Callable[[Object], object]) -> Object:
        """Return the object at a path once it exists and meets a condition; has no timeout.

        It is read again after every write to the storage. Raises every `StatusError` but a 404.
        """
        changed = asyncio.Event()
        unsubscribe = self.api.storage.subscribe(lambda _: changed.set())
        try:
            while True:
                changed.clear()
                try:
                    obj = await self.request("GET", path)
                except StatusError as error:
                    if error.code != 404:
                        raise
                else:
                    if condition(obj):
                        return obj
                await changed.wait()
        finally:
            unsubscribe()

    @asynccontextmanager
    async def serve(self, kubeconfig: Path, *, port: int = 0) -> AsyncIterator[str]:
        """Serve over HTTPS on loopback until exit, with a self-signed certificate; yields the URL.

        Writes a kubeconfig with an administrator's token, which is not removed on exit.
        """
        listener = bind(port)
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        certificate, token = self_signed(self.api.name), new_token()
        async with serve(self.api, listener, {token: ADMIN}, tls_context(certificate)):
            write_kubeconfig(kubeconfig, self.api.name, url, certificate.certificate, token)
            yield url
