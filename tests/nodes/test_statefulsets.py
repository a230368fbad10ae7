"""Replicas of a StatefulSet over clusters dial each other by their global names."""

import pytest

from tests.nodes.fleet import NodesFleet
from tests.nodes.manifests import TCP, federated_set, namespace

CLUSTERS = ("lubeck", "hamburg", "bergen")
SPACE = "replicas"
ZONE = "myfederation.svc.example.com"
"""The names of replicas over all clusters, as agents have it without options."""


@pytest.fixture(scope="module")
def fleet(isolated: NodesFleet) -> NodesFleet:
    isolated.apply("broker", SPACE, namespace(SPACE), *federated_set("peer", len(CLUSTERS)))
    for cluster in CLUSTERS:
        isolated.await_replica(cluster, SPACE, f"peer-{cluster}-0")
    return isolated


@pytest.mark.parametrize("caller", CLUSTERS)
@pytest.mark.parametrize("called", CLUSTERS)
def test_replicas_dial_each_other_by_global_names(
    fleet: NodesFleet, caller: str, called: str
) -> None:
    target = f"peer-{called}-0.peer.{SPACE}.{ZONE}:{TCP}"

    answer = fleet.await_answer_to_pod(caller, SPACE, f"peer-{caller}-0", target)

    assert answer.pod == f"peer-{called}-0"
