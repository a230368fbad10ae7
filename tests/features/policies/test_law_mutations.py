"""The laws can fail: with any one protection taken away, some schedule of a few dozen breaks one.

Without this a search that finds nothing might look at nothing.
"""

import logging
from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from hanse.features.policies import feature, ledger_page, observation
from hanse.features.policies.ledger import PolicyRecord
from hanse.features.policies.member_view import Ledgers, merged_history
from hanse.features.policies.versions import History, Version
from hanse.model.plan import Key
from hanse.model.snapshot import Snapshot
from tests.features.policies import schedules
from tests.features.policies.test_hazard_mutations import (
    nobody_notices_who_was_away,
    tombstones_go_at_once,
    whatever_is_gone_was_deleted,
    where_it_was_seen_first_is_where_it_stands,
)

SEEDS = 120
"""Schedules to try, from one on that is known to come to something soon: who changes what happens
in schedules will find it elsewhere among these."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Broken replication complains a lot."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def edits_that_follow_our_write_are_ours(patch: pytest.MonkeyPatch) -> None:
    def acknowledge(
        it: observation.ObservedPolicy, own: PolicyRecord, known: History, target: Version, _: int
    ) -> observation.RecordDraft:
        return observation._draft_unchanged(own, known, it.state_at(target.dot))

    patch.setattr(observation, "_observe_own_write", acknowledge)


def records_of_an_earlier_stay_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger_page, "_is_key_known", lambda *_: True)


def nobody_tells_of_what_was_collected(patch: pytest.MonkeyPatch) -> None:
    def known(key: Key, ledgers: Ledgers, snapshot: Snapshot) -> History:
        pages = {m: replace(one, collected={}) for m, one in ledgers.pages.items()}
        return merged_history(key, replace(ledgers, pages=pages), snapshot)

    patch.setattr(feature, "merged_history", known)


@pytest.mark.parametrize(
    ("without", "first"),
    [
        (whatever_is_gone_was_deleted, 35),
        (nobody_notices_who_was_away, 0),
        (nobody_tells_of_what_was_collected, 35),
        (edits_that_follow_our_write_are_ours, 0),
        (tombstones_go_at_once, 55),
        (where_it_was_seen_first_is_where_it_stands, 510375),
        (records_of_an_earlier_stay_count, 290),
    ],
)
def test_some_law_breaks_when(
    without: Callable[[pytest.MonkeyPatch], None], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch)

    assert any(_breaks(seed) for seed in range(first, first + SEEDS)), "no law noticed"


def _breaks(seed: int) -> bool:
    try:
        schedules.play(seed)
    except schedules.Broken:
        return True
    return False
