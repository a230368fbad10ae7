"""Generated names of merged ports."""

from hanse.model.ports import MAX_PORT_NAME_LENGTH, default_port_name, unused_port_name


def test_a_port_without_a_name_is_named_by_protocol_and_number() -> None:
    assert default_port_name("TCP", 80) == "tcp-80"


def test_a_used_name_gets_prefixes_until_it_is_unused() -> None:
    assert unused_port_name("web", {"dns"}) == "web"
    assert unused_port_name("web", {"web", "p-web"}) == "p-p-web"


def test_a_prefixed_name_is_no_longer_than_a_label() -> None:
    longest = "w" * MAX_PORT_NAME_LENGTH

    assert len(unused_port_name(longest, {longest})) == MAX_PORT_NAME_LENGTH
