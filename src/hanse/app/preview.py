"""Agents that never write: what they would write if objects were applied."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Literal, assert_never

import msgspec
from msgspec import Struct

from hanse.app.agent import Agent, AgentParts, AgentSettings
from hanse.kube.client_config import Credentials
from hanse.kube.http_transport import HttpTransport
from hanse.model.facts import Leadership, Role
from hanse.model.kinds.coordination import LeaseSpec
from hanse.model.naming import holder_cluster
from hanse.model.objects import ClusterId, ClusterObjectRef, Object, apply_merge_patch
from hanse.model.plan import Feature
from hanse.runtime.actions import Action, Create, Delete, Update, target_ref
from hanse.runtime.api import ClusterClient
from hanse.runtime.preview import preview
from hanse.runtime.reconciler import Reconciler

MAX_ROUNDS = 10
"""How often agents may react to each other's writes."""

LIST_TIMEOUT = timedelta(seconds=30)

AppliedObject = tuple[ClusterId, Object]
Reconcilers = Mapping[ClusterId, Reconciler]
"""The reconcilers of agents, by cluster."""
WriteVerb = Literal["create", "update", "delete", "refused"]


class AgentWrite(Struct, frozen=True):
    """One write that an agent would make, or that something would prevent.

    `why` is what prevents it, or the warning that the agent would report with it.
    """

    target: ClusterObjectRef
    verb: WriteVerb
    by: ClusterId
    why: str = ""
    after: Object | None = None


class PreviewedFleet(Struct, frozen=True):
    """The credentials for the members by cluster id, and for the broker."""

    members: dict[ClusterId, Credentials]
    broker: Credentials | None
    supervised: dict[ClusterId, tuple[ClusterId, ...]] = {}
    """By supervisor: the members of its Federation that are in the fleet."""
    leases: dict[ClusterId, LeaseSpec] = {}
    """By member: the Lease of its leader."""


@asynccontextmanager
async def previewing(
    fleet: PreviewedFleet, features: Sequence[Feature]
) -> AsyncIterator[Reconcilers]:
    """Give, until the block ends, a reconciler for each member, by cluster, that never writes.

    They watch, each its own cluster, the broker and, for a supervisor, its members; they may not
    have listed anything yet.
    """
    async with AsyncExitStack() as stack:
        reconcilers: dict[ClusterId, Reconciler] = {}
        for name, credentials in fleet.members.items():
            agent = Agent(
                AgentSettings(cluster=name, identity="plan", replicated=False),
                AgentParts(
                    local=HttpTransport(credentials),
                    broker=HttpTransport(fleet.broker) if fleet.broker else None,
                    features=features,
                ),
            )
            stack.push_async_callback(agent.close)
            _supervise(agent.reconciler, fleet)
            await stack.enter_async_context(agent.reconciler.running(active=False))
            reconcilers[name] = agent.reconciler
        yield reconcilers


def _supervise(reconciler: Reconciler, fleet: PreviewedFleet) -> None:
    """Connect a supervisor's reconciler to its members, as leader of those that its agent leads.

    Its own cluster only gets the roles. Puts the `Leadership` of each by its Lease. No effect for
    others.
    """
    local = reconciler.informers.local
    for member in fleet.supervised.get(local, ()):
        lease = fleet.leases[member]
        ours = holder_cluster(lease.holder_identity) == local
        roles = {Role.MEMBER, Role.LED} if ours else {Role.MEMBER}
        if member == local:
            reconciler.informers.set_roles(local, {Role.LOCAL} | roles)
        else:
            client = ClusterClient(HttpTransport(fleet.members[member]))
            reconciler.informers.join(member, roles, client)
        reconciler.informers.put_fact(
            Leadership(member, lease.holder_identity, lease.lease_transitions, ours=ours)
        )


async def wait_until_listed(reconcilers: Reconcilers) -> frozenset[ClusterId]:
    """Wait until every reconciler has listed all its clusters, at most LIST_TIMEOUT.

    Returns the clusters that were not listed by then; empty if all were.
    """
    try:
        async with asyncio.timeout(LIST_TIMEOUT.total_seconds()):
            while any(_unlisted_clusters(reconciler) for reconciler in reconcilers.values()):  # noqa: ASYNC110 - for us alone
                await asyncio.sleep(0.02)
    except TimeoutError:
        return frozenset(
            name for reconciler in reconcilers.values() for name in _unlisted_clusters(reconciler)
        )
    return frozenset()


def _unlisted_clusters(reconciler: Reconciler) -> list[ClusterId]:
    """The clusters with a watched kind that is not listed yet."""
    watched = [c for c in reconciler.informers.connections.values() if c.informers]
    return [one.cluster for one in watched if not one.state.listed]


def preview_agent_writes(
    reconcilers: Reconcilers, applied: Sequence[AppliedObject]
) -> list[AgentWrite]:
    """What each agent would write in reaction to `applied` and to what the others would write.

    In rounds until nothing changes, at most MAX_ROUNDS; one entry for each object. Deletions are
    reported but cause no reaction: a preview only overlays objects on a snapshot.
    """
    found: dict[ClusterObjectRef, AgentWrite] = {}
    for _ in range(MAX_ROUNDS):
        before = dict(found)
        for name, reconciler in reconcilers.items():
            _add_writes(name, reconciler, applied, found)
        if found == before:
            break
    return list(found.values())


def _add_writes(
    name: ClusterId,
    reconciler: Reconciler,
    applied: Sequence[AppliedObject],
    found: dict[ClusterObjectRef, AgentWrite],
) -> None:
    """Add to `found` what one agent would write, given `applied` and the writes of the others.

    An object that another agent writes stays that one's, and one that this agent creates stays
    `create` in later rounds. An obstacle becomes `refused` where `found` has no write of its
    object.
    """
    others = [(c.target.where, c.after) for c in found.values() if c.by != name and c.after]
    connected = reconciler.informers.connections
    planned = preview(reconciler, [(w, obj) for w, obj in (*applied, *others) if w in connected])
    for action in planned.actions:
        place = target_ref(action)
        known = found.get(place)
        if known is None or known.by == name:
            verb = known.verb if known is not None and known.verb == "create" else _verb(action)
            why = planned.warnings.get(place, "")
            found[place] = AgentWrite(place, verb, name, why, _object_after(action, known))
    for obstacle in planned.obstacles:
        found.setdefault(
            obstacle.target, AgentWrite(obstacle.target, "refused", name, obstacle.message)
        )


def _verb(action: Action) -> WriteVerb:
    """The verb of an action, as a plan prints it."""
    match action:
        case Create():
            return "create"
        case Update():
            return "update"
        case Delete():
            return "delete"
        case _:
            assert_never(action)


def _object_after(action: Action, known: AgentWrite | None) -> Object | None:
    """The object as it is after an action; None after a deletion.

    An update is applied to what the same agent has written already (`known`), if anything.
    """
    match action:
        case Create():
            return action.object
        case Update():
            base = known.after if known is not None and known.after is not None else action.base
            merged = apply_merge_patch(msgspec.to_builtins(base, str_keys=True), action.change)
            return msgspec.convert(merged, type(action.base))
        case Delete():
            return None
        case _:
            assert_never(action)
