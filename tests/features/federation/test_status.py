"""Status and conditions of a Federation."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.features.federation.feature import FEDERATION
from hanse.features.federation.other_supervisors import FEATURE_NAME
from hanse.model.conditions import find_condition
from hanse.model.facts import (
    ClusterState,
    ElectionFailure,
    Fact,
    HolderState,
    InvalidConnection,
    Leadership,
    LeaseLiveness,
    Phase,
    Role,
    WriteOutcome,
    WriteResult,
)
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec
from hanse.model.kinds.core import Service
from hanse.model.kinds.federation import SYSTEM, Federation, FederationStatus, MemberState
from hanse.model.objects import ClusterObjectRef, ObjectRef, apply_merge_patch
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import FactChange
from hanse.runtime.compare import patch_has_effect
from tests.features.federation.builders import (
    FEATURE,
    HERE,
    SUPERVISES,
    federation,
    observed,
    secret,
)
from tests.support.builders import cluster
from tinykube.virtual_time import EPOCH

KEY = Key(FEDERATION, "league")
MEMBERS = (HERE, "bergen", "hamburg")


def lease(holder: str) -> Lease:
    meta = LeaseMeta(name=HERE, namespace=SYSTEM)
    return Lease(metadata=meta, spec=LeaseSpec(holder_identity=holder))


def with_patched_status(plan: Plan, before: Federation) -> Federation:
    """The Federation once the plan's patch is written."""
    (patch,) = plan.patches
    wire = apply_merge_patch(msgspec.to_builtins(before, str_keys=True), patch.change)
    return msgspec.convert(wire, Federation, strict=False)


def plan_status_of(
    membership: Federation, *facts: Fact, clusters: tuple[ClusterState, ...] = (), **more: Any
) -> Plan:
    home = (*SUPERVISES, membership, secret("bergen"), secret("hamburg"))
    return FEATURE.plan(
        KEY, observed(*home, *more.pop("here", ()), clusters=clusters, facts=facts, **more)
    )


def connected(phase: Phase = Phase.SYNCED) -> tuple[ClusterState, ...]:
    return (
        cluster(HERE, Role.LOCAL, Role.MEMBER),
        cluster("bergen", Role.MEMBER, phase=phase),
        cluster("hamburg", Role.MEMBER),
    )


def test_the_status_has_each_member_with_its_leader() -> None:
    membership = federation(*MEMBERS)
    led = [Leadership(m, "hamburg_pod-1", 3, ours=False) for m in MEMBERS]

    status = with_patched_status(
        plan_status_of(membership, *led, clusters=connected(Phase.UNREACHABLE)), membership
    ).status

    assert {m.cluster_id: (m.reachable, m.leader) for m in status.members} == {
        HERE: (True, "hamburg"),
        "bergen": (False, "hamburg"),
        "hamburg": (True, "hamburg"),
    }
    assert status.leaders == ("hamburg",)


def test_a_cluster_that_supervises_no_longer_says_nothing_of_members() -> None:
    membership = federation(*MEMBERS)
    cut = plan_status_of(membership, clusters=connected(Phase.UNREACHABLE))
    before = with_patched_status(cut, membership)
    assert find_condition(before.status.conditions, "MembersReachable") is not None

    retired = FEATURE.plan(KEY, observed(before, clusters=connected()[:1]))

    after = with_patched_status(retired, before).status.conditions
    assert find_condition(after, "MembersReachable") is None
    assert find_condition(after, "Valid") is not None


def test_unknown_values_are_kept() -> None:
    current = FederationStatus(
        leaders=("hamburg",),
        members=(
            MemberState(
                cluster_id="bergen",
                reachable=True,
                leader="hamburg",
                since=EPOCH,
                server="https://bergen.example:6443",
                secret="member-bergen",
            ),
        ),
    )
    membership = federation("bergen", status=current)

    status = with_patched_status(
        plan_status_of(membership, clusters=connected(Phase.CONNECTING)), membership
    ).status

    assert status.members == current.members


def test_an_invalid_connection_is_reported_with_its_field() -> None:
    membership = federation("bergen")
    bad = InvalidConnection(
        FEATURE_NAME, "bergen", "spec.members[0].secret", "TokenMissing", "it has no key token"
    )

    plan = plan_status_of(membership, bad)
    status = {c.type: c for c in with_patched_status(plan, membership).status.conditions}

    assert status["Valid"].reason == "TokenMissing"
    assert status["Valid"].message == "spec.members[0].secret: it has no key token"
    assert "TokenMissing" in [n.reason for n in plan.events]


def test_an_election_that_fails_is_reported_with_its_member_and_a_remedy() -> None:
    membership = federation(*MEMBERS)
    failure = ElectionFailure("bergen", "leases is forbidden", EPOCH)

    plan = plan_status_of(membership, failure, clusters=connected())
    status = with_patched_status(plan, membership).status

    (bergen,) = [m for m in status.members if m.cluster_id == "bergen"]
    assert "leases is forbidden; let it `hanse join" in bergen.message
    written = find_condition(status.conditions, "MembersWritten")
    assert written is not None
    assert (written.status, written.reason) == ("False", "ElectionFailed")


def test_the_condition_is_kept_between_two_leaders() -> None:
    membership = federation(*MEMBERS)
    alive = LeaseLiveness(HERE, SYSTEM, HERE, "hamburg_1", HolderState.READY, EPOCH)
    led = with_patched_status(
        plan_status_of(membership, alive, clusters=connected(), here=[lease("hamburg_1")]),
        membership,
    )
    gone = LeaseLiveness(HERE, SYSTEM, HERE, "", HolderState.SILENT, EPOCH)

    soon = plan_status_of(
        led, gone, clusters=connected(), here=[lease("")], after=timedelta(seconds=5)
    )
    later = plan_status_of(
        led, gone, clusters=connected(), here=[lease("")], after=timedelta(seconds=20)
    )

    assert soon.requeue_after == timedelta(seconds=5)
    assert _led_condition_status(with_patched_status(soon, led)) == "True"
    assert _led_condition_status(with_patched_status(later, led)) == "False"


def _led_condition_status(membership: Federation) -> str:
    return next((c.status for c in membership.status.conditions if c.type == "Led"), "")


def refused(name: str, result: WriteResult = "Forbidden", where: str = "bergen") -> WriteOutcome:
    ref = ObjectRef(Service.kind, name, "antrea-plus-system")
    return WriteOutcome(ClusterObjectRef(where, ref), result, "exceeded quota: few", EPOCH)


OURS = Leadership("bergen", f"{HERE}_1", 1, ours=True)
LATER = timedelta(seconds=20)


def written_condition(membership: Federation) -> tuple[str, str, str] | None:
    found = find_condition(membership.status.conditions, "MembersWritten")
    return None if found is None else (found.status, found.reason, found.message)


def test_lasting_refusals_are_reported_by_the_leader() -> None:
    membership = federation(*MEMBERS)
    outcomes = [OURS, refused("web"), refused("fish", "Refused")]

    young = plan_status_of(membership, *outcomes, clusters=connected())
    plan = plan_status_of(membership, *outcomes, clusters=connected(), after=LATER)

    assert written_condition(with_patched_status(young, membership)) is None
    assert young.requeue_after == timedelta(seconds=10)
    status = (
        "bergen: Service antrea-plus-system/fish: exceeded quota: few; "
        "bergen: Service antrea-plus-system/web: exceeded quota: few"
    )
    assert written_condition(with_patched_status(plan, membership)) == (
        "False",
        "WriteRefused",
        status,
    )
    assert "WriteRefused" in [n.reason for n in plan.events]


@pytest.mark.parametrize(
    "outcomes",
    [
        pytest.param([refused("web")], id="others-lead"),
        pytest.param([OURS, refused("web", "Failed")], id="only-not-yet"),
        pytest.param([OURS, refused("web", "Foreign")], id="told-on-what-is-in-the-way"),
        pytest.param([OURS, refused("web", where="elsewhere")], id="of-no-member"),
    ],
)
def test_other_outcomes_are_not_reported(outcomes: list[Fact]) -> None:
    membership = federation(*MEMBERS)

    assert (
        written_condition(
            with_patched_status(
                plan_status_of(membership, *outcomes, clusters=connected(), after=LATER), membership
            )
        )
        is None
    )


def test_a_refusal_is_kept_over_a_restart_and_cleared_once_nothing_is_refused() -> None:
    membership = federation(*MEMBERS)
    status = with_patched_status(
        plan_status_of(membership, OURS, refused("web"), clusters=connected(), after=LATER),
        membership,
    )

    restarted = plan_status_of(status, OURS, clusters=connected(), after=LATER)
    cleared = plan_status_of(status, OURS, clusters=connected(), after=timedelta(seconds=90))

    assert written_condition(with_patched_status(restarted, status)) == written_condition(status)
    assert restarted.requeue_after == timedelta(seconds=40)
    assert written_condition(with_patched_status(cleared, status)) == ("True", "AllWritten", "")


def test_a_refusal_enqueues_the_federation_only() -> None:
    view = observed(*SUPERVISES, federation("bergen"))

    def enqueued(outcome: WriteOutcome) -> list[Key]:
        return list(FEATURE.keys_for(FactChange(None, outcome), view))

    assert enqueued(refused("web")) == [Key("federation", "league")]
    assert enqueued(refused("web", "Failed")) == []


PHASES = st.sampled_from(list(Phase))
HOLDERS = st.sampled_from(["", "lubeck_a", "hamburg_b"])


@given(
    st.dictionaries(st.sampled_from(MEMBERS[1:]), PHASES),
    st.dictionaries(st.sampled_from(MEMBERS), HOLDERS),
    st.sets(st.sampled_from(MEMBERS[1:])),
    st.booleans() | st.none(),
    st.integers(0, 3600),
)
def test_planning_the_status_twice_changes_nothing(
    phases: dict[str, Phase],
    holders: dict[str, str],
    bad: set[str],
    alive: bool | None,
    later: int,
) -> None:
    states = (
        cluster(HERE, Role.LOCAL, Role.MEMBER),
        *(cluster(m, Role.MEMBER, phase=p) for m, p in phases.items()),
    )
    facts: list[Fact] = [
        *(Leadership(m, h, 1, ours=h.startswith(HERE)) for m, h in holders.items()),
        *(
            InvalidConnection(FEATURE_NAME, m, "spec.members[0].secret", "TokenMissing", "no")
            for m in bad
        ),
    ]
    if alive is not None:
        long_ago = EPOCH - timedelta(days=1)
        state = HolderState.READY if alive else HolderState.SILENT
        facts.append(LeaseLiveness(HERE, SYSTEM, HERE, "lubeck_a", state, long_ago))
    membership = federation(*MEMBERS)
    here = [lease("lubeck_a")]

    first = with_patched_status(
        plan_status_of(membership, *facts, clusters=states, here=here), membership
    )
    second = plan_status_of(
        first, *facts, clusters=states, here=here, after=timedelta(seconds=later)
    )

    (patch,) = second.patches
    assert not patch_has_effect(patch.change, first)
    assert second.events == ()
