"""The permits of a set at the broker, and the replicas of other clusters as reports show them."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from hanse.features.statefulsets.disruption import OtherReplicas, PartState, Rules, Step
from hanse.features.statefulsets.evictions import (
    allowed_evictions,
    draining_ordinals,
    find_budget,
    may_be_evicted,
)
from hanse.features.statefulsets.fleet import list_members, list_parts
from hanse.features.statefulsets.load_balancers import list_pods
from hanse.features.statefulsets.names import REVISION
from hanse.features.statefulsets.replica_lists import list_replica_names
from hanse.features.statefulsets.submitted import SubmittedSet
from hanse.model.clusterset import departed_clusters
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.stateful import (
    HandedOn,
    Permit,
    Received,
    Share,
    StatefulSetPartSpec,
    StatefulSetShares,
)
from hanse.model.objects import ClusterId, ClusterObjectRef, Wire, object_ref
from hanse.model.plan import EntryChange, Key, Patch
from hanse.model.snapshot import Snapshot


class _Staying(Struct, frozen=True):
    """How many replicas of a cluster are not to be removed, and how many of these are ready."""

    replicas: int
    ready: int


class FleetPart(Struct, frozen=True):
    """What is known of a set in all clusters."""

    submitted: SubmittedSet
    record: StatefulSetShares
    parts: Mapping[ClusterId, StatefulSetPartSpec]
    """The reports of clusters about the set."""
    departed: frozenset[ClusterId]
    healthy: frozenset[ClusterId]
    evictions: int = 0
    """How many replicas of all clusters may be down by evictions."""

    def rules(self, here: ClusterId) -> Rules:
        """The set's rules for replicas that may be down: budget, floor, order, clusters at once.

        The floor is the smaller of wanted replicas and those in shares, without the clusters that
        the set goes on without (see `others`).
        """
        submitted, ignored = self.submitted, self.submitted.disrupts_without - {here}
        shares = [share for share in self.record.spec.shares if share.name not in ignored]
        budget = submitted.max_unavailable
        return Rules(
            budget=budget,
            floor=min(submitted.spec.replicas, sum(share.replicas for share in shares)),
            ordered=submitted.spec.pod_management_policy == "OrderedReady",
            disrupts_while_away=submitted.disrupts_while_away,
            at_once=submitted.replaced_at_once,
            clusters_at_once=1 if submitted.updates_cluster_by_cluster else budget,
            evictions=self.evictions,
        )

    def permit(self, cluster: ClusterId) -> Permit:
        """The permit of a cluster in the record, plus replicas that others have handed on to it.

        These are at most what the budget leaves beside all permits in the record.
        """
        own = self.record.spec.permit_of(cluster, self.submitted.uid)
        more = self._handed_on_pods().get(cluster, 0)
        return replace(own, pods=own.pods + more) if more else own

    def _handed_on_pods(self) -> dict[ClusterId, int]:
        """By cluster, how many replicas it may take down by permits that were handed on to it.

        Together at most what the budget leaves beside all permits, in the order of names.
        """
        spec, uid = self.record.spec, self.submitted.uid
        taken = sum(permit.pods for permit in spec.permits if permit.set_uid == uid)
        left, handed_on = max(self.submitted.max_unavailable - taken, 0), dict[ClusterId, int]()
        for cluster in sorted({p.handed_on.to for p in spec.permits if p.handed_on is not None}):
            arriving = sum(each.pods for each in self.arriving(cluster).values())
            handed_on[cluster] = min(arriving, left)
            left -= handed_on[cluster]
        return handed_on

    def arriving(self, cluster: ClusterId) -> dict[ClusterId, HandedOn]:
        """By giver, what it handed on to this cluster, which has not recorded it as received."""
        return self.record.spec.handed_on_to(cluster, self.submitted.uid)

    def next_to_replace(self, here: ClusterId) -> ClusterId | None:
        """The next cluster of the roll-out without a permit, if its report says that it waits.

        Passed over are clusters that have nothing to replace, are not healthy, have no report,
        refuse the set, or that users let it go on without. None if there is none, or if its report
        does not say so: an older agent would never return it.
        """
        for share in rollout_order(self.submitted, self.record):
            part = self.parts.get(share.name)
            if part is None or part.refused is not None or self._is_finished(share.name):
                continue
            is_waiting = share.name in self.healthy - self.submitted.disrupts_without - {here}
            replaces = self.partition(share.name) < share.replicas
            if is_waiting and replaces and not self.permit(share.name).pods:
                return share.name if part.waits else None
        return None

    def others(self, here: ClusterId) -> OtherReplicas:
        """What counts of replicas in other clusters: how many are ready, down, away, permitted.

        Clusters that have left, or that users let the set go on without, do not count.
        """
        names = {share.name for share in self.record.spec.shares if share.replicas} | {*self.parts}
        names -= self.submitted.disrupts_without
        living = sorted(names & self.healthy - {here})
        away = sorted(names - self.departed - self.healthy - {here})
        permits = {cluster: self._credible_permit(cluster) for cluster in names}
        staying = {c: self._staying(permits[c]) for c in living}
        return OtherReplicas(
            ready=sum(
                min(s.ready, max(s.replicas - permits[c].pods, 0)) for c, s in staying.items()
            ),
            down=sum(
                max(s.replicas - s.ready, permits[c].pods, 0) + self._unreported_replicas(c, s)
                for c, s in staying.items()
            ),
            permits=sum(permits[c].pods for c in living),
            away_permits=sum(permits[c].pods for c in away),
            away=tuple(c for c in away if self._expected(c)),
            away_replicas=sum(self._expected(c) for c in away),
            unfinished=tuple(c for c in living if not self._is_finished(c)),
            before_us=tuple(self._clusters_before(here)),
            unreported=tuple(c for c in living if self._returned(c) < permits[c].returned),
            removing=tuple(c for c in living if permits[c].removes and permits[c].keeps is None),
        )

    def _staying(self, permit: Permit) -> "_Staying":
        """The replicas of another cluster that stay, and how many are ready.

        While it removes surplus ones, only those that its permit says it keeps. Without a report
        its recorded share, none ready.
        """
        part = self.parts.get(permit.name)
        if part is None:
            return _Staying(self.record.spec.share_of(permit.name), 0)
        if not permit.removes or permit.keeps is None:
            return _Staying(part.share, part.ready)
        name, first = self.submitted.name, self.submitted.first_ordinal
        kept = {*list_replica_names(name, first, permit.name, permit.keeps)}
        return _Staying(permit.keeps, sum(r.ready for r in part.replicas if r.name in kept))

    def _unreported_replicas(self, cluster: ClusterId, staying: _Staying) -> int:
        """How many replicas a cluster's recorded share has more than `staying`; at least 0.

        None of these is ready.
        """
        return max(self.record.spec.share_of(cluster) - staying.replicas, 0)

    def _credible_permit(self, cluster: ClusterId) -> Permit:
        """The permit of another cluster, limited to the replicas that it has or may get.

        Without any, an empty permit.
        """
        permit, part = self.permit(cluster), self.parts.get(cluster)
        existing = len(part.replicas) if part is not None else 0
        most = max(self._expected(cluster), self.record.spec.share_of(cluster), existing)
        if not most:
            return Permit(name=cluster, set_uid=permit.set_uid)
        return replace(permit, pods=min(permit.pods, most))

    def partition(self, cluster: ClusterId) -> int:
        """The partition of a cluster's StatefulSet: its first replicas that keep their template.

        The set's partition counts replicas of all clusters, from the end of the roll-out. 0 without
        a share.
        """
        left = max(sum(s.replicas for s in self.record.spec.shares) - self.submitted.partition, 0)
        for share in rollout_order(self.submitted, self.record):
            updated = min(left, share.replicas)
            if share.name == cluster:
                return share.replicas - updated
            left -= updated
        return 0

    def _expected(self, cluster: ClusterId) -> int:
        """How many replicas a cluster runs or is about to, by its report, else by its share."""
        part = self.parts.get(cluster)
        return part.share if part is not None else self.record.spec.share_of(cluster)

    def _is_finished(self, cluster: ClusterId) -> bool:
        """Whether a cluster reports the newest revision as complete, or has no share.

        The share is the reported one; without a report the recorded one.
        """
        part = self.parts.get(cluster)
        if part is None:
            return not self.record.spec.share_of(cluster)
        return not part.share or part.revision == self.submitted.revision

    def _returned(self, cluster: ClusterId) -> int:
        """The number of returns of permits that a cluster's report counts; 0 without a report."""
        part = self.parts.get(cluster)
        return part.returned if part is not None else 0

    def _clusters_before(self, here: ClusterId) -> Iterator[ClusterId]:
        """Healthy clusters before this one in the roll-out that do not report the newest revision.

        Those that refuse the set, or that users let it go on without, are left out.
        """
        for share in rollout_order(self.submitted, self.record):
            if share.name == here:
                return
            part = self.parts.get(share.name)
            refused = part is not None and part.refused is not None
            ignored = share.name in self.submitted.disrupts_without
            if share.name not in self.healthy or refused or ignored:
                continue
            if part is None or part.revision != self.submitted.revision:
                yield share.name


def read_fleet_part(
    submitted: SubmittedSet,
    record: StatefulSetShares,
    snapshot: Snapshot,
    broker: ClusterId,
    broker_namespace: str,
) -> FleetPart:
    """What the broker has of a set: reports, members and their health, and the eviction budget."""
    members = list_members(snapshot, broker, broker_namespace)
    key = Key("local", submitted.name, submitted.namespace)
    parts = list_parts(key, snapshot, broker, submitted.uid)
    healthy = frozenset(member.cluster for member in members if member.healthy)
    departed = departed_clusters(snapshot, broker, broker_namespace)
    budget = find_budget(submitted, snapshot, broker)
    evictions = allowed_evictions(budget, submitted.spec.replicas)
    return FleetPart(submitted, record, parts, departed, healthy, evictions)


def read_part_state(
    submitted: SubmittedSet,
    stateful_set: StatefulSet | None,
    share: int,
    partition: int,
    snapshot: Snapshot,
) -> PartState | None:
    """The replicas of a set in this cluster; None if it has no StatefulSet here."""
    if stateful_set is None:
        return None
    pods = dict(list_pods(stateful_set, snapshot))
    return PartState(
        stateful_set,
        pods,
        share,
        outdated=stateful_set.metadata.annotations.get(REVISION) != submitted.revision,
        partition=partition,
        rolls=submitted.rolls,
        draining=draining_ordinals(pods, snapshot),
        may_be_evicted=may_be_evicted(submitted.name, submitted.namespace, snapshot),
    )


def is_scaled_to_zero(state: PartState | None) -> bool:
    """Whether a StatefulSet is observed with neither replicas nor pods; True if there is none."""
    if state is None:
        return True
    return state.is_observed and not state.replicas and not state.pods


def with_partition(submitted: SubmittedSet, partition: int) -> Wire:
    """The set's update strategy as RollingUpdate with this partition; unchanged with OnDelete."""
    strategy = submitted.spec.update_strategy
    if not submitted.rolls:
        return strategy
    rolling = {**(strategy.get("rollingUpdate") or {}), "partition": partition}
    return {**strategy, "type": "RollingUpdate", "rollingUpdate": rolling}


def rollout_order(submitted: SubmittedSet, record: StatefulSetShares) -> Sequence[Share]:
    """The shares that are not 0 in the order of a roll-out: by cluster name, the last one first.

    Ascending if the set updates cluster by cluster; clusters of annotation update-order come first.
    """
    shares = [share for share in record.spec.shares if share.replicas]
    ordered = shares if submitted.updates_cluster_by_cluster else shares[::-1]
    return submitted.choice.ordered(ordered)


def is_returned(held: Permit, step: Step) -> bool:
    """Whether a step returns all permits, or the right to remove surplus replicas."""
    return bool(held.pods and not step.permits) or (held.removes and not step.removes)


def permit_patch(
    fleet: FleetPart, here: ClusterId, step: Step, broker: ClusterId, *, is_complete: bool = False
) -> tuple[Patch, ...]:
    """The patch of this cluster's permit in the shares at the broker; empty if nothing changes.

    A returned permit is counted here and in the report, and others wait for both. Once a roll-out
    is complete here, the same write hands it on to the next cluster.
    """
    held = fleet.permit(here)
    if (step.permits, step.removes, step.keeps) == (held.pods, held.removes, held.keeps):
        return ()
    received = {each.name: each.number for each in held.received}
    received |= {cluster: each.number for cluster, each in fleet.arriving(here).items()}
    permit = Permit(
        name=here,
        pods=step.permits,
        removes=step.removes,
        keeps=step.keeps,
        returned=held.returned + is_returned(held, step),
        handed_on=_handed_on(fleet, held, step, is_complete=is_complete),
        received=tuple(Received(name=c, number=n) for c, n in sorted(received.items())),
        set_uid=held.set_uid,
    )
    permits = [p for p in fleet.record.spec.permits if p.name != here] + [permit]
    permits.sort(key=lambda p: p.name)
    change = {"spec": {"permits": to_builtins(permits)}}
    ref = ClusterObjectRef(broker, object_ref(fleet.record))
    return (Patch(ref, change, entry=_removal_entry(fleet, held, permit)),)


def _removal_entry(fleet: FleetPart, held: Permit, permit: Permit) -> EntryChange | None:
    """The change of this cluster's permit entry, if only the removal of surplus is concerned.

    None if the number of permits or what is handed on changes, there is no entry, or it says how
    many replicas are kept neither before nor after: then the whole record is patched. Such entries
    may be written by several clusters at the same time.
    """
    own = next((n for n, p in enumerate(fleet.record.spec.permits) if p == held), None)
    is_counted = permit.pods != held.pods or permit.handed_on != held.handed_on
    if own is None or is_counted or held.keeps is permit.keeps is None:
        return None
    path = ("spec", "permits", str(own))
    return EntryChange(path, _removal_fields(held), _removal_fields(permit))


def _removal_fields(permit: Permit) -> Wire:
    """The wire fields of a permit's entry that removals of surplus replicas read or change."""
    return {
        "name": permit.name,
        "setUID": permit.set_uid,
        "pods": permit.pods,
        "removes": permit.removes,
        "keeps": permit.keeps,
        "returned": permit.returned,
    }


def _handed_on(fleet: FleetPart, held: Permit, step: Step, *, is_complete: bool) -> HandedOn | None:
    """What this cluster hands on to the next of the roll-out: the permit that it returns.

    What it handed on before, while that is not received. None if it has not completed the roll-out,
    removes replicas, or nobody waits.
    """
    before = held.handed_on
    if before is not None and held.name in fleet.arriving(before.to):
        return before
    following = fleet.next_to_replace(held.name)
    if following is None or not is_complete or step.permits or held.removes or not held.pods:
        return None
    return HandedOn(to=following, pods=held.pods, number=held.returned + 1)
