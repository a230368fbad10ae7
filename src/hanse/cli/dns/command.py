"""`hanse dns`: the options of the DNS server, and the CoreDNS block that forwards to it."""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hanse.cli.addresses import (
    bind_address,
    bind_listener,
    parse_forward,
    parse_network,
    parse_server_address,
)
from hanse.cli.dns.global_zone_options import global_zone_options, parse_region
from hanse.cli.errors import InputError
from hanse.cli.feature_options import features_option
from hanse.cli.replica_name_options import parse_replica_names, replica_name_options
from hanse.cli.settings import global_options
from hanse.model.naming import ZONE

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from hanse.app import Options
    from hanse.app.dns import ServerProcess
    from hanse.dns.listeners import Listeners
    from hanse.model.dns.zones import View, ZoneSource

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group("dns", invoke_without_command=True)
@click.option(
    "--zone",
    default=ZONE,
    show_default=True,
    envvar="HANSE_DNS_ZONE",
    show_envvar=True,
    help="The zone of multi-cluster services.",
)
@click.option(
    "--cluster-id",
    default="",
    envvar="HANSE_CLUSTER_ID",
    show_envvar=True,
    metavar="ID",
    help="The cluster whose clients ask; without it no cluster comes first.",
)
@click.option(
    "--listen",
    multiple=True,
    default=("0.0.0.0:5353",),
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Where to answer, by UDP and TCP; IPv6 addresses in brackets; can be repeated.",
)
@click.option(
    "--workers",
    type=click.IntRange(0, 64),
    default=0,
    envvar="HANSE_DNS_WORKERS",
    show_envvar=True,
    help="Processes that answer; 0, the default: one per core, four at most.",
)
@click.option(
    "--local-first/--no-local-first",
    envvar="HANSE_DNS_LOCAL_FIRST",
    show_envvar=True,
    default=True,
    show_default=True,
    help="Answer the cluster's own address when it is ready.",
)
@click.option(
    "--profile",
    type=click.Choice(("lighthouse", "kep-1645")),
    envvar="HANSE_DNS_PROFILE",
    show_envvar=True,
    help="Whose rules to follow; else those that the broker names.",
)
@click.option(
    "--rate-limit",
    type=click.IntRange(0),
    default=20_000,
    show_default=True,
    envvar="HANSE_DNS_RATE_LIMIT",
    show_envvar=True,
    metavar="N",
    help="Answers per second to one network, not on loopback; 0: no limit.",
)
@click.option(
    "--log-every",
    envvar="HANSE_DNS_LOG_EVERY",
    show_envvar=True,
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Log one question in N; 0: none.",
)
@click.option(
    "--forward",
    multiple=True,
    envvar="HANSE_DNS_FORWARD",
    show_envvar=True,
    metavar="ADDRESS[:PORT]|FILE",
    help="Ask these servers, or those of a resolv.conf, about other zones; can be repeated.",
)
@click.option(
    "--network",
    default="",
    metavar="TENANT.NETWORK",
    help="Answer for one tenant network alone; --zone is then the cluster's domain.",
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NAME",
    help="With --network: a namespace of the tenant; can be repeated; else all are watched.",
)
@click.option(
    "--follow",
    is_flag=True,
    help="With --network: watch the namespaces that the agent names in the ConfigMap kube-dns-….",
)
@click.option(
    "--networks",
    is_flag=True,
    help="Answer for all flat tenant networks, each client by the network of its address.",
)
@click.option(
    "--domain",
    default="cluster.local",
    show_default=True,
    envvar="HANSE_DNS_DOMAIN",
    show_envvar=True,
    metavar="NAME",
    help="With --networks: the cluster's domain; --zone is that of multi-cluster services.",
)
@click.option(
    "--allow-transfer",
    multiple=True,
    envvar="HANSE_DNS_ALLOW_TRANSFER",
    show_envvar=True,
    metavar="NETWORK",
    help="Who may have the whole zone, such as 192.0.2.0/24; can be repeated; else nobody may.",
)
@click.option(
    "--metrics-listen",
    default="",
    metavar="ADDRESS:PORT",
    help="Where /healthz, /readyz and /metrics are served; without it they are not.",
)
@click.option(
    "--broker-namespace",
    default="hanse-broker",
    show_default=True,
    envvar="HANSE_BROKER_NAMESPACE",
    show_envvar=True,
    metavar="NAME",
    help="Where clusters share there: a cluster whose Lease runs out is not answered.",
)
@global_zone_options
@click.option(
    "--broker-kubeconfig",
    type=_FILE,
    envvar="HANSE_BROKER_KUBECONFIG",
    show_envvar=True,
    metavar="FILE",
    help="How to reach the broker.",
)
@click.option(
    "--broker-context",
    default="",
    envvar="HANSE_BROKER_CONTEXT",
    show_envvar=True,
    metavar="NAME",
    help="The broker's context.",
)
@features_option("Whose names it answers")
@replica_name_options
@click.pass_context
def command(
    context: click.Context,
    zone: str,
    cluster_id: str,
    listen: tuple[str, ...],
    workers: int,
    local_first: bool,
    profile: str | None,
    rate_limit: int,
    log_every: int,
    forward: tuple[str, ...],
    network: str,
    namespaces: tuple[str, ...],
    follow: bool,
    networks: bool,
    domain: str,
    allow_transfer: tuple[str, ...],
    metrics_listen: str,
    broker_namespace: str,
    global_zones: tuple[str, ...],
    regions: tuple[str, ...],
    resolvers: tuple[str, ...],
    cache: Path | None,
    broker_kubeconfig: Path | None,
    broker_context: str,
    features: tuple[str, ...],
    replica_zone: str,
    federation: str,
) -> None:
    """Serve the names of multi-cluster services.

    It watches one cluster (of --kubeconfig and --context, or the one it runs in) and answers until
    it is told to stop. Weights, profile and who is alive are the broker's to say, where it is
    given; replicas of federated StatefulSets have names then, too. A hangup (SIGHUP) replaces the
    processes that answer, and no question is lost.

    \b
    Examples:
      hanse dns --cluster-id lubeck --listen 127.0.0.1:5353 --context lubeck
      hanse dns --network acme.default --zone cluster.local --listen 127.0.0.1:5353
      hanse dns --networks --forward /etc/resolv.conf --listen 0.0.0.0:53
      hanse dns corefile 10.96.0.53
    """
    if context.invoked_subcommand is not None:
        return
    from hanse import app
    from hanse.app.dns import DnsCredentials, ServerProcess
    from hanse.cli.dns.process import run_dns
    from hanse.cli.process import run_async, start_logging
    from hanse.dns.settings import ServerSettings
    from hanse.kube import credentials
    from hanse.model.dns.zones import View

    settings = global_options(context)
    start_logging(settings, service=True)
    view = View(
        name=cluster_id or "all",
        local=cluster_id,
        zone=_zone_name(zone),
        local_first=local_first,
        global_zones=tuple(_zone_name(name, "--global-zone") for name in global_zones),
        regions=tuple(parse_region(text) for text in regions),
        resolvers=tuple(parse_network("--trust-resolver", text) for text in resolvers),
        secondaries=tuple(
            parse_network("--allow-transfer", text, "192.0.2.0/24", strict=False)
            for text in allow_transfer
        ),
        profile=None if profile is None else "kep-1645" if profile == "kep-1645" else "lighthouse",
    )
    local = credentials.find_credentials(settings.kubeconfig, context=settings.context)
    broker = None
    if broker_kubeconfig is not None or broker_context:
        broker = credentials.find_credentials(
            broker_kubeconfig or settings.kubeconfig, context=broker_context
        )
    replicas = parse_replica_names(replica_zone, federation)
    options = app.Options(features, broker_namespace, statefulsets=replicas)
    tenant = _network_zone(view, network, namespaces, follow=follow)
    serve = _choose_serving(view, options, tenant, domain if networks else "")
    workers = workers or min(os.cpu_count() or 1, 4)
    listeners = [_bind(address, workers) for address in listen]
    metrics_listener = bind_listener("--metrics-listen", metrics_listen) if metrics_listen else None
    access = DnsCredentials(local, broker, broker_namespace)
    servers = tuple(server for option in forward for server in parse_forward(option))
    serving = ServerSettings(per_second=rate_limit, log_every=log_every, forward=servers)
    process = ServerProcess(access, view, tuple(listeners), serving, metrics_listener, cache=cache)
    context.exit(run_async(lambda: run_dns(process, serve), long_running=True))


@command.command("corefile")
@click.option("--zone", default=ZONE, show_default=True, help="The zone of multi-cluster services.")
@click.option("--replicas", is_flag=True, help="Hand over the federation's names of replicas, too.")
@replica_name_options
@click.argument("servers", nargs=-1, required=True, metavar="ADDRESS[:PORT]...")
def corefile(
    zone: str, replicas: bool, replica_zone: str, federation: str, servers: tuple[str, ...]
) -> None:
    """Print how CoreDNS hands the zone over.

    Add what it prints to the Corefile of the cluster's CoreDNS (the ConfigMap coredns in
    kube-system). An ADDRESS is one where `hanse dns` or an agent answers. Of replicas of federated
    StatefulSets only the federation's own names are handed over: all others of the zone, which may
    be the cluster's domain, stay where they are.

    \b
    Examples:
      hanse dns corefile 10.96.0.53
      hanse dns corefile --replicas --replica-zone cluster.local 10.96.0.53
      hanse dns corefile --zone hanse.example 10.0.0.7:5353 [fd00::7]:5353
    """
    from hanse.dns.corefile import server_block

    for server in servers:
        parse_server_address(server)
    click.echo(server_block(_zone_name(zone), servers), nl=False)
    if replicas:
        names = parse_replica_names(replica_zone, federation)
        click.echo(server_block(names.federation_zone, servers), nl=False)


def _choose_serving(
    view: "View", options: "Options", tenant: "ZoneSource | None", domain: str
) -> "Callable[[ServerProcess], AbstractAsyncContextManager[None]]":
    """The context manager, to be called with a process, that serves names as the options say.

    With `domain` those of all flat networks, else with `tenant` of that one, else of all features
    that are on. Raises `InputError` for both, or an invalid domain.
    """
    from hanse import app
    from hanse.app.dns import serving_zones
    from hanse.app.shared_dns import serving_networks

    if domain and tenant is not None:
        raise InputError("--networks answers for all of them; leave --network out")
    if domain:
        return partial(serving_networks, domain=_zone_name(domain, "--domain"))
    sources = app.zone_sources(view, options) if tenant is None else (tenant,)
    return partial(serving_zones, sources=sources)


def _network_zone(
    view: "View", network: str, namespaces: tuple[str, ...], *, follow: bool
) -> "ZoneSource | None":
    """The zone of the tenant network that --network names; None if it names none.

    Raises `InputError` if it is not TENANT.NETWORK, for --namespace or --follow without it, and for
    both of them.
    """
    from hanse.app.dns import network_zone
    from hanse.features.networks.names import parse_network_name

    if not network:
        if follow:
            raise InputError("--follow goes with --network; leave it out, or name the network")
        if namespaces:
            raise InputError("--namespace goes with --network; leave it out, or name the network")
        return None
    name = parse_network_name(network)
    if not name.tenant or not name.network or "." in name.network:
        raise InputError(f"--network {network!r} is not TENANT.NETWORK; write it as acme.default")
    if follow and namespaces:
        raise InputError("--follow finds the namespaces itself; leave --namespace out")
    return network_zone(view, name, namespaces, follow=follow)


def _zone_name(zone: str, option: str = "--zone") -> str:
    """The zone in lower case without the final dot; raises `InputError` for an invalid name."""
    from hanse.model.dns.names import InvalidName, wire_name

    try:
        wire_name(zone)
    except InvalidName as error:
        raise InputError(f"{option}: {error}; give one such as {ZONE}") from None
    return zone.lower().removesuffix(".")


def _bind(address: str, workers: int) -> "Listeners":
    """Bound sockets for UDP and TCP of an ADDRESS:PORT, for all workers; IPv6 in brackets.

    Raises `InputError` if it is none, or is taken.
    """
    from hanse.dns.listeners import bind_listeners

    bind = partial(bind_listeners, workers=workers)
    return bind_address("--listen", address, "0.0.0.0:5353", bind)
