"""The laws can fail: with any one protection of the engine taken away, some schedule breaks one.

Without this a law that holds always might hold because it looks at nothing.
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
    """A broken engine complains a lot."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def whatever(same: Any) -> Callable[..., Any]:
    """A function that gives the same for everything."""

    def given(*_args: Any, **_kw: Any) -> Any:
        return same

    return given


def foreign_objects_are_overwritten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(diff.DiffBuilder, "_may_overwrite", whatever(True))


def updates_have_no_preconditions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(apply, "with_preconditions", lambda change, _: change)


def deletions_have_no_preconditions(patch: pytest.MonkeyPatch) -> None:
    delete = ClusterClient.delete

    async def blindly(self: ClusterClient, kind: Any, name: str, space: str, **_: str) -> Any:
        return await delete(self, kind, name, space)

    patch.setattr(ClusterClient, "delete", blindly)


def unreachable_is_taken_for_absent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(diff, "_has_departed", whatever(True))


def steps_go_all_at_once(patch: pytest.MonkeyPatch) -> None:
    async def at_once(self: apply.Writer, several: list[Any]) -> list[apply.WriteReport]:
        return [await self._write(action) for action in several]

    patch.setattr(diff.DiffBuilder, "_is_stopped", whatever(False))
    patch.setattr(apply.Writer, "_apply_in_steps", at_once)


def nothing_is_tried_later(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WorkQueue, "add_after", whatever(None))


def who_waits_is_not_woken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Enqueuer, "_enqueue_waiting", whatever(None))
    patch.setattr(Enqueuer, "_enqueue_owner", whatever(None))


def what_is_so_already_is_written_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(diff, "patch_has_effect", whatever(True))


@pytest.mark.parametrize(
    "without",
    [
        foreign_objects_are_overwritten,
        updates_have_no_preconditions,
        deletions_have_no_preconditions,
        unreachable_is_taken_for_absent,
        steps_go_all_at_once,
        nothing_is_tried_later,
        who_waits_is_not_woken,
        what_is_so_already_is_written_again,
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
    except schedules.Broken:
        return True
    return False
