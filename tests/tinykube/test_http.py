"""The HTTP server, in front of an API that records requests."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from io import BytesIO
from socket import AF_INET, SOCK_STREAM, socket
from typing import Any

import aiohttp
import pytest

from tinykube.errors import StatusError
from tinykube.handlers.bodies import BODY_LIMIT
from tinykube.http import serve
from tinykube.request import RequestLike, Response
from tinykube.serving import Certificate, self_signed, tls_context
from tinykube.users import ANONYMOUS, User

ADA = User("ada", ("sailors",))
ISSUED = User("system:serviceaccount:default:robot")


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return ("asyncio", {"use_uvloop": request.param})


class Recorder:
    """Answers everything, and keeps what was asked by whom."""

    def __init__(self) -> None:
        self.requests: list[tuple[RequestLike, User]] = []
        self.answer = Response(200, b"{}", {"content-type": "application/json"})
        self.lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.watch_ended = asyncio.Event()

    async def send(self, request: RequestLike, user: User) -> Response:
        self.requests.append((request, user))
        if request.path == "/breaks":
            raise ZeroDivisionError
        return self.answer

    @asynccontextmanager
    async def stream(self, request: RequestLike, user: User) -> AsyncIterator[AsyncIterator[bytes]]:
        self.requests.append((request, user))
        if request.path == "/api/v1/gone":
            raise StatusError(410, "Expired", "too old resource version")
        try:
            yield self._lines()
        finally:
            self.watch_ended.set()

    async def _lines(self) -> AsyncIterator[bytes]:
        while (line := await self.lines.get()) is not None:
            if line == b"break":
                raise ZeroDivisionError
            yield line

    def authenticate(self, token: str) -> User | None:
        return ISSUED if token == "issued" else None


def trusting(certificate: Certificate) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=certificate.certificate.decode())


def bound() -> socket:
    sock = socket(AF_INET, SOCK_STREAM)
    sock.bind(("127.0.0.1", 0))
    return sock


class Running:
    """A server on a free port, with a client session for it."""

    def __init__(self, api: Recorder, session: aiohttp.ClientSession) -> None:
        self.api = api
        self.session = session

    async def fetch(self, method: str, path: str, **options: Any) -> tuple[int, bytes]:
        async with self.session.request(method, path, **options) as response:
            return response.status, await response.read()


@asynccontextmanager
async def running(authority: Certificate | None = None) -> AsyncIterator[Running]:
    api, sock = Recorder(), bound()
    host, port = sock.getsockname()
    tls = tls_context(authority) if authority else None
    trust: ssl.SSLContext | bool = trusting(authority) if authority else True
    scheme = "https" if authority else "http"
    async with (
        serve(api, sock, {"ada-token": ADA}, tls, grace=timedelta(seconds=0.2)),
        aiohttp.ClientSession(
            f"{scheme}://{host}:{port}",
            headers={"Authorization": "Bearer ada-token"},
            connector=aiohttp.TCPConnector(ssl=trust),
        ) as session,
    ):
        yield Running(api, session)


@pytest.fixture(params=["http", "https"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Running]:
    async with running(self_signed("tests") if request.param == "https" else None) as made:
        yield made


async def test_a_request_becomes_a_value(server: Running) -> None:
    server.api.answer = Response(201, b'{"a":1}', {"content-type": "application/json"})

    got = await server.fetch(
        "POST",
        "/api/v1/namespaces/a%20b/configmaps?dryRun=All&labelSelector=x%3Dy,z",
        data=b"{}",
        headers={"Content-Type": "application/json", "Accept": "application/yaml"},
    )

    requests, user = server.api.requests[0]
    assert got == (201, b'{"a":1}')
    assert (requests.method, requests.path) == ("POST", "/api/v1/namespaces/a b/configmaps")
    assert requests.query == (("dryRun", "All"), ("labelSelector", "x=y,z"))
    assert (requests.body, requests.content_type, requests.accept) == (
        b"{}",
        "application/json",
        "application/yaml",
    )
    assert user == ADA


async def test_headers_of_the_answer_arrive(server: Running) -> None:
    server.api.answer = Response(200, b"{}", {"content-type": "x/y", "warning": '299 - "old"'})

    async with server.session.get("/apis") as response:
        assert response.headers["Content-Type"] == "x/y"
        assert response.headers["Warning"] == '299 - "old"'
        assert response.headers["Cache-Control"] == "no-cache, private"


async def test_head_has_no_body(server: Running) -> None:
    assert await server.fetch("HEAD", "/readyz") == (200, b"")


@pytest.mark.parametrize(
    ("header", "user"),
    [
        pytest.param({"Authorization": "Bearer ada-token"}, ADA, id="a token it was given"),
        pytest.param({"Authorization": "bearer  issued"}, ISSUED, id="a token the API issued"),
    ],
)
async def test_a_known_token_authenticates_its_user(
    server: Running, header: dict[str, str], user: User
) -> None:
    await server.fetch("GET", "/api", headers=header)

    assert server.api.requests[0][1] == user


@pytest.mark.parametrize(
    "header", ["", "Bearer wrong", "Bearer", "Basic YTpi", "ada-token"], ids=repr
)
async def test_a_request_without_a_known_token_is_unauthorized(
    server: Running, header: str
) -> None:
    status, body = await server.fetch("GET", "/api/v1/pods", headers={"Authorization": header})

    assert status == 401
    assert b'"reason":"Unauthorized"' in body
    assert server.api.requests == []


async def test_health_and_version_are_open_to_all(server: Running) -> None:
    status, _ = await server.fetch("GET", "/readyz", headers={"Authorization": ""})

    assert status == 200
    assert server.api.requests[0][1] == ANONYMOUS


async def test_whom_a_caller_acts_as_is_passed_on(server: Running) -> None:
    headers = [("Impersonate-User", "eve"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")]

    await server.fetch("GET", "/api", headers=headers)

    passed, user = server.api.requests[0]
    assert user == ADA
    assert [one for one in passed.headers if one[0] != "User-Agent"] == headers


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_at_the_limit_arrives_whole(server: Running, chunked: bool) -> None:
    await server.fetch("POST", "/api", data=_body(BODY_LIMIT, chunked=chunked))

    assert len(server.api.requests[0][0].body) == BODY_LIMIT


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit_is_seen_to_be_so(server: Running, chunked: bool) -> None:
    server.api.answer = Response(413, b"too large", {"content-type": "text/plain"})

    try:
        got = await server.fetch("POST", "/api", data=_body(2 * BODY_LIMIT, chunked=chunked))
    except aiohttp.ClientConnectionError:
        got = (413, b"too large")  # the server may close while the client is still sending

    assert got == (413, b"too large")
    assert len(server.api.requests[0][0].body) == BODY_LIMIT + 1


def _body(size: int, *, chunked: bool) -> Any:
    if not chunked:
        return BytesIO(b"x" * size)

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, size, 1 << 20):
            yield b"x" * min(1 << 20, size - start)

    return parts()


async def test_an_unexpected_error_is_logged_and_answered_with_500(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    status, body = await server.fetch("GET", "/breaks")

    assert status == 500
    assert b'"reason":"InternalError"' in body
    assert "ZeroDivisionError" in caplog.text


async def test_watch_events_arrive_as_they_happen(server: Running) -> None:
    async with server.session.get("/api/v1/pods?watch=true") as response:
        assert response.status == 200
        for line in (b'{"type":"ADDED"}', b'{"type":"DELETED"}\n'):
            server.api.lines.put_nowait(line)
            assert await response.content.readline() == line.rstrip() + b"\n"
        server.api.lines.put_nowait(None)

        assert await response.content.read() == b""


async def test_a_watch_that_fails_midway_ends(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    async with server.session.get("/api/v1/pods?watch=true") as response:
        server.api.lines.put_nowait(b'{"type":"ADDED"}')
        server.api.lines.put_nowait(b"break")

        assert await response.content.read() == b'{"type":"ADDED"}\n'

    assert "ZeroDivisionError" in caplog.text


async def test_a_watch_that_is_refused_has_its_status(server: Running) -> None:
    status, body = await server.fetch("GET", "/api/v1/gone?watch=1")

    assert status == 410
    assert b"too old resource version" in body


async def test_a_watch_ends_with_its_client(server: Running) -> None:
    response = await server.session.get("/api/v1/pods?watch=true")
    response.close()

    async with asyncio.timeout(5):
        await server.api.watch_ended.wait()


async def test_stopping_ends_watches_cleanly_and_frees_the_port() -> None:
    api, sock = Recorder(), bound()
    address = sock.getsockname()
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer ada-token"}) as session:
        async with serve(api, sock, {"ada-token": ADA}):
            url = f"http://{address[0]}:{address[1]}/api/v1/pods?watch=true"
            response = await session.get(url)

        assert await response.content.read() == b""

        assert api.watch_ended.is_set()
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.get(url)


async def test_a_client_that_trusts_another_authority_is_not_served() -> None:
    stranger = trusting(self_signed("other"))

    async with running(self_signed("tests")) as server:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await server.fetch("GET", "/readyz", ssl=stranger)
