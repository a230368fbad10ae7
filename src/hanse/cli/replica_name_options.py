"""The options for the DNS names of replicas of federated StatefulSets."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hanse.cli.errors import InputError

if TYPE_CHECKING:
    from hanse.features.statefulsets.options import StatefulSetOptions

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--replica-zone",
        default="example.com",
        show_default=True,
        envvar="HANSE_REPLICA_ZONE",
        show_envvar=True,
        metavar="ZONE",
        help="The zone of replicas of federated StatefulSets.",
    ),
    click.option(
        "--federation",
        default="myfederation",
        show_default=True,
        envvar="HANSE_FEDERATION",
        show_envvar=True,
        metavar="NAME",
        help="The federation's own name within it.",
    ),
)


def replica_name_options(command: Command) -> Command:
    """Decorate a command with --replica-zone and --federation, which its function gets by name."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def parse_replica_names(replica_zone: str, federation: str) -> "StatefulSetOptions":
    """The options with the zone, without a final dot, and the federation's name in it.

    Raises `InputError` if the zone, or the federation below it, is no domain name.
    """
    from hanse.features.statefulsets.options import StatefulSetOptions
    from hanse.model.dns.names import InvalidName, child_name, wire_name

    try:
        zone = wire_name(replica_zone)
    except InvalidName as error:
        raise InputError(f"--replica-zone: {error}; give one such as example.com") from None
    if child_name(federation, zone) is None:
        raise InputError(
            f"--federation {federation[:70]!r} is no part of a domain name; "
            "use letters, digits and dashes, such as myfederation"
        )
    return StatefulSetOptions(replica_zone.removesuffix("."), federation)
