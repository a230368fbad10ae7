"""`hanse guard`: the options of a node's guard."""

from pathlib import Path

import click

from hanse.cli.errors import CommandFailed, InputError
from hanse.cli.settings import global_options

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@click.command("guard")
@click.option(
    "--node",
    default="",
    envvar="HANSE_NODE",
    show_envvar=True,
    metavar="NAME",
    help="This machine's Node.",
)
@click.option(
    "--pod-range",
    "pod_ranges",
    multiple=True,
    metavar="NETWORK",
    help="A pod range of this node, closed from the start; can be repeated. Else that of its Node.",
)
@click.option(
    "--metrics-listen",
    default="",
    envvar="HANSE_LISTEN",
    show_envvar=True,
    metavar="ADDRESS:PORT",
    help="Where /healthz, /readyz and /metrics are served; without it they are not.",
)
@click.option(
    "--daemonset",
    default="",
    envvar="HANSE_DAEMONSET",
    show_envvar=True,
    metavar="NAMESPACE/NAME",
    help="Remove the rules at the end if this DaemonSet is gone, and the CNI plugin if it has no "
    "folders of the node any more.",
)
@click.option(
    "--cni-config",
    default=None,
    envvar="HANSE_CNI_CONFIG",
    show_envvar=True,
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Network configurations of this node: install the CNI plugin in front of the first.",
)
@click.option(
    "--cni-plugins",
    default="/opt/cni/bin",
    envvar="HANSE_CNI_PLUGINS",
    show_envvar=True,
    show_default=True,
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the CNI plugins of this node are.",
)
@click.option("--remove", is_flag=True, help="Remove the rules and the CNI plugin, and end.")
@click.pass_context
def command(
    context: click.Context,
    node: str,
    pod_ranges: tuple[str, ...],
    metrics_listen: str,
    daemonset: str,
    cni_config: Path | None,
    cni_plugins: Path,
    remove: bool,
) -> None:
    """Keep the networks of tenants apart on this machine.

    Pods of different networks exchange no packet, whatever NetworkPolicies say, unless both tenants
    agree (NetworkPeering) or the platform allows it (NetworkAccess). It needs the network
    namespace of the node and CAP_NET_ADMIN. The rules are one nftables table, hanse-guard; they
    stay when it ends, so that it can be restarted, and --remove takes them away.

    With --cni-config, it also installs a CNI plugin in front of the node's own: it hands a pod's
    cni-args on, and pods on a bridge send with the addresses that they were given alone. A guard
    without it, and --remove, take the plugin away wherever it was installed.

    \b
    Examples:
      hanse guard --node worker-1 --kubeconfig /etc/hanse/guard.kubeconfig
      hanse guard --remove
      nft list table inet hanse-guard
    """
    from hanse.app.cni_folders import CniFolders
    from hanse.app.guard import GuardSettings
    from hanse.app.guard_removal import GuardUnavailable, remove_rules
    from hanse.cli.addresses import bind_listener, parse_network
    from hanse.cli.guard.process import run_guard
    from hanse.cli.process import run_async, start_logging
    from hanse.kube import credentials

    settings = global_options(context)
    start_logging(settings, service=not remove)
    if not node and not remove:
        raise InputError("--node is needed; give the name of this machine's Node")
    cni = CniFolders(cni_config, cni_plugins) if cni_config is not None else None
    ranges = [
        parse_network("--pod-range", text, "10.244.1.0/24", strict=False) for text in pod_ranges
    ]
    guarded = GuardSettings(node, tuple(ranges), cni, _BOOT_ID.read_text().strip())
    owner = _daemonset(daemonset)
    try:
        if remove:
            run_async(lambda: remove_rules(cni))
            return
        listener = bind_listener("--metrics-listen", metrics_listen) if metrics_listen else None
        access = credentials.find_credentials(settings.kubeconfig, context=settings.context)
        run = run_async(lambda: run_guard(access, guarded, listener, owner), long_running=True)
    except GuardUnavailable as error:
        raise CommandFailed(str(error)) from None
    context.exit(run)


def _daemonset(text: str) -> tuple[str, str] | None:
    """Namespace and name of NAMESPACE/NAME, None for ""; raises `InputError` for other text."""
    if not text:
        return None
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise InputError(f"--daemonset {text!r} is not NAMESPACE/NAME; write it as hanse/guard")
    return namespace, name
