"""The options of an agent for publishing names in external DNS."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hanse.cli.addresses import parse_server_address
from hanse.cli.errors import InputError

if TYPE_CHECKING:
    from hanse.features.publishing.options import PublishingOptions

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--publish-zone",
        default="",
        envvar="HANSE_PUBLISH_ZONE",
        show_envvar=True,
        metavar="ZONE",
        help="Publish the names of services below this zone, in this cluster alone of the fleet.",
    ),
    click.option(
        "--publish-endpoints",
        default="",
        envvar="HANSE_PUBLISH_ENDPOINTS",
        show_envvar=True,
        metavar="NAMESPACE",
        help="Publish by DNSEndpoint objects there, which ExternalDNS reads.",
    ),
    click.option(
        "--publish-weighted-records",
        is_flag=True,
        envvar="HANSE_PUBLISH_WEIGHTED_RECORDS",
        show_envvar=True,
        help="Give ExternalDNS a record per cluster with its weight, as Route 53 takes them.",
    ),
    click.option(
        "--publish-server",
        default="",
        envvar="HANSE_PUBLISH_SERVER",
        show_envvar=True,
        metavar="ADDRESS[:PORT]",
        help="Publish by updates (RFC 2136) to this name server.",
    ),
    click.option(
        "--publish-key-file",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="HANSE_PUBLISH_KEY_FILE",
        show_envvar=True,
        metavar="FILE",
        help="The TSIG key for it, as tsig-keygen writes it.",
    ),
)


def publishing_options(command: Command) -> Command:
    """Decorate a command with the options."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def parse_publishing_options(
    zone: str, endpoints: str, server: str, key_file: Path | None, weighted: bool = False
) -> "PublishingOptions":
    """The options of the feature, switched off without a zone; reads the key file to check it.

    The zone is in lower case, without a final dot. Raises `InputError` for an invalid zone, server
    or key, a zone without endpoints or server, weights without endpoints, a key without server, and
    any of these options without a zone.
    """
    from hanse.features.publishing.options import PublishingOptions, ServerOptions
    from hanse.model.dns.names import InvalidName, wire_name

    if not zone:
        if endpoints or server or key_file or weighted:
            raise InputError(
                "nothing is published without a zone; add --publish-zone fleet.example.org"
            )
        return PublishingOptions()
    try:
        wire_name(zone)
    except InvalidName as error:
        raise InputError(f"--publish-zone: {error}; give one such as fleet.example.org") from None
    if not endpoints and not server:
        raise InputError("--publish-zone says what, not where; add --publish-server 192.0.2.53")
    if weighted and not endpoints:
        raise InputError(
            "--publish-weighted-records: records of a name server have no weights; "
            "add --publish-endpoints NAMESPACE, or leave it out"
        )
    where: ServerOptions | None = None
    if server:
        host, port = parse_server_address(server, "--publish-server")
        where = ServerOptions(host, port, str(_check_key_file(key_file)) if key_file else "")
    elif key_file:
        raise InputError("--publish-key-file is for a name server; add --publish-server 192.0.2.53")
    name = zone.lower().removesuffix(".")
    return PublishingOptions(name, endpoints, where, weighted=weighted)


def _check_key_file(key_file: Path) -> Path:
    """The same path; raises `InputError` unless the file can be read and holds a TSIG key."""
    from hanse.features.publishing.tsig_keys import InvalidTsigKey, parse_tsig_key

    try:
        parse_tsig_key(key_file.read_text())
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise InputError(
            f"--publish-key-file {key_file}: {why}; name a file that can be read"
        ) from None
    except InvalidTsigKey as error:
        raise InputError(f"--publish-key-file {key_file}: {error}") from None
    return key_file
