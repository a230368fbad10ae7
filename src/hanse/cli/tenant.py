"""`hanse tenant`: create tenants with their administrators."""

import re

import click

from hanse.cli.errors import CommandFailed, InputError
from hanse.cli.settings import global_options
from hanse.model.kinds.networks import TenantAdmin
from hanse.model.schema import LABEL


@click.group("tenant")
def command() -> None:
    """Create tenants, each with networks of its own.

    \b
    Examples:
      hanse tenant create acme --admin group:acme --namespace web
    """


@command.command("create")
@click.argument("name")
@click.option(
    "--admin",
    "admins",
    multiple=True,
    metavar="KIND:NAME",
    help="Who administers it: user:anna, group:acme or serviceaccount:NAMESPACE/NAME; can be "
    "repeated.",
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="SHORT",
    help="A namespace, as TENANT-SHORT; can be repeated. TENANT-default is made anyway.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be created, and create nothing.")
@click.pass_context
def create(
    context: click.Context,
    name: str,
    admins: tuple[str, ...],
    namespaces: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Create a tenant, its namespaces, and the rights of its administrators.

    Administrators get the ClusterRole admin in the tenant's namespaces, and may write the tenant's
    Networks. Namespaces have the Pod Security level baseline. Run it again to add to a tenant.

    \b
    Examples:
      hanse tenant create acme --admin group:acme
      hanse tenant create acme --admin user:anna --namespace web --namespace db --dry-run
    """
    from hanse.cli.apply import apply, read_existing, report_applied
    from hanse.cli.clusters import connect, select_cluster
    from hanse.cli.process import run_async, start_logging
    from hanse.features.networks.names import DNS_NAMESPACE, TENANT
    from hanse.features.networks.roles import tenant_manifests
    from hanse.model.kinds.core import Namespace

    for text in (name, *namespaces):
        if len(text) > 63 or not re.fullmatch(LABEL, text):
            raise InputError(f"{text!r} is no name of a tenant or namespace; write it as acme")
    for short in namespaces:
        if f"{name}-{short}".endswith(f"-{DNS_NAMESPACE}"):
            raise InputError(
                f"--namespace {short} gives {name}-{short}, where the DNS of a tenant runs, in "
                "which administrators have no rights; choose another name"
            )
    settings = global_options(context)
    start_logging(settings)
    wanted = list(tenant_manifests(name, [_parse_admin(one) for one in admins], namespaces))
    cluster = select_cluster(settings)

    async def run() -> None:
        """Apply the tenant's objects, and print them; a dry run only reads.

        Raises `CommandFailed`, before anything is written, if a namespace exists and is not the
        tenant's.
        """
        async with connect(cluster) as client:
            for space in (one for one in wanted if one.kind == Namespace.kind):
                found = await read_existing(client, space)
                labels = ((found or {}).get("metadata") or {}).get("labels") or {}
                if found is not None and labels.get(TENANT) != name:
                    system = space.name.startswith(("kube-", "hanse-"))
                    raise CommandFailed(
                        f"namespace {space.name} exists and is not tenant {name}'s; choose another "
                        f"name{'' if system else f', or label it {TENANT}={name}'}"
                    )
            done = await apply(client, wanted, dry_run=dry_run)
        report_applied(cluster.name, done, dry_run=dry_run)

    run_async(run)


def _parse_admin(text: str) -> TenantAdmin:
    """Parse user:N, group:N or serviceaccount:NAMESPACE/N, the kind in any case.

    Raises `InputError` for other text.
    """
    kind, _, name = text.partition(":")
    match kind.lower():
        case "user" if name:
            return TenantAdmin(kind="User", name=name)
        case "group" if name:
            return TenantAdmin(kind="Group", name=name)
        case "serviceaccount" if name.count("/") == 1 and all(name.split("/")):
            namespace, _, account = name.partition("/")
            return TenantAdmin(kind="ServiceAccount", name=account, namespace=namespace)
    raise InputError(
        f"--admin {text!r} is not KIND:NAME; write user:anna, group:acme or "
        "serviceaccount:NAMESPACE/NAME"
    )
