"""The status of a set: sums over the reports of clusters, conditions, and Events."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from hanse.features.statefulsets.names import (
    CLUSTER_SELECTOR,
    DISRUPT_WITHOUT,
    MAX_SET_NAME,
    REBALANCE,
)
from hanse.features.statefulsets.planner import Distribution
from hanse.features.statefulsets.submitted import SubmittedSet
from hanse.model.conditions import Condition, condition, find_condition, merge_conditions
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.hanse import ClusterShare, FederatedStatefulSet
from hanse.model.kinds.stateful import Refusal, StatefulSetPartSpec
from hanse.model.objects import ClusterId, ClusterObjectRef, Wire
from hanse.model.plan import EventRequest, Patch, Plan
from hanse.model.snapshot import Snapshot
from hanse.model.status import condition_events

MAX_MESSAGE = 1000
SHARE_DISPUTED = "ShareDisputed"
UNCHANGED = "; until that is mended no share, template or load balancer changes"


class StatusInputs(Struct, frozen=True):
    """The inputs of the status of one set."""

    submitted: SubmittedSet
    distribution: Distribution
    parts: dict[ClusterId, StatefulSetPartSpec]
    """The reports of live clusters."""
    away: tuple[ClusterId, ...] = ()
    """Clusters with a share that are not healthy or not readable."""
    left: tuple[ClusterId, ...] = ()
    """Clusters with a share that have left the fleet."""
    unrecorded: tuple[ClusterId, ...] = ()
    """Clusters with a share of which the broker has neither a record nor a Lease."""
    pending: dict[ClusterId, int] = {}
    """Replicas above the share of clusters that are away, which they remove when they are back."""
    disputed: tuple[ClusterId, ...] = ()
    """Clusters whose recorded share the set and the reports do not explain."""
    anew: dict[ClusterId, int] = {}
    """The shares that preferences alone would give; empty if there are none."""
    too_long: tuple[ClusterId, ...] = ()
    joined: tuple[ClusterId, ...] = ()
    selected: tuple[ClusterId, ...] = ()
    """Clusters that the set selects by their labels."""
    service_missing: bool = False
    permitted: tuple[ClusterId, ...] = ()
    """Clusters that hold permits to take replicas down."""

    @property
    def refusals(self) -> dict[ClusterId, Refusal]:
        """Why clusters do not take the set, by name."""
        return {c: part.refused for c, part in sorted(self.parts.items()) if part.refused}

    @property
    def ready(self) -> int:
        """The number of ready replicas that live clusters report."""
        return sum(part.ready for part in self.parts.values())

    @property
    def updated(self) -> int:
        """The number of replicas with the newest template, by the reports of live clusters."""
        revision = self.submitted.revision
        return sum(p.updated_replicas for p in self.parts.values() if p.applied == revision)

    @property
    def outdated(self) -> bool:
        """Whether a cluster reports that it has applied another template than the newest."""
        revision = self.submitted.revision
        return any(part.applied not in ("", revision) for part in self.parts.values())

    @property
    def complete(self) -> bool:
        """Whether all clusters with a share report the newest template; never with a partition."""
        if self.submitted.partition:
            return False
        return all(
            cluster in self.parts and self.parts[cluster].revision == self.submitted.revision
            for cluster in self.distribution.shares
        )


def plan_set_status(inputs: StatusInputs, snapshot: Snapshot, broker: ClusterId, rank: int) -> Plan:
    """The status patch of a set at the broker, and Events for changed conditions and placement."""
    submitted = inputs.submitted
    ref = ClusterObjectRef(broker, submitted.ref)
    present = _present_conditions(submitted)
    desired = tuple(_conditions(inputs, present))
    generation = submitted.object.metadata.generation
    conditions = merge_conditions(present, desired, snapshot.now, generation)
    status = _status(inputs, conditions)
    events = tuple(set_events(ref, present, desired))
    patch = Patch(ref, {"status": status}, "status", rank=rank)
    return Plan(patches=(patch,), events=events)


def plan_shadowed(
    submitted: SubmittedSet, snapshot: Snapshot, broker: ClusterId, rank: int
) -> Plan:
    """The status patch of a set with the name of an older one of the other kind, with its Events.

    Its condition Valid becomes False, NameTaken; nothing else of its status changes.
    """
    kind = FederatedStatefulSet if isinstance(submitted.object, StatefulSet) else StatefulSet
    text = (
        f"there is an older {kind.kind.name} of this name, which runs on: delete one of them; with "
        "--cascade=orphan the other takes over its replicas"
    )
    present = _present_conditions(submitted)
    desired = (condition("Valid", False, "NameTaken", text),)
    generation = submitted.object.metadata.generation
    conditions = msgspec.to_builtins(merge_conditions(present, desired, snapshot.now, generation))
    if isinstance(submitted.object, StatefulSet):
        for each in conditions:
            each.pop("observedGeneration", None)
    ref = ClusterObjectRef(broker, submitted.ref)
    patch = Patch(ref, {"status": {"conditions": conditions}}, "status", rank=rank)
    return Plan(patches=(patch,), events=tuple(set_events(ref, present, desired)))


def set_events(
    ref: ClusterObjectRef, present: Sequence[Condition], desired: Sequence[Condition]
) -> Iterator[EventRequest]:
    """The Events for changed conditions, and one for a new placement.

    The latter if Placed is True, and was not set before or had another message while True.
    """
    yield from condition_events(ref, present, desired)
    before, now = find_condition(present, "Placed"), find_condition(desired, "Placed")
    if now is None or now.status != "True" or (before is not None and before.status != "True"):
        return
    if before is None or before.message != now.message:
        yield EventRequest(ref, now.reason, now.message)


def _status(inputs: StatusInputs, conditions: Sequence[Condition]) -> Wire:
    """The status as JSON: of a StatefulSet with revisions, of a FederatedStatefulSet by cluster.

    All counts are sums over live reports, none above the number of reported replicas. The current
    revision becomes the newest once all clusters have completed it.
    """
    submitted, parts = inputs.submitted, inputs.parts
    total = sum(len(part.replicas) for part in parts.values())
    counted: Wire = {
        "observedGeneration": submitted.object.metadata.generation,
        "replicas": total,
        "readyReplicas": min(inputs.ready, total),
        "currentReplicas": min(sum(p.current_replicas for p in parts.values()), total),
        "updatedReplicas": min(inputs.updated, total),
    }
    written = msgspec.to_builtins(tuple(conditions))
    if isinstance(submitted.object, StatefulSet):
        available = sum(p.available_replicas for p in parts.values())
        present = submitted.object.status.current_revision
        done = inputs.complete or not present
        for each in written:
            each.pop("observedGeneration", None)
        return {
            **counted,
            "availableReplicas": min(available, counted["readyReplicas"]),
            "updateRevision": submitted.revision,
            "currentRevision": submitted.revision if done else present,
            "conditions": written,
        }
    shares = [
        _cluster_share(cluster, n, inputs) for cluster, n in inputs.distribution.shares.items()
    ]
    return {
        **counted,
        "selector": _format_selector(submitted.spec.selector),
        "clusters": msgspec.to_builtins(shares),
        "conditions": written,
    }


def _cluster_share(cluster: ClusterId, replicas: int, inputs: StatusInputs) -> ClusterShare:
    """The status of one cluster's share; without a live report only its replicas.

    None of them is updated unless the cluster has applied the newest template.
    """
    part = inputs.parts.get(cluster)
    if part is None:
        return ClusterShare(name=cluster, replicas=replicas)
    return ClusterShare(
        name=cluster,
        replicas=replicas,
        ready_replicas=part.ready,
        current_replicas=part.current_replicas,
        updated_replicas=part.updated_replicas if part.applied == inputs.submitted.revision else 0,
    )


def _conditions(inputs: StatusInputs, present: Sequence[Condition]) -> Iterator[Condition]:
    """Valid, Placed and Ready; others only where there is or was a cause for them.

    These are Accepted, a dispute about shares, Trouble and Updated.
    """
    submitted = inputs.submitted
    if submitted.errors:
        text = "; ".join(submitted.errors)[: MAX_MESSAGE - len(UNCHANGED)]
        yield condition("Valid", False, "Invalid", text + UNCHANGED)
    else:
        yield condition("Valid", True, "Valid", "it can be spread")
    yield from _accepted_condition(inputs, present)
    yield from _disputed_condition(inputs, present)
    yield _placed_condition(inputs)
    yield _ready_condition(inputs)
    trouble = [f"{c}: {p.trouble}" for c, p in sorted(inputs.parts.items()) if p.trouble]
    if trouble:
        yield condition("Trouble", True, "InClusters", "; ".join(trouble)[:MAX_MESSAGE])
    elif find_condition(present, "Trouble") is not None:
        yield condition("Trouble", False, "NoTrouble", "every cluster does its part")
    yield from _updated_condition(inputs, present)


def _accepted_condition(inputs: StatusInputs, present: Sequence[Condition]) -> Iterator[Condition]:
    """Accepted: False with who refuses the set and why; True if it was set before; else nothing."""
    if inputs.refusals:
        text = "; ".join(f"{c}: {r.field}: {r.reason}" for c, r in inputs.refusals.items())
        yield condition("Accepted", False, "Refused", text[:MAX_MESSAGE])
    elif find_condition(present, "Accepted") is not None:
        yield condition("Accepted", True, "Accepted", "every cluster takes it")


def _disputed_condition(inputs: StatusInputs, present: Sequence[Condition]) -> Iterator[Condition]:
    """ShareDisputed: True while recorded shares are disputed; False if it was set before.

    Nothing otherwise.
    """
    if inputs.disputed:
        yield condition(SHARE_DISPUTED, True, SHARE_DISPUTED, disputed_message(inputs.disputed))
    elif find_condition(present, SHARE_DISPUTED) is not None:
        yield condition(SHARE_DISPUTED, False, "Agreed", "the reports explain every share")


def disputed_message(clusters: Sequence[ClusterId]) -> str:
    """What is told of recorded shares that nothing explains."""
    return (
        f"the recorded shares of {', '.join(clusters)} do not follow from the set and the "
        "clusters' reports: clusters keep what they have, and the record is computed anew"
    )[:MAX_MESSAGE]


def _placed_condition(inputs: StatusInputs) -> Condition:
    """Placed: True with the shares, else False with every problem: Unplaced, or NotAsWished."""
    distribution = inputs.distribution
    problems = list(_placement_problems(inputs))
    if problems:
        text = "; ".join(problems)[:MAX_MESSAGE]
        reason = "Unplaced" if distribution.unplaced else "NotAsWished"
        return condition("Placed", False, reason, text)
    shares = _format_shares(distribution.shares)
    if inputs.anew and inputs.anew != distribution.shares:
        shares += (
            f"; the preferences alone give {_format_shares(inputs.anew)}: annotate {REBALANCE}"
        )
    if inputs.refusals:
        shares += f"; refused by {', '.join(inputs.refusals)}"
    return condition("Placed", True, "Placed", shares[:MAX_MESSAGE])


def _format_shares(shares: dict[ClusterId, int]) -> str:
    """`cluster replicas` of each, separated by commas, or `no replicas`."""
    return ", ".join(f"{c} {n}" for c, n in shares.items()) or "no replicas"


def _placement_problems(inputs: StatusInputs) -> Iterator[str]:
    """A message for each problem of the placement, most with a remedy; none if all is well.

    Replicas without a place or left in clusters that are away, shares below min or above max,
    unknown clusters in preferences, names too long, and shares of clusters that left or have no
    record.
    """
    distribution, submitted = inputs.distribution, inputs.submitted
    if distribution.unplaced:
        wanted, why = submitted.spec.replicas, _unplaced_reason(inputs)
        yield f"{distribution.unplaced} of {wanted} replicas have no place: {why}"
    if inputs.pending:
        names = ", ".join(f"{c} {n}" for c, n in inputs.pending.items())
        yield f"too many replicas in clusters that are away, to be removed there: {names}"
    if distribution.below_min:
        names = ", ".join(distribution.below_min)
        yield f"preferences: {names} have fewer than their min; more replicas are needed"
    if distribution.above_max:
        names = ", ".join(distribution.above_max)
        yield (
            f"preferences: {names} have more than their max, and replicas do not move: scale down, "
            f"or annotate {REBALANCE} to share out anew"
        )
    unknown = sorted(submitted.preferences.by_cluster.keys() - set(inputs.joined))
    if unknown:
        yield f"preferences: there is no cluster {', '.join(unknown)} in the fleet"
    if inputs.too_long:
        names = ", ".join(inputs.too_long)
        yield (
            f"metadata.name: {submitted.name!r} is too long for {names}, "
            f"since name, dash and cluster may have {MAX_SET_NAME} characters"
        )
    if inputs.left:
        yield (
            f"{', '.join(inputs.left)} left the fleet with a share; annotate "
            "statefulsets.hanse.dev/on-leave=redistribute to give it to others"
        )
    if inputs.unrecorded:
        names = ", ".join(inputs.unrecorded)
        yield (
            f"the broker has neither a ClusterMember nor a Lease of {names}, with a share: let it "
            "join again, or, if it is gone for good, `hanse leave --force`"
        )


def _unplaced_reason(inputs: StatusInputs) -> str:
    """The first reason that applies why replicas have no place, for the message of Placed."""
    if not inputs.joined:
        return "no cluster has joined the fleet"
    if refusing := ", ".join(inputs.refusals):
        return f"{refusing} refused the set, see condition Accepted"
    if not inputs.selected:
        labels = "an administrator labels the ClusterMembers at the broker"
        return f"no cluster has the labels of annotation {CLUSTER_SELECTOR}; {labels}"
    if limiting := ", ".join(c for c, part in inputs.parts.items() if part.limited):
        return f"{limiting} takes no more by limits.replicasPerSet of its AcceptancePolicy"
    return "raise max or weight, or add clusters"


def _ready_condition(inputs: StatusInputs) -> Condition:
    """Ready: True if all replicas are placed and ready; else False, with counts by cluster.

    False, too, while a cluster with a share is away, whatever is ready; a missing Service is named.
    """
    desired, ready = inputs.submitted.spec.replicas, inputs.ready
    shown = ", ".join(
        f"{c} {inputs.parts[c].ready if c in inputs.parts else 0}/{n}"
        for c, n in inputs.distribution.shares.items()
    )
    if inputs.away:
        text = f"{', '.join(inputs.away)} cannot be heard; their replicas wait there: {shown}"
        return condition("Ready", False, "ClustersAway", text[:MAX_MESSAGE])
    if ready >= desired and sum(inputs.distribution.shares.values()) == desired:
        return condition("Ready", True, "AllReady", shown[:MAX_MESSAGE])
    if inputs.service_missing:
        text = f"there is no Service {inputs.submitted.spec.service_name}, which names the pods"
        return condition("Ready", False, "NoService", text)
    return condition("Ready", False, "Progressing", shown[:MAX_MESSAGE])


def _updated_condition(inputs: StatusInputs, present: Sequence[Condition]) -> Iterator[Condition]:
    """Updated, True if every cluster with a share runs the newest template; False names the others.

    False is Halted while clusters are away that roll-outs wait for, else RollingOut. Nothing before
    the first roll-out.
    """
    if not (inputs.outdated or find_condition(present, "Updated") is not None):
        return
    revision = inputs.submitted.revision
    waiting = [
        c
        for c in inputs.distribution.shares
        if c not in inputs.parts or inputs.parts[c].revision != revision
    ]
    if not waiting:
        yield condition("Updated", True, "UpToDate", "every cluster runs the newest template")
        return
    reasons = [
        f"{c}: {w}" for c in waiting if (w := inputs.parts[c].waits if c in inputs.parts else "")
    ]
    text = f"to be updated: {', '.join(waiting)}; {'; '.join(reasons)}"
    if reasons and inputs.permitted:
        names = ",".join(inputs.permitted)
        text += f"; replicas may be replaced now in {', '.join(inputs.permitted)}: annotation "
        text += f"{DISRUPT_WITHOUT}={names} goes on without"
    submitted = inputs.submitted
    back = f"; to go back: hanse statefulsets undo {submitted.namespace}/{submitted.name}"
    text = text.removesuffix("; ")[: MAX_MESSAGE - len(back)] + back
    halted = bool(inputs.away) and not submitted.disrupts_while_away
    yield condition("Updated", False, "Halted" if halted else "RollingOut", text)


def _present_conditions(submitted: SubmittedSet) -> tuple[Condition, ...]:
    """The conditions in the set's present status."""
    if not isinstance(submitted.object, StatefulSet):
        return submitted.object.status.conditions
    return tuple(each.as_condition for each in submitted.object.status.conditions)


def _format_selector(selector: Wire) -> str:
    """The selector as a string, for the scale subresource."""
    terms = [f"{name}={value}" for name, value in sorted(selector.get("matchLabels", {}).items())]
    terms += [_format_requirement(each) for each in selector.get("matchExpressions", ())]
    return ",".join(terms)


def _format_requirement(expression: dict[str, Any]) -> str:
    """A match expression as a selector term; an unknown operator counts as Exists."""
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
