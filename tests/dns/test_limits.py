"""Response rate limits by client network."""

from ipaddress import ip_address

import dns.flags
import dns.message
import pytest

from hanse.dns.limits import Limiter, client_network
from hanse.dns.responder import rate_limited_response
from tests.dns.builders import WEB


def packed(address: str) -> bytes:
    return ip_address(address).packed


def test_a_network_gets_so_many_answers_a_second_and_others_are_not_touched() -> None:
    now = [100.0]
    limiter = Limiter(3, lambda: now[0])

    given = [limiter.allows(packed("192.0.2.1")) for _ in range(5)]
    neighbour, stranger = limiter.allows(packed("192.0.2.99")), limiter.allows(packed("192.0.3.1"))
    now[0] += 1

    assert given == [True, True, True, False, False]
    assert (neighbour, stranger) == (False, True)
    assert limiter.allows(packed("192.0.2.1"))
    assert limiter.dropped == 3


@pytest.mark.parametrize("local", ["127.0.0.1", "127.9.9.9", "::1"])
def test_this_machine_is_never_limited(local: str) -> None:
    limiter = Limiter(1, lambda: 0.0)

    assert all(limiter.allows(packed(local)) for _ in range(10))


@pytest.mark.parametrize("other", ["192.0.2.1", "7f00::1", "::2"])
def test_others_are_limited_however_they_look(other: str) -> None:
    limiter = Limiter(1, lambda: 0.0)

    assert [limiter.allows(packed(other)) for _ in range(2)] == [True, False]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param("192.0.2.1", "192.0.2.255", True, id="same /24"),
        pytest.param("192.0.2.1", "192.0.3.1", False, id="other /24"),
        pytest.param("2001:db8:0:100::1", "2001:db8:0:1ff:8::1", True, id="same /56"),
        pytest.param("2001:db8:0:100::1", "2001:db8:0:200::1", False, id="other /56"),
        pytest.param("2001:db8::1", "2001:db8::2", True, id="shortened"),
        pytest.param("2001:db8::1", "2001:db9::1", False, id="shortened and other"),
        pytest.param("fe80::1%eth0", "fe80::2", True, id="with a zone"),
    ],
)
def test_clients_are_grouped_by_network(one: str, other: str, same: bool) -> None:
    assert (client_network(packed(one)) == client_network(packed(other))) is same


def test_some_rate_limited_clients_are_sent_to_tcp() -> None:
    query = dns.message.make_query(WEB, "A").to_wire()

    answer = rate_limited_response(query)

    assert answer is not None
    message = dns.message.from_wire(answer)
    assert message.flags & dns.flags.TC
    assert not message.answer
    assert len(answer) <= len(query)
    assert rate_limited_response(b"\0" * 12) is None
