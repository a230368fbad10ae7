"""The options by which an agent is told about tenant networks."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hanse.cli.oops import Oops

if TYPE_CHECKING:
    from hanse.features.networks.options import NetworksOptions

Command = TypeVar("Command", bound=Callable[..., Any])
LARGEST_TEMPLATE = 64 * 1024

_OPTIONS = (
    click.option(
        "--default-network-template-path",
        default=None,
        envvar="HANSE_DEFAULT_NETWORK_TEMPLATE_PATH",
        show_envvar=True,
        metavar="FILE",
        help="The network that each new tenant gets, as JSON or YAML; empty: none is made.",
    ),
    click.option(
        "--network-provider",
        "network_providers",
        multiple=True,
        metavar="TYPE=URL",
        help="Where Services of networks with ipam External get addresses. Repeatable.",
    ),
    click.option(
        "--network-guard/--no-network-guard",
        default=False,
        help="Also write ClusterNetworkPolicies, which tenants cannot open, where they are served.",
    ),
)


def network_options(command: Command) -> Command:
    """Give a command the options; its function takes them by name."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def networks_of(
    template_path: str | None, providers: tuple[str, ...], guard: bool, agent: str
) -> "NetworksOptions":
    """What the options say; raises `Oops` for a template that no network can be made of."""
    from hanse.features.networks.options import BUILT_IN_TEMPLATE, NetworksOptions

    text = BUILT_IN_TEMPLATE if template_path is None else _template(template_path)
    return NetworksOptions(
        template=text,
        agents=(agent,),
        guard=guard,
        providers=tuple(_provider(told) for told in providers),
    )


def _template(path: str) -> str:
    from hanse.features.networks.template import BadTemplate, default_network

    if not path:
        return ""
    option = f"--default-network-template-path {path}"
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(LARGEST_TEMPLATE)
        default_network(text, "tenant")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise Oops(f"{option}: {why}; name a readable file") from None
    except BadTemplate as error:
        raise Oops(f"{option}: {error}") from None
    return text


def _provider(told: str) -> tuple[str, str]:
    type_, _, url = told.partition("=")
    if not type_ or not url.startswith(("https://", "http://")):
        raise Oops(f"--network-provider {told!r} is not TYPE=URL; write it as mizar=https://HOST")
    return type_, url
