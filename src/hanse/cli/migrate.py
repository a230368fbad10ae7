"""`hanse migrate`: translate a cluster's federated Services for Antrea Multi-cluster."""

from typing import TYPE_CHECKING, BinaryIO

import click

from hanse.cli.errors import InputError
from hanse.cli.settings import global_options

if TYPE_CHECKING:
    from hanse.cli.clusters import ClusterAccess
    from hanse.features.federated.antrea import AntreaManifests


@click.group("migrate", invoke_without_command=True)
@click.option(
    "--namespace",
    "-n",
    default="",
    metavar="NAME",
    help="Where the parts of global federated Services come together.",
)
@click.pass_context
def command(context: click.Context, namespace: str) -> None:
    """Print what moves a cluster's federated Services to Antrea Multi-cluster.

    For the cluster of --context, or of the current one, it prints a ServiceExport for each
    federated Service that a Service there joins, and where that is called otherwise a Service of
    the federated name with the same endpoints; and the groups that policies name. Nothing is
    changed and nothing is taken away.

    \b
    Examples:
      hanse migrate -n shop --context lubeck
      hanse migrate -n shop --context lubeck | kubectl --context lubeck apply -f -
      hanse migrate amko -f old-amko.yaml | kubectl apply -f -
    """
    if context.invoked_subcommand is not None:
        return
    if not namespace:
        raise InputError("--namespace is missing; say where federated Services come together")
    from hanse.cli.clusters import select_cluster
    from hanse.cli.process import run_async, start_logging
    from hanse.cli.yaml_text import to_yaml

    settings = global_options(context)
    start_logging(settings)
    cluster = select_cluster(settings)
    result = run_async(lambda: _translate(cluster, namespace))
    for note in result.notes:
        click.echo(f"# {note}")
    if result.objects:
        click.echo(to_yaml(result.objects, width=100), nl=False)
    else:
        click.echo("# no Service here joins a federated Service")


@command.command("amko")
@click.option(
    "--filename",
    "-f",
    required=True,
    type=click.File("rb"),
    metavar="FILE",
    help="Objects of AMKO as YAML; - for the standard input.",
)
def amko(filename: BinaryIO) -> None:
    """Translate AMKO's objects of earlier API groups.

    GSLBConfigs, GlobalDeploymentPolicies and other objects of amko.k8s.io and avilb.k8s.io become
    those of amko.vmware.com; everything else stays as it is. What has to be decided by hand is
    printed as a comment. Nothing is changed anywhere.

    \b
    Examples:
      hanse migrate amko -f old-amko.yaml | kubectl apply -f -
    """
    import yaml

    from hanse.cli.yaml_text import to_yaml
    from hanse.features.gslb.migration import translate_amko
    from hanse.model.yaml_input import load_all_yaml

    try:
        documents = load_all_yaml(filename.read())
    except yaml.YAMLError as error:
        words = " ".join(str(error).split())
        raise InputError(f"{filename.name} is not YAML: {words}; mend it") from None
    result = translate_amko(documents)
    for note in result.notes:
        click.echo(f"# {note}")
    if result.objects:
        click.echo(to_yaml(result.objects, width=100), nl=False)


async def _translate(cluster: "ClusterAccess", namespace: str) -> "AntreaManifests":
    """Read a cluster, and return the manifests for Antrea Multi-cluster with notes; writes nothing.

    `namespace` is where global federated Services come together. Kinds that are not served count as
    empty.
    """
    from hanse.cli.clusters import connect
    from hanse.features.federated.antrea import MigratedObjects, antrea_manifests
    from hanse.kube.discovery import refresh
    from hanse.kube.optional_reads import list_or_empty
    from hanse.model.kinds.antrea import ClusterGroup, Group
    from hanse.model.kinds.core import Service
    from hanse.model.kinds.discovery import EndpointSlice
    from hanse.model.kinds.federation import NativeService, NetworkInterface

    async with connect(cluster) as client:
        await refresh(client)
        objects = MigratedObjects(
            await list_or_empty(client, Service),
            await list_or_empty(client, EndpointSlice),
            await list_or_empty(client, NativeService),
            await list_or_empty(client, NetworkInterface),
            (*await list_or_empty(client, ClusterGroup), *await list_or_empty(client, Group)),
        )
    return antrea_manifests(objects, namespace)
