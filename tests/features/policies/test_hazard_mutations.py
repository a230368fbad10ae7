"""The scenarios can fail: with one protection taken away, the one that is about it does."""

import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from hanse.features.policies import decision, deletion, ledger_page, observation
from hanse.features.policies.ledger import LocalState
from hanse.features.policies.member_view import Ledgers, MemberView
from hanse.features.policies.versions import EMPTY_HISTORY
from hanse.model.plan import Read
from hanse.model.snapshot import Snapshot
from tests.features.policies import test_agent_hazards as agents
from tests.features.policies import test_member_hazards as members
from tests.features.policies import test_namespace_hazards as homes
from tests.features.policies import test_user_hazards as people
from tinykube.virtual_time import run

deletion_after = homes.test_a_deletion_counts_after_a_copy_came_back_before_its_home_was_seen
Scenario = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Broken replication complains a lot."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def tombstones_go_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger_page, "_is_end_known_everywhere", lambda *_: True)


def whatever_is_gone_was_deleted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deletion, "classify_disappearance", lambda *_: deletion.DeletedByUser())


def copies_carry_no_mark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(observation, "parse_version_annotation", lambda *_: None)


def collected_tombstones_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledgers, "collected", lambda *_: EMPTY_HISTORY)


def nobody_notices_who_was_away(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledgers, "has_joined", lambda self, member, _: member in self.pages)


def deletions_are_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    def nothing(_: Any, own: Any, known: Any) -> observation.RecordDraft:
        return observation._draft_unchanged(own, known, observation._absent_state(own.here))

    patch.setattr(observation, "_observe_absent", nothing)


def nobody_counts_how_often_something_comes_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(observation, "count_flips", lambda *_: 0)


def what_went_with_its_namespace_stands_in_the_next(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decision, "_blocked_without_parent", decision._blocked)


def where_it_was_seen_first_is_where_it_stands(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deletion, "confirm_parents", lambda _, here, __: here)


def what_is_seen_is_of_the_namespace_that_is_seen(patch: pytest.MonkeyPatch) -> None:
    def confirm_parents(view: MemberView, here: LocalState, _: Snapshot) -> LocalState:
        return replace(here, home=view.namespace_uid) if here.exists else here

    patch.setattr(deletion, "confirm_parents", confirm_parents)


def what_was_read_a_moment_before_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Read, "id", property(lambda read: f"read {read.place}"))


def what_was_ever_read_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Snapshot, "synced", Snapshot.listed)


def every_write_gives_a_generation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        decision, "_generation_after_patch", lambda policy, _: policy.metadata.generation + 1
    )


@pytest.mark.parametrize(
    ("weaken", "scenario"),
    [
        (tombstones_go_at_once, members.test_member_away_for_a_week),
        (
            whatever_is_gone_was_deleted,
            people.test_too_many_that_vanish_at_once_are_held_until_a_person_says_so,
        ),
        (
            copies_carry_no_mark,
            agents.test_a_late_copy_of_a_leader_that_was_replaced_does_not_bring_a_policy_back,
        ),
        (
            collected_tombstones_are_forgotten,
            lambda: members.test_etcd_restored_from_backup(watched=True),
        ),
        (
            nobody_notices_who_was_away,
            lambda: members.test_member_removed_and_rejoined_with_a_stale_copy(force=True),
        ),
        (deletions_are_not_looked_for, agents.test_delete_during_a_partition),
        (
            nobody_counts_how_often_something_comes_back,
            people.test_gitops_recreating_what_was_deleted,
        ),
        (
            what_went_with_its_namespace_stands_in_the_next,
            homes.test_a_namespace_replaced_before_its_policies_are_seen_to_go_deletes_nothing,
        ),
        (
            where_it_was_seen_first_is_where_it_stands,
            lambda: deletion_after("namespace"),
        ),
        (
            where_it_was_seen_first_is_where_it_stands,
            lambda: deletion_after("kind"),
        ),
        (
            what_is_seen_is_of_the_namespace_that_is_seen,
            homes.test_a_namespace_replaced_before_its_policies_are_seen_to_go_deletes_nothing,
        ),
        (
            what_was_read_a_moment_before_counts,
            homes.test_a_namespace_that_goes_a_moment_after_a_deletion_in_it_deletes_nothing_else,
        ),
        (
            whatever_is_gone_was_deleted,
            homes.test_a_plain_policy_in_a_namespace_made_anew_is_not_the_end_of_its_namesake,
        ),
        (
            what_was_ever_read_counts,
            agents.test_what_was_read_of_a_member_before_it_was_out_of_sight_brings_nothing_back,
        ),
        (
            every_write_gives_a_generation,
            lambda: agents.test_an_edit_after_a_crash_is_nobody_elses_write(request_number=7),
        ),
    ],
    ids=lambda value: value.__name__ if value.__name__ != "<lambda>" else "",
)
def test_without_a_protection_its_scenario_fails(
    weaken: Callable[[pytest.MonkeyPatch], None],
    scenario: Scenario,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weaken(monkeypatch)

    with pytest.raises(AssertionError):
        run(scenario())
