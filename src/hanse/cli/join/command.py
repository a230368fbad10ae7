"""`hanse join`: add a cluster to a broker or to a Federation."""

import re
from datetime import timedelta

import click

from hanse.cli.errors import InputError
from hanse.cli.feature_options import features_option
from hanse.cli.name_options import check_federation_name, checked_broker_namespace
from hanse.cli.settings import global_options

_LIFETIME = re.compile(r"(\d+)([hd])")
_SHORTEST = timedelta(hours=1)
_LONGEST = timedelta(days=30)


@click.command("join")
@click.option(
    "--cluster-id",
    required=True,
    envvar="HANSE_CLUSTER_ID",
    show_envvar=True,
    metavar="ID",
    help="This cluster's name in the fleet; part of DNS names, and for good.",
)
@click.option(
    "--broker",
    default="",
    metavar="CONTEXT",
    help="Join this broker: its context, with an administrator's rights.",
)
@click.option(
    "--broker-server",
    default="",
    metavar="URL",
    help="Where the agent finds the broker, if that is another address than the context's.",
)
@click.option(
    "--broker-namespace",
    default="hanse-broker",
    show_default=True,
    metavar="NAME",
    callback=checked_broker_namespace,
    help="Where clusters share there.",
)
@click.option(
    "--federation",
    default="",
    metavar="NAME",
    help="Join this Federation, or form it.",
)
@click.option(
    "--supervisor",
    "supervisors",
    multiple=True,
    metavar="CONTEXT",
    help="A supervisor of it; the others are found from it.",
)
@click.option("--supervises", is_flag=True, help="This cluster is to supervise, too.")
@click.option(
    "--server",
    default="",
    metavar="URL",
    help="Where supervisors find this cluster, if that is another address than the context's.",
)
@click.option(
    "--token-lifetime",
    default="7d",
    show_default=True,
    metavar="DURATION",
    help="How long the token for the broker or for supervisors holds; agents renew it halfway.",
)
@click.option(
    "--replace",
    "replaces",
    is_flag=True,
    help="Take the id of a cluster that is gone, or was built anew: what it published is deleted.",
)
@click.option(
    "--from",
    "former",
    default="",
    metavar="CONTEXT",
    help="Move to --broker from this one, which counts until `hanse broker retire`.",
)
@click.option(
    "--rotate",
    "rotates",
    is_flag=True,
    help="Issue new tokens in any case, wait until they are used, and revoke the earlier ones.",
)
@features_option("What the cluster's agent does, and so which rights and kinds it gets")
@click.option("--dry-run", is_flag=True, help="Print what would be written, and write nothing.")
@click.pass_context
def command(
    context: click.Context,
    cluster_id: str,
    broker: str,
    broker_server: str,
    broker_namespace: str,
    federation: str,
    supervisors: tuple[str, ...],
    supervises: bool,
    server: str,
    token_lifetime: str,
    replaces: bool,
    former: str,
    rotates: bool,
    features: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Let a cluster join a broker, or a Federation, or both.

    The cluster is that of --context, or of the current one. With --broker it gets an account on the
    broker that may write its own slices and the aggregates, and nothing else; in the cluster, the
    agent gets its account, its rights, and a Secret with its way to the broker.

    With --federation the cluster claims its id and its cluster set, and gets an account for each
    supervisor with the least rights it needs; a token of it is put into that supervisor, whose
    Federation names the cluster from then on. The first supervisor forms the Federation. One
    --supervisor is enough: the others are found from it, by contexts of the kubeconfig that have
    the server of a member, or its id as name.

    The agent gets the rights, kinds and namespaces of --features alone; `hanse manifests --explain`
    says why each is needed. A feature that is no longer named loses its rights.

    An id belongs to one cluster, known by the uid of its namespace kube-system. --replace gives the
    id of a cluster that is gone to this one: others drop what it published, and its tokens end.

    --from moves a fleet to another broker: run it for each cluster, and let its agent start with
    the new Secret. Nobody takes anything away meanwhile: what a cluster published on either broker
    stands. `hanse broker retire` waits for all of them and ends the old broker.

    --rotate replaces the cluster's token for its broker, and the tokens of its supervisors for it,
    without a gap: the running agents take up the new ones, and only then the earlier end.

    Running it again changes only what is not so yet, and renews a token past half its life.

    \b
    Examples:
      hanse join --broker broker --cluster-id lubeck --context lubeck
      hanse join --federation league --cluster-id lubeck --context lubeck --supervises
      hanse join --federation league --cluster-id bergen --context bergen --supervisor lubeck
      hanse join --broker broker --cluster-id lubeck --context lubeck --dry-run
      hanse join --broker broker --cluster-id lubeck --context lubeck --replace
      hanse join --broker new --from broker --cluster-id lubeck --context lubeck
      hanse join --broker broker --cluster-id lubeck --context lubeck --rotate
    """
    from hanse.cli.clusters import all_contexts, select_cluster
    from hanse.cli.process import run_async, start_logging

    _check_names(cluster_id, broker, broker_server, federation)
    _check_kind_of_join(broker, former, replaces=replaces, rotates=rotates)
    if (supervisors or supervises or server) and not federation:
        raise InputError("--supervisor, --supervises and --server go with --federation NAME")
    if federation and "membership" not in features:
        raise InputError("--federation needs the feature membership; add it to --features")
    settings = global_options(context)
    start_logging(settings)
    lifetime, member = _parse_lifetime(token_lifetime), select_cluster(settings)
    if broker:
        from hanse.cli.join.broker import BrokerJoin, enter_broker

        access = select_cluster(settings, broker)
        request = BrokerJoin(
            cluster_id,
            member,
            access,
            broker_namespace,
            broker_server,
            lifetime,
            features,
            replaces,
            rotate=rotates,
        )
        before = select_cluster(settings, former) if former else None
        run_async(lambda: enter_broker(request, before, dry_run=dry_run))
    if federation:
        from hanse.cli.join.federation import MembershipRequest, join_federation

        supervising = tuple(select_cluster(settings, name) for name in supervisors)
        membership = MembershipRequest(
            federation,
            cluster_id,
            member,
            supervising,
            supervises,
            server,
            lifetime,
            features,
            rotates,
            all_contexts(settings),
        )
        run_async(lambda: join_federation(membership, dry_run=dry_run))


def _check_names(cluster_id: str, broker: str, broker_server: str, federation: str) -> None:
    """Raise `InputError` for an invalid cluster id, Federation name or --broker-server URL.

    Also for neither a broker nor a Federation, and for --broker-server without --broker.
    """
    from hanse.features.federation.members import server_url_error
    from hanse.features.services.manifests import cluster_id_error

    if why := cluster_id_error(cluster_id):
        raise InputError(f"--cluster-id: {why}")
    if not broker and not federation:
        raise InputError("name what to join: --broker CONTEXT, or --federation NAME, or both")
    if federation:
        check_federation_name(federation)
    if broker_server and not broker:
        raise InputError("--broker-server goes with --broker CONTEXT")
    if broker_server and (why := server_url_error(broker_server)):
        raise InputError(f"--broker-server {broker_server!r} {why}")


def _check_kind_of_join(broker: str, former: str, *, replaces: bool, rotates: bool) -> None:
    """Raise `InputError` for --replace or --from without --broker.

    Also if two of --replace, --from and --rotate are given together.
    """
    if (replaces or former) and not broker:
        raise InputError("--replace and --from go with --broker CONTEXT")
    if rotates and (replaces or former):
        raise InputError(
            "--rotate is for a cluster that has joined: leave out --replace and --from"
        )
    if replaces and former:
        raise InputError("--replace and --from do not go together: replace it once it has moved")


def _parse_lifetime(text: str) -> timedelta:
    """The duration of `7d` or `12h`; raises `InputError` for others, below 1h or above 30d."""
    found = _LIFETIME.fullmatch(text)
    hours = int(found[1]) * (24 if found[2] == "d" else 1) if found else 0
    if not _SHORTEST <= timedelta(hours=min(hours, 10**6)) <= _LONGEST:
        raise InputError(
            f"--token-lifetime {text!r} is not between 1h and 30d; write it as 7d or 12h"
        )
    return timedelta(hours=hours)
