"""Commands try again where a server refuses single requests, and say so where it goes on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.cli.programs import CommandResult, hanse
from tinykube.apiserver import ApiServer
from tinykube.clock import WallClock
from tinykube.errors import StatusError
from tinykube.http import serve
from tinykube.request import RequestLike, Response
from tinykube.serving import bind, new_token, self_signed, tls_context, write_kubeconfig
from tinykube.users import ADMIN, User

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class BusyServer(ApiServer):
    """Answers each eighth request first with 429, or with 500 though it is executed."""

    def __init__(self, name: str, *, forever: bool = False) -> None:
        super().__init__(name, clock=WallClock())
        self._forever = forever
        self._known: set[tuple[str, str]] = set()

    async def send(self, request: RequestLike, user: User = ADMIN) -> Response:
        new = (request.method, request.path) not in self._known
        self._known.add((request.method, request.path))
        if self._forever or (new and len(self._known) % 8 == 1):
            return StatusError(429, "TooManyRequests", "try again later").response
        response = await super().send(request, user)
        if new and len(self._known) % 8 == 5:
            return StatusError(500, "InternalError", "etcdserver: leader changed").response
        return response


@asynccontextmanager
async def served(server: ApiServer, folder: Path) -> AsyncIterator[Path]:
    """The kubeconfig of a server on loopback."""
    listener, certificate, token = bind(0), self_signed(server.name), new_token()
    url = f"https://127.0.0.1:{listener.getsockname()[1]}"
    kubeconfig = folder / server.name
    async with serve(server, listener, {token: ADMIN}, tls_context(certificate)):
        write_kubeconfig(kubeconfig, server.name, url, certificate.certificate, token)
        yield kubeconfig


async def run(folder: Path, files: list[Path], *arguments: str) -> CommandResult:
    env = {"KUBECONFIG": ":".join(map(str, files))}
    return await asyncio.to_thread(hanse, *arguments, cwd=folder, env=env)


async def test_joining_gets_past_requests_that_busy_servers_refuse(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        servers = [BusyServer("broker"), BusyServer("lubeck")]
        files = [await stack.enter_async_context(served(s, tmp_path)) for s in servers]
        begun = await run(tmp_path, files, "broker", "init", "--context", "broker")
        joined = await run(
            tmp_path,
            files,
            *("join", "--broker", "broker", "--cluster-id", "lubeck", "--context", "lubeck"),
        )
        again = await run(
            tmp_path,
            files,
            *("join", "--broker", "broker", "--cluster-id", "lubeck", "--context", "lubeck"),
        )

    assert begun.status == 0, begun.err
    assert joined.status == 0, joined.err
    assert again.out.startswith("broker: nothing to change\nlubeck: nothing to change\n")


async def test_a_server_that_goes_on_failing_is_reported_in_one_line(tmp_path: Path) -> None:
    async with served(BusyServer("broker", forever=True), tmp_path) as file:
        result = await run(tmp_path, [file], "broker", "init", "--context", "broker")

    assert result.status == 1
    assert result.err == "hanse: broker refused: try again later\n"
