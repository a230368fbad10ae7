"""`hanse up`: the options of a local federation."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from hanse.cli.settings import global_options

if TYPE_CHECKING:
    from hanse.local.up.topology import LocalMember

_DEFAULT_FOLDER = Path(".hanse")


@click.command("up")
@click.option(
    "--clusters",
    default="lubeck,hamburg,bergen",
    show_default=True,
    metavar="NAME,...",
    help="The clusters; a broker is added. The first two supervise the others.",
)
@click.option(
    "--engine",
    type=click.Choice(("embedded", "kubernetes")),
    default="embedded",
    show_default=True,
    help="Clusters inside this process, or real servers beside it (`make kube-binaries`).",
)
@click.option(
    "--nodes",
    type=click.Choice(("simulated", "containers")),
    default="simulated",
    show_default=True,
    help="Pods that only seem to run, or containers on real nodes (root on Linux, with "
    "--engine kubernetes).",
)
@click.option(
    "--fabric",
    type=click.Choice(("routed", "flat", "isolated")),
    default="routed",
    show_default=True,
    help="What reaches containers in other clusters: addresses of pods and Services, of pods, or "
    "neither; those of nodes and load balancers always do.",
)
@click.option(
    "--node-count",
    type=click.IntRange(1, 4),
    default=1,
    show_default=True,
    metavar="N",
    help="Nodes with containers of each cluster.",
)
@click.option(
    "--guard",
    is_flag=True,
    help="With --nodes containers: run `hanse guard` on each node, which keeps tenants apart.",
)
@click.option(
    "--network-dns",
    type=click.Choice(("hanse", "shared")),
    default="hanse",
    show_default=True,
    help="What the DNS Services of tenant networks lead to: servers of their own, or the Service "
    "hanse-network-dns of the namespace hanse-system.",
)
@click.option(
    "--node-names",
    type=click.Choice(("same", "distinct")),
    default="same",
    show_default=True,
    help="Whether nodes with containers have the same names in all clusters, or their own.",
)
@click.option(
    "--dual-stack",
    is_flag=True,
    help="With --nodes containers: pods and Services have IPv6 addresses, too.",
)
@click.option(
    "--image",
    "images",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="An archive of images for all nodes with containers, as `docker save` writes them.",
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where kubeconfig and socket go, and what clusters hold is kept from run to run. "
    "Without it the folder is ./.hanse, and nothing is kept.",
)
@click.option(
    "--profile",
    type=click.Choice(("lighthouse", "kep-1645")),
    help="Whose rules services follow; stands in the ClusterSet on the broker. lighthouse, "
    "unless what was kept says otherwise.",
)
@click.option("--sample/--no-sample", default=True, help="With a small shop to look at, or empty.")
@click.option(
    "--dns-port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="Where names are answered to those who ask from no cluster; a free port by default.",
)
@click.option(
    "--dashboard-port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="Where the dashboard is served; a free port by default.",
)
@click.option(
    "--federation/--no-federation",
    default=True,
    help="Make the clusters members of one Federation, or leave that to you.",
)
@click.option(
    "--agents/--no-agents",
    default=True,
    help="With our agents and their rights; or the clusters alone, to install Hanse there.",
)
@click.option(
    "--gslb-provider",
    "gslb_providers",
    multiple=True,
    default=("dns",),
    show_default=True,
    type=click.Choice(("dns", "externaldns", "avi")),
    help="Who publishes global hosts; can be repeated. For avi name your controller in the "
    "GSLBConfig.",
)
@click.option(
    "--global-zone",
    "global_zones",
    multiple=True,
    metavar="ZONE",
    help="A zone of global hosts that is answered beside global.test; can be repeated.",
)
@click.option(
    "--default-network-template-path",
    "template_path",
    default=None,
    metavar="FILE",
    help="The network that each new tenant gets, as JSON or YAML; an empty file: none is made.",
)
@click.option(
    "--address-provider",
    "address_types",
    multiple=True,
    metavar="TYPE",
    help="Run `hanse networks provider` for networks of this type with ipam External; can be "
    "repeated.",
)
@click.option(
    "--exec",
    "script",
    metavar="CMD",
    help="Run CMD in a shell when all is ready, end everything, and exit with its status.",
)
@click.pass_context
def command(
    context: click.Context,
    clusters: str,
    engine: Literal["embedded", "kubernetes"],
    nodes: Literal["simulated", "containers"],
    fabric: Literal["routed", "flat", "isolated"],
    node_count: int,
    guard: bool,
    network_dns: str,
    node_names: Literal["same", "distinct"],
    dual_stack: bool,
    images: tuple[Path, ...],
    folder: Path | None,
    profile: str | None,
    sample: bool,
    federation: bool,
    agents: bool,
    dns_port: int,
    dashboard_port: int,
    gslb_providers: tuple[str, ...],
    global_zones: tuple[str, ...],
    template_path: str | None,
    address_types: tuple[str, ...],
    script: str | None,
) -> None:
    """Run a whole federation on this machine.

    Three clusters, an agent for each, a broker and DNS, ready in seconds. `DIR/kubeconfig` has
    a context for every cluster. It stays until it is interrupted, and leaves nothing running. While
    it runs, `hanse status` shows it and `hanse local` makes things go wrong.

    With --exec, CMD finds the clusters by KUBECONFIG, their names by HANSE_DNS (ADDRESS:PORT), the
    dashboard by HANSE_DASHBOARD (a URL; HANSE_DASHBOARD_TOKEN is its bearer token), and the folder
    by HANSE_DIR.

    \b
    Examples:
      hanse up
      hanse up --clusters paris,rome --no-sample
      hanse up --dir ~/fleet                      keep what the clusters hold
      hanse up --exec 'kubectl get pods -A'       run something and clean up
      hanse up --engine kubernetes                on real API servers
      hanse up --engine kubernetes --nodes containers     and with containers
      hanse up --gslb-provider externaldns --global-zone example.org
      hanse up --address-provider mizar           networks with ipam External
      hanse up --no-agents                        only the clusters, to install Hanse there
    """
    began = time.monotonic()
    from msgspec.structs import replace

    from hanse.cli.agent.gslb_options import parse_gslb_options
    from hanse.cli.agent.network_options import network_template
    from hanse.cli.process import run_async, start_logging
    from hanse.cli.up.access import generated_access
    from hanse.cli.up.session import UpSession
    from hanse.features.networks.options import NetworksOptions
    from hanse.local.up.folder import Folder
    from hanse.local.up.options import FederationOptions

    start_logging(global_options(context))
    if nodes == "containers" and engine != "kubernetes":
        raise click.UsageError("--nodes containers needs --engine kubernetes", context)
    if dual_stack and nodes != "containers":
        raise click.UsageError("--dual-stack needs --nodes containers", context)
    if nodes != "containers" and (guard or node_count > 1):
        raise click.UsageError("--guard and --node-count need --nodes containers", context)
    gslb = replace(parse_gslb_options(gslb_providers, (), False, global_zones), loopback=True)
    options = FederationOptions(
        _parse_members(clusters),
        generated_access(gslb),
        engine,
        nodes,
        fabric,
        tuple(image.absolute() for image in images),
        profile,
        sample=sample and agents,
        agents=agents,
        federation=federation and agents,
        node_names=node_names,
        dual_stack=dual_stack,
        node_count=node_count,
        guard=guard,
    )
    place = Folder(folder or _DEFAULT_FOLDER, keep=folder is not None)
    template = network_template(template_path)
    networks = NetworksOptions(template=template, guard=guard, dns_workload=network_dns)
    session = UpSession(
        options, place, script, began, dns_port, dashboard_port, gslb, networks, address_types
    )
    context.exit(run_async(session.run, long_running=True))


def _parse_members(clusters: str) -> "tuple[LocalMember, ...]":
    """The members of comma-separated names, and the broker, which is added.

    Raises `InputError` for invalid names.
    """
    from hanse.cli.errors import InputError
    from hanse.local.up.errors import InvalidClusterNames
    from hanse.local.up.topology import plan_members

    try:
        return plan_members([name.strip() for name in clusters.split(",")])
    except InvalidClusterNames as error:
        raise InputError(f"--clusters: {error}") from None
