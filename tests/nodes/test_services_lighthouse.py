"""Services of the lighthouse profile carry connections, by DNS, where Services are routed."""

from collections.abc import Iterator

import pytest

from tests.nodes.fleet import NodesFleet
from tests.nodes.manifests import export, service, workload

HERE, THERE = "lubeck", "hamburg"
SPACE = "lighthouse"


@pytest.fixture(scope="module")
def fleet(routed: NodesFleet) -> Iterator[NodesFleet]:
    """A Service `web` that both clusters export, and `there` that one of them has."""
    routed.create_namespace(SPACE)
    for cluster in routed.clusters:
        exported = (workload("Deployment", cluster), service(), export())
        routed.apply(cluster, SPACE, *exported)
    only_there = (workload("Deployment", THERE, "there", 2), service("there"), export("there"))
    routed.apply(THERE, SPACE, *only_there)
    yield routed
    routed.delete_namespace(SPACE)


@pytest.mark.parametrize("target", ["http://{}", "tcp:{}:81", "udp:{}:82"])
def test_a_pod_reaches_a_service_of_the_other_cluster_by_its_name(
    fleet: NodesFleet, target: str
) -> None:
    name = f"there.{SPACE}.svc.clusterset.local"

    seen = fleet.await_answers(HERE, SPACE, target.format(name), {THERE})

    assert all(answer.pod.startswith("there-") for answer in seen.answers)
