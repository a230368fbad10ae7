"""The one rule for which changes of conditions are Events."""

import pytest

from hanse.model.conditions import Condition, condition
from hanse.model.kinds.core import Service
from hanse.model.objects import ClusterObjectRef, ObjectRef
from hanse.model.status import condition_events

FISH = ClusterObjectRef("bergen", ObjectRef(Service.kind, "fish", "market"))
GOOD = condition("Ready", True, "Exported", "all clusters can import it")
WAITING = condition("Ready", False, "Pending", "the broker has not taken it yet")
BAD = condition("Ready", False, "Failed", "it conflicts with an older export")
OTHERWISE_BAD = condition("Ready", None, "CredentialsRejected", "the broker rejects our token")
SAID_OTHERWISE = condition("Ready", False, "Failed", "it conflicts with the export of lubeck")
DISPUTE = condition("Conflict", True, "PortConflict,TypeConflict", "ports differ; types differ")
AGREEMENT = condition("Conflict", False, "NoConflicts")


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        pytest.param((), GOOD, [], id="good from the start"),
        pytest.param((), WAITING, [], id="waits from the start"),
        pytest.param((WAITING,), GOOD, [], id="waited"),
        pytest.param((GOOD,), WAITING, [], id="waits again"),
        pytest.param((), BAD, [("Warning", "Failed")], id="bad from the start"),
        pytest.param((GOOD,), BAD, [("Warning", "Failed")], id="turns bad"),
        pytest.param((BAD,), BAD, [], id="stays bad"),
        pytest.param((BAD,), SAID_OTHERWISE, [], id="the same in other words"),
        pytest.param(
            (BAD,), OTHERWISE_BAD, [("Warning", "CredentialsRejected")], id="for another reason"
        ),
        pytest.param((BAD,), GOOD, [("Normal", "Exported")], id="good again"),
        pytest.param((BAD,), WAITING, [("Normal", "Pending")], id="no longer bad"),
        pytest.param((), DISPUTE, [("Warning", "PortConflict")], id="bad because True"),
        pytest.param((), AGREEMENT, [], id="good because False"),
    ],
)
def test_a_change_of_a_condition_is_an_event_or_none(
    before: tuple[Condition, ...], after: Condition, events: list[tuple[str, str]]
) -> None:
    assert [(e.type, e.reason) for e in condition_events(FISH, before, (after,))] == events


def test_a_condition_without_a_message_is_named_when_it_is_good_again() -> None:
    (event,) = condition_events(FISH, (DISPUTE,), (AGREEMENT,))

    assert event.message == "Conflict is False again"


def test_a_message_that_the_api_would_refuse_is_cut() -> None:
    assert len(condition("Ready", False, "Broken", "x" * 40_000).message) == 32_768
