"""The scheduler: which node a pod is bound to."""

from typing import Any

import pytest

from tinykube.controllers.controller import Patch
from tinykube.controllers.scheduler import choose_node, is_schedulable, node_fits, unschedulable
from tinykube.resources import Object

from .builders import NOW, node, pod


def unassigned_pod(**spec: Any) -> Object:
    made = pod(node="", phase="Pending", ip="", ready=False)
    made["spec"] |= spec
    return made


def test_the_node_with_the_fewest_pods_is_chosen() -> None:
    nodes = [node("n1"), node("n2"), node("n3")]

    assert choose_node(unassigned_pod(), nodes, {"n1": 2, "n2": 1, "n3": 1}) == "n2"


def test_unready_and_unschedulable_nodes_are_skipped() -> None:
    nodes = [node("n1", ready=False), node("n2", unschedulable=True), node("n3")]

    assert [is_schedulable(one) for one in nodes] == [False, False, True]
    assert choose_node(unassigned_pod(), nodes, {}) == "n3"


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
NEAR = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        pytest.param({"nodeSelector": {"topology.kubernetes.io/zone": "a"}}, True, id="zone"),
        pytest.param({"nodeSelector": {"disk": "fast"}}, False, id="label missing"),
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {
                        NEAR: {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {
                                            "key": "topology.kubernetes.io/zone",
                                            "operator": "NotIn",
                                            "values": ["a"],
                                        }
                                    ]
                                }
                            ]
                        }
                    }
                }
            },
            False,
            id="affinity",
        ),
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {
                        NEAR: {
                            "nodeSelectorTerms": [
                                {
                                    "matchFields": [
                                        {
                                            "key": "metadata.name",
                                            "operator": "In",
                                            "values": ["node-1"],
                                        }
                                    ]
                                }
                            ]
                        }
                    }
                }
            },
            True,
            id="affinity by name",
        ),
    ],
)
def test_node_selectors_and_affinity_restrict_nodes(spec: dict[str, Any], fits: bool) -> None:
    assert node_fits(node(), unassigned_pod(**spec)) is fits


@pytest.mark.parametrize(
    ("tolerations", "fits"),
    [
        pytest.param([], False, id="none"),
        pytest.param([{"operator": "Exists"}], True, id="everything"),
        pytest.param([{"key": "gpu", "value": "yes"}], True, id="equal"),
        pytest.param([{"key": "gpu", "value": "no"}], False, id="another value"),
    ],
)
def test_taints_keep_pods_off(tolerations: list[Object], fits: bool) -> None:
    assert node_fits(node(taints=[TAINT]), unassigned_pod(tolerations=tolerations)) is fits


def test_an_unschedulable_pod_gets_one_condition_and_event() -> None:
    member = unassigned_pod(nodeSelector={"disk": "fast"})

    assert choose_node(member, [node()], {}) == ""
    result = unschedulable(member, 1, NOW)
    patch = result.writes[0]
    assert isinstance(patch, Patch)
    member["status"] |= patch.body["status"]

    reason = next(one for one in member["status"]["conditions"] if one["type"] == "PodScheduled")
    assert reason["reason"] == "Unschedulable"
    assert unschedulable(member, 1, NOW).writes == ()
