"""The publishing options of an agent, and errors of contradictory ones."""

from pathlib import Path

import pytest

from hanse import app
from hanse.cli.agent.publishing_options import parse_publishing_options
from hanse.cli.errors import InputError
from hanse.features.publishing.options import NAME_SERVER, PublishingOptions, ServerOptions

KEY = 'key "hanse" { algorithm hmac-sha256; secret "dG9wc2VjcmV0"; };'


def test_options_say_what_is_published_and_where(tmp_path: Path) -> None:
    key_file = tmp_path / "hanse.key"
    key_file.write_text(KEY)

    publishing = parse_publishing_options(
        "Fleet.Example.org.", "dns", "[2001:db8::53]:5353", key_file
    )

    server = ServerOptions("2001:db8::53", 5353, str(key_file))
    assert publishing == PublishingOptions("fleet.example.org", "dns", server)
    options = app.Options(publishing=publishing)
    assert [feature.name for feature in app.features(options)][-1] == "publishing"
    assert set(app.configured_name_server(options)) == {NAME_SERVER}


def test_weights_are_for_those_who_can_keep_them() -> None:
    publishing = parse_publishing_options("example.org", "dns", "", None, weighted=True)

    assert publishing == PublishingOptions("example.org", "dns", weighted=True)
    with pytest.raises(InputError, match="records of a name server have no weights"):
        parse_publishing_options("example.org", "", "192.0.2.53", None, weighted=True)
    with pytest.raises(InputError, match="add --publish-zone"):
        parse_publishing_options("", "", "", None, weighted=True)


def test_without_options_nothing_is_published() -> None:
    publishing = parse_publishing_options("", "", "", None)

    options = app.Options(publishing=publishing)
    assert "publishing" not in [feature.name for feature in app.features(options)]
    assert app.configured_name_server(options) == {}


@pytest.mark.parametrize(
    ("zone", "endpoints", "server", "key", "message"),
    [
        ("", "dns", "", None, "add --publish-zone"),
        ("a..b", "dns", "", None, "--publish-zone: 'a..b' has a label"),
        ("example.org", "", "", None, "add --publish-server"),
        ("example.org", "", "ns.example.org", None, "--publish-server 'ns.example.org' is not"),
        ("example.org", "", "192.0.2.53:0", None, "is not ADDRESS or ADDRESS:PORT"),
        ("example.org", "dns", "", KEY, "--publish-key-file is for a name server"),
        ("example.org", "", "192.0.2.53", "dG9wc2VjcmV0", "it holds no key"),
    ],
)
def test_conflicting_options_are_refused_in_one_line(
    tmp_path: Path, zone: str, endpoints: str, server: str, key: str | None, message: str
) -> None:
    key_file = tmp_path / "hanse.key"
    if key is not None:
        key_file.write_text(key)

    with pytest.raises(InputError) as publishing:
        parse_publishing_options(zone, endpoints, server, key_file if key is not None else None)

    assert message in str(publishing.value)
    assert "dG9wc2VjcmV0" not in str(publishing.value)


def test_a_key_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        parse_publishing_options("example.org", "", "192.0.2.53", tmp_path / "none")
