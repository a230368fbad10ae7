"""Probes: hysteresis, who is tried and who never, and tries over real sockets."""

import asyncio
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from errno import EAFNOSUPPORT
from os import strerror
from random import Random
from typing import Literal, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.kube.certificates import CertificateAuthority
from hanse.kube.server_tls import server_context
from hanse.model.plan import Key
from hanse.model.probes import Probe, ProbeDetails, ProbePolicy, ProbeTarget, TargetHealth
from hanse.model.snapshot import Change, FactChange, Snapshot
from hanse.providers import probe_sockets
from hanse.providers.probe_messages import grpc_failure, http_failure, http_request
from hanse.providers.probe_sockets import SocketProbe
from hanse.providers.probes import Prober, forbidden_reason
from hanse.runtime.reconciler import Reconciler
from tinykube.virtual_time import LoopClock, run

KEY = Key("host", "shop")
SEVEN = ProbeTarget("TCP", "10.0.0.7", 80)


class Wish:
    """A feature that wants some probes."""

    name = "wish"

    def __init__(self, *wanted: Probe) -> None:
        self.wanted: tuple[Probe, ...] = wanted
        self.never: frozenset[str] = frozenset()

    def probe_keys(self, snapshot: Snapshot) -> Sequence[Key]:
        return (KEY,)

    def probe_keys_for(self, change: Change, snapshot: Snapshot) -> Sequence[Key]:
        return () if isinstance(change, FactChange) else (KEY,)

    def probes(self, key: Key, snapshot: Snapshot) -> Sequence[Probe]:
        return self.wanted

    def forbidden(self, snapshot: Snapshot) -> frozenset[str]:
        return self.never


class World:
    """An agent's prober over addresses that answer or do not."""

    def __init__(
        self, wish: Wish, *, loopback: bool = False, jitter: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.down: set[str] = set()
        self.tried: list[float] = []
        self.wish = wish
        clock = LoopClock()
        self.reconciler = Reconciler([], "lubeck", clock=clock, random=Random(1))
        self.prober = Prober(
            self.reconciler.informers,
            [wish],
            self._try,
            clock=clock,
            loopback=loopback,
            active=lambda: self.reconciler.active,
            jitter=jitter,
        )
        self.reconciler.event_handlers.append(self.prober.on_change)

    def _try(self, target: ProbeTarget, within: float, done: Callable[[str], None], /) -> None:
        loop = asyncio.get_running_loop()
        self.tried.append(loop.time())
        if target.address in self.down:
            loop.call_later(within, done, "no answer in time")
        else:
            loop.call_soon(done, "")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self.reconciler.running(), self.prober.running():
            yield

    def health(self, target: ProbeTarget = SEVEN) -> TargetHealth | None:
        return self.reconciler.informers.facts.get(TargetHealth, target)


def played(
    wish: Wish,
    play: Callable[[World], Awaitable[None]],
    *,
    loopback: bool = False,
    jitter: Callable[[], float] = lambda: 0.0,
) -> None:
    """Run something on virtual time while probes are made."""

    async def main() -> None:
        world = World(wish, loopback=loopback, jitter=jitter)
        async with world.running():
            await play(world)
        assert len(world.prober) == 0

    run(main())


def test_three_good_tries_bring_a_target_up_and_not_before() -> None:
    async def play(world: World) -> None:
        await asyncio.sleep(19)
        assert world.health() is None
        await asyncio.sleep(2)
        found = world.health()
        assert found is not None
        assert found.up

    played(Wish(Probe(SEVEN)), play)


def test_three_bad_tries_take_it_down_within_the_rule() -> None:
    async def play(world: World) -> None:
        await asyncio.sleep(25)
        world.down.add(SEVEN.address)
        await asyncio.sleep(5 + 20 + 4 - 0.5)
        found = world.health()
        assert found is not None
        assert found.up
        await asyncio.sleep(0.6)
        found = world.health()
        assert found is not None
        assert (found.up, found.reason) == (False, "TCP 10.0.0.7:80: no answer in time")

    played(Wish(Probe(SEVEN)), play)


def test_a_shorter_interval_holds_at_once_not_after_the_longer_one() -> None:
    quick = ProbePolicy(timedelta(seconds=1), timedelta(seconds=1), up=1, down=2)

    async def play(world: World) -> None:
        await asyncio.sleep(21)
        world.wish.wanted = (Probe(SEVEN, quick),)
        world.prober.resync()
        world.down.add(SEVEN.address)
        await asyncio.sleep(1 + 1 + 1 + 0.1)
        found = world.health()
        assert found is not None
        assert not found.up

    played(Wish(Probe(SEVEN)), play)


def test_a_target_of_two_hosts_is_probed_by_the_shorter_interval_whoever_comes_last() -> None:
    quick = ProbePolicy(timedelta(seconds=1), timedelta(seconds=1))

    async def play(world: World) -> None:
        for first, last in ((quick, ProbePolicy()), (ProbePolicy(), quick)):
            world.wish.wanted = (Probe(SEVEN, first),)
            world.prober.resync()
            with world.prober.probing_for(Wish(Probe(SEVEN, last))):
                await asyncio.sleep(0.5)
                world.tried.clear()
                await asyncio.sleep(10)
                assert len(world.tried) == 10
        world.tried.clear()
        await asyncio.sleep(20.5)
        assert len(world.tried) <= 3

    played(Wish(), play)


def test_probers_do_not_keep_step_and_none_is_late() -> None:
    async def play(world: World) -> None:
        await asyncio.sleep(60)
        steps = [later - at for at, later in zip(world.tried, world.tried[1:], strict=False)]
        assert all(9.5 <= step <= 10 for step in steps)
        assert len(set(steps)) > 1

    played(Wish(Probe(SEVEN)), play, jitter=Random(1).random)


def test_one_bad_try_among_good_ones_changes_nothing() -> None:
    async def play(world: World) -> None:
        await asyncio.sleep(25)
        for _ in range(5):
            world.down.add(SEVEN.address)
            await asyncio.sleep(20)
            world.down.clear()
            await asyncio.sleep(10)
        found = world.health()
        assert found is not None
        assert found.up

    played(Wish(Probe(SEVEN)), play)


def test_what_is_no_longer_wanted_is_no_longer_tried_and_forgotten() -> None:
    async def play(world: World) -> None:
        await asyncio.sleep(25)
        world.wish.wanted = ()
        world.prober.resync()
        tried = len(world.tried)
        await asyncio.sleep(60)
        assert len(world.tried) == tried
        assert world.health() is None

    played(Wish(Probe(SEVEN)), play)


def test_a_replica_that_does_not_work_tries_nothing() -> None:
    async def play(world: World) -> None:
        await asyncio.sleep(25)
        world.reconciler.deactivate()
        world.prober.resync()
        tried = len(world.tried)
        await asyncio.sleep(60)
        assert (len(world.tried), world.health()) == (tried, None)
        world.reconciler.activate()
        world.prober.resync()
        await asyncio.sleep(25)
        assert world.health() is not None

    played(Wish(Probe(SEVEN)), play)


def test_ten_thousand_targets_are_spread_over_their_interval() -> None:
    several = [Probe(ProbeTarget("TCP", f"10.{n // 256}.{n % 256}.1", 80)) for n in range(3000)]

    async def play(world: World) -> None:
        await asyncio.sleep(9.9)
        assert len(world.tried) == 3000
        assert max(world.tried) - min(world.tried) > 2.9

    played(Wish(*several), play)


REFUSED = [
    ("169.254.169.254", "link-local"),
    ("::ffff:169.254.1.1", "link-local"),
    ("fe80::1", "link-local"),
    ("fd00:ec2::254", "link-local"),
    ("127.0.0.1", "loopback"),
    ("::1", "loopback"),
    ("::ffff:127.0.0.1", "loopback"),
    ("224.0.0.1", "no address of one machine"),
    ("0.0.0.0", "no address of one machine"),
    ("10.96.0.1", "an API server's address"),
    ("shop", "no IP address"),
    pytest.param("64:ff9b::169.254.169.254", "link-local", id="NAT64"),
    pytest.param("64:ff9b::a60:1", "an API server's address", id="NAT64 to an API server"),
    pytest.param("64:ff9b::127.0.0.1", "loopback", id="NAT64 to loopback"),
    pytest.param("64:ff9b:1:a9fe:a9:fe00::", "link-local", id="local NAT64, a /48"),
    pytest.param("64:ff9b:1:0:a9:fea9:fe00:0", "link-local", id="local NAT64, a /64"),
    pytest.param("64:ff9b:1::a9fe:a9fe", "link-local", id="local NAT64, a /96"),
    pytest.param("2001:db8:64::a9fe:a9fe", "link-local", id="a network's own NAT64"),
    pytest.param("2001:db8:a60:1::", "an API server's address", id="its own NAT64, a /32"),
    pytest.param("2002:7f00:1::1", "loopback", id="6to4"),
    pytest.param("2002:a9fe:a9fe::", "link-local", id="6to4 to metadata"),
    pytest.param("2001:0:c633:6401::5601:5601", "link-local", id="Teredo"),
    pytest.param("::127.0.0.1", "loopback", id="IPv4-compatible"),
    pytest.param("::ffff:0:127.0.0.1", "loopback", id="IPv4-translated"),
    pytest.param("2001:db8::5efe:a9fe:a9fe", "link-local", id="ISATAP"),
]

TRIED = ["10.4.0.7", "198.51.100.7", "2001:db8::7", "64:ff9b::198.51.100.7", "2002:c633:6407::1"]


@pytest.mark.parametrize("address", TRIED)
def test_addresses_of_other_machines_are_tried(address: str) -> None:
    never = frozenset({"10.96.0.1"})

    assert not forbidden_reason(ProbeTarget("TCP", address, 80), never, loopback=False)


@pytest.mark.parametrize(("address", "why"), REFUSED)
def test_some_addresses_are_never_tried(address: str, why: str) -> None:
    never = frozenset({"10.96.0.1"})

    assert why in forbidden_reason(ProbeTarget("TCP", address, 80), never, loopback=False)


def test_loopback_is_tried_in_a_local_federation() -> None:
    assert not forbidden_reason(ProbeTarget("TCP", "127.0.0.1", 80), frozenset(), loopback=True)


def test_what_must_not_be_tried_is_down_and_says_why() -> None:
    metadata = ProbeTarget("HTTP", "169.254.169.254", 80)

    async def play(world: World) -> None:
        await asyncio.sleep(1)
        found = world.health(metadata)
        assert found is not None
        assert not found.up
        assert "link-local" in found.reason
        assert world.tried == []

    played(Wish(Probe(metadata)), play)


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 5), st.integers(1, 5))
@settings(deadline=None)
def test_a_verdict_changes_only_after_its_whole_streak(
    results: list[bool], up: int, down: int
) -> None:
    from hanse.providers.probes import _TargetState

    watched = _TargetState(Probe(SEVEN, ProbePolicy(up=up, down=down)), None)
    known: bool | None = None
    for at, good in enumerate(results):
        changed = watched.record(good)
        watched.up = good if changed else watched.up
        needed = up if good else down
        streak = results[max(0, at + 1 - needed) : at + 1]
        assert changed == (known != good and len(streak) == needed and set(streak) == {good})
        known = good if changed else known


# -- over real sockets


async def tried(
    target: ProbeTarget, within: float = 2.0, sockets: SocketProbe | None = None
) -> str:
    own = sockets or SocketProbe()
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    own(target, within, ended.set_result)
    try:
        return await ended
    finally:
        if sockets is None:
            await own.close()


Reply = Callable[[bytes], bytes]


class Connections:
    """The connections of a server."""

    all = 0
    open = 0


@asynccontextmanager
async def server(
    reply: Reply, context: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[int, list[bytes], Connections]]:
    """A server that answers each request as told: its port, the requests, its connections."""
    asked: list[bytes] = []
    connections = Connections()
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.all += 1
        connections.open += 1
        writers.append(writer)
        try:
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                asked.append(request)
                writer.write(reply(request))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
        finally:
            connections.open -= 1

    made = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield made.sockets[0].getsockname()[1], asked, connections
    finally:
        made.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)


def answer(code: int) -> Reply:
    return lambda _: f"HTTP/1.1 {code} Some\r\nContent-Length: 0\r\n\r\n".encode()


@pytest.mark.anyio
async def test_a_port_that_listens_is_up_and_one_that_does_not_is_down() -> None:
    async with server(answer(200)) as (port, _, _):
        assert await tried(ProbeTarget("TCP", "127.0.0.1", port)) == ""

    assert await tried(ProbeTarget("TCP", "127.0.0.1", port)) == "Connection refused"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("code", "wrong"),
    [(200, ""), (204, ""), (302, ""), (404, "HTTP status 404"), (503, "HTTP status 503")],
)
async def test_an_answer_is_judged_by_its_status(code: int, wrong: str) -> None:
    async with server(answer(code)) as (port, asked, _):
        target = ProbeTarget("HTTP", "127.0.0.1", port, "shop.example.org", "/cart")

        assert await tried(target) == wrong
        assert asked[0].startswith(b"HEAD /cart HTTP/1.1\r\nHost: shop.example.org\r\n")


@pytest.mark.anyio
async def test_a_monitor_says_what_is_sent_and_which_status_is_good() -> None:
    details = ProbeDetails(method="GET", headers="X-Probe: yes", codes="401,5xx")
    for code, wrong in ((401, ""), (503, ""), (200, "HTTP status 200")):
        async with server(answer(code)) as (port, asked, _):
            target = ProbeTarget("HTTP", "127.0.0.1", port, "shop.example.org", "/", details)

            assert await tried(target) == wrong
            assert asked[0].startswith(b"GET / HTTP/1.1\r\n")
            assert b"\r\nX-Probe: yes\r\n" in asked[0]


class Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._transport.sendto(data[::-1], addr)


@pytest.mark.anyio
async def test_a_udp_answer_has_to_contain_what_is_expected() -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(Echo, ("127.0.0.1", 0))
    port = transport.get_extra_info("sockname")[1]
    for response, wrong in ((b"", ""), (b"\x02", ""), (b"x", "its answer is not the expected one")):
        details = ProbeDetails(request=b"\x01\x02", response=response)
        assert await tried(ProbeTarget("UDP", "127.0.0.1", port, details=details)) == wrong
    transport.close()
    await asyncio.sleep(0)

    target = ProbeTarget("UDP", "127.0.0.1", port, details=ProbeDetails(request=b"x"))
    assert await tried(target) == "Connection refused"


def frames(*several: tuple[int, int, bytes]) -> bytes:
    """Frames of HTTP/2: their type, flags and payload."""
    return b"".join(
        len(payload).to_bytes(3, "big") + bytes((kind, flags, 0, 0, 0, kind != 4)) + payload
        for kind, flags, payload in several
    )


SETTINGS, HEADERS = (4, 0, b""), (1, 4, b"\x88")
GRPC = [
    ((SETTINGS, HEADERS, (0, 0, b"\0\0\0\0\x02\x08\x01")), ""),
    ((SETTINGS, HEADERS, (0, 0, b"\0\0\0\0\x02"), (0, 0, b"\x08\x01")), ""),
    ((SETTINGS, HEADERS, (0, 8, b"\x01\0\0\0\0\x02\x08\x01\0")), ""),
    ((SETTINGS, HEADERS, (0, 0, b"\0\0\0\0\x02\x08\x02")), "its health by gRPC is NOT_SERVING"),
    ((SETTINGS, HEADERS, (0, 0, b"\0\0\0\0\0")), "its health by gRPC is UNKNOWN"),
    ((SETTINGS, (1, 5, b"\x88")), "it gives no health by gRPC"),
    ((SETTINGS, (7, 0, b"\0" * 8)), "it gives no health by gRPC"),
    ((SETTINGS, HEADERS), None),
]


@pytest.mark.parametrize(("sent", "judged"), GRPC)
def test_the_health_of_a_grpc_server_is_in_its_message(
    sent: tuple[tuple[int, int, bytes], ...], judged: str | None
) -> None:
    whole = frames(*sent)

    assert grpc_failure(whole, ended=False) == judged
    assert grpc_failure(whole[:-1], ended=False) in (None, judged)


@pytest.mark.anyio
async def test_what_speaks_http1_only_gives_no_health_by_grpc() -> None:
    async with server(answer(400)) as (port, _, _):
        found = await tried(ProbeTarget("GRPC", "127.0.0.1", port))

    assert found == "it does not speak HTTP/2"


@pytest.mark.anyio
async def test_a_tls_probe_wants_a_handshake_for_a_name() -> None:
    names: list[str | None] = []
    context = server_context(CertificateAuthority.create("probe").server("shop", ("127.0.0.1",)))
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    details = ProbeDetails(server_name="cart.example.org")
    async with server(answer(200), context) as (port, _, _):
        assert await tried(ProbeTarget("TLS", "127.0.0.1", port, "shop", "", details)) == ""
    async with server(answer(200)) as (port, _, _):
        assert await tried(ProbeTarget("TLS", "127.0.0.1", port, "shop"), 0.5) != ""
    assert names == ["cart.example.org"]


@pytest.mark.anyio
async def test_who_says_nothing_has_not_answered_in_time() -> None:
    async with server(lambda _: b"") as (port, _, _):
        assert await tried(ProbeTarget("HTTP", "127.0.0.1", port), 0.05) == "no answer in time"


@pytest.mark.anyio
@pytest.mark.parametrize(
    "anyio_backend", [("asyncio", {}), ("asyncio", {"use_uvloop": True})], ids=["plain", "uvloop"]
)
async def test_https_keeps_its_connection_and_finds_another_when_it_is_gone() -> None:
    context = server_context(CertificateAuthority.create("probe").server("shop", ("127.0.0.1",)))
    sockets = SocketProbe()
    async with server(answer(200), context) as (port, asked, connections):
        target = ProbeTarget("HTTPS", "127.0.0.1", port, "shop.example.org", "/")
        for _ in range(3):
            assert await tried(target, sockets=sockets) == ""
        assert (len(asked), connections.all) == (3, 1)

    assert await tried(target, sockets=sockets) != ""
    await sockets.close()


@pytest.mark.anyio
async def test_a_server_that_sends_without_being_asked_is_not_kept() -> None:
    def reply(request: bytes) -> bytes:
        return answer(200)(request) + b"x" * 10_000

    sockets = SocketProbe()
    async with server(reply, shop_context()) as (port, _, connections):
        target = ProbeTarget("HTTPS", "127.0.0.1", port, "shop", "/")
        assert await tried(target, sockets=sockets) == ""
        while connections.open:  # noqa: ASYNC110 - the server's side
            await asyncio.sleep(0.01)
        assert await tried(target, sockets=sockets) == ""

        assert connections.all == 2
    await sockets.close()


def shop_context() -> ssl.SSLContext:
    return server_context(CertificateAuthority.create("probe").server("shop", ("127.0.0.1",)))


@pytest.mark.anyio
async def test_connections_that_are_closed_leave_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe_sockets, "MAX_KEPT_ALIVE", 1)
    sockets, context = SocketProbe(), shop_context()
    async with server(answer(200), context) as (port, _, _):
        assert await tried(ProbeTarget("HTTPS", "127.0.0.1", port, "shop"), sockets=sockets) == ""
    async with server(answer(200), context) as (port, _, connections):
        for _ in range(3):
            target = ProbeTarget("HTTPS", "127.0.0.1", port, "shop")
            assert await tried(target, sockets=sockets) == ""

        assert connections.all == 1
    await sockets.close()


@pytest.mark.anyio
async def test_connections_of_targets_that_are_no_longer_probed_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe_sockets, "KEPT_FOR", timedelta(milliseconds=10))
    sockets = SocketProbe()
    async with server(answer(200), shop_context()) as (port, _, connections):
        target = ProbeTarget("HTTPS", "127.0.0.1", port, "shop")
        assert await tried(target, sockets=sockets) == ""
        async with asyncio.timeout(5):
            while connections.open:  # noqa: ASYNC110 - the server's state
                await asyncio.sleep(0.01)
    await sockets.close()


@pytest.mark.anyio
async def test_a_probe_beside_one_that_still_runs_leaves_no_connection_open() -> None:
    sockets = SocketProbe()
    async with server(answer(200), shop_context()) as (port, _, connections):
        target = ProbeTarget("HTTPS", "127.0.0.1", port, "shop")
        for _ in range(3):
            both = await asyncio.gather(*(tried(target, sockets=sockets) for _ in range(2)))
            assert both == ["", ""]
        async with asyncio.timeout(5):
            while connections.open > 1:  # noqa: ASYNC110 - the server's state
                await asyncio.sleep(0.01)
    await sockets.close()


@pytest.mark.anyio
async def test_what_speaks_no_tls_is_down_for_https() -> None:
    async with server(answer(200)) as (port, _, _):
        assert await tried(ProbeTarget("HTTPS", "127.0.0.1", port, "shop"), 0.5) != ""


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["TCP", "HTTPS"])
async def test_our_own_shortage_of_sockets_says_nothing_about_a_target(
    kind: Literal["TCP", "HTTPS"],
) -> None:
    heard: list[str] = []
    sockets = SocketProbe()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with server(answer(200)) as (port, _, _):
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            sockets(ProbeTarget(kind, "127.0.0.1", port), 1.0, heard.append)
            await asyncio.sleep(0.02)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        await sockets.close()

    assert heard == []


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["TCP", "HTTPS"])
async def test_an_address_of_a_family_that_this_host_lacks_is_down(
    kind: Literal["TCP", "HTTPS"],
) -> None:
    def refuse(_: int, __: int) -> socket.socket:
        raise OSError(EAFNOSUPPORT, strerror(EAFNOSUPPORT))

    sockets = SocketProbe(refuse)

    assert await tried(ProbeTarget(kind, "fd00::1", 80), sockets=sockets) == strerror(EAFNOSUPPORT)
    await sockets.close()


def test_a_path_cannot_break_out_of_its_line() -> None:
    request = http_request(
        ProbeTarget("HTTP", "10.0.0.1", 80, "a\r\nX: y", "/ HTTP/1.1\r\nEvil: 1"), keep=False
    )

    assert request.count(b"\r\n") == 6
    assert b"\r\nEvil" not in request


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_whatever_is_answered_is_judged_without_a_crash(request: bytes) -> None:
    assert isinstance(http_failure(request), str)
    assert isinstance(grpc_failure(request, ended=True), str)
