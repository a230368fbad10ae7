"""Who is alive, by what we saw ourselves."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from hanse.kube.lease import format_micro_time
from hanse.kube.lease_observer import RECONNECT_TIME, LeaseObserver
from hanse.model.facts import HolderState
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec, ManagedFieldsEntry

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def renewal(number: int, holder: str = "a", duration: int = 15) -> Lease:
    return Lease(
        metadata=LeaseMeta(name="lubeck", namespace="sys"),
        spec=LeaseSpec(
            holder_identity=holder,
            lease_duration_seconds=duration,
            renew_time=f"2026-01-01T00:00:{number:02}.000000Z",
        ),
    )


def state_of(observer: LeaseObserver) -> HolderState:
    return observer.state("sys", "lubeck")


def test_what_was_seen_once_is_unknown_until_its_second_renewal() -> None:
    observer, states = LeaseObserver(), []

    for number, now in ((1, 0), (1, 2), (2, 3), (3, 4)):
        observer.observe(renewal(number), now)
        states.append(state_of(observer))

    assert states == [HolderState.UNKNOWN] * 3 + [HolderState.READY]
    assert observer.holder("sys", "lubeck") == "a"


def test_a_lease_that_nobody_held_is_ready_with_its_first_renewal() -> None:
    observer = LeaseObserver()

    observer.observe(renewal(1, holder=""), 0)
    joined = state_of(observer)
    observer.observe(renewal(2), 1)

    assert (joined, state_of(observer)) == (HolderState.UNKNOWN, HolderState.READY)


def test_a_lease_expires_after_its_own_duration_and_is_reported_once() -> None:
    observer = LeaseObserver()
    observer.observe(renewal(1, duration=30), 0)
    observer.observe(renewal(2, duration=30), 10)

    assert observer.next_expiry == 40
    assert observer.expire(39.9) == ()
    assert observer.expire(40) == (("sys", "lubeck"),)
    assert observer.expire(50) == ()
    assert state_of(observer) == HolderState.SILENT
    assert observer.next_expiry is None


def test_the_dead_come_back_with_a_new_record_and_not_with_an_old_one() -> None:
    observer = LeaseObserver()
    observer.observe(renewal(1), 0)
    observer.expire(15 + RECONNECT_TIME)

    observer.observe(renewal(1), 46)
    still = state_of(observer)
    observer.observe(renewal(2), 47)

    assert still == HolderState.SILENT
    assert state_of(observer) == HolderState.READY
    assert observer.next_expiry == 62


def test_no_lease_expires_while_the_watch_is_down_and_then_all_have_a_full_duration() -> None:
    observer = LeaseObserver()
    observer.observe(renewal(1), 0)
    observer.observe(renewal(2), 1)
    observer.mark_unreachable()

    unreachable = (observer.expire(100), observer.next_expiry)
    observer.mark_reachable(100)

    assert unreachable == ((), None)
    assert observer.expire(114) == ()
    assert observer.expire(115) == (("sys", "lubeck"),)


def test_a_lease_given_back_expires_within_a_second() -> None:
    observer = LeaseObserver()
    observer.observe(renewal(1), 0)
    observer.observe(renewal(2), 1)

    observer.observe(renewal(3, holder="", duration=1), 2)

    assert observer.expire(3) == (("sys", "lubeck"),)


def test_a_deleted_lease_is_unknown_unless_its_holder_was_silent() -> None:
    observer, silent = LeaseObserver(), LeaseObserver()
    observer.observe(renewal(1), 0)
    observer.observe(renewal(2), 1)
    silent.observe(renewal(1), 0)
    silent.expire(100)

    observer.forget("sys", "lubeck", 2)
    silent.forget("sys", "lubeck", 101)

    assert (state_of(observer), observer.next_expiry) == (HolderState.UNKNOWN, None)
    assert (state_of(silent), silent.next_expiry) == (HolderState.SILENT, None)


def written(at: int, number: int = 1) -> Lease:
    entry = ManagedFieldsEntry(time=NOON + timedelta(seconds=at))
    lease = renewal(number)
    return replace(lease, metadata=replace(lease.metadata, managed_fields=(entry,)))


@pytest.mark.parametrize(
    ("age", "state"),
    [
        (0, HolderState.READY),
        (14, HolderState.READY),
        (17, HolderState.UNKNOWN),
        (3600, HolderState.UNKNOWN),
    ],
)
def test_a_first_observation_counts_by_its_age_on_the_servers_clock(
    age: int, state: HolderState
) -> None:
    known, later = LeaseObserver(), LeaseObserver()

    known.observe(written(0), 100, NOON + timedelta(seconds=age))
    later.observe(written(0), 100)
    unknown, old_before = state_of(later), later.is_outdated("sys", "lubeck")
    judged = later.judge_ages(100, NOON + timedelta(seconds=age))

    assert (state_of(known), unknown, state_of(later)) == (state, HolderState.UNKNOWN, state)
    assert judged == (("sys", "lubeck"),)
    old = state is HolderState.UNKNOWN
    assert not old_before, "its age was not known"
    assert (known.is_outdated("sys", "lubeck"), later.is_outdated("sys", "lubeck")) == (old, old)


@pytest.mark.parametrize(("back", "state"), [(10, HolderState.READY), (3600, HolderState.UNKNOWN)])
def test_a_lease_from_before_the_servers_clock_was_set_back_proves_no_life(
    back: int, state: HolderState
) -> None:
    observer = LeaseObserver()

    observer.observe(written(0), 100, NOON - timedelta(seconds=back))
    found = state_of(observer)

    assert found is state
    assert not observer.is_outdated("sys", "lubeck"), "its age is not known"
    assert observer.expire(100 + 15 + RECONNECT_TIME) == (("sys", "lubeck"),)


def test_a_lease_whose_time_of_writing_is_not_known_is_not_too_old() -> None:
    """As of a server that strips managedFields."""
    known, later = LeaseObserver(), LeaseObserver()

    known.observe(renewal(1), 100, NOON)
    later.observe(renewal(1), 100)

    assert later.judge_ages(100, NOON) == ()
    assert (state_of(known), state_of(later)) == (HolderState.UNKNOWN, HolderState.UNKNOWN)
    assert not known.is_outdated("sys", "lubeck")
    assert not later.is_outdated("sys", "lubeck")


def test_a_lease_found_old_is_silent_after_its_duration_and_the_time_to_reconnect() -> None:
    observer = LeaseObserver()
    observer.observe(written(0), 100, NOON + timedelta(hours=1))

    assert observer.expire(115) == ()
    assert observer.expire(115 + RECONNECT_TIME) == (("sys", "lubeck"),)


def test_a_lease_that_went_back_is_unknown_until_it_is_renewed_again() -> None:
    observer = LeaseObserver()
    observer.observe(renewal(1), 0)
    observer.observe(renewal(20), 10)

    observer.observe(renewal(5), 11)
    restored = state_of(observer)
    assert not observer.is_outdated("sys", "lubeck"), "unlike one that was found too old"
    observer.observe(renewal(21), 12)
    observer.observe(renewal(22), 13)

    assert (restored, state_of(observer)) == (HolderState.UNKNOWN, HolderState.READY)


def test_a_holder_whose_clock_was_set_back_is_silent_after_the_duration_as_always() -> None:
    observer = LeaseObserver()
    before, after = written(0), written(10)
    hour_ago = format_micro_time(NOON - timedelta(hours=1))
    observer.observe(before, 0, NOON)
    observer.observe(replace(after, spec=replace(after.spec, renew_time=hour_ago)), 10)

    assert state_of(observer) is HolderState.READY
    assert observer.expire(24) == ()
    assert observer.expire(25) == (("sys", "lubeck"),)


def test_a_silent_holder_whose_lease_went_back_is_silent_until_its_second_renewal() -> None:
    observer = LeaseObserver()
    observer.observe(renewal(1), 0)
    observer.observe(renewal(20), 10)
    observer.expire(100)
    states = []

    for at, seconds in ((101, 5), (102, 110), (103, 120)):
        observer.observe(renewal(seconds), at)
        states.append(state_of(observer))

    assert states == [HolderState.SILENT, HolderState.SILENT, HolderState.READY]


def test_an_old_lease_in_place_of_a_silent_holders_deleted_one_changes_nothing() -> None:
    observer = LeaseObserver()
    observer.observe(written(0), 0, NOON)
    observer.expire(100)
    observer.forget("sys", "lubeck", 101)

    observer.observe(written(0), 102, NOON + timedelta(seconds=102))
    still = state_of(observer)
    observer.observe(written(103, 2), 103, NOON + timedelta(seconds=103))

    assert (still, state_of(observer)) == (HolderState.SILENT, HolderState.READY)


@pytest.mark.parametrize(("behind", "outdated"), [(5, False), (7, False), (8, True), (90, True)])
def test_a_lease_about_as_old_as_our_own_is_not_too_old(behind: int, outdated: bool) -> None:
    """We were away as long as its holder, or the server was restored."""
    observer, server_time = LeaseObserver("hamburg"), NOON + timedelta(minutes=5)
    own = written(0)
    own = replace(own, metadata=replace(own.metadata, name="hamburg"))

    observer.observe(written(-behind), 0, server_time)
    alone = observer.is_outdated("sys", "lubeck")
    observer.observe(own, 0, server_time)

    assert (alone, observer.is_outdated("sys", "lubeck")) == (False, outdated)
    assert state_of(observer) == HolderState.UNKNOWN


@pytest.mark.parametrize(("ago", "outdated"), [(3, False), (7, False), (8, True), (90, True)])
def test_a_lease_from_before_our_own_was_acquired_is_not_too_old_until_it_could_be_renewed(
    ago: int, outdated: bool
) -> None:
    """Our own is acquired anew after a restore of the server."""
    observer, server_time = LeaseObserver("hamburg"), NOON + timedelta(minutes=5)
    own = written(0)
    times = [format_micro_time(NOON - timedelta(seconds=behind)) for behind in (ago, 0)]
    spec = replace(own.spec, acquire_time=times[0], renew_time=times[1])
    own = replace(own, metadata=replace(own.metadata, name="hamburg"), spec=spec)

    observer.observe(written(-90), 0, server_time)
    observer.observe(own, 0, server_time)

    assert observer.is_outdated("sys", "lubeck") == outdated


@pytest.mark.parametrize(("version", "outdated"), [("11", True), ("13", False)])
def test_a_lease_written_after_our_own_is_not_too_old_by_a_clock_that_was_set(
    version: str, outdated: bool
) -> None:
    observer, server_time = LeaseObserver("hamburg"), NOON + timedelta(minutes=5)
    own, other = written(0), written(-3600)
    own = replace(own, metadata=replace(own.metadata, name="hamburg", resource_version="12"))
    other = replace(other, metadata=replace(other.metadata, resource_version=version))

    observer.observe(other, 0, server_time)
    observer.observe(own, 0, server_time)

    assert observer.is_outdated("sys", "lubeck") == outdated


def test_a_lease_found_old_that_goes_back_is_still_too_old() -> None:
    observer, server_time = LeaseObserver(), NOON + timedelta(minutes=5)
    observer.observe(written(0, number=9), 0, server_time)

    observer.observe(written(-60, number=3), 10, server_time)
    went_back = observer.is_outdated("sys", "lubeck")
    observer.observe(written(320, number=20), 20, server_time + timedelta(seconds=20))

    assert (went_back, observer.is_outdated("sys", "lubeck")) == (True, False)


def test_a_ready_lease_is_confirmed_by_its_second_renewal_after_a_relist() -> None:
    observer, confirmed = LeaseObserver(), []
    for number in (1, 2, 3):
        observer.observe(renewal(number), number)

    observer.mark_relisted()
    for number in (3, 4, 5):
        observer.observe(renewal(number), number)
        confirmed.append((state_of(observer), observer.is_confirmed("sys", "lubeck")))

    assert confirmed == [(HolderState.READY, done) for done in (False, False, True)]


@pytest.mark.parametrize("seen", [(1, 2, 3), (1,)])
def test_a_lease_made_anew_is_confirmed_by_its_second_renewal(seen: tuple[int, ...]) -> None:
    observer, confirmed = LeaseObserver(), []
    for number in seen:
        observer.observe(renewal(number), number)

    observer.forget("sys", "lubeck", 4)
    for number in (5, 6, 7):
        observer.observe(written(-1, number=number), number, NOON)
        confirmed.append((state_of(observer), observer.is_confirmed("sys", "lubeck")))

    assert confirmed == [(HolderState.READY, done) for done in (False, False, True)]


def test_a_lease_restored_to_when_nobody_held_it_expires_as_it_did_while_it_was_held() -> None:
    observer = LeaseObserver()
    for number in (1, 2, 3):
        observer.observe(renewal(number), number)

    observer.observe(renewal(0, holder="", duration=3600), 4)

    assert (state_of(observer), observer.next_expiry) == (HolderState.READY, 19)
    observer.observe(renewal(5, duration=60), 5)
    assert (state_of(observer), observer.next_expiry) == (HolderState.READY, 65)


@pytest.mark.parametrize("reported", [True, False])
def test_a_lease_made_anew_is_that_of_a_new_holder_also_if_its_deletion_was_not_reported(
    reported: bool,
) -> None:
    observer = LeaseObserver()
    for number in (1, 2, 3):
        observer.observe(renewal(number), number)
    unheld = renewal(0, holder="", duration=3600)
    anew = replace(unheld, metadata=replace(unheld.metadata, uid="another"))

    if reported:
        observer.forget("sys", "lubeck", 4)
    observer.observe(anew, 5)

    assert state_of(observer) is HolderState.UNKNOWN
    assert observer.holder("sys", "lubeck") == ""


def test_a_silent_lease_needs_no_confirmation() -> None:
    observer = LeaseObserver()
    for number in (1, 2, 3):
        observer.observe(renewal(number), number)
    observer.expire(100)

    observer.mark_relisted()

    assert state_of(observer) is HolderState.SILENT
    assert observer.is_confirmed("sys", "lubeck")


def acquired(at: int, renewed: int, version: int, duration: int = 15) -> Lease:
    """A Lease that its holder acquired at one second and renewed at another."""
    lease = renewal(renewed, duration=duration)
    since = f"2026-01-01T00:00:{at:02}.000000Z"
    return replace(
        lease,
        metadata=replace(lease.metadata, resource_version=str(version)),
        spec=replace(lease.spec, acquire_time=since),
    )


def test_a_lease_is_new_for_two_thirds_of_its_duration_by_the_version_first_seen() -> None:
    observer, versions = LeaseObserver(), []

    for renewed, version in ((0, 7), (1, 8), (9, 9), (10, 10), (15, 11)):
        observer.observe(acquired(0, renewed, version), renewed)
        versions.append(observer.acquired_version("sys", "lubeck"))
    observer.observe(acquired(16, 16, 12), 16)  # anew, as after a restore
    versions.append(observer.acquired_version("sys", "lubeck"))

    assert versions == [7, 7, 7, 0, 0, 12]


@pytest.mark.parametrize(
    "lease",
    [
        pytest.param(renewal(1), id="never acquired, as by an earlier version"),
        pytest.param(replace(acquired(1, 1, 7), spec=LeaseSpec()), id="held by nobody"),
        pytest.param(acquired(9, 1, 7), id="a clock that went back"),
        pytest.param(acquired(1, 40, 7), id="long ago"),
    ],
)
def test_no_other_lease_is_new(lease: Lease) -> None:
    observer = LeaseObserver()

    observer.observe(lease, 1)

    assert observer.acquired_version("sys", "lubeck") == 0
    assert observer.acquired_version("sys", "hamburg") == 0


def test_a_lease_whose_age_is_known_later_stays_new() -> None:
    observer = LeaseObserver()
    lease = acquired(0, 0, 7)
    stamped = replace(
        lease, metadata=replace(lease.metadata, managed_fields=(ManagedFieldsEntry(time=NOON),))
    )

    observer.observe(stamped, 1)
    observer.judge_ages(2, NOON)

    assert state_of(observer) is HolderState.READY
    assert observer.acquired_version("sys", "lubeck") == 7
