"""Generated names of merged ports."""

from hypothesis import given
from hypothesis import strategies as st

from hanse.model.naming import is_label
from hanse.model.ports import MAX_PORT_NAME_LENGTH, default_port_name, unused_port_name


def test_a_port_without_a_name_is_named_by_protocol_and_number() -> None:
    assert default_port_name("TCP", 80) == "tcp-80"


def test_a_used_name_gets_prefixes_until_it_is_unused() -> None:
    assert unused_port_name("web", {"dns"}) == "web"
    assert unused_port_name("web", {"web", "p-web"}) == "p-p-web"


def test_a_prefixed_name_is_no_longer_than_a_label() -> None:
    longest = "w" * MAX_PORT_NAME_LENGTH

    assert len(unused_port_name(longest, {longest})) == MAX_PORT_NAME_LENGTH


@given(st.from_regex(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True), st.integers(0, 70))
def test_as_many_ports_as_there_may_be_get_different_valid_names(name: str, count: int) -> None:
    taken: set[str] = set()

    for _ in range(count):
        taken.add(unused_port_name(name, taken))

    assert len(taken) == count
    assert all(map(is_label, taken))
