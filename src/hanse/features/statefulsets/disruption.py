"""How many replicas this cluster may take down now: one budget for all clusters of a set.

A roll-out, a scale-down and a rebalance take ready replicas away. A cluster does so only with a
permit in the record of shares. It adds and returns its own permits alone, each write refused unless
the record is the one that was read: a semaphore. What a permit is used for is read from the cluster
itself, so that an agent can be killed at any moment.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from hanse.features.statefulsets.names import POD_REVISION
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Pod
from hanse.model.kinds.stateful import Permit

_REPLACING = "the roll-out goes on when the replicas that were replaced here are ready"
"""The same words from a cluster's first replaced replica to its last: each change is a write."""

AWAITS_CLUSTERS = "the roll-out goes on when all clusters with a share can be seen"
AWAITS_READY = "the roll-out goes on when fewer replicas are not ready"
HALTED = (AWAITS_CLUSTERS, AWAITS_READY)
"""What a roll-out waits for that no other part of it brings about."""


class OtherReplicas(Struct, frozen=True):
    """The replicas in other clusters, by the reports and permits that can be seen at the broker."""

    ready: int = 0
    """Replicas in clusters that are not away that are ready, and stay so with any permit there."""
    down: int = 0
    """Replicas there that are not ready, or may be taken down at any moment."""
    permits: int = 0
    """Permits of clusters that are not away."""
    away_permits: int = 0
    away: tuple[str, ...] = ()
    """Clusters with a share that are away."""
    before_us: tuple[str, ...] = ()
    """Clusters whose replicas are to be updated before ours."""
    unreported: tuple[str, ...] = ()
    """Clusters whose last report is older than the permit that they have returned."""
    away_replicas: int = 0
    """Replicas that clusters that are away should run."""
    unfinished: tuple[str, ...] = ()
    """Clusters that have not completed the newest template, or have replicas that are not ready."""
    removing: tuple[str, ...] = ()
    """Clusters with a permit to remove surplus replicas that does not say which they keep."""


class Rules(Struct, frozen=True):
    """What a set allows."""

    budget: int
    """How many replicas may be down by our doing, of all clusters together."""
    floor: int
    """How many ready replicas a scale-down leaves."""
    ordered: bool = True
    """Whether replicas are removed one by one; else as many at a time as the floor allows."""
    disrupts_while_away: bool = False
    at_once: int = 1
    """How many replicas a cluster's StatefulSet replaces at a time by itself."""
    clusters_at_once: int = 1
    """In how many clusters replicas may be replaced at a time."""
    evictions: int = 0
    """How many replicas of all clusters may be down by evictions: users' budget, else none."""


class PartState(Struct, frozen=True):
    """The replicas of a set in this cluster, and what they should become."""

    stateful_set: StatefulSet
    pods: Mapping[int, Pod]
    """By ordinal, from 0 for the first; others are below or above."""
    share: int
    outdated: bool
    """Whether its template is not the newest one of the set."""
    partition: int = 0
    """How many of the first replicas keep their template when the roll-out is over."""
    rolls: bool = True
    """Whether the StatefulSet replaces pods by itself: its strategy is not OnDelete."""
    draining: frozenset[int] = frozenset()
    """Replicas on nodes that are being drained."""
    may_be_evicted: bool = False
    """Whether the API server may have granted, or may still grant, the eviction of a replica."""

    @property
    def replicas(self) -> int:
        """`spec.replicas` of the StatefulSet, as it is now."""
        return self.stateful_set.spec.replicas

    @property
    def is_observed(self) -> bool:
        """Whether `status.observedGeneration` is that of the StatefulSet's newest version."""
        meta, status = self.stateful_set.metadata, self.stateful_set.status
        return status.observed_generation >= meta.generation

    @property
    def current_partition(self) -> int:
        """`updateStrategy.rollingUpdate.partition`: the ordinal from which pods may be replaced.

        0 with OnDelete, and if there is none.
        """
        if not self.rolls:
            return 0
        rolling = self.stateful_set.spec.update_strategy.get("rollingUpdate") or {}
        return int(rolling.get("partition") or 0)

    def is_up(self, ordinal: int) -> bool:
        """Whether a replica's pod is ready and not terminating; False without a pod."""
        pod = self.pods.get(ordinal)
        return pod is not None and pod.ready and pod.metadata.deletion_timestamp is None

    def is_updated(self, ordinal: int) -> bool:
        """Whether a replica's pod has the StatefulSet's update revision; False without a pod."""
        pod = self.pods.get(ordinal)
        newest = self.stateful_set.status.update_revision
        return pod is not None and pod.metadata.labels.get(POD_REVISION) == newest

    @property
    def up(self) -> int:
        """How many replicas are ready and not terminating, also those above the share."""
        return sum(map(self.is_up, self.pods))

    @property
    def down(self) -> int:
        """How many replicas of the StatefulSet, or of a share that it is yet to get, are not up."""
        return sum(not self.is_up(o) for o in range(max(self.replicas, self.share)))

    @property
    def is_behind(self) -> bool:
        """Whether the status counts pods, or ready ones, that are not seen yet: one may be ready.

        The StatefulSet is written only in the version that was read, so the status still stands.
        """
        status, seen_ready = self.stateful_set.status, sum(p.ready for p in self.pods.values())
        return status.replicas > len(self.pods) or status.ready_replicas > seen_ready

    def is_known_down(self, ordinal: int) -> bool:
        """Whether a replica is surely not up.

        It is not certain while the status counts pods, or ready ones, that are not seen yet.
        """
        return not (self.is_up(ordinal) or self.is_behind)

    @property
    def is_available(self) -> bool:
        """Whether all ready replicas are available, too; always without `minReadySeconds`."""
        spec, status = self.stateful_set.spec, self.stateful_set.status
        return not spec.min_ready_seconds or status.available_replicas >= status.ready_replicas

    @property
    def is_status_caught_up(self) -> bool:
        """Whether the status has all ready pods, and all updated ones.

        Else its controller is about to write it, and a patch at the same time is a conflict for one
        of both, which costs either more time than to wait.
        """
        status = self.stateful_set.status
        staying = [o for o, p in self.pods.items() if p.metadata.deletion_timestamp is None]
        updated = sum(map(self.is_updated, staying))
        return status.ready_replicas >= self.up and status.updated_replicas >= updated

    @property
    def going(self) -> int:
        """How many pods have ordinals that `spec.replicas` no longer covers: not deleted yet."""
        return sum(not 0 <= ordinal < self.replicas for ordinal in self.pods)

    @property
    def in_flight(self) -> int:
        """How many replicas are down by our doing: removed, or replaced and not up yet.

        At least 1 while replaced replicas are not available for `minReadySeconds`. With an outdated
        template only removed ones count.
        """
        if self.outdated:
            return self.going
        replaced = range(min(self.current_partition, self.replicas), self.replicas)
        missing = sum(not (self.is_updated(o) and self.is_up(o)) for o in replaced)
        return self.going + (missing or (not self.is_available and bool(replaced)))

    @property
    def stuck(self) -> tuple[Pod, ...]:
        """Pods of an old template that are released for replacement and not ready.

        The StatefulSet controller may wait for them. Without terminating ones; empty with OnDelete,
        or before the StatefulSet has the newest template and is observed.
        """
        if self.outdated or not (self.rolls and self.is_observed):
            return ()
        released = range(min(self.current_partition, self.replicas), self.replicas)
        waiting = (o for o in released if o in self.pods and not self.is_updated(o))
        pods = (self.pods[o] for o in waiting if not self.is_up(o))
        return tuple(pod for pod in pods if pod.metadata.deletion_timestamp is None)

    @property
    def is_complete(self) -> bool:
        """Whether the share runs, and all replicas are ready, with the newest template where due.

        Surplus ones may be left.
        """
        rolled = range(min(self.partition, self.replicas), self.replicas)
        return (
            self.is_observed
            and not self.outdated
            and self.share <= self.replicas == len(self.pods)
            and all(map(self.is_up, range(self.replicas)))
            and all(map(self.is_updated, rolled))
            and self.is_available
        )


class Step(Struct, frozen=True):
    """What the StatefulSet becomes now, and the permits that this needs or that are left."""

    replicas: int
    partition: int
    """The ordinal from which on its controller replaces pods."""
    updates: bool = False
    """Whether it gets the newest template."""
    permits: int = 0
    """How many this cluster should hold."""
    removes: bool = False
    """Whether they are for the removal of surplus replicas, too."""
    keeps: int | None = None
    """How many of the first replicas that removal keeps in any case; None: not said."""
    opens: bool = False
    """Whether one replica may be evicted."""
    waits: str = ""
    """What it waits for before it takes the next replica down; the same words while it waits."""


def next_step(part: PartState, others: OtherReplicas, rules: Rules, held: Permit) -> Step:
    """What the StatefulSet becomes next: shrink, roll out, or allow an eviction, as permits cover.

    Where they do not, the step asks for permits, or says what it waits for; unused ones are
    returned. Before the StatefulSet is observed, and while an eviction could come on top of a
    removal or replacement that is due, it is `unchanged_step`.
    """
    if not part.is_observed:  # nothing is known of its replicas
        return unchanged_step(part, held)
    target = _next_outdated(part) if part.rolls else None
    if part.may_be_evicted and (part.share < part.replicas or target is not None):
        return unchanged_step(part, held)  # until no eviction can come on top
    if part.share < part.replicas:
        return _shrink(part, others, rules, held)
    if target is not None:
        step = _roll(part, target, others, rules, held.pods)
    else:
        step = _evict(part, others, rules, held.pods)
    if held.removes and part.going:
        return replace(step, removes=True, keeps=held.keeps)
    return step


def unchanged_step(part: PartState, held: Permit) -> Step:
    """The step that takes nothing down and keeps permits, partition and template.

    The replicas grow to the share if that is larger.
    """
    replicas = max(part.share, part.replicas)
    waits = _REPLACING if held.pods and not (held.removes or part.outdated) else ""
    return Step(
        replicas,
        part.current_partition,
        permits=held.pods,
        removes=held.removes,
        keeps=held.keeps,
        waits=waits,
    )


def _permits_in_use(part: PartState, held: int) -> int:
    """The permits to keep: all that are held while replicas are down by our doing, else 0."""
    return held if part.in_flight else 0


def _shrink(part: PartState, others: OtherReplicas, rules: Rules, held: Permit) -> Step:
    """The step that removes the highest surplus replicas: all that may go, or one if ordered.

    It waits while removed pods are still there, or too few ready replicas would be left. Without a
    permit to remove it asks for one, after other clusters have removed; unless ordered, clusters
    remove at the same time, and each permit says how many replicas its cluster keeps.
    """
    unchanged = Step(
        part.replicas, part.current_partition, permits=_permits_in_use(part, held.pods)
    )
    if part.going:
        return replace(unchanged, removes=held.removes, keeps=held.keeps)
    count = _removable(part, others, rules)
    if not count:
        return replace(unchanged, waits="replicas are removed when enough others are ready")
    left = part.replicas - count
    if held.removes and left >= (held.keeps or 0):
        held_on = replace(unchanged, permits=held.pods, removes=True, keeps=held.keeps)
        is_known = held.keeps is None or not others.unreported  # what was returned meanwhile
        return replace(held_on, replicas=left) if is_known else held_on
    if others.removing or others.unreported:
        return replace(unchanged, waits="replicas are removed after those of other clusters")
    if rules.ordered:
        return replace(unchanged, permits=max(held.pods, 1), removes=True)
    return replace(unchanged, removes=True, keeps=part.share)


def _removable(part: PartState, others: OtherReplicas, rules: Rules) -> int:
    """How many surplus replicas can be removed, from the highest on, with `floor` ready ones left.

    Those known to be down need no room; it stops at the first that must stay. At most 1 if replicas
    are ordered.
    """
    left, count = others.ready + part.up, 0
    for ordinal in reversed(range(part.share, part.replicas)):
        if not part.is_known_down(ordinal):
            if left <= rules.floor:
                break
            left -= 1
        count += 1
        if rules.ordered:
            break
    return count


def _evict(part: PartState, others: OtherReplicas, rules: Rules, held: int) -> Step:
    """The step if nothing is to be removed or replaced: the whole share, with the newest template.

    While a node with replicas is drained, it asks for a permit if the users' budget has room, and
    with one it opens the budget here for an eviction. Roll-outs of other clusters come first. While
    an eviction may still come, permits are kept.
    """
    kept = _permits_in_use(part, held)
    waits = _REPLACING if kept and not part.draining else ""
    step = Step(part.share, part.partition, updates=True, permits=kept, waits=waits)
    room = rules.evictions - others.down - others.away_replicas
    if part.draining and room > 0 and not others.unfinished:
        free = rules.evictions - others.permits - others.away_permits
        if held:
            return replace(step, permits=held, opens=True)
        if part.down < room and free > 0 and not others.unreported:
            return replace(step, permits=1)
    elif part.draining and rules.evictions:
        step = replace(step, waits="no replica is evicted while others are replaced or not ready")
    return replace(step, permits=held) if part.may_be_evicted else step


def _next_outdated(part: PartState) -> int | None:
    """The highest replica that is still to be replaced and is not released yet; else None.

    Replicas below the partition that stays are never replaced.
    """
    released = part.replicas if part.outdated else min(part.current_partition, part.replicas)
    outdated = (
        o for o in range(part.partition, released) if part.outdated or not part.is_updated(o)
    )
    return max(outdated, default=None)


def _roll(part: PartState, target: int, others: OtherReplicas, rules: Rules, held: int) -> Step:
    """The step of a roll-out: newest template and partition `target`, if `held` permits allow it.

    `target` is the highest outdated ordinal. Without a permit it asks for as many as there is room
    for; without room, or while replicas are being replaced or the status does not count them yet,
    it waits. Until it is allowed, template and partition stay as they are.
    """
    unchanged = Step(part.share, part.current_partition, permits=_permits_in_use(part, held))
    if part.in_flight >= max(held, 1) and (part.going or not part.is_known_down(target)):
        return replace(unchanged, permits=held, waits=_REPLACING)
    room, waits = _room(part, target, others, rules)
    if not room:  # whoever handed a permit on has written its report at the same time
        kept = held if others.unreported else unchanged.permits
        return replace(unchanged, permits=kept, waits=waits)
    if held and not (part.outdated or part.is_status_caught_up):
        return replace(unchanged, permits=held, waits=_REPLACING)
    if held:
        return replace(unchanged, partition=target, updates=True, permits=held, waits=_REPLACING)
    permits = min(room, target + 1 - part.partition)
    return replace(unchanged, permits=permits, waits=_REPLACING)


def _room(part: PartState, target: int, others: OtherReplicas, rules: Rules) -> tuple[int, str]:
    """How many replicas may be down here now, and if 0, the message what it waits for.

    At most the free permits, what the budget leaves beside replicas that are down, and what the
    StatefulSet replaces at once. 0 while clusters are away, unless the set disrupts then, while a
    returned permit is not reported, or enough clusters come before. A target known not to be ready
    needs a free permit only: 1, though others come before, and without room in the budget.
    """
    if others.away and not rules.disrupts_while_away:
        return 0, AWAITS_CLUSTERS
    # A cluster that is away returns no permit: whoever goes on without it does not wait for that.
    away = 0 if rules.disrupts_while_away else others.away_permits
    free = rules.budget - others.permits - away
    is_taken = free <= 0 or bool(others.unreported)
    if not is_taken and part.is_known_down(target):
        return 1, ""
    if is_taken or len(others.before_us) >= rules.clusters_at_once:
        return 0, "the roll-out goes on here after what other clusters replace is ready"
    room = rules.budget - others.down - (part.down - part.in_flight)
    if room <= 0:
        return 0, AWAITS_READY
    return min(room, free, rules.at_once), ""
