"""Addresses in options."""

from pathlib import Path

import pytest

from hanse.cli.addresses import parse_forward, parse_server_address
from hanse.cli.errors import InputError


def test_the_servers_of_a_resolv_conf_are_asked(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text("# ours\nsearch a.test\nnameserver 10.0.0.1\nnameserver fe80::1%eth0\n")

    assert parse_forward(str(file)) == [("10.0.0.1", 53), ("fe80::1", 53)]
    assert parse_forward("10.0.0.2:5353") == [("10.0.0.2", 5353)]


def test_a_resolv_conf_without_servers_is_told_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text("search a.test\n")

    assert parse_forward(str(file)) == []
    assert f"--forward {file} has no nameserver: other zones are refused" in caplog.messages


def test_a_resolv_conf_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory; name a readable"):
        parse_forward(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("::1", ("::1", 53)),
        ("[::1]", ("::1", 53)),
        ("[::1]:5353", ("::1", 5353)),
        ("10.0.0.1:5353", ("10.0.0.1", 5353)),
    ],
)
def test_an_address_in_brackets_may_have_a_port(text: str, parsed: tuple[str, int]) -> None:
    assert parse_server_address(text) == parsed


@pytest.mark.parametrize("text", ["[::1", "[::1]53", "[::1]:x", "::1]", "dns.example.com"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not ADDRESS or ADDRESS:PORT"):
        parse_server_address(text)
