"""Mutation tests of the scenarios: without a protection, the scenario about it fails."""

import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from hanse.features.policies import decision, deletion, ledger_page, observation, record_drafts
from hanse.features.policies.ledger import LocalState
from hanse.features.policies.member_view import LedgerPages, MemberView
from hanse.features.policies.versions import EMPTY_HISTORY
from hanse.model.plan import Read
from hanse.model.snapshot import Snapshot
from tests.features.policies import test_agent_hazards as agents
from tests.features.policies import test_member_hazards as members
from tests.features.policies import test_namespace_hazards as namespaces
from tests.features.policies import test_user_hazards as users
from tinykube.virtual_time import run

deletion_after = (
    namespaces.test_a_deletion_counts_after_a_copy_returned_before_its_parents_were_observed
)
Scenario = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Broken replication logs a lot."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def collect_tombstones_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger_page, "_is_end_known_everywhere", lambda *_: True)


def treat_disappearance_as_deletion(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deletion, "classify_disappearance", lambda *_: deletion.DeletedByUser())


def ignore_version_annotations(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(observation, "parse_version_annotation", lambda *_: None)


def forget_collected_tombstones(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LedgerPages, "collected", lambda *_: EMPTY_HISTORY)


def ignore_ended_stays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LedgerPages, "has_joined", lambda self, member, _: member in self.pages)


def ignore_deletions(patch: pytest.MonkeyPatch) -> None:
    def unchanged(_: Any, stored: Any, known: Any) -> record_drafts.RecordDraft:
        return record_drafts.draft_unchanged(stored, known, record_drafts.absent_state(stored.here))

    patch.setattr(observation, "_observe_absent", unchanged)


def ignore_flips(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(record_drafts, "count_flips", lambda *_: 0)


def forget_former_uid(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decision, "_blocked_without_parent", decision._blocked_decision)


def skip_parent_confirmation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deletion, "confirm_parents", lambda _, here, __: here)


def trust_observed_namespace(patch: pytest.MonkeyPatch) -> None:
    def confirm_parents(view: MemberView, here: LocalState, _: Snapshot) -> LocalState:
        return replace(here, home=view.namespace_uid) if here.exists else here

    patch.setattr(deletion, "confirm_parents", confirm_parents)


def reuse_earlier_reads(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Read, "id", property(lambda read: f"read {read.target}"))


def trust_unreachable_members(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Snapshot, "synced", Snapshot.listed)


def count_every_write_as_generation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        decision, "_generation_after_patch", lambda policy, _: policy.metadata.generation + 1
    )


@pytest.mark.parametrize(
    ("mutate", "scenario"),
    [
        (collect_tombstones_at_once, members.test_member_away_for_a_week),
        (
            treat_disappearance_as_deletion,
            users.test_too_many_deletions_at_once_are_held_until_a_user_allows_them,
        ),
        (
            ignore_version_annotations,
            agents.test_a_late_copy_of_a_leader_that_was_replaced_does_not_bring_a_policy_back,
        ),
        (
            forget_collected_tombstones,
            lambda: members.test_etcd_restored_from_backup(watched=True),
        ),
        (
            ignore_ended_stays,
            lambda: members.test_member_removed_and_rejoined_with_a_stale_copy(force=True),
        ),
        (ignore_deletions, agents.test_delete_during_a_partition),
        (
            ignore_flips,
            users.test_gitops_recreating_what_was_deleted,
        ),
        (
            forget_former_uid,
            namespaces.test_a_namespace_replaced_before_its_policies_are_observed_to_go_deletes_nothing,
        ),
        (
            skip_parent_confirmation,
            lambda: deletion_after("namespace"),
        ),
        (
            skip_parent_confirmation,
            lambda: deletion_after("kind"),
        ),
        (
            trust_observed_namespace,
            namespaces.test_a_namespace_replaced_before_its_policies_are_observed_to_go_deletes_nothing,
        ),
        (
            reuse_earlier_reads,
            namespaces.test_a_namespace_that_goes_a_moment_after_a_deletion_in_it_deletes_nothing_else,
        ),
        (
            treat_disappearance_as_deletion,
            namespaces.test_a_plain_policy_in_a_namespace_made_anew_is_not_the_end_of_its_namesake,
        ),
        (
            trust_unreachable_members,
            agents.test_stale_reads_of_an_unreachable_member_bring_nothing_back,
        ),
        (
            count_every_write_as_generation,
            lambda: agents.test_an_edit_after_a_crash_is_not_taken_for_our_write(request_number=7),
        ),
    ],
    ids=lambda value: value.__name__ if value.__name__ != "<lambda>" else "",
)
def test_without_a_protection_its_scenario_fails(
    mutate: Callable[[pytest.MonkeyPatch], None],
    scenario: Scenario,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutate(monkeypatch)

    with pytest.raises(AssertionError):
        run(scenario())
