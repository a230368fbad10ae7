"""Questions about other zones go to another name server, and its answers back to who asked."""

import socket
import threading
from collections.abc import Iterator

import dns.flags
import dns.message
import dns.rrset
import pytest

from hanse.dns.server import Serving
from tests.dns.fleet import NXDOMAIN, imported, piece, seen_in
from tests.dns.running import running

pytestmark = pytest.mark.anyio


@pytest.fixture
def upstream() -> Iterator[tuple[str, int]]:
    """A name server that knows one name, and forgets whoever asks for `silence`."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            packet, client = sock.recvfrom(4096)
            if packet == b"end":
                return
            query = dns.message.from_wire(packet)
            name = query.question[0].name.to_text()
            answer = dns.message.make_response(query)
            if name == "example.org.":
                answer.answer.append(dns.rrset.from_text(name, 60, "IN", "A", "192.0.2.7"))
            else:
                answer.set_rcode(dns.rcode.NXDOMAIN)
            if not name.startswith("silence"):
                sock.sendto(answer.to_wire(), client)

    thread = threading.Thread(target=serve)
    thread.start()
    yield sock.getsockname()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.sendto(b"end", sock.getsockname())
    thread.join()
    sock.close()


async def test_other_zones_are_asked_for_elsewhere_and_our_own_are_not(
    upstream: tuple[str, int],
) -> None:
    seen = seen_in("lubeck", imported(clusters=["lubeck"]), piece("lubeck", "10.1.0.5"))

    async with running(seen, settings=Serving(forward=(upstream,))) as server:
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
