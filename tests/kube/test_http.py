"""The HTTP transport, against a real server on loopback."""

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from aiohttp import web

from hanse.kube.access import Access, Credentials, Endpoint, Fixed, Identity
from hanse.kube.errors import BadCredentials, Forbidden, Gone, Unreachable
from hanse.kube.http import HttpTransport
from hanse.kube.request import Request
from hanse.local.embedded.tls import Authority, Issued, server_context
from tests.kube.listening import Answer, listening

pytestmark = pytest.mark.anyio

AUTHORITY = Authority.create("test")
NOBODY = Identity()
SERVER = AUTHORITY.server("server")


async def echo(request: web.Request) -> web.Response:
    """What arrived, as headers of the answer; the body as it came."""
    told = {f"x-{name.lower()}": value for name, value in request.headers.items()}
    told |= {"x-method": request.method, "x-target": request.raw_path}
    return web.Response(body=await request.read(), headers=told)


@asynccontextmanager
async def transport(
    answer: Answer,
    identity: Identity = NOBODY,
    tls: ssl.SSLContext | None = None,
    server_name: str = "",
) -> AsyncIterator[HttpTransport]:
    """A transport to a server that answers so; TLS with the test's authority if `tls` is given."""
    async with listening(answer, tls) as url:
        endpoint = Endpoint(url, AUTHORITY.certificate if tls else b"", server_name)
        way = HttpTransport(Fixed(Access(endpoint, identity)))
        try:
            yield way
        finally:
            await way.close()


async def test_a_request_arrives_as_it_was_built() -> None:
    request = Request(
        "PATCH",
        "/api/v1/namespaces/a%20b",
        (("labelSelector", "a=b,c in (d)"),),
        b'{"x":1}',
        content_type="application/merge-patch+json",
    )

    async with transport(echo, Identity(token="t0k3n")) as way:
        response = await way.send(request)

    assert response.body == b'{"x":1}'
    assert response.headers["x-method"] == "PATCH"
    assert response.headers["x-target"] == request.target
    assert response.headers["x-content-type"] == "application/merge-patch+json"
    assert response.headers["x-authorization"] == "Bearer t0k3n"
    assert response.headers["x-accept-encoding"] == "identity"
    assert response.headers["x-user-agent"].startswith("hanse/")


async def test_every_status_is_an_answer() -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=409, headers={"Retry-After": "3"}, body=b"{}")

    async with transport(refuse) as way:
        response = await way.send(Request("GET", "/"))

    assert (response.status, response.headers["retry-after"]) == (409, "3")


async def test_a_redirect_is_not_followed_with_our_token() -> None:
    async def redirect(_: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "http://elsewhere.example/"})

    async with transport(redirect, Identity(token="t0k3n")) as way:
        with pytest.raises(Unreachable, match="redirects"):
            await way.send(Request("GET", "/"))


async def test_a_basic_login_and_impersonation_are_sent() -> None:
    identity = Identity(username="u", password="p", impersonate=(("Impersonate-User", "jane"),))

    async with transport(echo, identity) as way:
        response = await way.send(Request("GET", "/"))

    assert response.headers["x-authorization"] == "Basic dTpw"
    assert response.headers["x-impersonate-user"] == "jane"


async def test_a_server_of_the_trusted_authority_is_reached() -> None:
    async with transport(echo, tls=server_context(SERVER)) as way:
        assert (await way.send(Request("GET", "/"))).status == 200


async def test_a_server_of_another_authority_is_not() -> None:
    stranger = Authority.create("stranger").server("server")

    async with transport(echo, tls=server_context(stranger)) as way:
        with pytest.raises(Unreachable, match=r"certificate of 127\.0\.0\.1:\d+ is not trusted"):
            await way.send(Request("GET", "/"))


async def test_a_certificate_for_another_name_needs_that_name() -> None:
    elsewhere = server_context(AUTHORITY.server("server", ["api.example"]))

    async with transport(echo, tls=elsewhere) as way:
        with pytest.raises(Unreachable, match="is not trusted"):
            await way.send(Request("GET", "/"))
    async with transport(echo, tls=elsewhere, server_name="api.example") as way:
        assert (await way.send(Request("GET", "/"))).status == 200


async def test_an_insecure_endpoint_is_not_verified() -> None:
    stranger = Authority.create("stranger").server("server")
    async with listening(echo, server_context(stranger)) as url:
        way = HttpTransport(Fixed(Access(Endpoint(url, insecure=True))))
        assert (await way.send(Request("GET", "/"))).status == 200
        await way.close()


async def test_a_client_certificate_is_presented() -> None:
    async def who(request: web.Request) -> web.Response:
        assert request.transport is not None
        certificate = request.transport.get_extra_info("peercert")
        names = {key: value for part in certificate["subject"] for key, value in part}
        return web.Response(text=names["commonName"])

    tls = server_context(SERVER)
    tls.load_verify_locations(cadata=AUTHORITY.certificate.decode())
    tls.verify_mode = ssl.CERT_REQUIRED
    jane = AUTHORITY.client("jane")

    async with transport(who, Identity(certificate=jane.certificate, key=jane.key), tls) as way:
        response = await way.send(Request("GET", "/"))

    assert response.body == b"jane"


@pytest.mark.parametrize(
    ("endpoint", "identity", "told"),
    [
        pytest.param(
            Endpoint("https://127.0.0.1:1", ca=b"nonsense"),
            Identity(),
            "certificate-authority",
            id="ca",
        ),
        pytest.param(
            Endpoint("https://127.0.0.1:1"),
            Identity(certificate=SERVER.certificate, key=AUTHORITY.client("x").key),
            "client-certificate and client-key",
            id="key",
        ),
    ],
)
async def test_certificates_that_cannot_be_used_are_told(
    endpoint: Endpoint, identity: Identity, told: str
) -> None:
    way = HttpTransport(Fixed(Access(endpoint, identity)))

    with pytest.raises(BadCredentials, match=told):
        await way.send(Request("GET", "/"))


async def test_nobody_there_is_told_in_a_few_words() -> None:
    async with listening(echo) as url:
        pass
    way = HttpTransport(Fixed(Access(Endpoint(url), Identity(token="t0k3n"))))

    with pytest.raises(
        Unreachable, match=r"^cannot connect to 127\.0\.0\.1:\d+: .*refused"
    ) as told:
        await way.send(Request("GET", "/"))
    await way.close()

    assert "t0k3n" not in str(told.value)
    assert len(str(told.value)) < 120


async def test_a_server_that_does_not_answer_is_unreachable() -> None:
    forever = asyncio.Event()

    async def wait(_: web.Request) -> web.Response:
        await forever.wait()
        return web.Response()

    async with transport(wait) as way:
        with pytest.raises(Unreachable, match=r"no answer from .* within 0 s"):
            await way.send(Request("GET", "/", timeout=timedelta(milliseconds=50)))
        with pytest.raises(Unreachable, match=r"no answer from .* within 0 s"):
            async with way.stream(Request("GET", "/", timeout=timedelta(milliseconds=50))):
                pass
        forever.set()


async def test_a_proxy_that_is_not_there_is_told_without_its_password() -> None:
    async with listening(echo) as url:
        pass
    proxy = url.replace("http://", "http://user:hunter2@")
    endpoint = Endpoint("https://cluster.example", proxy=proxy)
    way = HttpTransport(Fixed(Access(endpoint)))

    with pytest.raises(Unreachable, match=r"the proxy to cluster\.example") as told:
        await way.send(Request("GET", "/"))
    await way.close()

    assert "hunter2" not in str(told.value)


async def test_a_proxy_is_gone_through() -> None:
    async with listening(echo) as proxy:
        way = HttpTransport(Fixed(Access(Endpoint("http://cluster.example", proxy=proxy))))
        response = await way.send(Request("GET", "/version"))
        await way.close()

    assert response.headers["x-host"] == "cluster.example"


async def test_a_large_answer_is_compressed_for_far_servers_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def compressed(request: web.Request) -> web.Response:
        assert request.headers["Accept-Encoding"] == "gzip"
        body = gzip.compress(b"x" * 1000)
        return web.Response(body=body, headers={"Content-Encoding": "gzip"})

    async with listening(compressed) as proxy:
        way = HttpTransport(Fixed(Access(Endpoint("http://far.example", proxy=proxy))))
        response = await way.send(Request("GET", "/"))
        await way.close()

    assert response.body == b"x" * 1000


class Rotating(Credentials):
    """Credentials whose identity changes when the server refuses it, or when told to."""

    def __init__(self, url: str, *identities: Identity, ca: bytes = b"") -> None:
        self._ways = [Access(Endpoint(url, ca), identity) for identity in identities]
        self.renewals = 0

    async def access(self) -> Access:
        return self._ways[0]

    async def renewed(self, refused: Access) -> Access:
        self.renewals += 1
        return self.rotate()

    def rotate(self) -> Access:
        if len(self._ways) > 1:
            self._ways.pop(0)
        return self._ways[0]


async def only_fresh(request: web.Request) -> web.StreamResponse:
    if request.headers["Authorization"] != "Bearer fresh":
        return web.Response(status=401, body=b"{}")
    return web.Response(body=b"one\ntwo\n")


async def test_a_refused_token_is_renewed_once_and_tried_again() -> None:
    async with listening(only_fresh) as url:
        credentials = Rotating(url, Identity(token="stale"), Identity(token="fresh"))
        way = HttpTransport(credentials)
        response = await way.send(Request("GET", "/"))
        await way.close()

    assert (response.status, credentials.renewals) == (200, 1)


async def test_a_refused_watch_is_renewed_too() -> None:
    async with listening(only_fresh) as url:
        way = HttpTransport(Rotating(url, Identity(token="stale"), Identity(token="fresh")))
        async with way.stream(Request("GET", "/")) as lines:
            told = [line async for line in lines]
        await way.close()

    assert told == [b"one", b"two"]


async def test_credentials_that_stay_refused_are_not_tried_for_ever() -> None:
    async with listening(only_fresh) as url:
        credentials = Rotating(url, Identity(token="stale"))
        way = HttpTransport(credentials)
        response = await way.send(Request("GET", "/"))
        with pytest.raises(BadCredentials):
            async with way.stream(Request("GET", "/")):
                pass
        await way.close()

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

    def identity(issued: Issued) -> Identity:
        return Identity(certificate=issued.certificate, key=issued.key)

    tls = server_context(SERVER)
    tls.load_verify_locations(cadata=AUTHORITY.certificate.decode())
    tls.verify_mode = ssl.CERT_REQUIRED
    old, new = AUTHORITY.client("old"), AUTHORITY.client("new")
    async with listening(stream, tls) as url:
        credentials = Rotating(url, identity(old), identity(new), ca=AUTHORITY.certificate)
        way = HttpTransport(credentials)
        async with way.stream(Request("GET", "/watch")) as lines:
            before = await anext(lines)
            first = await way.send(Request("GET", "/who"))
            credentials.rotate()
            second = await way.send(Request("GET", "/who"))
            go_on.set()
            after = await anext(lines)
        await way.close()

    assert (before, after) == (b"before", b"after")
    assert b"'old'" in first.body
    assert b"'new'" in second.body


async def test_a_stream_is_refused_with_the_typed_error() -> None:
    async def refuse(request: web.Request) -> web.Response:
        status = 410 if request.path == "/gone" else 403
        return web.Response(status=status, body=b'{"message":"no"}')

    async with transport(refuse) as way:
        with pytest.raises(Gone, match="no"):
            async with way.stream(Request("GET", "/gone")):
                pass
        with pytest.raises(Forbidden):
            async with way.stream(Request("GET", "/")):
                pass


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
        transport(stream) as way,
        way.stream(Request("GET", "/", timeout=timedelta(seconds=5))) as lines,
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

    async with transport(stream) as way, way.stream(Request("GET", "/")) as lines:
        assert await anext(lines) == b"first"
        with pytest.raises(Unreachable, match="broke off"):
            await anext(lines)


async def test_nothing_is_sent_after_closing() -> None:
    async with transport(echo) as way:
        await way.close()

        with pytest.raises(Unreachable, match="closed"):
            await way.send(Request("GET", "/"))
