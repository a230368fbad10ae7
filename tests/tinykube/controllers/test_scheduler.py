"""Which node a pod is assigned to."""

from typing import Any

import pytest

from tinykube.controllers.controller import Patch
from tinykube.controllers.scheduler import choose_node, is_schedulable, node_fits, unschedulable
from tinykube.resources import Object

from .builders import NOW, node, pod


def waiting(**spec: Any) -> Object:
    made = pod(node="", phase="Pending", ip="", ready=False)
    made["spec"] |= spec
    return made


def test_the_emptiest_node_is_taken() -> None:
    nodes = [node("n1"), node("n2"), node("n3")]

    assert choose_node(waiting(), nodes, {"n1": 2, "n2": 1, "n3": 1}) == "n2"


def test_unready_and_closed_nodes_are_passed_over() -> None:
    nodes = [node("n1", ready=False), node("n2", unschedulable=True), node("n3")]

    assert [is_schedulable(one) for one in nodes] == [False, False, True]
    assert choose_node(waiting(), nodes, {}) == "n3"


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
def test_a_pod_says_where_it_may_run(spec: dict[str, Any], fits: bool) -> None:
    assert node_fits(node(), waiting(**spec)) is fits


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
    assert node_fits(node(taints=[TAINT]), waiting(tolerations=tolerations)) is fits


def test_a_pod_that_fits_nowhere_says_so_once() -> None:
    member = waiting(nodeSelector={"disk": "fast"})

    assert choose_node(member, [node()], {}) == ""
    result = unschedulable(member, 1, NOW)
    patch = result.writes[0]
    assert isinstance(patch, Patch)
    member["status"] |= patch.body["status"]

    reason = next(one for one in member["status"]["conditions"] if one["type"] == "PodScheduled")
    assert reason["reason"] == "Unschedulable"
    assert unschedulable(member, 1, NOW).writes == ()
