"""Which transitions of a set's conditions emit Events."""

import pytest

from hanse.features.statefulsets.status import set_events
from hanse.model.conditions import Condition, condition
from hanse.model.kinds.apps import StatefulSet
from hanse.model.objects import ClusterObjectRef, ObjectRef

STORE = ClusterObjectRef("broker", ObjectRef(StatefulSet.kind, "store", "shop"))
PLACED = condition("Placed", True, "Placed", "bergen 1, lubeck 1")
READY = condition("Ready", True, "AllReady", "bergen 1/1, lubeck 1/1")
COMING = condition("Ready", False, "Progressing", "bergen 1/1, lubeck 0/1")
AWAY = condition("Ready", False, "ClustersAway", "lubeck cannot be heard")
TROUBLE = condition("Trouble", True, "InClusters", "lubeck: store-lubeck exists already")
MENDED = condition("Trouble", False, "NoTrouble", "every cluster does its part")


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        pytest.param((), PLACED, [("Normal", "Placed")], id="placed"),
        pytest.param((PLACED,), PLACED, [], id="nothing new"),
        pytest.param(
            (PLACED,),
            condition("Placed", True, "Placed", "bergen 2, lubeck 1"),
            [("Normal", "Placed")],
            id="scaled",
        ),
        pytest.param((), COMING, [], id="on its way"),
        pytest.param((COMING,), READY, [], id="as expected"),
        pytest.param((READY,), AWAY, [("Warning", "ClustersAway")], id="a cluster went"),
        pytest.param((AWAY,), COMING, [("Normal", "Progressing")], id="it is back, not ready"),
        pytest.param((AWAY,), READY, [("Normal", "AllReady")], id="it is back"),
        pytest.param((), TROUBLE, [("Warning", "InClusters")], id="trouble"),
        pytest.param((TROUBLE,), MENDED, [("Normal", "NoTrouble")], id="trouble is over"),
    ],
)
def test_a_transition_emits_one_event(
    before: tuple[Condition, ...], after: Condition, events: list[tuple[str, str]]
) -> None:
    assert [(n.type, n.reason) for n in set_events(STORE, before, (after,))] == events
