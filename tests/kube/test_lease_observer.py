"""Who is alive, by what we saw ourselves."""

from hanse.kube.lease_observer import HolderLiveness, LeaseObserver
from hanse.model.kinds.coordination import Lease, LeaseSpec
from hanse.model.objects import Meta


def renewal(number: int, holder: str = "a", duration: int = 15) -> Lease:
    return Lease(
        metadata=Meta(name="lubeck", namespace="sys"),
        spec=LeaseSpec(
            holder_identity=holder,
            lease_duration_seconds=duration,
            renew_time=f"2026-01-01T00:00:{number:02}.000000Z",
        ),
    )


def liveness_of(observer: LeaseObserver) -> HolderLiveness:
    return observer.liveness("sys", "lubeck")


def test_what_was_seen_once_is_unknown_until_it_changes() -> None:
    observer = LeaseObserver()

    observer.observe(renewal(1), 0)
    first = liveness_of(observer)
    observer.observe(renewal(1), 2)
    same = liveness_of(observer)
    observer.observe(renewal(2), 3)

    assert (first, same, liveness_of(observer)) == (
        HolderLiveness.UNKNOWN,
        HolderLiveness.UNKNOWN,
        HolderLiveness.ALIVE,
    )
    assert observer.holder("sys", "lubeck") == "a"


def test_a_lease_expires_after_its_own_duration_and_is_reported_once() -> None:
    observer = LeaseObserver()
    observer.observe(renewal(1, duration=30), 0)
    observer.observe(renewal(2, duration=30), 10)

    assert observer.next_expiry == 40
    assert observer.expire(39.9) == ()
    assert observer.expire(40) == (("sys", "lubeck"),)
    assert observer.expire(50) == ()
    assert liveness_of(observer) == HolderLiveness.EXPIRED
    assert observer.next_expiry is None


def test_the_dead_come_back_with_a_new_record_and_not_with_an_old_one() -> None:
    observer = LeaseObserver()
    observer.observe(renewal(1), 0)
    observer.expire(15)

    observer.observe(renewal(1), 16)
    still = liveness_of(observer)
    observer.observe(renewal(2), 17)

    assert still == HolderLiveness.EXPIRED
    assert liveness_of(observer) == HolderLiveness.ALIVE
    assert observer.next_expiry == 32


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


def test_a_deleted_lease_is_unknown() -> None:
    observer = LeaseObserver()
    observer.observe(renewal(1), 0)

    observer.forget("sys", "lubeck")

    assert liveness_of(observer) == HolderLiveness.UNKNOWN
    assert observer.next_expiry is None
