"""Mutation tests of the laws: without any one protection, some schedule of a few dozen breaks one.

They show that a search that finds nothing does check something.
"""

import logging
from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from hanse.features.policies import feature, ledger_page, observation, record_drafts
from hanse.features.policies.ledger import PolicyRecord
from hanse.features.policies.member_view import LedgerPages, merged_history
from hanse.features.policies.versions import History, Version
from hanse.model.plan import Key
from hanse.model.snapshot import Snapshot
from tests.features.policies import schedules
from tests.features.policies.test_hazard_mutations import (
    collect_tombstones_at_once,
    ignore_ended_stays,
    skip_parent_confirmation,
    treat_disappearance_as_deletion,
)

SEEDS = 120
"""Schedules to try, from a seed on that is known to break a law soon; a change of the schedules
moves that seed."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Broken replication logs a lot."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def ignore_edits_after_own_write(patch: pytest.MonkeyPatch) -> None:
    def acknowledge(
        observed: record_drafts.ObservedPolicy,
        stored: PolicyRecord,
        known: History,
        target: Version,
        _: int,
    ) -> record_drafts.RecordDraft:
        return record_drafts.draft_unchanged(stored, known, observed.state_at(target.dot))

    patch.setattr(observation, "_observe_own_write", acknowledge)


def accept_records_of_earlier_stays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger_page, "_is_key_known", lambda *_: True)


def ignore_collected_contexts(patch: pytest.MonkeyPatch) -> None:
    def known(key: Key, ledgers: LedgerPages, snapshot: Snapshot) -> History:
        pages = {m: replace(one, collected={}) for m, one in ledgers.pages.items()}
        return merged_history(key, replace(ledgers, pages=pages), snapshot)

    patch.setattr(feature, "merged_history", known)


@pytest.mark.parametrize(
    ("mutate", "first"),
    [
        (treat_disappearance_as_deletion, 35),
        (ignore_ended_stays, 0),
        (ignore_collected_contexts, 35),
        (ignore_edits_after_own_write, 0),
        (collect_tombstones_at_once, 55),
        (skip_parent_confirmation, 510375),
        (accept_records_of_earlier_stays, 290),
    ],
)
def test_some_law_breaks_when(
    mutate: Callable[[pytest.MonkeyPatch], None], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)

    assert any(_breaks(seed) for seed in range(first, first + SEEDS)), "no law noticed"


def _breaks(seed: int) -> bool:
    try:
        schedules.play(seed)
    except schedules.LawBroken:
        return True
    return False
