"""The HTTP transport, against a real server on loopback."""

import asyncio
import gc
import gzip
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from aiohttp.client_proto import ResponseHandler

from hanse.kube.certificates import CertificateAuthority
from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint, StaticCredentials
from hanse.kube.errors import BadCredentials, Unanswered, Unreachable, Untrusted
from hanse.kube.http_transport import HttpTransport
from hanse.kube.loop_connector import LoopConnector
from hanse.kube.server_tls import server_context
from hanse.kube.transport import Request
from tests.kube.http_server import AUTHORITY, SERVER, connected, serving
from tinykube.virtual_time import run

pytestmark = pytest.mark.anyio


async def echo(request: web.Request) -> web.Response:
    """What arrived, as headers of the answer; the body as it came."""
    echoed = {f"x-{name.lower()}": value for name, value in request.headers.items()}
    echoed |= {"x-method": request.method, "x-target": request.raw_path}
    return web.Response(body=await request.read(), headers=echoed)


async def test_a_request_arrives_as_it_was_built() -> None:
    request = Request(
        "PATCH",
        "/api/v1/namespaces/a%20b",
        (("labelSelector", "a=b,c in (d)"),),
        b'{"x":1}',
        content_type="application/merge-patch+json",
    )

    async with connected(echo, Identity(token="t0k3n")) as http:
        response = await http.send(request)

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

    async with connected(refuse) as http:
        response = await http.send(Request("GET", "/"))

    assert (response.status, response.headers["retry-after"]) == (409, "3")


async def test_a_redirect_is_not_followed_with_our_token() -> None:
    async def redirect(_: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "http://elsewhere.example/"})

    async with connected(redirect, Identity(token="t0k3n")) as http:
        with pytest.raises(Unreachable, match="redirects"):
            await http.send(Request("GET", "/"))


async def test_the_event_loop_owns_the_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """libuv aborts the process if a socket that it polls is closed by somebody else."""

    async def connect(**_: object) -> None:
        raise AssertionError("aiohttp connects a socket of its own")

    monkeypatch.setattr("aiohttp.connector.aiohappyeyeballs.start_connection", connect)
    async with connected(echo, tls=server_context(SERVER)) as http:
        assert (await http.send(Request("GET", "/"))).status == 200


async def test_connections_have_keepalive() -> None:
    found: list[int] = []
    keep_alive = LoopConnector._connect

    async def seen(*args: Any, **kwargs: Any) -> Any:
        transport, protocol = await keep_alive(*args, **kwargs)
        of = transport.get_extra_info("socket")
        found.append(of.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
        return transport, protocol

    async with connected(echo) as http:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LoopConnector, "_connect", seen)
            await http.send(Request("GET", "/"))

    assert found == [1]


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Have every name resolve to these addresses, in this order."""

    async def resolve(self: object, host: str, port: int, **_: object) -> list[Any]:
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
                "proto": 0,
                "flags": 0,
            }
            for address in addresses
        ]

    monkeypatch.setattr("aiohttp.connector.TCPConnector._resolve_host", resolve)


async def test_another_address_of_a_server_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them refuses, as where a name has an IPv6 address that nobody listens on."""

    tried: list[str] = []
    connect = LoopConnector._connect

    async def seen(self: LoopConnector, address: Any, *args: Any, **kwargs: Any) -> Any:
        tried.append(address[4][0])
        return await connect(self, address, *args, **kwargs)

    resolve_to(monkeypatch, "::1", "127.0.0.1")
    monkeypatch.setattr(LoopConnector, "_connect", seen)
    async with serving(echo) as url:
        named = ServerEndpoint(url.replace("127.0.0.1", "api.example"))
        http = HttpTransport(StaticCredentials(ClientConfig(named)))
        assert (await http.send(Request("GET", "/"))).status == 200
        await http.close()

    assert tried == ["::1", "127.0.0.1"]


async def test_a_connection_that_the_event_loop_closed_is_an_unreachable_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """uvloop raises a RuntimeError where others raise an OSError, and nothing would catch it."""

    async def closed(*_: object) -> None:
        raise RuntimeError("unable to perform operation on <UVPoll closed=True>")

    async with connected(echo) as http:
        monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", closed)
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1:\d+ broke off \(RuntimeError\)"):
            await http.send(Request("GET", "/"))


async def test_a_basic_login_and_impersonation_are_sent() -> None:
    identity = Identity(username="u", password="p", impersonate=(("Impersonate-User", "jane"),))

    async with connected(echo, identity) as http:
        response = await http.send(Request("GET", "/"))

    assert response.headers["x-authorization"] == "Basic dTpw"
    assert response.headers["x-impersonate-user"] == "jane"


async def test_a_server_of_the_trusted_authority_is_reached() -> None:
    async with connected(echo, tls=server_context(SERVER)) as http:
        assert (await http.send(Request("GET", "/"))).status == 200


async def test_a_server_of_another_authority_is_not() -> None:
    stranger = CertificateAuthority.create("stranger").server("server")

    async with connected(echo, tls=server_context(stranger)) as http:
        with pytest.raises(Untrusted, match=r"certificate of 127\.0\.0\.1:\d+ is not trusted"):
            await http.send(Request("GET", "/"))


async def test_a_certificate_for_another_name_needs_that_name() -> None:
    elsewhere = server_context(AUTHORITY.server("server", ["api.example"]))

    async with connected(echo, tls=elsewhere) as http:
        with pytest.raises(Unreachable, match="is not trusted"):
            await http.send(Request("GET", "/"))
    async with connected(echo, tls=elsewhere, server_name="api.example") as http:
        assert (await http.send(Request("GET", "/"))).status == 200


async def test_an_insecure_endpoint_is_not_verified() -> None:
    stranger = CertificateAuthority.create("stranger").server("server")
    async with serving(echo, server_context(stranger)) as url:
        http = HttpTransport(StaticCredentials(ClientConfig(ServerEndpoint(url, insecure=True))))
        response = await http.send(Request("GET", "/"))
        await http.close()

    assert (response.status, response.certificate) == (200, None)


async def test_a_response_says_how_long_the_certificate_of_its_server_is_valid() -> None:
    issued = datetime.now(UTC).replace(microsecond=0) - timedelta(days=362)
    ending = server_context(AUTHORITY.server("server", now=issued))

    async with connected(echo, tls=ending) as http:
        response = await http.send(Request("GET", "/"))

    assert response.certificate is not None
    assert response.certificate.not_before < issued
    assert response.certificate.not_after == issued + timedelta(days=365)


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

    async with connected(who, Identity(certificate=jane.certificate, key=jane.key), tls) as http:
        response = await http.send(Request("GET", "/"))

    assert response.body == b"jane"


@pytest.mark.parametrize(
    ("endpoint", "identity", "message"),
    [
        pytest.param(
            ServerEndpoint("https://127.0.0.1:1", ca=b"nonsense"),
            Identity(),
            "certificate-authority",
            id="ca",
        ),
        pytest.param(
            ServerEndpoint("https://127.0.0.1:1"),
            Identity(certificate=SERVER.certificate, key=AUTHORITY.client("x").key),
            "client-certificate and client-key",
            id="key",
        ),
    ],
)
async def test_certificates_that_cannot_be_used_are_reported(
    endpoint: ServerEndpoint, identity: Identity, message: str
) -> None:
    http = HttpTransport(StaticCredentials(ClientConfig(endpoint, identity)))

    with pytest.raises(BadCredentials, match=message):
        await http.send(Request("GET", "/"))


async def test_an_absent_server_is_reported_in_one_line() -> None:
    async with serving(echo) as url:
        pass
    http = HttpTransport(
        StaticCredentials(ClientConfig(ServerEndpoint(url), Identity(token="t0k3n")))
    )

    with pytest.raises(
        Unreachable, match=r"^cannot connect to 127\.0\.0\.1:\d+: .*refused"
    ) as raised:
        await http.send(Request("GET", "/"))
    await http.close()

    assert "t0k3n" not in str(raised.value)
    assert len(str(raised.value)) < 120


async def test_a_server_that_does_not_answer_is_unreachable() -> None:
    forever = asyncio.Event()

    async def wait(_: web.Request) -> web.Response:
        await forever.wait()
        return web.Response()

    async with connected(wait) as http:
        with pytest.raises(Unanswered, match=r"no answer from .* within 0 s"):
            await http.send(Request("GET", "/", timeout=timedelta(milliseconds=50)))
        with pytest.raises(Unanswered, match=r"no answer from .* within 0 s"):
            async with http.stream(Request("GET", "/", timeout=timedelta(milliseconds=50))):
                pass
        forever.set()


@pytest.mark.parametrize("ask", ["request", "watch"])
def test_a_server_none_of_whose_addresses_takes_a_connection_did_not_take_the_request(
    ask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one with several nodes that is off: each address is tried, until time is up."""
    resolve_to(monkeypatch, "192.0.2.1", "192.0.2.2", "2001:db8::1")

    async def connect(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    async def try_it() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", connect)
        http = HttpTransport(StaticCredentials(ClientConfig(ServerEndpoint("https://api.example"))))
        request = Request("GET", "/", timeout=timedelta(seconds=5))
        try:
            await (http.send(request) if ask == "request" else _watch(http, request))
        finally:
            await http.close()

    with pytest.raises(Unreachable, match=r"^no connection to api\.example:443 in time$") as raised:
        run(try_it())

    assert type(raised.value) is Unreachable


async def test_a_proxy_that_is_not_there_is_reported_without_its_password() -> None:
    async with serving(echo) as url:
        pass
    proxy = url.replace("http://", "http://user:hunter2@")
    endpoint = ServerEndpoint("https://cluster.example", proxy=proxy)
    http = HttpTransport(StaticCredentials(ClientConfig(endpoint)))

    with pytest.raises(Unreachable, match=r"the proxy to cluster\.example") as raised:
        await http.send(Request("GET", "/"))
    await http.close()

    assert "hunter2" not in str(raised.value)


async def test_a_proxy_is_gone_through() -> None:
    async with serving(echo) as proxy:
        http = HttpTransport(
            StaticCredentials(ClientConfig(ServerEndpoint("http://cluster.example", proxy=proxy)))
        )
        response = await http.send(Request("GET", "/version"))
        await http.close()

    assert response.headers["x-host"] == "cluster.example"


async def test_a_large_answer_is_compressed_for_far_servers_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def compressed(request: web.Request) -> web.Response:
        assert request.headers["Accept-Encoding"] == "gzip"
        body = gzip.compress(b"x" * 1000)
        return web.Response(body=body, headers={"Content-Encoding": "gzip"})

    async with serving(compressed) as proxy:
        http = HttpTransport(
            StaticCredentials(ClientConfig(ServerEndpoint("http://far.example", proxy=proxy)))
        )
        response = await http.send(Request("GET", "/"))
        await http.close()

    assert response.body == b"x" * 1000


async def test_nothing_is_sent_after_closing() -> None:
    async with connected(echo) as http:
        await http.close()

        with pytest.raises(Unreachable, match="closed"):
            await http.send(Request("GET", "/"))


async def test_closing_that_was_cut_short_can_be_done_again() -> None:
    async with connected(echo) as http:
        await http.send(Request("GET", "/"))
        closing = asyncio.create_task(http.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait({closing})

    del http
    gc.collect()  # what was left open would say so now


BOTH_LOOPS = pytest.mark.parametrize(
    "anyio_backend", [("asyncio", {}), ("asyncio", {"use_uvloop": True})], ids=["plain", "uvloop"]
)


def _ends(listener: socket.socket, asked: Callable[[], object] = lambda: None) -> bool:
    """Whether a connection ends, by a server that shakes hands and answers nothing after that.

    `asked` is called once a request has arrived.
    """
    tls = server_context(SERVER)
    plain, _ = listener.accept()
    with (
        tls.wrap_socket(plain, server_side=True) as accepted,
        socket.socket(fileno=os.dup(accepted.fileno())) as received,
    ):
        received.settimeout(3)
        try:
            while received.recv(1 << 16):
                asked()
        except TimeoutError:
            return False
        except ConnectionResetError:
            pass
    return True


def _client_of(listener: socket.socket) -> HttpTransport:
    endpoint = ServerEndpoint(
        f"https://127.0.0.1:{listener.getsockname()[1]}", AUTHORITY.certificate
    )
    return HttpTransport(StaticCredentials(ClientConfig(endpoint)))


async def _watch(http: HttpTransport, request: Request) -> None:
    async with http.stream(request):
        pass


@BOTH_LOOPS
@pytest.mark.parametrize("ask", [HttpTransport.send, _watch], ids=["request", "watch"])
async def test_a_connection_ends_with_a_request_that_is_cancelled(
    anyio_backend: object, ask: Callable[[HttpTransport, Request], Awaitable[object]]
) -> None:
    """Its server does not end TLS either: sockets stayed open for half a minute."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        http = _client_of(listener)
        sent = asyncio.ensure_future(ask(http, Request("GET", "/")))

        ends = await asyncio.to_thread(
            _ends, listener, lambda: loop.call_soon_threadsafe(sent.cancel)
        )

        assert ends
        await asyncio.wait({sent})
        await http.close()


@BOTH_LOOPS
async def test_a_connection_ends_with_a_request_that_is_cancelled_as_it_is_made(
    anyio_backend: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        http = _client_of(listener)
        ends = asyncio.create_task(asyncio.to_thread(_ends, listener))
        sent = asyncio.create_task(http.send(Request("GET", "/")))
        made = ResponseHandler.connection_made

        def cancelled(self: ResponseHandler, transport: asyncio.BaseTransport) -> None:
            made(self, transport)
            sent.cancel()

        monkeypatch.setattr(ResponseHandler, "connection_made", cancelled)
        await asyncio.wait({sent})

        assert sent.cancelled()
        assert await ends
        await http.close()
