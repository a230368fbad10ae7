"""A cluster that has completed a roll-out hands its permit on to the next by one write."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.features.statefulsets.disruption import PartState, next_step
from hanse.features.statefulsets.names import MAX_UNAVAILABLE
from hanse.features.statefulsets.permits import FleetPart, is_returned, permit_patch
from hanse.features.statefulsets.submitted import SubmittedSet, from_stateful_set
from hanse.model.kinds.stateful import HandedOn, Permit, Received, Replica, StatefulSetPartSpec
from tests.features.statefulsets.given import part, record, submitted_set
from tests.features.statefulsets.test_disruption import state

CLUSTERS = ("bergen", "hamburg", "lubeck")


class RollOut:
    """Clusters that replace their replicas, each by what it has seen of the broker so far."""

    def __init__(self, shares: dict[str, int], budget: int = 1) -> None:
        self.budget = budget
        self.shares = {c: n for c, n in shares.items() if n}
        self.pods = {c: [(True, 0)] * n for c, n in self.shares.items()}
        """Of each replica whether it is ready, and its template."""
        self.applied = dict.fromkeys(self.shares, 0)
        self.released = dict.fromkeys(self.shares, 0)
        self.template = 0
        self.templates = dict.fromkeys(self.shares, 0)
        """The set's template as each cluster has seen it."""
        self.records: list[tuple[Permit, ...]] = [()]
        self.reports: dict[str, list[StatefulSetPartSpec]] = {c: [] for c in self.shares}
        self.seen_record = dict.fromkeys(self.shares, 0)
        self.seen_reports = {c: dict.fromkeys(self.shares, 0) for c in self.shares}
        for cluster in self.shares:
            self._report(cluster, 0, complete=True)

    @property
    def down(self) -> int:
        return sum(not ready for pods in self.pods.values() for ready, _ in pods)

    @property
    def is_over(self) -> bool:
        return all(pod == (True, self.template) for pods in self.pods.values() for pod in pods)

    def watch(self, cluster: str) -> None:
        """A cluster sees the newest record, reports and template."""
        self.seen_record[cluster] = len(self.records) - 1
        self.watch_reports(cluster)
        self.templates[cluster] = self.template

    def watch_reports(self, cluster: str) -> None:
        """A cluster sees the newest reports alone: watches need not be equally far."""
        self.seen_reports[cluster] = {c: len(several) - 1 for c, several in self.reports.items()}

    def act(self, cluster: str) -> bool:
        """One plan of a cluster, its writes, and what its controller does.

        Whether it would change its permit.
        """
        fleet, own = self.fleet(cluster), self._state(cluster)
        held = fleet.permit(cluster)
        step = next_step(own, fleet.others(cluster), fleet.rules(cluster), held)
        patches = permit_patch(fleet, cluster, step, "broker", is_complete=own.is_complete)
        if patches and self.seen_record[cluster] == len(self.records) - 1:
            permits = patches[0].change["spec"]["permits"]
            self.records.append(msgspec.convert(permits, tuple[Permit, ...]))
            self.seen_record[cluster] = len(self.records) - 1
        if step.updates:
            self.applied[cluster], self.released[cluster] = (
                self.templates[cluster],
                step.partition,
            )
        self._control(cluster)
        returned = held.returned + is_returned(held, step)
        self._report(cluster, returned, complete=own.is_complete, waits=step.waits)
        return bool(patches)

    def recover(self, cluster: str) -> None:
        """Replaced replicas become ready."""
        self.pods[cluster] = [(True, template) for _, template in self.pods[cluster]]

    def fleet(self, cluster: str) -> FleetPart:
        reports = {c: self.reports[c][at] for c, at in self.seen_reports[cluster].items()}
        reports[cluster] = self.reports[cluster][-1]
        shares = record(True, **self.shares)
        permits = self.records[self.seen_record[cluster]]
        written = replace(shares, spec=replace(shares.spec, permits=permits))
        submitted = self._submitted(self.templates[cluster])
        return FleetPart(submitted, written, reports, frozenset(), frozenset(self.shares))

    def _submitted(self, template: int) -> SubmittedSet:
        budget = {MAX_UNAVAILABLE: str(self.budget)}
        total = sum(self.shares.values())
        return from_stateful_set(submitted_set(total, budget, image=f"etcd:{template}"))

    def _state(self, cluster: str) -> PartState:
        applied = self.applied[cluster]
        pods = [(ready, template == applied) for ready, template in self.pods[cluster]]
        outdated = applied != self.templates[cluster]
        return state(pods, self.shares[cluster], self.released[cluster], outdated=outdated)

    def _control(self, cluster: str) -> None:
        """As a StatefulSet's controller does: the highest one, if all above it are ready."""
        pods, applied = self.pods[cluster], self.applied[cluster]
        for ordinal in reversed(range(self.released[cluster], len(pods))):
            ready, template = pods[ordinal]
            if template != applied:
                pods[ordinal] = (False, applied)
                return
            if not ready:
                return

    def _report(self, cluster: str, returned: int, *, complete: bool, waits: str = "") -> None:
        revision = self._submitted(self.applied[cluster]).revision
        replicas = tuple(
            Replica(name=f"store-{cluster}-{n}", ready=ready)
            for n, (ready, _) in enumerate(self.pods[cluster])
        )
        spec = part(
            cluster,
            self.shares[cluster],
            returned=returned,
            applied=revision,
            revision=revision if complete else "",
            replicas=replicas,
            waits=waits,
        ).spec
        self.reports[cluster].append(spec)


_turns = st.lists(
    st.tuples(
        st.sampled_from(CLUSTERS),
        st.sampled_from(("watch", "watch reports", "act", "act", "recover", "new template")),
    ),
    max_size=80,
)


@given(st.fixed_dictionaries(dict.fromkeys(CLUSTERS, st.integers(1, 3))), st.integers(1, 2), _turns)
def test_no_more_replicas_are_down_than_the_budget_and_every_roll_out_ends(
    shares: dict[str, int], budget: int, turns: list[tuple[str, str]]
) -> None:
    roll_out = RollOut(shares, budget)
    roll_out.template = 1
    for cluster, turn in turns:
        match turn:
            case "watch":
                roll_out.watch(cluster)
            case "watch reports":
                roll_out.watch_reports(cluster)
            case "act":
                roll_out.act(cluster)
            case "recover":
                roll_out.recover(cluster)
            case _:
                roll_out.template += 1
        assert roll_out.down <= budget

    for _ in range(60):
        for cluster in CLUSTERS:
            roll_out.watch(cluster)
            roll_out.act(cluster)
            assert roll_out.down <= budget
            roll_out.recover(cluster)
    assert roll_out.is_over
    assert not any(roll_out.fleet("bergen").permit(cluster).pods for cluster in CLUSTERS)


def _begin(roll_out: RollOut) -> None:
    """A new template, which hamburg waits with for lubeck, and says so."""
    roll_out.template = 1
    roll_out.watch("hamburg")
    roll_out.act("hamburg")
    assert roll_out.reports["hamburg"][-1].waits
    for cluster in ("lubeck", "hamburg"):
        roll_out.watch(cluster)


def test_nothing_is_handed_on_to_a_cluster_that_does_not_say_that_it_waits() -> None:
    """Its agent may be of a version that knows no permits: nobody would return it."""
    roll_out = RollOut({"bergen": 1, "hamburg": 1, "lubeck": 1})
    roll_out.template = 1
    roll_out.watch("bergen")
    roll_out.act("bergen")
    roll_out.watch("lubeck")

    for _ in range(3):
        roll_out.act("lubeck")
        roll_out.recover("lubeck")

    (own,) = roll_out.records[-1]
    assert (own.name, own.pods, own.returned, own.handed_on) == ("lubeck", 0, 1, None)


def test_who_is_next_begins_without_a_write_of_its_own_and_notes_what_it_received() -> None:
    roll_out = RollOut({"hamburg": 1, "lubeck": 1})
    _begin(roll_out)
    roll_out.act("lubeck")  # takes a permit
    roll_out.act("lubeck")  # replaces
    assert roll_out.pods["lubeck"] == [(False, 1)]
    roll_out.recover("lubeck")
    roll_out.act("lubeck")

    (own,) = roll_out.records[-1]
    assert (own.name, own.pods) == ("lubeck", 0)
    assert own.handed_on == HandedOn(to="hamburg", pods=1, number=1)
    roll_out.seen_record["hamburg"] = len(roll_out.records) - 1
    roll_out.act("hamburg")
    assert roll_out.down == 0, "it has not seen that the one before is ready"

    roll_out.watch("hamburg")
    assert not roll_out.act("hamburg"), "nothing to write at the broker"
    assert roll_out.pods["hamburg"] == [(False, 1)]

    roll_out.recover("hamburg")
    assert roll_out.act("hamburg")
    entry = next(permit for permit in roll_out.records[-1] if permit.name == "hamburg")
    assert (entry.pods, entry.received) == (0, (Received(name="lubeck", number=1),))
    assert roll_out.is_over


def test_what_was_handed_on_is_not_forgotten_before_it_was_received() -> None:
    roll_out = RollOut({"hamburg": 1, "lubeck": 1}, budget=2)
    _begin(roll_out)
    for _ in range(3):
        roll_out.act("lubeck")
        roll_out.recover("lubeck")
    assert roll_out.fleet("lubeck").permit("hamburg").pods == 1
    roll_out.template = 2
    roll_out.watch("lubeck")

    assert roll_out.act("lubeck"), "it takes the other permit"

    fleet = roll_out.fleet("lubeck")
    assert [fleet.permit(cluster).pods for cluster in ("hamburg", "lubeck")] == [1, 1]


def test_a_permit_that_nobody_held_is_good_for_nothing_while_another_has_the_only_one() -> None:
    roll_out = RollOut({"bergen": 1, "hamburg": 3, "lubeck": 1})
    forged = HandedOn(to="hamburg", pods=9, number=7)
    uid = "uid-store"
    forger = Permit(name="bergen", handed_on=forged, set_uid=uid)
    roll_out.template = 1
    roll_out.records.append((forger, Permit(name="lubeck", pods=1, set_uid=uid)))
    roll_out.watch("hamburg")

    assert not roll_out.fleet("hamburg").permit("hamburg").pods
    roll_out.act("hamburg")
    assert roll_out.down == 0, "lubeck has one"


def test_a_permit_that_nobody_held_makes_no_budget_larger() -> None:
    roll_out = RollOut({"bergen": 1, "hamburg": 4, "lubeck": 2}, budget=3)
    uid = "uid-store"
    forger = Permit(name="bergen", handed_on=HandedOn(to="hamburg", pods=9, number=7), set_uid=uid)
    roll_out.records.append((forger, Permit(name="lubeck", pods=2, set_uid=uid)))
    roll_out.watch("hamburg")

    assert roll_out.fleet("hamburg").permit("hamburg").pods == 1, "lubeck has two of three"


@given(
    st.dictionaries(st.sampled_from(CLUSTERS), st.integers(0, 9)),
    st.dictionaries(
        st.sampled_from(CLUSTERS), st.tuples(st.sampled_from(CLUSTERS), st.integers(0, 9))
    ),
    st.integers(1, 3),
)
def test_whatever_is_handed_on_all_permits_together_are_no_more_than_the_budget_or_were_taken(
    taken: dict[str, int], handed_on: dict[str, tuple[str, int]], budget: int
) -> None:
    roll_out = RollOut(dict.fromkeys(CLUSTERS, 3), budget)
    forged = {c: HandedOn(to=to, pods=pods, number=1) for c, (to, pods) in handed_on.items()}
    roll_out.records.append(
        tuple(
            Permit(name=c, pods=taken.get(c, 0), handed_on=forged.get(c), set_uid="uid-store")
            for c in CLUSTERS
        )
    )
    for cluster in CLUSTERS:
        roll_out.watch(cluster)

    fleet = roll_out.fleet("bergen")
    permits = [fleet.permit(cluster).pods for cluster in CLUSTERS]

    assert sum(permits) <= max(budget, sum(taken.values()))
    assert permits == [roll_out.fleet("lubeck").permit(cluster).pods for cluster in CLUSTERS]
