"""The objects of an agent in its own cluster: kinds, namespaces and rights of its features."""

from hanse import app
from hanse.cli.apply import AppliedManifest, apply, apply_definitions, deleted, remove
from hanse.kube.client import Client
from hanse.model.agent_manifests import agent_manifests, outdated_manifests
from hanse.model.manifests import crd_manifests
from hanse.model.objects import ClusterId


async def apply_agent(
    member: Client, cluster: ClusterId, options: app.Options, *, dry_run: bool
) -> list[AppliedManifest]:
    """Apply the CRDs, account and rights that an agent with these options needs, in its cluster.

    Deletes the roles and bindings of features that are not among the options; kinds and namespaces
    are never deleted, as they hold objects of users. Returns what was applied and deleted, or in a
    dry run would be. Raises `CommandFailed` if a CRD is not served in time.
    """
    done = await apply_definitions(member, crd_manifests(app.own_kinds(options)), dry_run=dry_run)
    wanted = agent_manifests(app.watches_by_feature(options), cluster)
    done += await apply(member, wanted, dry_run=dry_run)
    every = app.watches_by_feature(app.Options(broker_namespace=options.broker_namespace))
    gone = await remove(member, outdated_manifests(every, wanted, cluster), dry_run=dry_run)
    return done + deleted(gone)
