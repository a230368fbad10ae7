"""Previews what all agents would write if objects were applied."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import assert_never

import msgspec
from msgspec import Struct

from hanse.cli.plan.dry_run import Verb
from hanse.model.objects import ClusterId, ClusterObjectRef, Object, apply_merge_patch
from hanse.runtime.diff import Action, Create, Delete, Update, target_ref
from hanse.runtime.preview import preview
from hanse.runtime.reconciler import Reconciler

MAX_ROUNDS = 10
"""How often agents may react to each other's writes."""

LIST_TIMEOUT = timedelta(seconds=30)

AppliedObject = tuple[ClusterId, Object]


class AgentWrite(Struct, frozen=True):
    """One write that an agent would make, or that something would prevent.

    `why` is what prevents it, or the warning that the agent would report with it.
    """

    target: ClusterObjectRef
    verb: Verb
    by: ClusterId
    why: str = ""
    after: Object | None = None


async def wait_until_listed(reconcilers: Mapping[ClusterId, Reconciler]) -> frozenset[ClusterId]:
    """Wait until every reconciler has listed all its clusters; returns those that were not."""
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
    reconcilers: Mapping[ClusterId, Reconciler], applied: Sequence[AppliedObject]
) -> list[AgentWrite]:
    """Let each agent react to what is applied and what the others would write, until none does.

    Deletions are reported but cause no reaction: a preview only overlays objects on a snapshot.
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
    """Add what one agent would write, given the writes of the others."""
    others = [(c.target.where, c.after) for c in found.values() if c.by != name and c.after]
    connected = reconciler.informers.connections
    planned = preview(reconciler, [(w, obj) for w, obj in (*applied, *others) if w in connected])
    for action in planned.actions:
        place = target_ref(action)
        known = found.get(place)
        if known is None or known.by == name:
            verb = known.verb if known is not None and known.verb == "create" else _verb(action)
            why = planned.warnings.get(place, "")
            found[place] = AgentWrite(place, verb, name, why, _after(action, known))
    for obstacle in planned.obstacles:
        found.setdefault(
            obstacle.target, AgentWrite(obstacle.target, "refused", name, obstacle.message)
        )


def _verb(action: Action) -> Verb:
    match action:
        case Create():
            return "create"
        case Update():
            return "update"
        case Delete():
            return "delete"
        case _:
            assert_never(action)


def _after(action: Action, known: AgentWrite | None) -> Object | None:
    """The object after an action, for the reactions of other agents."""
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
