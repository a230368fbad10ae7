"""The options of global load balancing: who publishes it, and how names are answered."""

from collections.abc import Callable, Sequence
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from hanse.cli.errors import InputError

if TYPE_CHECKING:
    from hanse.features.gslb.options import GslbOptions, Provider

F = TypeVar("F", bound=Callable[..., Any])
PROVIDERS = ("dns", "externaldns", "avi")


def gslb_options(command: F) -> F:
    """What an agent is told about global load balancing."""
    for option in (
        click.option(
            "--gslb-weighted-records",
            is_flag=True,
            envvar="HANSE_GSLB_WEIGHTED_RECORDS",
            show_envvar=True,
            help="Give ExternalDNS a record per member with its weight, as Route 53 takes them.",
        ),
        click.option(
            "--gslb-withdraw",
            multiple=True,
            type=click.Choice(PROVIDERS),
            envvar="HANSE_GSLB_WITHDRAW",
            show_envvar=True,
            help="A provider that is no longer used and whose records are to go.",
        ),
        click.option(
            "--gslb-provider",
            "gslb_providers",
            multiple=True,
            default=("dns",),
            show_default=True,
            type=click.Choice(PROVIDERS),
            envvar="HANSE_GSLB_PROVIDER",
            show_envvar=True,
            help="Who publishes global hosts while this cluster leads; can be repeated.",
        ),
    ):
        command = option(command)
    return command


def parse_gslb_options(
    providers: Sequence[str], withdraw: Sequence[str], weighted_records: bool
) -> "GslbOptions":
    """The settings; raises `InputError` for a provider that is both used and withdrawn."""
    from hanse.features.gslb.options import GslbOptions

    both = sorted(set(providers) & set(withdraw))
    if both:
        raise InputError(
            f"--gslb-withdraw {both[0]}: it is a --gslb-provider too; leave one of them out"
        )
    return GslbOptions(
        cast("tuple[Provider, ...]", tuple(dict.fromkeys(providers))),
        cast("tuple[Provider, ...]", tuple(withdraw)),
        weighted_records,
    )


def global_zone_options(command: F) -> F:
    """What a name server is told about global hosts."""
    for option in (
        click.option(
            "--trust-resolver",
            "resolvers",
            multiple=True,
            metavar="NETWORK",
            help="Resolvers whose word about their clients' subnets is taken; can be repeated.",
        ),
        click.option(
            "--region",
            "regions",
            multiple=True,
            metavar="NETWORK=CLUSTER",
            help="The cluster that is near to clients of a network; can be repeated.",
        ),
        click.option(
            "--global-zone",
            "global_zones",
            multiple=True,
            metavar="ZONE",
            help="A zone whose global hosts are answered, too, by the health that the leader's "
            "agent tells on GlobalServices; nothing is probed here. Can be repeated.",
        ),
    ):
        command = option(command)
    return command


def parse_region(text: str) -> tuple[str, str]:
    """A range of clients and the cluster near to them; raises `InputError` for anything else."""
    network, equals, cluster = text.partition("=")
    if not equals or not cluster:
        raise InputError(
            f"--region {text!r} is not NETWORK=CLUSTER; write it as 198.51.100.0/24=bergen"
        )
    return parse_network("--region", network), cluster


def parse_network(option: str, text: str) -> str:
    """A network as it was written; raises `InputError` for anything else."""
    try:
        return str(ip_network(text))
    except ValueError:
        raise InputError(f"{option} {text!r} is no network; write it as 198.51.100.0/24") from None
