"""The options of a name server for global hosts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from hanse.cli.addresses import parse_network
from hanse.cli.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])


def global_zone_options(command: F) -> F:
    """Decorate a command with the options of global zones and their cache."""
    for option in (
        click.option(
            "--trust-resolver",
            "resolvers",
            multiple=True,
            envvar="HANSE_DNS_TRUST_RESOLVERS",
            show_envvar=True,
            metavar="NETWORK",
            help="Resolvers whose word about their clients' subnets is taken; can be repeated.",
        ),
        click.option(
            "--region",
            "regions",
            multiple=True,
            envvar="HANSE_DNS_REGIONS",
            show_envvar=True,
            metavar="NETWORK=CLUSTER",
            help="The cluster that is near to clients of a network; can be repeated.",
        ),
        click.option(
            "--global-zone",
            "global_zones",
            multiple=True,
            envvar="HANSE_DNS_GLOBAL_ZONES",
            show_envvar=True,
            metavar="ZONE",
            help="A zone whose global hosts are answered, too; their members are probed from "
            "here. Can be repeated.",
        ),
        click.option(
            "--cache",
            type=click.Path(path_type=Path, file_okay=False),
            envvar="HANSE_DNS_CACHE",
            show_envvar=True,
            metavar="FOLDER",
            help="Keep what is known of global hosts there, to answer after a restart also while "
            "the API server is away.",
        ),
    ):
        command = option(command)
    return command


def parse_region(text: str) -> tuple[str, str]:
    """The client range and the near cluster of NETWORK=CLUSTER; `InputError` for other text."""
    network, equals, cluster = text.partition("=")
    if not equals or not cluster:
        raise InputError(
            f"--region {text!r} is not NETWORK=CLUSTER; write it as 198.51.100.0/24=bergen"
        )
    return parse_network("--region", network), cluster
