"""GSLB hosts: a client that follows the answers reaches the cluster that they name."""

from collections.abc import Iterator

import pytest

from tests.nodes.fleet import NodesFleet

FIRST, SECOND, RESERVE = "lubeck", "hamburg", "bergen"
SPACE = "travellers"
HOST = "http://web.global.test"


@pytest.fixture(scope="module")
def fleet(isolated: NodesFleet) -> Iterator[NodesFleet]:
    """The shop of the sample: two clusters share the answers, the third has a lower priority."""
    isolated.create_namespace(SPACE)
    yield isolated
    isolated.delete_namespace(SPACE)


def _scale(fleet: NodesFleet, cluster: str, replicas: int) -> None:
    fleet.must(cluster, "-n", "shop", "scale", "deployment/web", f"--replicas={replicas}")


@pytest.mark.parametrize("client", [FIRST, SECOND, RESERVE])
def test_clients_in_every_cluster_follow_a_global_host(fleet: NodesFleet, client: str) -> None:
    fleet.await_answers(client, SPACE, HOST, {FIRST, SECOND}, 24)


def test_clients_reach_the_reserve_while_no_other_cluster_can_answer(fleet: NodesFleet) -> None:
    for cluster in (FIRST, SECOND):
        _scale(fleet, cluster, 0)
    fleet.await_answers(SECOND, SPACE, HOST, {RESERVE}, 4)

    _scale(fleet, FIRST, 2)
    fleet.await_answers(SECOND, SPACE, HOST, {FIRST}, 4)

    _scale(fleet, SECOND, 2)
    fleet.await_answers(SECOND, SPACE, HOST, {FIRST, SECOND}, 24)
