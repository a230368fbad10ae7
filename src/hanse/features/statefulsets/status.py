"""What the door is told: sums of what clusters report, and conditions that say what to do."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from hanse.features.statefulsets.names import MAX_SET_NAME, REBALANCE
from hanse.features.statefulsets.planner import Distribution
from hanse.features.statefulsets.submitted import SubmittedSet
from hanse.model.conditions import Condition, condition, find, merged
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.hanse import ClusterShare
from hanse.model.kinds.stateful import StatefulSetPartSpec
from hanse.model.objects import ClusterId, ClusterObjectRef, Wire
from hanse.model.plan import EventRequest, Patch, Plan
from hanse.model.snapshot import Snapshot

MAX_MESSAGE = 1000
UNCHANGED = "; until that is mended no share, template or load balancer changes"
_QUIET = frozenset({"Valid", "Placed", "AllReady", "Progressing", "NoTrouble", "UpToDate"})


class StatusInputs(Struct, frozen=True):
    """All that the status of one set is made of."""

    submitted: SubmittedSet
    spread: Distribution
    parts: dict[ClusterId, StatefulSetPartSpec]
    """Reports of clusters that are alive."""
    away: tuple[ClusterId, ...] = ()
    """Clusters with a share that cannot be heard."""
    left: tuple[ClusterId, ...] = ()
    """Those of them that are no longer in the fleet."""
    unfit: tuple[ClusterId, ...] = ()
    known: tuple[ClusterId, ...] = ()
    service_missing: bool = False

    @property
    def ready(self) -> int:
        return sum(part.ready for part in self.parts.values())

    @property
    def updated(self) -> int:
        """Replicas of the newest template; who was not told of it yet has none."""
        revision = self.submitted.revision
        return sum(p.updated_replicas for p in self.parts.values() if p.applied == revision)

    @property
    def complete(self) -> bool:
        """Whether every share runs the newest template."""
        return all(
            cluster in self.parts and self.parts[cluster].revision == self.submitted.revision
            for cluster in self.spread.shares
        )


def told(situation: StatusInputs, snapshot: Snapshot, broker: ClusterId, rank: int) -> Plan:
    """The status of the set at its door as a patch, with Events for what turned."""
    submitted = situation.submitted
    place = ClusterObjectRef(broker, submitted.ref)
    standing = _standing_conditions(submitted)
    wanted = tuple(_conditions(situation, standing))
    generation = submitted.object.metadata.generation
    conditions = merged(standing, wanted, snapshot.now, generation)
    status = _status(situation, conditions)
    events = tuple(news(place, standing, wanted))
    patch = Patch(place, {"status": status}, "status", rank=rank)
    return Plan(patches=(patch,), events=events)


def news(
    place: ClusterObjectRef, before: Sequence[Condition], after: Sequence[Condition]
) -> Iterator[EventRequest]:
    """Events about what turned bad, or good again, and about where replicas are placed."""
    for one in after:
        if _turned(one, find(before, one.type)) and one.message:
            kind: Literal["Normal", "Warning"] = "Normal" if one.reason in _QUIET else "Warning"
            yield EventRequest(place, one.reason, one.message, kind)


def _status(situation: StatusInputs, conditions: Sequence[Condition]) -> Wire:
    submitted, parts = situation.submitted, situation.parts
    exist = sum(len(part.replicas) for part in parts.values())
    counted: Wire = {
        "observedGeneration": submitted.object.metadata.generation,
        "replicas": exist,
        "readyReplicas": min(situation.ready, exist),
        "currentReplicas": min(sum(p.current_replicas for p in parts.values()), exist),
        "updatedReplicas": min(situation.updated, exist),
    }
    told = msgspec.to_builtins(tuple(conditions))
    if isinstance(submitted.object, StatefulSet):
        available = sum(p.available_replicas for p in parts.values())
        standing = submitted.object.status.current_revision
        done = situation.complete or not standing
        for one in told:
            one.pop("observedGeneration", None)
        return {
            **counted,
            "availableReplicas": min(available, counted["readyReplicas"]),
            "updateRevision": submitted.revision,
            "currentRevision": submitted.revision if done else standing,
            "conditions": told,
        }
    shares = [_share(cluster, n, situation) for cluster, n in situation.spread.shares.items()]
    return {
        **counted,
        "selector": _selector(submitted.spec.selector),
        "clusters": msgspec.to_builtins(shares),
        "conditions": told,
    }


def _share(cluster: ClusterId, replicas: int, situation: StatusInputs) -> ClusterShare:
    part = situation.parts.get(cluster)
    if part is None:
        return ClusterShare(name=cluster, replicas=replicas)
    return ClusterShare(
        name=cluster,
        replicas=replicas,
        ready_replicas=part.ready,
        current_replicas=part.current_replicas,
        updated_replicas=part.updated_replicas
        if part.applied == situation.submitted.revision
        else 0,
    )


def _conditions(situation: StatusInputs, standing: Sequence[Condition]) -> Iterator[Condition]:
    submitted = situation.submitted
    if submitted.faults:
        text = "; ".join(submitted.faults)[: MAX_MESSAGE - len(UNCHANGED)]
        yield condition("Valid", False, "Invalid", text + UNCHANGED)
    else:
        yield condition("Valid", True, "Valid", "it can be spread")
    yield _placed(situation)
    yield _ready(situation)
    trouble = [f"{c}: {p.trouble}" for c, p in sorted(situation.parts.items()) if p.trouble]
    if trouble:
        yield condition("Trouble", True, "InClusters", "; ".join(trouble)[:MAX_MESSAGE])
    elif find(standing, "Trouble") is not None:
        yield condition("Trouble", False, "NoTrouble", "every cluster does its part")
    if submitted.updates_cluster_by_cluster:
        yield _update(situation)


def _placed(situation: StatusInputs) -> Condition:
    spread = situation.spread
    problems = list(_misplaced(situation))
    if problems:
        text = "; ".join(problems)[:MAX_MESSAGE]
        reason = "Unplaced" if spread.unplaced else "NotAsWished"
        return condition("Placed", False, reason, text)
    shares = ", ".join(f"{c} {n}" for c, n in spread.shares.items()) or "no replicas"
    return condition("Placed", True, "Placed", shares[:MAX_MESSAGE])


def _misplaced(situation: StatusInputs) -> Iterator[str]:
    spread, submitted = situation.spread, situation.submitted
    if spread.unplaced:
        known = situation.known
        why = "raise max or weight, or add clusters" if known else "no cluster has joined the fleet"
        yield f"{spread.unplaced} of {submitted.spec.replicas} replicas have no place: {why}"
    if spread.surplus:
        yield f"{spread.surplus} replicas too many are in clusters that cannot be reached"
    if spread.below_min:
        names = ", ".join(spread.below_min)
        yield f"preferences: {names} have fewer than their min; more replicas are needed"
    if spread.above_max:
        names = ", ".join(spread.above_max)
        yield (
            f"preferences: {names} have more than their max, and replicas do not move: scale down, "
            f"or annotate {REBALANCE} to share out anew"
        )
    unknown = sorted(submitted.preferences.wishes.keys() - set(situation.known))
    if unknown:
        yield f"preferences: there is no cluster {', '.join(unknown)} in the fleet"
    if situation.unfit:
        names = ", ".join(situation.unfit)
        yield (
            f"metadata.name: {submitted.name!r} is too long for {names}, "
            f"since name, dash and cluster may have {MAX_SET_NAME} characters"
        )
    if situation.left:
        yield (
            f"{', '.join(situation.left)} left the fleet with a share; annotate "
            "statefulsets.hanse.dev/on-leave=redistribute to give it to others"
        )


def _ready(situation: StatusInputs) -> Condition:
    wanted, ready = situation.submitted.spec.replicas, situation.ready
    shown = ", ".join(
        f"{c} {situation.parts[c].ready if c in situation.parts else 0}/{n}"
        for c, n in situation.spread.shares.items()
    )
    if situation.away:
        text = f"{', '.join(situation.away)} cannot be heard; their replicas wait there: {shown}"
        return condition("Ready", False, "ClustersAway", text[:MAX_MESSAGE])
    if ready >= wanted and sum(situation.spread.shares.values()) == wanted:
        return condition("Ready", True, "AllReady", shown[:MAX_MESSAGE])
    if situation.service_missing:
        text = f"there is no Service {situation.submitted.spec.service_name}, which names the pods"
        return condition("Ready", False, "NoService", text)
    return condition("Ready", False, "Progressing", shown[:MAX_MESSAGE])


def _update(situation: StatusInputs) -> Condition:
    """How far a template has come that goes to one cluster at a time."""
    if situation.complete:
        return condition("Updated", True, "UpToDate", "every cluster runs the newest template")
    revision = situation.submitted.revision
    waiting = [
        c
        for c in situation.spread.shares
        if c not in situation.parts or situation.parts[c].revision != revision
    ]
    text = f"waiting for {waiting[0]} to be ready with the newest template"
    rest = f"; then {', '.join(waiting[1:])}" if waiting[1:] else ""
    return condition("Updated", False, "Halted", (text + rest)[:MAX_MESSAGE])


def _standing_conditions(submitted: SubmittedSet) -> tuple[Condition, ...]:
    if not isinstance(submitted.object, StatefulSet):
        return submitted.object.status.conditions
    return tuple(one.told for one in submitted.object.status.conditions)


def _selector(selector: Wire) -> str:
    """The selector in text form, for the scale subresource."""
    terms = [f"{name}={value}" for name, value in sorted(selector.get("matchLabels", {}).items())]
    terms += [_term(one) for one in selector.get("matchExpressions", ())]
    return ",".join(terms)


def _term(expression: dict[str, Any]) -> str:
    key, values = expression.get("key", ""), ",".join(expression.get("values") or ())
    match expression.get("operator"):
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "DoesNotExist":
            return f"!{key}"
        case _:
            return str(key)


def _turned(now: Condition, before: Condition | None) -> bool:
    if now.type == "Placed" and now.status == "True":
        return before is None or before.message != now.message
    if before is not None and (before.status, before.reason) == (now.status, now.reason):
        return False
    return now.reason not in _QUIET or (before is not None and before.reason not in _QUIET)
