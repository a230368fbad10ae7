"""The options of an agent for global load balancing."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from hanse.cli.errors import InputError

if TYPE_CHECKING:
    from hanse.features.gslb.options import GslbOptions, Provider

F = TypeVar("F", bound=Callable[..., Any])
PROVIDERS = ("dns", "externaldns", "avi")


def gslb_options(command: F) -> F:
    """Decorate a command with the `--gslb-*` options."""
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
            "--gslb-zone",
            "gslb_zones",
            multiple=True,
            envvar="HANSE_GSLB_ZONES",
            show_envvar=True,
            metavar="ZONE",
            help="A zone that name servers answer (`hanse dns --global-zone`): hosts outside of "
            "all are told; can be repeated.",
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
    providers: Sequence[str],
    withdraw: Sequence[str],
    weighted_records: bool,
    zones: Sequence[str] = (),
) -> "GslbOptions":
    """The options of the feature; raises `InputError` for a provider both used and withdrawn.

    Each of `providers` counts once, in the order given; zones are in lower case, without dots at
    their ends, and are not validated.
    """
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
        tuple(zone.lower().strip(".") for zone in zones),
    )
