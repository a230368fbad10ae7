"""Who is alive, by what we saw ourselves."""

from hanse.kube.lease_observer import HolderLiveness, LeaseObserver
from hanse.model.kinds.coordination import Lease, LeaseSpec
from hanse.model.objects import Meta


def beat(number: int, holder: str = "a", duration: int = 15) -> Lease:
    return Lease(
        metadata=Meta(name="lubeck", namespace="sys"),
        spec=LeaseSpec(
            holder_identity=holder,
            lease_duration_seconds=duration,
            renew_time=f"2026-01-01T00:00:{number:02}.000000Z",
        ),
    )


def pulse(beats: LeaseObserver) -> HolderLiveness:
    return beats.liveness("sys", "lubeck")


def test_what_was_seen_once_is_unknown_until_it_changes() -> None:
    beats = LeaseObserver()

    beats.observe(beat(1), 0)
    first = pulse(beats)
    beats.observe(beat(1), 2)
    same = pulse(beats)
    beats.observe(beat(2), 3)

    assert (first, same, pulse(beats)) == (
        HolderLiveness.UNKNOWN,
        HolderLiveness.UNKNOWN,
        HolderLiveness.ALIVE,
    )
    assert beats.holder("sys", "lubeck") == "a"


def test_a_lease_lapses_after_its_own_duration_and_is_told_once() -> None:
    beats = LeaseObserver()
    beats.observe(beat(1, duration=30), 0)
    beats.observe(beat(2, duration=30), 10)

    assert beats.next_expiry == 40
    assert beats.expire(39.9) == ()
    assert beats.expire(40) == (("sys", "lubeck"),)
    assert beats.expire(50) == ()
    assert pulse(beats) == HolderLiveness.EXPIRED
    assert beats.next_expiry is None


def test_the_dead_come_back_with_a_new_record_and_not_with_an_old_one() -> None:
    beats = LeaseObserver()
    beats.observe(beat(1), 0)
    beats.expire(15)

    beats.observe(beat(1), 16)
    still = pulse(beats)
    beats.observe(beat(2), 17)

    assert still == HolderLiveness.EXPIRED
    assert pulse(beats) == HolderLiveness.ALIVE
    assert beats.next_expiry == 32


def test_nobody_dies_while_we_cannot_see_and_then_all_have_a_full_duration() -> None:
    beats = LeaseObserver()
    beats.observe(beat(1), 0)
    beats.observe(beat(2), 1)
    beats.mark_unreachable()

    blind = (beats.expire(100), beats.next_expiry)
    beats.mark_reachable(100)

    assert blind == ((), None)
    assert beats.expire(114) == ()
    assert beats.expire(115) == (("sys", "lubeck"),)


def test_a_lease_given_back_lapses_within_a_second() -> None:
    beats = LeaseObserver()
    beats.observe(beat(1), 0)
    beats.observe(beat(2), 1)

    beats.observe(beat(3, holder="", duration=1), 2)

    assert beats.expire(3) == (("sys", "lubeck"),)


def test_a_deleted_lease_is_unknown() -> None:
    beats = LeaseObserver()
    beats.observe(beat(1), 0)

    beats.forget("sys", "lubeck")

    assert pulse(beats) == HolderLiveness.UNKNOWN
    assert beats.next_expiry is None
