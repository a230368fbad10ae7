"""The members of a local federation, and their initial objects."""

import pytest

from hanse.local.up.bootstrap import base_objects, crd_objects
from hanse.local.up.errors import InvalidClusterNames
from hanse.local.up.sample import sample_objects
from hanse.local.up.topology import plan_members


def test_the_first_two_supervise_and_the_broker_comes_last() -> None:
    members = plan_members(["lubeck", "hamburg", "bergen"])

    assert [(one.name, one.role) for one in members] == [
        ("lubeck", "supervisor"),
        ("hamburg", "supervisor"),
        ("bergen", "child"),
        ("broker", "broker"),
    ]


@pytest.mark.parametrize(
    ("names", "why"),
    [
        pytest.param([], "0 clusters were asked for", id="none"),
        pytest.param([f"c{n}" for n in range(100)], "100 clusters were asked for", id="too many"),
        pytest.param([""], "'' is not a DNS label", id="empty"),
        pytest.param(["9lives"], "'9lives' is not a DNS label", id="beginning with a digit"),
        pytest.param(["a" * 64], "is not a DNS label", id="too long"),
        pytest.param(["a", "a"], "'a' is given twice", id="twice"),
        pytest.param(["broker"], "'broker' is the broker's own", id="broker"),
    ],
)
def test_names_that_cannot_be_used_are_refused(names: list[str], why: str) -> None:
    with pytest.raises(InvalidClusterNames, match=why):
        plan_members(names)


def test_only_the_broker_has_a_cluster_set() -> None:
    lubeck, broker = plan_members(["lubeck"])

    assert [one.object["kind"] for one in base_objects(broker)].count("ClusterSet") == 1
    assert all(one.object["kind"] == "Namespace" for one in base_objects(lubeck))
    assert sample_objects(broker) == ()


def test_every_kind_is_defined_once() -> None:
    paths = [one.path for one in crd_objects()]

    assert len(set(paths)) == len(paths)
