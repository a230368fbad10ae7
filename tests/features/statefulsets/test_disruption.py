"""How many replicas a cluster may take down: laws over every state it may find."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.features.statefulsets.disruption import OtherReplicas, PartState, Rules, next_step
from hanse.features.statefulsets.evictions import allowed_evictions
from hanse.features.statefulsets.names import POD_REVISION
from hanse.features.statefulsets.permits import (
    FleetPart,
    is_returned,
    permit_patch,
    read_fleet_part,
)
from hanse.features.statefulsets.submitted import from_stateful_set
from hanse.model.kinds.apps import StatefulSet, StatefulSetStatus
from hanse.model.kinds.core import ObservedCondition, Pod, PodStatus
from hanse.model.kinds.hanse import MemberPhase
from hanse.model.kinds.policy import PodDisruptionBudget
from hanse.model.kinds.stateful import Permit, Replica, StatefulSetPartSpec
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import Meta
from hanse.model.plan import EntryChange, Patch
from tests.features.statefulsets.given import (
    BROKER,
    member,
    part,
    record,
    snapshot_of,
    submitted_set,
)
from tests.scenarios.statefulsets import spec_of

NO_PERMIT = Permit(name="lubeck", set_uid="uid-store")


def pod(ready: bool, new: bool) -> Pod:
    condition = ObservedCondition(type="Ready", status="True" if ready else "False")
    labels = {POD_REVISION: "new" if new else "old"}
    return Pod(metadata=Meta(name="p", labels=labels), status=PodStatus(conditions=(condition,)))


def state(
    pods: list[tuple[bool, bool]], share: int, released: int, *, outdated: bool = False
) -> PartState:
    """A StatefulSet with these pods, each ready or not and new or old."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": released}}
    spec = spec_of(len(pods), update_strategy=strategy)
    status = StatefulSetStatus(
        update_revision="new",
        ready_replicas=sum(ready for ready, _ in pods),
        updated_replicas=sum(new for _, new in pods),
    )
    by_ordinal = {at: pod(*each) for at, each in enumerate(pods)}
    own = StatefulSet(metadata=Meta(name="store-lubeck"), spec=spec, status=status)
    return PartState(own, by_ordinal, share, outdated)


_pods = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=5)
_others = st.builds(
    OtherReplicas,
    ready=st.integers(0, 6),
    down=st.integers(0, 2),
    permits=st.integers(0, 2),
    away=st.sampled_from([(), ("riga",)]),
    before_us=st.sampled_from([(), ("riga",)]),
)


@given(_pods, st.integers(0, 6), st.integers(0, 5), st.booleans(), _others, st.integers(1, 2))
def test_nothing_is_taken_down_without_a_permit(
    pods: list[tuple[bool, bool]],
    share: int,
    released: int,
    outdated: bool,
    others: OtherReplicas,
    budget: int,
) -> None:
    part_state = state(pods, share, released, outdated=outdated)

    step = next_step(part_state, others, Rules(budget=budget, floor=3), NO_PERMIT)

    assert step.replicas >= len(pods)
    lowered = range(min(step.partition, len(pods)), min(part_state.current_partition, len(pods)))
    assert all(part_state.is_updated(o) for o in lowered) or outdated
    assert not (outdated and step.updates)
    assert not step.opens
    assert step.permits + others.permits <= budget or not step.permits or step.removes


@given(_pods, st.integers(0, 5), _others)
def test_a_scale_down_with_a_permit_leaves_as_many_ready_as_are_wanted(
    pods: list[tuple[bool, bool]], share: int, others: OtherReplicas
) -> None:
    part_state, rules = state(pods, share, 0), Rules(budget=1, floor=3, ordered=False)
    before = others.ready + part_state.up

    step = next_step(part_state, others, rules, replace(NO_PERMIT, pods=1, removes=True))

    left = others.ready + sum(map(part_state.is_up, range(step.replicas)))
    assert left >= min(before, rules.floor)


def test_a_roll_out_that_has_halted_elsewhere_stops_no_scale_down() -> None:
    submitted = from_stateful_set(submitted_set(4))
    halted = Permit(name="bergen", pods=1, set_uid="uid-store")
    shares = record(bergen=2, lubeck=2)
    replicas = (Replica(name="store-bergen-0", ready=True), Replica(name="store-bergen-1"))
    reports = {"bergen": part("bergen", 2, replicas=replicas).spec}
    both = frozenset({"bergen", "lubeck"})
    fleet = FleetPart(
        submitted,
        replace(shares, spec=replace(shares.spec, permits=(halted,))),
        reports,
        frozenset(),
        both,
    )
    three = state([(True, True)] * 3, 2, 0)

    step = next_step(three, fleet.others("lubeck"), Rules(budget=1, floor=3), NO_PERMIT)
    assert (step.permits, step.removes, step.replicas) == (1, True, 3)
    (patch,) = permit_patch(fleet, "lubeck", step, "broker")
    assert [p["name"] for p in patch.change["spec"]["permits"]] == ["bergen", "lubeck"]

    tight = next_step(three, fleet.others("lubeck"), Rules(budget=1, floor=4), NO_PERMIT)
    assert not tight.permits
    assert "enough others" in tight.waits
    removing = replace(fleet.others("lubeck"), removing=("bergen",))
    assert not next_step(three, removing, Rules(budget=1, floor=3), NO_PERMIT).permits


@pytest.mark.parametrize("unseen", [True, False])
@pytest.mark.parametrize("held", [0, 1])
def test_a_replica_that_the_status_counts_as_ready_is_not_taken_as_one_that_is_down(
    held: int, unseen: bool
) -> None:
    """The pod's events are later than the StatefulSet's: it is missing, or not ready yet."""
    permit, rules = replace(NO_PERMIT, pods=held), Rules(budget=1, floor=4)
    down = state([(False, False)], 1, 0, outdated=True)
    own = down.stateful_set
    status = replace(own.status, replicas=1, ready_replicas=1)
    behind = replace(
        down, stateful_set=replace(own, status=status), pods={} if unseen else down.pods
    )
    others = OtherReplicas(ready=2, down=1)

    taken = next_step(down, others, rules, permit)
    assert (taken.permits, taken.updates) == (1, bool(held)), "it is down anyway"
    kept = next_step(behind, others, rules, permit)
    assert (kept.permits, kept.updates) == (0, False)
    removing = replace(NO_PERMIT, pods=1, removes=True)
    assert next_step(replace(down, share=0), others, rules, removing).replicas == 0
    assert next_step(replace(behind, share=0), others, rules, removing).replicas == 1


def test_replicas_of_a_share_that_is_not_reported_yet_are_down() -> None:
    ready = tuple(Replica(name=f"store-bergen-{n}", ready=True) for n in range(2))
    before = part("bergen", 1, replicas=ready[:1]).spec
    submitted, both = from_stateful_set(submitted_set(3)), frozenset({"bergen", "lubeck"})
    shares = record(bergen=2, lubeck=1)
    fleet = FleetPart(submitted, shares, {"bergen": before}, frozenset(), both)

    assert fleet.others("lubeck").down == 1
    grown = part("bergen", 2, replicas=ready).spec
    assert replace(fleet, parts={"bergen": grown}).others("lubeck").down == 0


@pytest.mark.parametrize("held", [0, 1])
def test_a_share_that_has_grown_here_runs_before_a_replica_is_replaced(held: int) -> None:
    grown = state([(True, False)], 2, 0, outdated=True)
    others, permit = OtherReplicas(ready=1), replace(NO_PERMIT, pods=held)

    step = next_step(grown, others, Rules(budget=1, floor=3), permit)

    assert (step.replicas, step.permits, step.updates) == (2, 0, False)


def test_what_a_permit_elsewhere_may_take_is_not_counted_as_ready() -> None:
    submitted = from_stateful_set(submitted_set(4))
    replicas = tuple(Replica(name=f"store-bergen-{n}", ready=True) for n in range(2))
    reports = {"bergen": part("bergen", 2, replicas=replicas).spec}
    shares = record(bergen=2, lubeck=2)
    permit = Permit(name="bergen", pods=1, set_uid="uid-store")
    both = frozenset({"bergen", "lubeck"})
    fleet = FleetPart(submitted, shares, reports, frozenset(), both)

    assert fleet.others("lubeck").ready == 2
    taken = replace(shares, spec=replace(shares.spec, permits=(permit,)))
    assert replace(fleet, record=taken).others("lubeck").ready == 1


def test_the_words_stay_the_same_until_the_last_replaced_replica_is_ready() -> None:
    held = replace(NO_PERMIT, pods=1)
    rules, others = Rules(budget=1, floor=2), OtherReplicas(ready=2)
    down = [
        state([(True, False), (False, True)], 2, 1),
        state([(False, True), (True, True)], 2, 0),
    ]

    first, last = (next_step(part_state, others, rules, held) for part_state in down)

    assert first.waits == last.waits != ""
    over = next_step(state([(True, True)] * 2, 2, 0), others, rules, held)
    assert (over.waits, over.permits) == ("", 0)


def test_replicas_of_a_cluster_that_is_away_are_not_counted_as_ready() -> None:
    submitted = from_stateful_set(submitted_set(4))
    replicas = tuple(Replica(name=f"store-bergen-{n}", ready=True) for n in range(2))
    reports = {"bergen": part("bergen", 2, replicas=replicas).spec}
    shares = record(bergen=2, lubeck=2)
    alive = FleetPart(submitted, shares, reports, frozenset(), frozenset({"bergen", "lubeck"}))

    assert alive.others("lubeck").ready == 2
    away = replace(alive, healthy=frozenset({"lubeck"})).others("lubeck")
    assert (away.ready, away.away, away.away_replicas) == (0, ("bergen",), 2)


def test_a_permit_is_for_no_more_replicas_than_its_holder_can_have() -> None:
    submitted = from_stateful_set(submitted_set(4))
    shares = record(bergen=1, lubeck=3)
    forged = (
        Permit(name="bergen", pods=99, set_uid="uid-store"),
        Permit(name="riga", pods=99, removes=True, returned=7, set_uid="uid-store"),
    )
    shares = replace(shares, spec=replace(shares.spec, permits=forged))
    one = part("bergen", 1, replicas=(Replica(name="store-bergen-0", ready=True),)).spec
    members = frozenset({"bergen", "lubeck", "riga"})
    fleet = FleetPart(
        submitted, shares, {"bergen": one, "riga": part("riga", 0).spec}, frozenset(), members
    )

    others = fleet.others("lubeck")

    assert (others.permits, others.down) == (1, 1)
    assert others.removing == others.unreported == ()
    silent = replace(fleet, healthy=frozenset({"lubeck"})).others("lubeck")
    assert (silent.away, silent.away_permits) == (("bergen",), 1)


def test_a_cluster_that_keeps_its_permit_is_waited_for_unless_users_go_on_without_it() -> None:
    outdated = submitted_set(4)
    ignoring = submitted_set(4, {"hanse.dev/disrupt-without": "bergen, riga"})
    shares = record(bergen=2, hamburg=1, lubeck=1)
    kept = Permit(name="bergen", pods=2, removes=True, returned=9, set_uid="uid-store")
    shares = replace(shares, spec=replace(shares.spec, permits=(kept,)))
    ready = (Replica(name="store-hamburg-0", ready=True),)
    reports = {"bergen": part("bergen", 2).spec, "hamburg": part("hamburg", 1, replicas=ready).spec}
    members = frozenset({"bergen", "hamburg", "lubeck"})

    waited = FleetPart(from_stateful_set(outdated), shares, reports, frozenset(), members)
    others = waited.others("lubeck")
    assert (others.permits, others.down, others.removing) == (2, 2, ("bergen",))

    without = FleetPart(from_stateful_set(ignoring), shares, reports, frozenset(), members)
    for healthy in (members, members - {"bergen"}):
        others = replace(without, healthy=healthy).others("lubeck")
        assert (others.permits, others.down, others.ready) == (0, 0, 1)
        assert (others.removing, others.unreported, others.away) == ((), (), ())
        assert "bergen" not in (*others.unfinished, *others.before_us)


@pytest.mark.parametrize(
    ("ignored", "removes"), [("bergen", True), ("bergen,lubeck", True), ("lubeck", False)]
)
def test_a_scale_down_goes_on_without_a_cluster_whose_replicas_are_not_ready(
    ignored: str, removes: bool
) -> None:
    """Of 2 in bergen none is ready; lubeck has one too many of 1, hamburg all of 1."""
    submitted = from_stateful_set(submitted_set(4, {"hanse.dev/disrupt-without": ignored}))
    ready = (Replica(name="store-hamburg-0", ready=True),)
    reports = {"bergen": part("bergen", 2).spec, "hamburg": part("hamburg", 1, replicas=ready).spec}
    members = frozenset({"bergen", "hamburg", "lubeck"})
    shares = record(bergen=2, hamburg=1, lubeck=1)
    fleet = FleetPart(submitted, shares, reports, frozenset(), members)
    surplus = state([(True, True)] * 2, 1, 0)

    step = next_step(surplus, fleet.others("lubeck"), fleet.rules("lubeck"), NO_PERMIT)

    assert step.removes is removes
    all_up = next_step(
        state([(True, True)], 0, 0), fleet.others("lubeck"), fleet.rules("lubeck"), NO_PERMIT
    )
    assert not all_up.removes, "the others' shares are kept ready"


@pytest.mark.parametrize("goes_on", [True, False])
def test_who_goes_on_without_a_cluster_does_not_wait_for_its_permit(goes_on: bool) -> None:
    outdated = state([(True, False)] * 2, 2, 2, outdated=True)
    others = OtherReplicas(ready=1, away=("bergen",), away_permits=1, away_replicas=1)
    rules = Rules(budget=1, floor=3, disrupts_while_away=goes_on)

    assert bool(next_step(outdated, others, rules, NO_PERMIT).permits) is goes_on


@given(_pods, _others, st.integers(0, 2), st.integers(0, 2), st.booleans())
def test_evictions_are_allowed_within_the_budget_of_all_clusters_and_with_a_permit(
    pods: list[tuple[bool, bool]], others: OtherReplicas, held: int, budget: int, open_now: bool
) -> None:
    part_state = replace(
        state(pods, len(pods), 0), draining=frozenset({0}), may_be_evicted=open_now
    )
    rules = Rules(budget=1, floor=3, evictions=budget)

    step = next_step(part_state, others, rules, replace(NO_PERMIT, pods=held))

    if step.opens:
        assert held
        assert others.down + others.away_replicas < budget
        assert not others.unfinished
    if open_now:
        assert step.permits >= held, "the budget is closed before the permit is returned"
    if step.permits > held:
        assert others.permits < max(budget, rules.budget)


def test_nothing_is_replaced_while_an_eviction_may_come() -> None:
    outdated = replace(state([(True, False)] * 2, 2, 2, outdated=True), may_be_evicted=True)

    step = next_step(outdated, OtherReplicas(), Rules(budget=1, floor=2), NO_PERMIT)

    assert not step.updates
    assert not step.opens


@pytest.mark.parametrize(("phase", "away"), [("Left", ()), ("Ready", ("riga",))])
def test_a_cluster_that_has_left_does_not_stop_a_roll_out(
    phase: MemberPhase, away: tuple[str, ...]
) -> None:
    submitted = from_stateful_set(submitted_set(3))
    shares = record(bergen=1, lubeck=1, riga=1)
    snapshot = snapshot_of(member("bergen"), member("riga", phase), part("bergen", 1), shares)

    fleet = read_fleet_part(submitted, shares, snapshot, BROKER, BROKER_NAMESPACE)

    assert fleet.others("lubeck").away == away


class Removals:
    """Clusters that follow their shares, each by what it has seen of the broker so far."""

    def __init__(self, ready: dict[str, list[bool]], shares: dict[str, int]) -> None:
        self.ready = {cluster: list(pods) for cluster, pods in ready.items()}
        self.submitted = from_stateful_set(submitted_set(sum(shares.values())))
        self.records = [record(True, **shares).spec]
        self.reports = {cluster: [self._report(cluster)] for cluster in ready}
        self.seen_record = dict.fromkeys(ready, 0)
        self.seen_reports = {cluster: dict.fromkeys(ready, 0) for cluster in ready}
        self.sent: list[EntryChange] = []

    @property
    def left(self) -> int:
        return sum(map(sum, self.ready.values()))

    def share_out(self, shares: dict[str, int]) -> None:
        """Record other shares."""
        changed = record(True, **shares).spec
        self.records.append(replace(changed, permits=self.records[-1].permits))

    def watch(self, cluster: str) -> None:
        """A cluster gets up to date."""
        self.watch_record(cluster)
        self.watch_reports(cluster)

    def watch_record(self, cluster: str) -> None:
        """A cluster sees the newest record alone: watches need not be equally far."""
        self.seen_record[cluster] = len(self.records) - 1

    def watch_reports(self, cluster: str) -> None:
        """A cluster sees the newest reports alone."""
        self.seen_reports[cluster] = {c: len(several) - 1 for c, several in self.reports.items()}

    def act(self, cluster: str) -> None:
        """One plan of a cluster: its report, its permit, and its StatefulSet."""
        fleet, pods = self.fleet(cluster), self.ready[cluster]
        share = fleet.record.spec.share_of(cluster)
        part_state = state([(is_ready, True) for is_ready in pods], share, 0)
        held = fleet.permit(cluster)
        step = next_step(part_state, fleet.others(cluster), fleet.rules(cluster), held)
        returned = held.returned + is_returned(held, step)
        self.reports[cluster].append(self._report(cluster, step.replicas, returned))
        for patch in permit_patch(fleet, cluster, step, "broker"):
            self._write(cluster, patch)
        del pods[step.replicas :]
        pods += [True] * (step.replicas - len(pods))

    def arrive_again(self, number: int) -> None:
        """A change of an entry that was sent before arrives late, or once more."""
        if self.sent:
            self._change_entry(self.sent[number % len(self.sent)])

    def fleet(self, cluster: str) -> FleetPart:
        reports = {c: self.reports[c][at] for c, at in self.seen_reports[cluster].items()}
        reports[cluster] = self.reports[cluster][-1]
        written = replace(record(True), spec=self.records[self.seen_record[cluster]])
        return FleetPart(self.submitted, written, reports, frozenset(), frozenset(self.ready))

    def _write(self, cluster: str, patch: Patch) -> None:
        """Write a permit in the record that the cluster has seen, or its entry in any."""
        if patch.entry is not None:
            self.sent.append(patch.entry)
            if self._change_entry(patch.entry):
                self.watch_record(cluster)  # the answer has the whole record
        elif self.seen_record[cluster] == len(self.records) - 1:
            permits = msgspec.convert(patch.change["spec"]["permits"], tuple[Permit, ...])
            self.records.append(replace(self.records[-1], permits=permits))
            self.watch_record(cluster)

    def _change_entry(self, change: EntryChange) -> bool:
        """Change an entry of the newest record, if it is as it was observed."""
        permits = [msgspec.to_builtins(each) for each in self.records[-1].permits]
        entry = permits[int(change.path[-1])]
        defaults = {"pods": 0, "removes": False, "returned": 0}
        if any({**defaults, **entry}.get(field) != v for field, v in change.before.items()):
            return False
        entry |= change.after
        written = msgspec.convert(permits, tuple[Permit, ...])
        self.records.append(replace(self.records[-1], permits=written))
        return True

    def _report(
        self, cluster: str, share: int | None = None, returned: int = 0
    ) -> StatefulSetPartSpec:
        pods = self.ready[cluster]
        replicas = tuple(
            Replica(name=f"store-{cluster}-{n}", ready=is_ready) for n, is_ready in enumerate(pods)
        )
        told = len(pods) if share is None else share
        return part(cluster, told, returned=returned, replicas=replicas).spec


_CLUSTERS = ("bergen", "hamburg", "lubeck")
_replicas = st.lists(st.booleans(), min_size=1, max_size=4)


_shares = st.fixed_dictionaries(dict.fromkeys(_CLUSTERS, st.integers(0, 2)))


@given(
    st.fixed_dictionaries(dict.fromkeys(_CLUSTERS, _replicas)),
    _shares,
    st.lists(st.tuples(st.sampled_from(_CLUSTERS), st.booleans()), max_size=30),
)
def test_clusters_that_remove_at_the_same_time_leave_as_many_ready_as_are_wanted(
    ready: dict[str, list[bool]], shares: dict[str, int], turns: list[tuple[str, bool]]
) -> None:
    shares = {c: min(n, len(ready[c])) for c, n in shares.items()}
    removals = Removals(ready, shares)
    least = min(removals.left, sum(shares.values()))

    for cluster, watches in turns:
        removals.watch(cluster) if watches else removals.act(cluster)

        assert removals.left >= least


_turns = st.sampled_from(("act", "act", "watch", "record", "reports", "shares", "again"))


@given(
    st.permutations([0, 1, 3]),
    st.lists(st.tuples(_turns, st.sampled_from(_CLUSTERS), st.integers(0, 5)), max_size=60),
)
def test_replicas_that_move_back_and_forth_leave_as_many_ready_as_are_wanted(
    counts: list[int], turns: list[tuple[str, str, int]]
) -> None:
    rotated = [counts[n:] + counts[:n] for n in range(3)]
    shares = [dict(zip(_CLUSTERS, each, strict=True)) for each in rotated]
    removals = Removals({c: [True] * n for c, n in shares[0].items()}, shares[0])

    for turn, cluster, number in turns:
        match turn:
            case "act":
                removals.act(cluster)
            case "watch":
                removals.watch(cluster)
            case "record":
                removals.watch_record(cluster)
            case "reports":
                removals.watch_reports(cluster)
            case "shares":
                removals.share_out(shares[number % 3])
            case _:
                removals.arrive_again(number)
        assert removals.left >= 4

    for _ in range(12):
        for cluster in _CLUSTERS:
            removals.watch(cluster)
            removals.act(cluster)
            assert removals.left >= 4
    assert removals.left == 4
    assert not any(permit.removes for permit in removals.records[-1].permits)


def _with_entries(shares: dict[str, int]) -> Removals:
    """Clusters with three ready replicas each, all of which have returned a permit before."""
    removals = Removals({cluster: [True] * 3 for cluster in shares}, shares)
    entries = tuple(Permit(name=c, returned=1, set_uid="uid-store") for c in shares)
    removals.records.append(replace(removals.records[-1], permits=entries))
    for cluster in shares:
        removals.reports[cluster].append(removals._report(cluster, returned=1))
    for cluster in shares:
        removals.watch(cluster)
    return removals


def test_clusters_of_a_parallel_set_remove_what_is_surplus_without_waiting_for_each_other() -> None:
    removals = _with_entries(dict.fromkeys(_CLUSTERS, 1))

    for cluster in _CLUSTERS:  # no one has seen the permit of another
        removals.act(cluster)

    permits = removals.records[-1].permits
    assert [(p.name, p.pods, p.removes, p.keeps) for p in permits] == [
        (cluster, 0, True, 1) for cluster in _CLUSTERS
    ]
    for cluster in _CLUSTERS:
        removals.act(cluster)
    assert removals.left == 3


def test_who_takes_a_permit_to_remove_waits_for_reports_that_it_had_not_seen_before() -> None:
    removals = _with_entries({"bergen": 2, "hamburg": 0})
    removals.share_out({"bergen": 1, "hamburg": 1})
    removals.watch("bergen")
    for _ in range(3):  # bergen takes a permit, removes two, and returns it
        removals.act("bergen")
    assert removals.ready["bergen"] == [True]
    removals.share_out({"bergen": 2, "hamburg": 0})

    removals.act("hamburg")  # by the first record, which said the same of it
    assert [p.keeps for p in removals.records[-1].permits] == [None, 0]
    removals.act("hamburg")

    assert removals.left == 4, "it has not seen that bergen has only one"
    removals.watch_reports("hamburg")
    removals.act("hamburg")
    assert removals.left == 2


def test_a_permit_that_arrives_late_changes_nothing() -> None:
    removals = _with_entries({"bergen": 1, "hamburg": 1})
    for _ in range(3):
        removals.act("bergen")
    records = len(removals.records)

    for number in range(2):
        removals.arrive_again(number)

    assert len(removals.sent) == 2
    assert len(removals.records) == records


def test_what_a_cluster_keeps_is_counted_by_name_while_it_removes() -> None:
    removals = Removals({"bergen": [False, True], "lubeck": [True]}, {"bergen": 1, "lubeck": 1})
    permit = Permit(name="bergen", removes=True, keeps=1, set_uid="uid-store")

    others = _with(removals, permit).others("lubeck")

    assert (others.ready, others.down, others.permits, others.removing) == (0, 1, 0, ())
    silent = replace(permit, keeps=None)
    assert _with(removals, silent).others("lubeck").removing == ("bergen",)


def _with(removals: Removals, permit: Permit) -> FleetPart:
    """What lubeck sees of a record with one permit."""
    removals.records.append(replace(removals.records[0], permits=(permit,)))
    removals.watch("lubeck")
    return removals.fleet("lubeck")


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        pytest.param({"maxUnavailable": 2}, 2, id="a number"),
        pytest.param({"maxUnavailable": "30%"}, 2, id="a percentage, rounded up"),
        pytest.param({"minAvailable": "50%"}, 2, id="what must stay, rounded up"),
        pytest.param({"maxUnavailable": "3"}, 0, id="a number as text"),
        pytest.param({"minAvailable": "3"}, 0, id="what must stay as text"),
        pytest.param({"minAvailable": "some%"}, 0, id="no number"),
        pytest.param({}, 4, id="neither"),
    ],
)
def test_a_budget_that_kubernetes_would_refuse_allows_no_eviction(
    spec: dict[str, object], allowed: int
) -> None:
    budget = msgspec.convert({"metadata": {"name": "b"}, "spec": spec}, PodDisruptionBudget)

    assert allowed_evictions(budget, 5) == allowed
