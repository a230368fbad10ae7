"""`hanse agent`: the options of one cluster's agent."""

import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hanse.cli.addresses import bind_listener
from hanse.cli.agent.gslb_options import gslb_options, parse_gslb_options
from hanse.cli.agent.network_options import (
    NetworkFlags,
    network_options,
    parse_network_options,
)
from hanse.cli.agent.publishing_options import parse_publishing_options, publishing_options
from hanse.cli.errors import InputError
from hanse.cli.feature_options import features_option
from hanse.cli.replica_name_options import parse_replica_names, replica_name_options
from hanse.cli.settings import global_options

if TYPE_CHECKING:
    from hanse.features.admission.options import AdmissionOptions
    from hanse.features.federated.options import FederatedOptions

MIN_TOKEN_LENGTH = 16

_WEBHOOK_URL = re.compile(r"https://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(:\d{1,5})?(/[^?#\s]*)?")

_HOST = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+")

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("agent")
@click.option(
    "--cluster-id",
    required=True,
    envvar="HANSE_CLUSTER_ID",
    show_envvar=True,
    metavar="ID",
    help="This cluster's name in the fleet.",
)
@click.option(
    "--broker-kubeconfig",
    type=_FILE,
    envvar="HANSE_BROKER_KUBECONFIG",
    show_envvar=True,
    metavar="FILE",
    help="How to reach the broker; without it the cluster is on its own.",
)
@click.option(
    "--broker-context",
    default="",
    envvar="HANSE_BROKER_CONTEXT",
    show_envvar=True,
    metavar="NAME",
    help="The broker's context there, or in the cluster's own kubeconfig.",
)
@click.option(
    "--broker-namespace",
    default="hanse-broker",
    show_default=True,
    envvar="HANSE_BROKER_NAMESPACE",
    show_envvar=True,
    metavar="NAME",
    help="Where clusters share there.",
)
@click.option(
    "--namespace",
    default="hanse-system",
    show_default=True,
    envvar="HANSE_NAMESPACE",
    show_envvar=True,
    help="Where its Lease and its own objects are.",
)
@click.option(
    "--listen",
    default="0.0.0.0:8080",
    show_default=True,
    envvar="HANSE_LISTEN",
    show_envvar=True,
    metavar="ADDRESS:PORT",
    help="Where /healthz, /readyz and /metrics are served.",
)
@click.option(
    "--identity",
    default=socket.gethostname,
    envvar="HANSE_IDENTITY",
    show_envvar=True,
    metavar="NAME",
    help="This replica's name among those of the cluster; by default the host's.",
)
@click.option(
    "--dashboard-listen",
    default="",
    envvar="HANSE_DASHBOARD_LISTEN",
    show_envvar=True,
    metavar="ADDRESS:PORT",
    help="Where the dashboard is served; without it there is none.",
)
@click.option(
    "--dashboard-token-file",
    type=_FILE,
    envvar="HANSE_DASHBOARD_TOKEN_FILE",
    show_envvar=True,
    metavar="FILE",
    help="The token that lets people in, of at least 16 characters.",
)
@click.option(
    "--dashboard-host",
    "dashboard_hosts",
    multiple=True,
    envvar="HANSE_DASHBOARD_HOST",
    show_envvar=True,
    metavar="NAME[:PORT]",
    help="A name under which browsers reach it, beside localhost. Repeatable.",
)
@features_option("What it does, and so which rights it needs")
@publishing_options
@replica_name_options
@network_options
@gslb_options
@click.option(
    "--federated-hostname",
    default="",
    envvar="HANSE_FEDERATED_HOSTNAME",
    show_envvar=True,
    metavar="TEMPLATE",
    help="The name outside of each federated Service, such as {name}.{namespace}.example.org.",
)
@click.option(
    "--webhook-listen",
    default="",
    envvar="HANSE_WEBHOOK_LISTEN",
    show_envvar=True,
    metavar="ADDRESS:PORT",
    help="Answer admission webhooks here, such as 0.0.0.0:9443; without it nobody asks.",
)
@click.option(
    "--webhook-url",
    default="",
    envvar="HANSE_WEBHOOK_URL",
    show_envvar=True,
    metavar="URL",
    help="Where the API server finds that; else it goes by the Service hanse-webhooks.",
)
@click.pass_context
def command(
    context: click.Context,
    cluster_id: str,
    broker_kubeconfig: Path | None,
    broker_context: str,
    broker_namespace: str,
    namespace: str,
    listen: str,
    identity: str,
    dashboard_listen: str,
    dashboard_token_file: Path | None,
    dashboard_hosts: tuple[str, ...],
    features: tuple[str, ...],
    publish_zone: str,
    publish_endpoints: str,
    publish_server: str,
    publish_key_file: Path | None,
    publish_weighted_records: bool,
    replica_zone: str,
    federation: str,
    networks: NetworkFlags,
    federated_hostname: str,
    webhook_listen: str,
    webhook_url: str,
    gslb_providers: tuple[str, ...],
    gslb_withdraw: tuple[str, ...],
    gslb_weighted_records: bool,
    gslb_zones: tuple[str, ...],
) -> None:
    """Run one cluster's agent.

    It watches its cluster and the broker, decides, and writes, until it is told to stop. Of several
    replicas one works and the others stand by. In a pod it finds its cluster by itself; elsewhere
    --kubeconfig and --context say which it is. With --dashboard-listen it also shows what it sees.

    \b
    Examples:
      hanse agent --cluster-id lubeck
      hanse agent --cluster-id lubeck --context lubeck --broker-context broker --listen 127.0.0.1:0
      hanse agent --cluster-id lubeck --publish-zone fleet.example.org \
        --publish-server 192.0.2.53 --publish-key-file hanse.key
    """
    from hanse import app
    from hanse.app.agent import AgentSettings
    from hanse.cli.agent.process import (
        AgentCredentials,
        AgentListeners,
        DashboardSettings,
        run_agent,
    )
    from hanse.cli.process import run_async, start_logging
    from hanse.model.naming import AGENT, CLUSTER_ID, account_user

    settings = global_options(context)
    start_logging(settings, service=True)
    if not CLUSTER_ID.fullmatch(cluster_id):
        raise InputError(
            f"--cluster-id {cluster_id[:70]!r} is not a DNS label; use at most 63 lower-case "
            "letters, digits and hyphens, such as lubeck"
        )
    listener = bind_listener("--listen", listen)
    dashboard = None
    if dashboard_listen:
        token = _read_token(dashboard_token_file)
        dashboard_listener = bind_listener("--dashboard-listen", dashboard_listen)
        dashboard = DashboardSettings(dashboard_listener, token, dashboard_hosts)
    access = AgentCredentials(
        local_file=settings.kubeconfig,
        local_context=settings.context,
        broker_file=broker_kubeconfig or (settings.kubeconfig if broker_context else None),
        broker_context=broker_context,
    )
    publishing = parse_publishing_options(
        publish_zone,
        publish_endpoints,
        publish_server,
        publish_key_file,
        publish_weighted_records,
    )
    webhooks = bind_listener("--webhook-listen", webhook_listen) if webhook_listen else None
    if publishing.wanted and "publishing" not in features:
        raise InputError("--publish-zone needs the feature publishing; add it to --features")
    options = app.Options(
        features=features,
        broker_namespace=broker_namespace,
        admission=_admission_options(webhooks, webhook_url, namespace),
        publishing=publishing,
        statefulsets=parse_replica_names(replica_zone, federation),
        federated=parse_federated_options(federated_hostname),
        networks=parse_network_options(networks, account_user(namespace, AGENT)),
        gslb=parse_gslb_options(gslb_providers, gslb_withdraw, gslb_weighted_records, gslb_zones),
    )
    agent = AgentSettings(cluster_id, identity, namespace, options)
    listeners = AgentListeners(listener, webhooks)
    context.exit(
        run_async(lambda: run_agent(agent, access, listeners, dashboard), long_running=True)
    )


def _admission_options(
    listener: socket.socket | None, url: str, namespace: str
) -> "AdmissionOptions":
    """The options of the webhooks, disabled without a listener; no socket is opened here.

    With one, the port is that of the listener, and the URL loses trailing slashes. Raises
    `InputError` for a URL without listener, or one that is not https://HOST[:PORT][/PATH].
    """
    from hanse.features.admission.options import AdmissionOptions

    if listener is None:
        if url:
            raise InputError("--webhook-url needs --webhook-listen: somebody has to answer there")
        return AdmissionOptions(namespace=namespace)
    if url and not _WEBHOOK_URL.fullmatch(url):
        raise InputError(
            f"--webhook-url {url[:100]!r} is not https://HOST:PORT; API servers take no other"
        )
    return AdmissionOptions(True, url.rstrip("/"), namespace, listener.getsockname()[1])


def parse_federated_options(template: str) -> "FederatedOptions":
    """The options with the template of host names, "" for none.

    Raises `InputError` for a template without {name}, or one that does not make lower-case host
    names of at least two labels; {namespace} is the only other variable, and optional.
    """
    from hanse.features.federated.options import FederatedOptions

    sample = template.replace("{name}", "web").replace("{namespace}", "shop")
    if template and ("{name}" not in template or not _HOST.fullmatch(sample)):
        raise InputError(
            f"--federated-hostname: {template!r} is no template of host names; "
            "write it like {name}.{namespace}.example.org"
        )
    return FederatedOptions(hostname=template)


def _read_token(file: Path | None) -> str:
    """Read the dashboard's token from a file, without white space around it.

    Raises `InputError` without a file, if it cannot be read, and for a token of less than
    `MIN_TOKEN_LENGTH` characters.
    """
    if file is None:
        raise InputError(
            "--dashboard-listen needs --dashboard-token-file: whoever looks has to show it"
        )
    try:
        token = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise InputError(f"--dashboard-token-file {file}: {why}; name a readable file") from None
    if len(token) < MIN_TOKEN_LENGTH:
        raise InputError(
            f"--dashboard-token-file {file}: the token has {len(token)} characters; "
            f"use at least {MIN_TOKEN_LENGTH}, as of `openssl rand -hex 16`"
        )
    return token
