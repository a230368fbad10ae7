"""Host names are looked up with real packets."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import dns.asyncresolver
import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from hanse.providers.resolver import NOT_FOUND_TTL, HostResolver


def known(name: str, ttl: int, type_: str, address: str) -> dns.rrset.RRset:
    return dns.rrset.from_text(name, ttl, "IN", type_, address)


NAMES = {
    ("lb.example.org.", "A"): known("lb.example.org.", 70, "A", "192.0.2.8"),
    ("lb.example.org.", "AAAA"): known("lb.example.org.", 40, "AAAA", "fd00::8"),
    ("four.example.org.", "A"): known("four.example.org.", 60, "A", "192.0.2.4"),
}


class _Server(asyncio.DatagramProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        query = dns.message.from_wire(data)
        [question] = query.question
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        name, type_ = question.name.to_text(), dns.rdatatype.to_text(question.rdtype)
        if name.startswith("broken"):
            answer.set_rcode(dns.rcode.SERVFAIL)
        elif (name, type_) in NAMES:
            answer.answer.append(NAMES[name, type_])
        elif not any(known == name for known, _ in NAMES):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        self._transport.sendto(answer.to_wire(), addr)


@pytest.fixture
async def lookup() -> AsyncIterator[HostResolver]:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(_Server, ("127.0.0.1", 0))
    resolver = dns.asyncresolver.Resolver(configure=False)
    resolver.nameservers = ["127.0.0.1"]
    resolver.port = transport.get_extra_info("sockname")[1]
    yield HostResolver(resolver)
    transport.close()


async def test_a_host_has_addresses_of_both_families_for_as_long_as_the_shorter_holds(
    lookup: HostResolver,
) -> None:
    assert await lookup(host="lb.example.org") == {"addresses": ["192.0.2.8", "fd00::8"], "ttl": 40}


async def test_a_host_of_one_family_holds_as_long_as_that(lookup: HostResolver) -> None:
    assert await lookup(host="four.example.org.") == {"addresses": ["192.0.2.4"], "ttl": 60}


async def test_a_host_that_does_not_exist_has_no_addresses(lookup: HostResolver) -> None:
    assert await lookup(host="none.example.org") == {"addresses": [], "ttl": NOT_FOUND_TTL}


async def test_a_host_that_cannot_be_looked_up_is_an_error_that_names_it(
    lookup: HostResolver,
) -> None:
    with pytest.raises(OSError, match=r"broken\.example\.org could not be looked up"):
        await lookup(host="broken.example.org")
