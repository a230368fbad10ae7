"""What a candidate does about a lease, and what it writes: as client-go does."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.kube.lease import (
    DEFAULT_TIMINGS,
    Acquire,
    LeaseAction,
    Lost,
    ObservedLease,
    Renew,
    Wait,
    format_micro_time,
    lease_patch,
    next_action,
    next_spec,
    released_spec,
)
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ACQUIRED = "2026-01-01T11:00:00.000001Z"


def lease(
    holder: str, *, duration: int = 15, transitions: int = 3, renewed: str = ACQUIRED
) -> Lease:
    return Lease(
        metadata=LeaseMeta(name="a", namespace="sys", uid="u1", resource_version="7"),
        spec=LeaseSpec(
            holder_identity=holder,
            lease_duration_seconds=duration,
            acquire_time=ACQUIRED,
            renew_time=renewed,
            lease_transitions=transitions,
        ),
    )


def observed_lease(observed: Lease | None, *, since: float = 100.0) -> ObservedLease:
    return ObservedLease(observed, since)


@pytest.mark.parametrize(
    ("observed", "now", "action"),
    [
        pytest.param(observed_lease(None), 100, Acquire(0), id="absent"),
        pytest.param(observed_lease(lease("me")), 100, Renew(), id="ours-from-before"),
        pytest.param(observed_lease(lease("")), 100, Acquire(4), id="released"),
        pytest.param(observed_lease(lease("you")), 114.9, Wait("you", 115.0), id="held"),
        pytest.param(observed_lease(lease("you")), 115, Acquire(4), id="lapsed"),
        pytest.param(
            observed_lease(lease("you", duration=60)),
            115,
            Wait("you", 160.0),
            id="its-own-duration",
        ),
    ],
)
def test_a_follower_acquires_what_nobody_holds_and_waits_otherwise(
    observed: ObservedLease, now: float, action: LeaseAction
) -> None:
    assert next_action(observed, now, "me") == action


@pytest.mark.parametrize(
    ("observed", "now", "action"),
    [
        pytest.param(observed_lease(lease("me")), 109.9, Renew(), id="in-time"),
        pytest.param(observed_lease(lease("me")), 110, Lost(""), id="deadline"),
        pytest.param(observed_lease(lease("you")), 101, Lost("you"), id="taken"),
        pytest.param(observed_lease(lease("")), 101, Lost(""), id="emptied"),
        pytest.param(observed_lease(None), 101, Lost(""), id="deleted"),
    ],
)
def test_a_leader_renews_until_its_deadline_or_until_another_holds_it(
    observed: ObservedLease, now: float, action: LeaseAction
) -> None:
    assert next_action(observed, now, "me", renewed_at=100.0) == action


def test_only_a_changed_record_is_a_sign_of_life() -> None:
    observed = observed_lease(lease("you"), since=100)

    unchanged = observed.after(lease("you"), 110)
    changed = observed.after(lease("you", renewed="2026-01-01T11:00:02.000000Z"), 110)

    assert unchanged.since == 100
    assert changed.since == 110


def test_a_clock_that_is_wrong_elsewhere_does_not_matter() -> None:
    tomorrow = observed_lease(lease("you", renewed="2036-01-01T00:00:00.000000Z"))
    yesterday = observed_lease(lease("you", renewed="1996-01-01T00:00:00.000000Z"))

    assert next_action(tomorrow, 115, "me") == Acquire(4)
    assert next_action(yesterday, 114, "me") == Wait("you", 115.0)


def test_acquiring_counts_a_change_of_holder_and_renewing_keeps_when_it_was_acquired() -> None:
    held = lease("you").spec

    acquired = next_spec(Acquire(4), held, "me", NOON, DEFAULT_TIMINGS)
    renewed = next_spec(Renew(), acquired, "me", NOON + timedelta(seconds=2), DEFAULT_TIMINGS)

    assert acquired == LeaseSpec(
        holder_identity="me",
        lease_duration_seconds=15,
        acquire_time="2026-01-01T12:00:00.000000Z",
        renew_time="2026-01-01T12:00:00.000000Z",
        lease_transitions=4,
    )
    assert renewed.acquire_time == "2026-01-01T12:00:00.000000Z"
    assert renewed.renew_time == "2026-01-01T12:00:02.000000Z"
    assert renewed.lease_transitions == 4


def test_a_deleted_lease_goes_on_with_higher_epochs() -> None:
    assert next_action(observed_lease(None), 100, "me", known_transitions=7) == Acquire(8)
    assert next_action(
        observed_lease(lease("", transitions=2)), 100, "me", known_transitions=7
    ) == Acquire(8)


def test_a_released_lease_has_no_holder_and_expires_in_a_second() -> None:
    spec = released_spec(lease("me").spec, NOON)

    assert (spec.holder_identity, spec.lease_duration_seconds) == ("", 1)
    assert spec.renew_time == "2026-01-01T12:00:00.000000Z"
    assert spec.lease_transitions == 3


def test_a_write_holds_only_for_the_lease_that_was_seen() -> None:
    change = lease_patch(lease("me"), released_spec(lease("me").spec, NOON))

    assert change["metadata"] == {"uid": "u1", "resourceVersion": "7"}
    assert change["spec"]["holderIdentity"] == ""


def test_a_renewal_sets_annotations_that_differ_and_removes_empty_ones() -> None:
    held = lease("me")
    noted = replace(held, metadata=replace(held.metadata, annotations={"kept": "a", "ended": "b"}))

    change = lease_patch(noted, held.spec, {"kept": "a", "ended": "", "new": "c", "absent": ""})

    assert change["metadata"]["annotations"] == {"ended": None, "new": "c"}


ZONES = st.sampled_from([UTC, timezone(timedelta(hours=5))])


@given(st.datetimes(NOON.replace(year=2, tzinfo=None), timezones=ZONES))
def test_a_micro_time_always_has_six_digits_and_is_utc(moment: datetime) -> None:
    text = format_micro_time(moment)

    assert len(text) == len("2026-01-01T12:00:00.000000Z")
    assert datetime.fromisoformat(text) == moment
