"""The laws detect faults: without any one protection of the reconciler, a schedule violates one.

Without this a law might hold only because it checks nothing.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hanse.runtime import apply, diff
from hanse.runtime.api import ClusterClient
from hanse.runtime.enqueue import Enqueuer
from hanse.runtime.workqueue import WorkQueue
from tests.runtime import schedules

SEEDS = 120
"""Schedules to try; most protections are missed within the first dozen."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """A faulty reconciler logs a lot."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def returning(same: Any) -> Callable[..., Any]:
    """A function that returns the same for any arguments."""

    def constant(*_args: Any, **_kw: Any) -> Any:
        return same

    return constant


def foreign_objects_are_overwritten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(diff.DiffBuilder, "_may_overwrite", returning(True))


def updates_have_no_preconditions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(apply, "with_preconditions", lambda change, _: change)


def deletions_have_no_preconditions(patch: pytest.MonkeyPatch) -> None:
    delete = ClusterClient.delete

    async def without_preconditions(
        self: ClusterClient, kind: Any, name: str, space: str, **_: str
    ) -> Any:
        return await delete(self, kind, name, space)

    patch.setattr(ClusterClient, "delete", without_preconditions)


def unreachable_counts_as_absent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(diff, "_has_departed", returning(True))


def steps_go_all_at_once(patch: pytest.MonkeyPatch) -> None:
    async def at_once(self: apply.Writer, several: list[Any]) -> list[apply.WriteReport]:
        return [await self._write_if_leader(action) for action in several]

    patch.setattr(diff.DiffBuilder, "_is_stopped", returning(False))
    patch.setattr(apply.Writer, "_apply_in_steps", at_once)


def nothing_is_retried(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WorkQueue, "add_after", returning(None))


def waiting_keys_are_not_enqueued(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Enqueuer, "_enqueue_waiting", returning(None))
    patch.setattr(Enqueuer, "_enqueue_owner", returning(None))


def patches_without_effect_are_sent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(diff, "patch_has_effect", returning(True))


@pytest.mark.parametrize(
    "without",
    [
        foreign_objects_are_overwritten,
        updates_have_no_preconditions,
        deletions_have_no_preconditions,
        unreachable_counts_as_absent,
        steps_go_all_at_once,
        nothing_is_retried,
        waiting_keys_are_not_enqueued,
        patches_without_effect_are_sent,
    ],
)
def test_some_law_breaks_when(
    without: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch)

    assert any(_breaks(seed) for seed in range(SEEDS)), "no law noticed"


def _breaks(seed: int) -> bool:
    try:
        schedules.play(seed)
    except schedules.LawViolation:
        return True
    return False
