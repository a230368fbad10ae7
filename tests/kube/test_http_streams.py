"""Watches and renewed credentials over HTTP, against a real server on loopback."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from datetime import timedelta

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from hanse.kube.client_config import ClientConfig, Credentials, Identity, ServerEndpoint
from hanse.kube.errors import BadCredentials, Forbidden, Gone, Unanswered, Unreachable
from hanse.kube.http_transport import HttpTransport, split_lines
from hanse.kube.server_tls import KeyPair, server_context
from hanse.kube.transport import Request
from tests.kube.http_server import AUTHORITY, SERVER, connected, serving
from tinykube.virtual_time import run

pytestmark = pytest.mark.anyio


async def test_a_stream_is_refused_with_the_typed_error() -> None:
    async def refuse(request: web.Request) -> web.Response:
        status = 410 if request.path == "/gone" else 403
        return web.Response(status=status, body=b'{"message":"no"}')

    async with connected(refuse) as http:
        with pytest.raises(Gone, match="no"):
            async with http.stream(Request("GET", "/gone")):
                pass
        with pytest.raises(Forbidden):
            async with http.stream(Request("GET", "/")):
                pass


async def test_a_stream_that_is_refused_without_a_whole_answer_is_not_waited_for() -> None:
    ended = asyncio.Event()

    async def refuse_in_part(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(status=403)
        await answer.prepare(request)
        await answer.write(b'{"message":')
        await ended.wait()
        return answer

    async with connected(refuse_in_part) as http:
        with pytest.raises(Unanswered, match=r"no answer from .* within 0 s"):
            async with (
                asyncio.timeout(5),
                http.stream(Request("GET", "/", timeout=timedelta(milliseconds=50))),
            ):
                pass
        ended.set()


async def test_a_stream_yields_lines_of_any_length_as_they_arrive() -> None:
    long = b"x" * (3 << 20)
    next_please = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"first\n")
        await next_please.wait()
        await answer.write(long + b"\n")
        return answer

    async with (
        connected(stream) as http,
        http.stream(Request("GET", "/", timeout=timedelta(seconds=5))) as lines,
    ):
        first = await anext(lines)
        next_please.set()
        second = await anext(lines)
        rest = [line async for line in lines]

    assert first == b"first"
    assert second == long
    assert rest == []


async def test_a_stream_that_breaks_off_is_unreachable() -> None:
    async def stream(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"first\n")
        assert request.transport is not None
        request.transport.abort()
        return answer

    async with connected(stream) as http, http.stream(Request("GET", "/")) as lines:
        assert await anext(lines) == b"first"
        with pytest.raises(Unreachable, match="broke off"):
            await anext(lines)


class Rotating(Credentials):
    """Credentials whose identity changes when the server refuses it, or when told to."""

    def __init__(self, url: str, *identities: Identity, ca: bytes = b"") -> None:
        self._ways = [ClientConfig(ServerEndpoint(url, ca), identity) for identity in identities]
        self.renewals = 0

    async def config(self) -> ClientConfig:
        return self._ways[0]

    async def refreshed(self, rejected: ClientConfig) -> ClientConfig:
        self.renewals += 1
        return self.rotate()

    def rotate(self) -> ClientConfig:
        if len(self._ways) > 1:
            self._ways.pop(0)
        return self._ways[0]


async def only_fresh(request: web.Request) -> web.StreamResponse:
    if request.headers["Authorization"] != "Bearer fresh":
        return web.Response(status=401, body=b"{}")
    return web.Response(body=b"one\ntwo\n")


async def test_a_refused_token_is_renewed_once_and_tried_again() -> None:
    async with serving(only_fresh) as url:
        credentials = Rotating(url, Identity(token="stale"), Identity(token="fresh"))
        http = HttpTransport(credentials)
        response = await http.send(Request("GET", "/"))
        await http.close()

    assert (response.status, credentials.renewals) == (200, 1)


async def test_a_refused_watch_is_renewed_too() -> None:
    async with serving(only_fresh) as url:
        http = HttpTransport(Rotating(url, Identity(token="stale"), Identity(token="fresh")))
        async with http.stream(Request("GET", "/")) as lines:
            received = [line async for line in lines]
        await http.close()

    assert received == [b"one", b"two"]


async def test_credentials_that_stay_refused_are_not_tried_for_ever() -> None:
    async with serving(only_fresh) as url:
        credentials = Rotating(url, Identity(token="stale"))
        http = HttpTransport(credentials)
        response = await http.send(Request("GET", "/"))
        with pytest.raises(BadCredentials):
            async with http.stream(Request("GET", "/")):
                pass
        await http.close()

    assert (response.status, credentials.renewals) == (401, 2)


async def test_a_new_certificate_opens_new_connections_and_old_streams_go_on() -> None:
    go_on = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        if request.path == "/who":
            assert request.transport is not None
            subject = request.transport.get_extra_info("peercert")["subject"]
            return web.Response(text=str(subject))
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"before\n")
        await go_on.wait()
        await answer.write(b"after\n")
        return answer

    def identity(issued: KeyPair) -> Identity:
        return Identity(certificate=issued.certificate, key=issued.key)

    tls = server_context(SERVER)
    tls.load_verify_locations(cadata=AUTHORITY.certificate.decode())
    tls.verify_mode = ssl.CERT_REQUIRED
    old, new = AUTHORITY.client("old"), AUTHORITY.client("new")
    async with serving(stream, tls) as url:
        credentials = Rotating(url, identity(old), identity(new), ca=AUTHORITY.certificate)
        http = HttpTransport(credentials)
        async with http.stream(Request("GET", "/watch")) as lines:
            before = await anext(lines)
            first = await http.send(Request("GET", "/who"))
            credentials.rotate()
            second = await http.send(Request("GET", "/who"))
            go_on.set()
            after = await anext(lines)
        await http.close()

    assert (before, after) == (b"before", b"after")
    assert b"'old'" in first.body
    assert b"'new'" in second.body


async def chunks(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def split(parts: Iterable[bytes]) -> list[bytes]:
    return [line async for line in split_lines(chunks(parts))]


@given(st.lists(st.binary(max_size=8).map(lambda part: part.replace(b"x", b"\n"))))
def test_how_the_chunks_fall_does_not_matter(parts: list[bytes]) -> None:
    assert run(split(parts)) == [line for line in b"".join(parts).split(b"\n") if line]


async def test_a_line_of_megabytes_comes_in_one_piece() -> None:
    parts = [b"x" * 65536] * 64 + [b"\nrest"]

    lines = await split(parts)

    assert [len(line) for line in lines] == [64 * 65536, 4]
