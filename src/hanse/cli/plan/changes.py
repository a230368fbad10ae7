"""From files to everything that would change: in the cluster applied to, and after it in all."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
from msgspec import Struct

from hanse import app
from hanse.cli.clusters import ClusterAccess
from hanse.cli.errors import CommandFailed, InputError
from hanse.cli.inventory import ClusterInventory, read_inventories
from hanse.cli.plan.agent_writes import (
    PATIENCE,
    AgentWrite,
    AppliedObject,
    preview_agent_writes,
    wait_until_listed,
)
from hanse.cli.plan.documents import Document
from hanse.cli.plan.dry_run import DryRunResult, dry_run_all
from hanse.kube.client import Client
from hanse.kube.errors import NotFound
from hanse.kube.http_transport import HttpTransport
from hanse.model.facts import Leadership, Role
from hanse.model.kinds.coordination import Lease, LeaseSpec
from hanse.model.kinds.federation import SYSTEM
from hanse.model.naming import holder_cluster
from hanse.model.objects import ClusterId, Object
from hanse.model.plan import Feature
from hanse.runtime.api import ClusterClient
from hanse.runtime.reconciler import Reconciler


class PlannedChanges(Struct, frozen=True):
    """What would become of the files' objects, and what would follow from that."""

    where: ClusterId
    dry_runs: tuple[DryRunResult, ...]
    agent_writes: tuple[AgentWrite, ...]

    @property
    def is_refused(self) -> bool:
        verbs = [one.verb for one in self.dry_runs] + [one.verb for one in self.agent_writes]
        return "refused" in verbs


class PlannedFleet(Struct, frozen=True):
    """The clusters of a kubeconfig by their ids, the broker under the name that agents give it."""

    members: dict[ClusterId, ClusterAccess]
    broker: ClusterAccess | None
    supervised: dict[ClusterId, tuple[ClusterId, ...]] = {}
    """By supervisor: the members of its Federation that can be looked at."""
    leases: dict[ClusterId, LeaseSpec] = {}
    """By member: who leads it, and in which epoch."""


async def plan_changes(
    documents: Sequence[Document], ways: Sequence[ClusterAccess], target: str
) -> PlannedChanges:
    """What applying the documents to one context would lead to."""
    features = app.features()
    fleet = await _read_fleet(ways) if features else PlannedFleet({}, None)
    home = next(way for way in ways if way.name == target)
    ids = {way.name: name for name, way in fleet.members.items()}
    if fleet.broker is not None:
        ids[fleet.broker.name] = app.BROKER
    where = ids.get(target, target)
    dry_runs = await _tried(home, documents)
    applied = _applied(where, dry_runs, features)
    agent_writes = await _following(fleet, features, applied) if applied else ()
    return PlannedChanges(where, tuple(dry_runs), tuple(agent_writes))


async def plan_changes_in_process(
    reconcilers: Mapping[ClusterId, Reconciler],
    client: Client,
    where: ClusterId,
    documents: Sequence[Document],
) -> PlannedChanges:
    """The same where the agents run in this very process."""
    dry_runs = await dry_run_all(client, documents, "default")
    features = [one for reconciler in reconcilers.values() for one in reconciler.features.values()]
    applied = _applied(where, dry_runs, features)
    return PlannedChanges(
        where, tuple(dry_runs), tuple(preview_agent_writes(reconcilers, applied) if applied else ())
    )


def _applied(
    where: ClusterId, dry_runs: Sequence[DryRunResult], features: Sequence[Feature]
) -> list[AppliedObject]:
    return [(where, obj) for one in dry_runs for obj in _typed(one, features)]


def change_rows(shown: PlannedChanges) -> list[dict[str, Any]]:
    """Every change for other programs: the person's own first, then what follows from them."""
    own = [(shown.where, one.ref, one.verb, "you", one.why) for one in shown.dry_runs]
    later = [(c.place.where, c.place.ref, c.verb, c.by, c.why) for c in shown.agent_writes]
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


async def _read_fleet(ways: Sequence[ClusterAccess]) -> PlannedFleet:
    members: dict[ClusterId, ClusterAccess] = {}
    named: dict[ClusterId, list[ClusterId]] = {}
    broker: ClusterAccess | None = None
    for way, seen in zip(ways, await read_inventories(ways), strict=True):
        if not isinstance(seen, ClusterInventory):
            raise CommandFailed(f"{way.name}: {seen.why}; see `hanse doctor`")
        if seen.agent is not None and seen.agent.holder:
            # An agent calls itself by its cluster's id and its own name.
            name = holder_cluster(seen.agent.holder)
            members[name] = way
            if seen.membership is not None and seen.membership.supervises:
                named[name] = [member.cluster for member in seen.membership.members]
        elif seen.is_broker:
            broker = way
    supervised = {s: tuple(m for m in several if m in members) for s, several in named.items()}
    leases = {m: await _lease(m, members[m]) for several in supervised.values() for m in several}
    return PlannedFleet(members, broker, supervised, leases)


async def _lease(member: ClusterId, way: ClusterAccess) -> LeaseSpec:
    """Who leads a member; nobody where there is no Lease."""
    client = Client(HttpTransport(way.credentials))
    try:
        return (await client.read(Lease, member, SYSTEM)).spec
    except NotFound:
        return LeaseSpec()
    finally:
        await client.close()


async def _tried(home: ClusterAccess, documents: Sequence[Document]) -> list[DryRunResult]:
    access = await home.credentials.config()
    client = Client(HttpTransport(home.credentials))
    try:
        return await dry_run_all(client, documents, access.namespace or "default")
    finally:
        await client.close()


def _typed(dry_runs: DryRunResult, features: Sequence[Feature]) -> list[Object]:
    """The object as features see it, if any of them looks at its kind."""
    if dry_runs.verb not in ("create", "update"):
        return []
    kinds = {watch.kind for feature in features for watch in feature.watches}
    for kind in kinds:
        if (kind.kind.group, kind.kind.name) == (dry_runs.ref.kind.group, dry_runs.ref.kind.name):
            try:
                return [msgspec.convert(dry_runs.object, kind)]
            except msgspec.ValidationError as error:
                raise InputError(f"{dry_runs.document.at}: {error}; mend that field") from None
    return []


async def _following(
    fleet: PlannedFleet, features: Sequence[Feature], applied: Sequence[AppliedObject]
) -> list[AgentWrite]:
    async with _reconcilers(fleet, features) as reconcilers:
        unread = await wait_until_listed(reconcilers)
        found = [] if unread else preview_agent_writes(reconcilers, applied)
    if unread:
        names, patience = ", ".join(sorted(unread)), PATIENCE.total_seconds()
        raise CommandFailed(
            f"{names} could not be read within {patience:.0f} s; see `hanse doctor`"
        )
    return found


@asynccontextmanager
async def _reconcilers(
    fleet: PlannedFleet, features: Sequence[Feature]
) -> AsyncIterator[Mapping[ClusterId, Reconciler]]:
    """Every agent's engine over the live fleet, looking and never writing."""
    async with AsyncExitStack() as stack:
        reconcilers: dict[ClusterId, Reconciler] = {}
        for name, way in fleet.members.items():
            agent = app.Agent(
                app.Settings(cluster=name, identity="plan", replicated=False),
                HttpTransport(way.credentials),
                broker=HttpTransport(fleet.broker.credentials) if fleet.broker else None,
                features=features,
            )
            stack.push_async_callback(agent.close)
            _supervise(agent.reconciler, fleet)
            await stack.enter_async_context(agent.reconciler.running(active=False))
            reconcilers[name] = agent.reconciler
        yield reconcilers


def _supervise(reconciler: Reconciler, fleet: PlannedFleet) -> None:
    """Let a supervisor's engine see its members, and those that its agent leads as their leader."""
    home = reconciler.informers.local
    for member in fleet.supervised.get(home, ()):
        lease = fleet.leases[member]
        ours = holder_cluster(lease.holder_identity) == home
        roles = {Role.MEMBER, Role.LED} if ours else {Role.MEMBER}
        if member == home:
            reconciler.informers.set_roles(home, {Role.LOCAL} | roles)
        else:
            reconciler.informers.join(
                member, roles, ClusterClient(HttpTransport(fleet.members[member].credentials))
            )
        reconciler.informers.put_fact(
            Leadership(member, lease.holder_identity, lease.lease_transitions, ours=ours)
        )
