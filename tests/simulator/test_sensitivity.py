"""The laws detect faults: without any one protection of the runtime, a schedule breaks one.

Without this a law might hold only because it checks nothing.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hanse.features.federation.feature import Membership
from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.zone import GlobalZone
from hanse.runtime import diff
from hanse.runtime.workqueue import WorkQueue
from tests.support.simulator.runner import failure_of
from tests.support.simulator.schedule import Schedule, Step, do


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """A faulty reconciler logs a lot; a law reads its errors."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def returning(same: Any) -> Callable[..., Any]:
    """A function that returns the same for any arguments."""

    def constant(*_args: Any, **_kw: Any) -> Any:
        return same

    return constant


def raising(error: Exception) -> Callable[..., Any]:
    """A function that raises an error for any arguments."""

    def failing(*_args: Any, **_kw: Any) -> Any:
        raise error

    return failing


def foreign_objects_are_overwritten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(diff.DiffBuilder, "_may_overwrite", returning(True))


def nothing_is_retried(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WorkQueue, "add_after", returning(None))


def patches_without_effect_are_sent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(diff, "patch_has_effect", returning(True))


OFFER = do("services.offer", "lubeck", "web", False, pause=5)


@pytest.mark.parametrize(
    ("without", "steps"),
    [
        (
            foreign_objects_are_overwritten,
            (do("services.own_import", "hamburg", "web"), OFFER),
        ),
        (
            nothing_is_retried,
            (do("faults.cut", "lubeck", "broker"), OFFER, do("faults.heal_links", pause=40)),
        ),
        (
            patches_without_effect_are_sent,
            (OFFER,),
        ),
    ],
)
def test_some_law_breaks_when(
    without: Callable[[pytest.MonkeyPatch], None],
    steps: tuple[Step, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without(monkeypatch)

    assert failure_of(Schedule(steps)) is not None, "no law noticed"


@pytest.mark.parametrize(
    ("of", "method"),
    [
        (GlobalZone, "_nodes"),
        (GlobalZone, "keys_for"),
        (GlobalZone, "probes"),
        (Gslb, "plan"),
        (Gslb, "keys_for"),
        (Membership, "connection_intents"),
    ],
)
def test_what_a_feature_fails_to_do_breaks_a_law_of_its_own(
    of: type, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of, method, raising(OverflowError("int too big to convert")))

    failure = failure_of(Schedule((do("gslb.serve", "lubeck"),)))

    assert failure is not None
    assert failure.law == "keys-planned"
    assert "int too big to convert" in failure.message
