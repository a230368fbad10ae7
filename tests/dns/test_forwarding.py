"""Queries for other zones are forwarded to an upstream server."""

import asyncio
import socket
import socketserver
import threading
from collections.abc import Iterator

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from hanse.dns.settings import ServerSettings
from tests.dns.builders import NXDOMAIN, cluster_snapshot, endpoint_slice, imported
from tests.dns.loopback_server import running
from tests.features.networks.test_zone import VIEW, ZONE, elsewhere
from tests.features.networks.test_zone import observed as names_seen

pytestmark = pytest.mark.anyio


MANY = [f"192.0.2.{n}" for n in range(1, 101)]


def respond_with(packet: bytes, *, stream: bool) -> bytes | None:
    """What a server answers that knows two names, one of them too long for a datagram."""
    query = dns.message.from_wire(packet)
    name = query.question[0].name.to_text()
    answer = dns.message.make_response(query)
    if name == "example.org.":
        answer.answer.append(dns.rrset.from_text(name, 60, "IN", "A", "192.0.2.7"))
    elif name == "many.example.org." and stream:
        answer.answer.append(dns.rrset.from_text(name, 60, "IN", "A", *MANY))
    elif name == "many.example.org.":
        answer.flags |= dns.flags.TC
    else:
        answer.set_rcode(dns.rcode.NXDOMAIN)
    return None if name.startswith("silence") else answer.to_wire(max_size=65535)


class ByStream(socketserver.StreamRequestHandler):
    """One question, and an answer in two pieces, as a slow network delivers it."""

    def handle(self) -> None:
        length = int.from_bytes(self.rfile.read(2))
        answer = respond_with(self.rfile.read(length), stream=True)
        if answer is not None:
            self.wfile.write(len(answer).to_bytes(2) + answer[:20])
            self.wfile.flush()
            self.wfile.write(answer[20:])


class ByDatagram(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        packet, sock = self.request
        answer = respond_with(packet, stream=False)
        if answer is not None:
            sock.sendto(answer, self.client_address)


@pytest.fixture
def upstream() -> Iterator[tuple[str, int]]:
    """A name server that forgets whoever asks for `silence`."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), ByStream) as streams:
        where = ("127.0.0.1", int(streams.server_address[1]))
        with socketserver.UDPServer(where, ByDatagram) as datagrams:
            servers = (streams, datagrams)
            threads = [threading.Thread(target=s.serve_forever, args=(0.05,)) for s in servers]
            for thread in threads:
                thread.start()
            yield where
            for server in servers:
                server.shutdown()
            for thread in threads:
                thread.join()


async def test_other_zones_are_asked_for_elsewhere_and_our_own_are_not(
    upstream: tuple[str, int],
) -> None:
    observed = cluster_snapshot(
        "lubeck", imported(clusters=["lubeck"]), endpoint_slice("lubeck", "10.1.0.5")
    )

    async with running(observed, settings=ServerSettings(forward=(upstream,))) as server:
        outside = await server.ask("example.org")
        assert outside.records == ("192.0.2.7",)
        assert (await server.ask("nothing.example.org")).code == NXDOMAIN
        assert (await server.ask("web.shop.svc.clusterset.local")).records == ("10.1.0.5",)
        assert (await server.ask("none.shop.svc.clusterset.local")).code == NXDOMAIN
        with server.send(dns.message.make_query("silence.example", "A").to_wire()) as client:
            client.settimeout(0.3)
            with pytest.raises(TimeoutError):
                client.recv(100)
        assert (await server.ask("example.org")).records == ("192.0.2.7",)


async def test_a_long_answer_is_fetched_by_tcp_for_who_comes_by_tcp(
    upstream: tuple[str, int],
) -> None:
    observed = cluster_snapshot(
        "lubeck", imported(clusters=["lubeck"]), endpoint_slice("lubeck", "10.1.0.5")
    )

    async with running(observed, settings=ServerSettings(forward=(upstream,))) as server:
        cut = await server.ask("many.example.org")
        assert cut.message is not None
        assert cut.message.flags & dns.flags.TC

        whole = await server.ask("many.example.org", tcp=True)
        assert whole.records == tuple(sorted(MANY))
        own = await server.ask("web.shop.svc.clusterset.local", tcp=True)
        assert own.records == ("10.1.0.5",)
        assert (await server.ask("silence.example", tcp=True)).code == "SERVFAIL"


async def test_a_client_that_sends_no_more_by_tcp_still_gets_its_answers(
    upstream: tuple[str, int],
) -> None:
    observed = cluster_snapshot("lubeck", imported(), endpoint_slice("lubeck", "10.1.0.5"))
    query = dns.message.make_query("many.example.org", "A").to_wire()

    async with running(observed, settings=ServerSettings(forward=(upstream,))) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(2 * (len(query).to_bytes(2) + query))
        writer.write_eof()
        received = await reader.read(-1)
        writer.close()

    assert len(received) > 2 * 16 * len(MANY)


async def test_an_unreachable_upstream_is_servfail_over_tcp() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        where = ("127.0.0.1", int(nobody.getsockname()[1]))
        observed = cluster_snapshot(
            "lubeck", imported(clusters=["lubeck"]), endpoint_slice("lubeck", "10.1.0.5")
        )

        async with running(observed, settings=ServerSettings(forward=(where,))) as server:
            assert (await server.ask("example.org", tcp=True)).code == "SERVFAIL"


@pytest.mark.parametrize("tcp", [False, True])
async def test_an_external_name_is_answered_with_the_addresses_that_others_have_for_it(
    upstream: tuple[str, int], tcp: bool
) -> None:
    objects = [elsewhere("far", "example.org"), elsewhere("gone", "none.example.org")]
    objects += [elsewhere("many", "many.example.org")]
    serving = running(
        names_seen(*objects), VIEW, settings=ServerSettings(forward=(upstream,)), sources=[ZONE]
    )

    async with serving as server:
        for _ in range(2):  # the second time must not be answered from what was learnt
            far = await server.ask("far.acme-web.svc.cluster.local", tcp=tcp)
            assert far.records == ("192.0.2.7", "example.org.")
        assert (await server.ask("gone.acme-web.svc.cluster.local", tcp=tcp)).code == NXDOMAIN
        alias = await server.ask("far.acme-web.svc.cluster.local", "CNAME", tcp=tcp)
        assert alias.records == ("example.org.",)
        many = await server.ask("many.acme-web.svc.cluster.local", tcp=tcp)
        assert many.message is not None
        if tcp:
            assert len(many.records) == len(MANY) + 1
        else:
            assert many.message.flags & dns.flags.TC
