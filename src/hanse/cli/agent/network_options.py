"""The options of an agent for tenant networks."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from hanse.cli.errors import InputError

if TYPE_CHECKING:
    from hanse.features.networks.options import NetworksOptions

MAX_TEMPLATE_SIZE = 64 * 1024

_OPTIONS = (
    click.option(
        "--default-network-template-path",
        default=None,
        envvar="HANSE_DEFAULT_NETWORK_TEMPLATE_PATH",
        show_envvar=True,
        metavar="FILE",
        help="The network that each new tenant gets, as JSON or YAML; an empty file: none is made.",
    ),
    click.option(
        "--network-provider",
        "network_providers",
        multiple=True,
        envvar="HANSE_NETWORK_PROVIDERS",
        show_envvar=True,
        metavar="TYPE=URL",
        help="Where Services of networks with ipam External get addresses. Repeatable.",
    ),
    click.option(
        "--network-trusts",
        "network_trusts",
        multiple=True,
        envvar="HANSE_NETWORK_TRUSTS",
        show_envvar=True,
        metavar="USER",
        help="A user beside Hanse and administrators, such as a provider's account, to whom the "
        "rules of tenants do not apply. Repeatable.",
    ),
    click.option(
        "--network-dns",
        type=click.Choice(("hanse", "coredns", "shared")),
        default="hanse",
        show_default=True,
        envvar="HANSE_NETWORK_DNS",
        show_envvar=True,
        help="What answers the names of tenant networks: two pods of hanse or coredns for each, or "
        "the Deployment hanse-network-dns, which all flat networks share (`hanse dns --networks`).",
    ),
    click.option(
        "--network-dns-image",
        default="",
        envvar="HANSE_NETWORK_DNS_IMAGE",
        show_envvar=True,
        metavar="IMAGE",
        help="The image of that; by default hanse or coredns.",
    ),
    click.option(
        "--network-node-guards/--no-network-node-guards",
        default=False,
        envvar="HANSE_NETWORK_GUARD",
        show_envvar=True,
        help="`hanse guard` isolates networks: write no NetworkPolicies while it runs on every "
        "node, so that those of tenants narrow what passes within a network.",
    ),
    click.option(
        "--network-admin-policies/--no-network-admin-policies",
        default=False,
        envvar="HANSE_NETWORK_ADMIN_POLICIES",
        show_envvar=True,
        help="Isolate networks by ClusterNetworkPolicies, which tenants cannot open, where they "
        "are served.",
    ),
    # In 0.1.0 this asked for ClusterNetworkPolicies: whoever had it runs no guards.
    click.option("--network-guard/--no-network-guard", default=False, hidden=True),
)


def network_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with the options; its function gets them together as `networks`."""

    @wraps(command)
    def with_flags(*args: Any, **given: Any) -> Any:
        """Call the command with the network options in one `NetworkFlags`."""
        flags = NetworkFlags(
            **{field: given.pop(field) for field in NetworkFlags.__struct_fields__}
        )
        return command(*args, networks=flags, **given)

    decorated: Callable[..., Any] = with_flags
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


class NetworkFlags(Struct, frozen=True):
    """The values of the options."""

    default_network_template_path: str | None
    network_providers: tuple[str, ...]
    network_trusts: tuple[str, ...]
    network_dns: str
    network_dns_image: str
    network_node_guards: bool
    network_admin_policies: bool
    network_guard: bool


def parse_network_options(flags: NetworkFlags, agent: str) -> "NetworksOptions":
    """The options of the feature; `agent` is the user name of the agent's ServiceAccount.

    That user comes first among those whom rules of tenants do not bind. The obsolete
    `network_guard` counts as `network_admin_policies`; the DNS image is by default coredns or
    hanse. Reads the template file; raises `InputError` for an unreadable or invalid template, or an
    invalid provider.
    """
    from hanse.features.networks.options import NetworksOptions

    return NetworksOptions(
        template=network_template(flags.default_network_template_path),
        agents=(agent, *flags.network_trusts),
        guard=flags.network_node_guards,
        admin_policies=flags.network_admin_policies or flags.network_guard,
        dns_workload=flags.network_dns,
        dns_image=flags.network_dns_image
        or ("coredns" if flags.network_dns == "coredns" else "hanse"),
        providers=tuple(_parse_provider(one) for one in flags.network_providers),
    )


def network_template(path: str | None) -> str:
    """The text of a template file, up to `MAX_TEMPLATE_SIZE` characters; the built-in one for None.

    "" for an empty path or an empty file. Raises `InputError` if the file cannot be read, or is no
    valid template.
    """
    from hanse.features.networks.options import BUILT_IN_TEMPLATE

    return BUILT_IN_TEMPLATE if path is None else _read_default_network_template(path)


def _read_default_network_template(path: str) -> str:
    """The text of the template of each new tenant's Network; "" if there is no path or no text.

    Raises `InputError` if the file cannot be read, or its first `MAX_TEMPLATE_SIZE` characters are
    not a valid template; what follows them is ignored.
    """
    from hanse.features.networks.tenants import InvalidTemplate, default_network

    if not path:
        return ""
    option = f"--default-network-template-path {path}"
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(MAX_TEMPLATE_SIZE)
        default_network(text, "tenant")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise InputError(f"{option}: {why}; name a readable file") from None
    except InvalidTemplate as error:
        raise InputError(f"{option}: {error}") from None
    return text


def _parse_provider(text: str) -> tuple[str, str]:
    """Type and URL of `TYPE=URL`; raises `InputError` without a type or an HTTP(S) URL."""
    type_, _, url = text.partition("=")
    if not type_ or not url.startswith(("https://", "http://")):
        raise InputError(
            f"--network-provider {text!r} is not TYPE=URL; write it as mizar=https://HOST"
        )
    return type_, url
