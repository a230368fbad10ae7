"""What all agents together would write if objects were applied; nothing is written."""

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

ROUNDS = 10
"""How often agents may answer each other's writes."""

PATIENCE = timedelta(seconds=30)

AppliedObject = tuple[ClusterId, Object]


class AgentWrite(Struct, frozen=True):
    """One write that would follow, and whose agent would make it; or what would prevent it.

    `why` is what prevents it, or what would be said with it for people to look at.
    """

    place: ClusterObjectRef
    verb: Verb
    by: ClusterId
    why: str = ""
    after: Object | None = None


async def wait_until_listed(reconcilers: Mapping[ClusterId, Reconciler]) -> frozenset[ClusterId]:
    """Wait until every engine has listed all its clusters; gives those that could not be read."""
    try:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            while any(_unlisted_clusters(reconciler) for reconciler in reconcilers.values()):  # noqa: ASYNC110 - for us alone
                await asyncio.sleep(0.02)
    except TimeoutError:
        return frozenset(
            name for reconciler in reconcilers.values() for name in _unlisted_clusters(reconciler)
        )
    return frozenset()


def _unlisted_clusters(reconciler: Reconciler) -> list[ClusterId]:
    """The clusters of which something that is looked at was not read yet."""
    looked_at = [c for c in reconciler.informers.connections.values() if c.informers]
    return [one.cluster for one in looked_at if not one.state.listed]


def preview_agent_writes(
    reconcilers: Mapping[ClusterId, Reconciler], applied: Sequence[AppliedObject]
) -> list[AgentWrite]:
    """Let each agent answer what is applied and what the others would write, until all is said.

    Deletions are shown and not answered in turn: a preview lays objects over what was seen.
    """
    found: dict[ClusterObjectRef, AgentWrite] = {}
    for _ in range(ROUNDS):
        before = dict(found)
        for name, reconciler in reconcilers.items():
            _answer(name, reconciler, applied, found)
        if found == before:
            break
    return list(found.values())


def _answer(
    name: ClusterId,
    reconciler: Reconciler,
    applied: Sequence[AppliedObject],
    found: dict[ClusterObjectRef, AgentWrite],
) -> None:
    """What one agent would write, given all that is not its own."""
    others = [(c.place.where, c.after) for c in found.values() if c.by != name and c.after]
    reached = reconciler.informers.connections
    shown = preview(reconciler, [(w, obj) for w, obj in (*applied, *others) if w in reached])
    for action in shown.actions:
        place = target_ref(action)
        known = found.get(place)
        if known is None or known.by == name:
            verb = known.verb if known is not None and known.verb == "create" else _verb(action)
            why = shown.warnings.get(place, "")
            found[place] = AgentWrite(place, verb, name, why, _after(action, known))
    for obstacle in shown.obstacles:
        found.setdefault(
            obstacle.place, AgentWrite(obstacle.place, "refused", name, obstacle.message)
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
