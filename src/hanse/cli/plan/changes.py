"""The changes that applying files would cause: dry runs, then what agents would write."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from hanse import app
from hanse.app.preview import (
    LIST_TIMEOUT,
    AgentWrite,
    AppliedObject,
    PreviewedFleet,
    Reconcilers,
    preview_agent_writes,
    previewing,
    wait_until_listed,
)
from hanse.cli.clusters import ClusterAccess, open_client
from hanse.cli.errors import CommandFailed, InputError
from hanse.cli.inventory import ClusterInventory, read_inventories
from hanse.cli.plan.documents import Document
from hanse.cli.plan.dry_run import DryRunResult, dry_run_all
from hanse.kube.client import Client
from hanse.kube.optional_reads import read_or_none
from hanse.model.facts import Role
from hanse.model.kinds.coordination import Lease, LeaseSpec
from hanse.model.kinds.federation import SYSTEM
from hanse.model.naming import holder_cluster
from hanse.model.objects import ClusterId, Object
from hanse.model.plan import Feature


class PlannedChanges(Struct, frozen=True):
    """The dry runs of the files' objects, and what agents would write after them."""

    where: ClusterId
    dry_runs: tuple[DryRunResult, ...]
    agent_writes: tuple[AgentWrite, ...]

    @property
    def is_refused(self) -> bool:
        """Whether the API server refuses a document, or an obstacle would stop an agent's write."""
        verbs = [one.verb for one in self.dry_runs] + [one.verb for one in self.agent_writes]
        return "refused" in verbs


async def plan_changes(
    documents: Sequence[Document], clusters: Sequence[ClusterAccess], target: str
) -> PlannedChanges:
    """Dry-run the documents in the context `target`, and preview what agents would write then.

    Reads all clusters; nothing is written. What an API server refuses is a result. Raises
    `CommandFailed` if a cluster cannot be read, `InputError` for an object that features cannot
    decode, and `KubeError` if `target` does not answer.
    """
    features = app.features()
    fleet, ids = await _read_fleet(clusters) if features else (PreviewedFleet({}, None), {})
    target_cluster = next(cluster for cluster in clusters if cluster.name == target)
    where = ids.get(target, target)
    dry_runs = await _dry_run(target_cluster, documents)
    applied = _applied_objects(where, dry_runs, features)
    if fleet.broker is target_cluster.credentials and where != app.BROKER:
        applied += _seen_at_broker(applied, features)
    agent_writes = await _preview(fleet, features, applied) if applied else ()
    return PlannedChanges(where, tuple(dry_runs), tuple(agent_writes))


async def plan_changes_in_process(
    reconcilers: Reconcilers,
    client: Client,
    where: ClusterId,
    documents: Sequence[Document],
) -> PlannedChanges:
    """Dry-run the documents by `client`, and preview what agents of this process would write then.

    Nothing is written. Objects without a namespace are taken to be in `default`. Raises
    `InputError` for an object that features cannot decode, `KubeError` without an answer.
    """
    dry_runs = await dry_run_all(client, documents, "default")
    features = [one for reconciler in reconcilers.values() for one in reconciler.features.values()]
    applied = _applied_objects(where, dry_runs, features)
    return PlannedChanges(
        where, tuple(dry_runs), tuple(preview_agent_writes(reconcilers, applied) if applied else ())
    )


def _applied_objects(
    where: ClusterId, dry_runs: Sequence[DryRunResult], features: Sequence[Feature]
) -> list[AppliedObject]:
    """The objects that dry runs would create or update and that features watch.

    Each with `where`, its cluster. Raises `InputError` for one that cannot be decoded.
    """
    return [(where, obj) for one in dry_runs for obj in _decode(one, features)]


def _seen_at_broker(
    applied: Sequence[AppliedObject], features: Sequence[Feature]
) -> list[AppliedObject]:
    """Those of the applied objects that agents watch at the broker, with `BROKER` as their cluster.

    For a member that is the broker, too: agents see its objects under both names.
    """
    watches = [w for feature in features for w in feature.watches if w.role is Role.BROKER]
    return [
        (app.BROKER, obj)
        for _, obj in applied
        if any(
            watch.kind.kind == obj.kind and watch.namespace in ("", obj.metadata.namespace)
            for watch in watches
        )
    ]


def change_rows(planned: PlannedChanges) -> list[dict[str, Any]]:
    """Every change as JSON: the user's own first, then those of agents."""
    own = [(planned.where, one.ref, one.verb, "you", one.why) for one in planned.dry_runs]
    later = [(c.target.where, c.target.ref, c.verb, c.by, c.why) for c in planned.agent_writes]
    return [
        {
            "cluster": where,
            "change": verb,
            "kind": ref.kind.name,
            "apiVersion": ref.kind.api_version,
            "namespace": ref.namespace,
            "name": ref.name,
            "by": by,
            "why": why,
        }
        for where, ref, verb, by, why in (*own, *later)
    ]


async def _read_fleet(
    clusters: Sequence[ClusterAccess],
) -> tuple[PreviewedFleet, dict[str, ClusterId]]:
    """Read all clusters, and return the fleet to preview, and the cluster ids by context.

    A cluster whose agent's Lease has a holder is a member, under the id of that holder; other
    clusters have an id only as the broker. Of several brokers, one without an agent is taken.
    Raises `CommandFailed` for a cluster that cannot be read.
    """
    members: dict[ClusterId, ClusterAccess] = {}
    members_of: dict[ClusterId, list[ClusterId]] = {}
    broker: ClusterAccess | None = None
    for cluster, inventory in zip(clusters, await read_inventories(clusters), strict=True):
        if not isinstance(inventory, ClusterInventory):
            raise CommandFailed(f"{cluster.name}: {inventory.why}; see `hanse doctor`")
        holder = inventory.agent.holder if inventory.agent is not None else ""
        if holder:
            # The holder of an agent's Lease is its cluster id and its identity.
            name = holder_cluster(holder)
            members[name] = cluster
            if inventory.membership is not None and inventory.membership.supervises:
                members_of[name] = [member.cluster for member in inventory.membership.members]
        if inventory.is_broker and (broker is None or not holder):
            broker = cluster
    supervised = {s: tuple(m for m in several if m in members) for s, several in members_of.items()}
    leases = {m: await _lease(m, members[m]) for several in supervised.values() for m in several}
    ids = {cluster.name: name for name, cluster in members.items()}
    if broker is not None:
        ids.setdefault(broker.name, app.BROKER)
    credentials = {name: cluster.credentials for name, cluster in members.items()}
    fleet = PreviewedFleet(
        credentials, broker.credentials if broker is not None else None, supervised, leases
    )
    return fleet, ids


async def _lease(member: ClusterId, cluster: ClusterAccess) -> LeaseSpec:
    """Read the spec of the Lease in which a member's leader is elected; an empty one without it.

    Raises `KubeError`.
    """
    async with open_client(cluster.credentials) as client:
        found = await read_or_none(client, Lease, member, SYSTEM)
        return found.spec if found is not None else LeaseSpec()


async def _dry_run(cluster: ClusterAccess, documents: Sequence[Document]) -> list[DryRunResult]:
    """Dry-run the documents in one cluster, in its context's namespace or `default`."""
    access = await cluster.credentials.config()
    async with open_client(cluster.credentials) as client:
        return await dry_run_all(client, documents, access.namespace or "default")


def _decode(dry_run: DryRunResult, features: Sequence[Feature]) -> list[Object]:
    """The object of a dry run as the kind that features watch, in a list.

    Empty where none watches it, or it is unchanged or refused. Raises `InputError` if it cannot be
    decoded.
    """
    if dry_run.verb not in ("create", "update"):
        return []
    kinds = {watch.kind for feature in features for watch in feature.watches}
    for kind in kinds:
        if (kind.kind.group, kind.kind.name) == (dry_run.ref.kind.group, dry_run.ref.kind.name):
            try:
                return [msgspec.convert(dry_run.object, kind)]
            except msgspec.ValidationError as error:
                raise InputError(f"{dry_run.document.at}: {error}; mend that field") from None
    return []


async def _preview(
    fleet: PreviewedFleet, features: Sequence[Feature], applied: Sequence[AppliedObject]
) -> list[AgentWrite]:
    """Compute what the agents of the fleet would write, reading all clusters; nothing is written.

    Raises `CommandFailed` for clusters that could not be listed in time.
    """
    async with previewing(fleet, features) as reconcilers:
        unread = await wait_until_listed(reconcilers)
        found = [] if unread else preview_agent_writes(reconcilers, applied)
    if unread:
        names, seconds = ", ".join(sorted(unread)), LIST_TIMEOUT.total_seconds()
        raise CommandFailed(f"{names} could not be read within {seconds:.0f} s; see `hanse doctor`")
    return found
