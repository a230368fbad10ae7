"""`hanse console`: the options of the console."""

import click

from hanse.cli.settings import global_options


@click.command("console")
@click.option(
    "--listen",
    default="127.0.0.1:8088",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Where it is served. Put TLS in front of it, if not on loopback.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    envvar="HANSE_CONSOLE_HOSTS",
    show_envvar=True,
    metavar="NAME[:PORT]",
    help="A name by which browsers reach it, beside loopback. Repeatable.",
)
@click.option(
    "--people-of",
    default="",
    metavar="CONTEXT",
    help="The cluster that knows the people who come; else the first one.",
)
@click.option(
    "--federation",
    default="",
    metavar="CONTEXT",
    help="Also read the members of the Federation of this supervisor, by its own credentials.",
)
@click.option(
    "--own-cluster",
    default="",
    metavar="NAME",
    help="In a pod: also read its own cluster, under this name; it knows the people.",
)
@click.pass_context
def command(
    context: click.Context,
    listen: str,
    hosts: tuple[str, ...],
    people_of: str,
    federation: str,
    own_cluster: str,
) -> None:
    """Serve the page over a whole fleet, read-only.

    Over the clusters of the kubeconfig, each read by itself: a cluster that is gone is shown as it
    was last seen, with its age. One context of a broker is enough to see all members by what they
    share; with --federation all members of a Federation are read.

    People log in with a Kubernetes token of their own: `kubectl create token NAME` makes one for a
    ServiceAccount. The API server says who they are (TokenReview), and their right to list
    Services, in all or in single namespaces, decides what they see (SubjectAccessReview). The
    console's own credentials need `create` on both reviews, and to list what is shown.

    \b
    Examples:
      hanse console
      hanse console --context broker --listen 127.0.0.1:9000
      hanse console --federation lubeck --people-of lubeck
      helm install hanse ./hanse --set clusterId=lubeck --set console.enabled=true
    """
    from hanse.cli.addresses import bind_listener
    from hanse.cli.clusters import is_local, own_and_others, select_cluster, select_clusters
    from hanse.cli.console.federation import federation_members
    from hanse.cli.console.serving import serve_console
    from hanse.cli.process import run_async, start_logging

    settings = global_options(context)
    start_logging(settings)
    clusters = own_and_others(settings, own_cluster) if own_cluster else select_clusters(settings)
    named = {one.name: one for one in clusters}  # the pod's own cluster is no context
    home, supervisor = clusters[0], None
    if people_of:
        home = named.get(people_of) or select_cluster(settings, people_of)
    if federation:
        supervisor = named.get(federation) or select_cluster(settings, federation)
    local = is_local(settings)
    listener = bind_listener("--listen", listen, "127.0.0.1:8088")
    listener.listen()  # whoever reads the next line can connect
    click.echo(f"http://{listen}: log in with your own token; Ctrl-C ends it")

    async def serve() -> None:
        """Serve the clusters until cancelled, with --federation also members that no context names.

        Raises `CommandFailed` if the members of that Federation cannot be read.
        """
        members = await federation_members(supervisor) if supervisor is not None else ()
        known = {one.name for one in clusters}
        every = (*clusters, *(one for one in members if one.name not in known))
        await serve_console(every, home, listener, hosts, local=local)

    run_async(serve)
