"""The IPv4 addresses behind IPv6 addresses, as the RFCs write them."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.model.addresses import is_address, is_routable, possible_targets, reached_addresses

RFC_6052 = [
    ("2001:db8:c000:221::", 32),
    ("2001:db8:1c0:2:21::", 40),
    ("2001:db8:122:c000:2:2100::", 48),
    ("2001:db8:122:3c0:0:221::", 56),
    ("2001:db8:122:344:c0:2:2100::", 64),
    ("2001:db8:122:344::192.0.2.33", 96),
]
"""The examples of RFC 6052, section 2.4, all for 192.0.2.33."""


@pytest.mark.parametrize(("text", "length"), RFC_6052)
def test_every_length_of_a_nat64_prefix_is_seen_through(text: str, length: int) -> None:
    assert IPv4Address("192.0.2.33") in possible_targets(IPv6Address(text)), length


@given(st.ip_addresses(v=4))
def test_standard_translations_lead_to_their_address(address: IPv4Address) -> None:
    for prefix in ("::ffff:", "64:ff9b::", "::ffff:0:", "64:ff9b:1::"):
        assert address in reached_addresses(IPv6Address(f"{prefix}{address}"))
    six_to_four = IPv6Address(0x2002 << 112 | int(address) << 80)
    assert address in reached_addresses(six_to_four)


@given(st.text(max_size=40) | st.ip_addresses().map(str))
def test_any_text_is_judged(text: str) -> None:
    assert not is_routable(text) or is_address(text)


@pytest.mark.parametrize("text", ["::1", "::", "64:ff9b::127.0.0.1", "2002:7f00:1::", "fe80::1%a"])
def test_what_leads_back_to_a_machine_itself_is_not_routable(text: str) -> None:
    assert not is_routable(text)
