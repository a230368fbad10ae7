"""Replicas of a StatefulSet over clusters dial each other by their global names."""

import pytest

from tests.nodes.fleet import Answer, NodesFleet, until
from tests.nodes.manifests import TCP, Manifest, namespace, service, workload

CLUSTERS = ("lubeck", "hamburg", "bergen")
SPACE = "replicas"
ZONE = "myfederation.svc.example.com"
"""The names of replicas over all clusters, as agents have it without options."""


def _submitted() -> tuple[Manifest, ...]:
    """A set with one replica for each cluster, each with a load balancer, and its Service."""
    replicas = workload("StatefulSet", "any", "peer", 3)
    annotations = {"federation.kubernetes.io/statefulset-lb-needed": "true"}
    replicas["metadata"]["annotations"] = annotations
    governing = service("peer", clusterIP="None")
    governing["spec"]["ports"] = [{"name": "tcp", "port": TCP, "targetPort": TCP}]
    return namespace(SPACE), governing, replicas


@pytest.fixture(scope="module")
def fleet(isolated: NodesFleet) -> NodesFleet:
    isolated.apply("broker", SPACE, *_submitted())
    for cluster in CLUSTERS:
        until(
            lambda cluster=cluster: (
                isolated.kubectl(  # type: ignore[misc]
                    cluster, "-n", SPACE, "wait", "--for=condition=Ready", f"pod/peer-{cluster}-0"
                ).status
            ),
            lambda status: status == 0,
        )
    return isolated


@pytest.mark.parametrize("caller", CLUSTERS)
@pytest.mark.parametrize("called", CLUSTERS)
def test_replicas_dial_each_other_by_global_names(
    fleet: NodesFleet, caller: str, called: str
) -> None:
    target = f"peer-{called}-0.peer.{SPACE}.{ZONE}:{TCP}"
    inside = ("exec", f"peer-{caller}-0", "--", "/netcheck", "tcp", target)

    result = until(
        lambda: fleet.kubectl(caller, "-n", SPACE, *inside), lambda seen: seen.status == 0
    )

    assert Answer(*result.out.split()).pod == f"peer-{called}-0"
