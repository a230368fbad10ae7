"""The laws of merging histories, whatever happened where and in whichever order it is merged."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.features.policies.content import Content
from hanse.features.policies.versions import (
    DELETED_DIGEST,
    EMPTY_HISTORY,
    Dot,
    History,
    State,
    Version,
    append_event,
    count_flips,
    merge,
    merge_all,
)

ACTORS = ("bergen~1", "hamburg~1", "lubeck~1")
STATES: tuple[State, ...] = ("Present", "Deleted", "Orphaned")

Action = tuple[int, int, str]

stories = st.lists(
    st.one_of(
        st.tuples(st.just("act"), st.integers(0, 2), st.sampled_from("abcDO")),
        st.tuples(st.just("merge"), st.integers(0, 2), st.integers(0, 2)),
        st.tuples(st.just("forget"), st.integers(0, 2), st.just(0)),
    ),
    max_size=25,
)
"""Stories of three members: users act, members merge histories, tombstones are collected."""


def append(history: History, actor: str, content: str) -> History:
    state: State = {"D": "Deleted", "O": "Orphaned"}.get(content, "Present")  # type: ignore[assignment]
    return append_event(history, actor, state, Content(spec={"rule": content}), content)


def histories_after(story: Sequence[tuple[str, int, object]]) -> list[History]:
    """The histories of three members after a story, in which every event is a new one."""
    histories = [EMPTY_HISTORY, EMPTY_HISTORY, EMPTY_HISTORY]
    for action, member, content in story:
        if action == "act":
            histories[member] = append(histories[member], ACTORS[member], str(content))
        elif action == "merge":
            assert isinstance(content, int)
            histories[member] = merge(histories[member], histories[content])
        elif histories[member].entries and all(
            e.state == "Deleted" for e in histories[member].entries
        ):
            histories[member] = History(histories[member].context)
    return histories


@given(stories)
@settings(max_examples=300)
def test_merging_is_commutative_associative_and_idempotent(story: list[object]) -> None:
    a, b, c = histories_after(story)  # type: ignore[arg-type]

    assert merge(a, b) == merge(b, a)
    assert merge(merge(a, b), c) == merge(a, merge(b, c))
    assert merge(a, a) == a
    assert merge(merge(a, b), b) == merge(a, b)
    assert merge_all([a, b, c]) == merge_all([c, a, b])


@given(stories, st.sampled_from("abc"))
def test_who_acts_knowing_everything_wins(story: list[object], content: str) -> None:
    everything = merge_all(histories_after(story))  # type: ignore[arg-type]

    after = append(everything, ACTORS[1], content)

    assert after.winner is not None
    assert after.winner.digest == content
    assert all(merge(after, one) == after for one in histories_after(story))  # type: ignore[arg-type]


@given(stories)
def test_no_version_is_lost_unless_an_action_that_knew_it_supersedes_it(
    story: list[object],
) -> None:
    histories = histories_after(story)  # type: ignore[arg-type]
    merged = merge_all(histories)

    for history in histories:
        for entry in history.entries:
            superseded = any(h.covers(entry.dot) and h.entry(entry.dot) is None for h in histories)
            assert superseded or merged.entry(entry.dot) == entry


def present(actor: str, count: int, weight: int, digest: str = "a") -> Version:
    return Version(Dot(actor, count), weight, "Present", digest)


def test_of_two_changes_that_crossed_the_one_with_the_larger_sum_counts() -> None:
    start = append(EMPTY_HISTORY, ACTORS[0], "a")
    often = append(append(start, ACTORS[0], "b"), ACTORS[0], "c")
    once = append(start, ACTORS[2], "z")

    merged = merge(often, once)

    assert merged.winner is not None
    assert merged.winner.digest == "c"
    assert [e.digest for e in merged.overruled] == ["z"]


def test_with_equal_sums_the_cluster_decides_and_never_the_order_of_hearing() -> None:
    start = append(EMPTY_HISTORY, ACTORS[0], "a")
    one, other = append(start, ACTORS[1], "x"), append(start, ACTORS[2], "y")

    assert merge(one, other).winner == merge(other, one).winner
    assert merge(one, other).winner == other.winner


def test_a_change_beats_a_deletion_that_crossed_it_and_leaving_beats_both() -> None:
    start = append(EMPTY_HISTORY, ACTORS[0], "a")
    edited, deleted = append(start, ACTORS[0], "b"), append(start, ACTORS[2], "D")
    left = append(start, ACTORS[1], "O")

    crossed = merge(edited, deleted)

    assert crossed.winner == edited.winner
    assert [e.state for e in crossed.overruled] == ["Deleted"]
    assert merge(crossed, left).winner == left.winner


def test_the_same_change_in_two_clusters_is_no_conflict() -> None:
    start = append(EMPTY_HISTORY, ACTORS[0], "a")

    merged = merge(append(start, ACTORS[1], "x"), append(start, ACTORS[2], "x"))

    assert len(merged.entries) == 2
    assert merged.overruled == ()


def test_a_collected_tombstone_still_ends_what_it_ended() -> None:
    start = append(EMPTY_HISTORY, ACTORS[0], "a")
    collected = History(append(start, ACTORS[1], "D").context)

    assert merge(start, collected).winner is None
    assert merge(collected, append(collected, ACTORS[2], "a")).winner is not None


def test_versions_brought_back_against_another_cluster_are_counted() -> None:
    history = append(append(EMPTY_HISTORY, ACTORS[0], "a"), ACTORS[0], "D")
    for turn in range(1, 4):
        member, content = (ACTORS[1], "a") if turn % 2 else (ACTORS[0], "D")
        history = append(history, member, content)
        assert history.winner is not None
        assert history.winner.flips == turn

    assert count_flips(history.winner, "lubeck", "b") == 0, "something new is no flip"
    assert count_flips(append(history, ACTORS[1], DELETED_DIGEST).winner, "hamburg", "a") == 0, (
        "nor one's own"
    )
