"""GSLB hosts: a client that follows the answers reaches the cluster that they name."""

from collections.abc import Iterator

import pytest

from tests.nodes.fleet import NodesFleet

LEADER, FOLLOWER = "lubeck", "hamburg"
SPACE = "travellers"
HOST = "http://web.global.test"


@pytest.fixture(scope="module")
def fleet(isolated: NodesFleet) -> Iterator[NodesFleet]:
    """The shop of the sample; the last cluster answers only if no other can."""
    isolated.create_namespace(SPACE)
    yield isolated
    isolated.delete_namespace(SPACE)


@pytest.mark.parametrize("client", [LEADER, FOLLOWER])
def test_clients_in_every_cluster_follow_a_global_host(fleet: NodesFleet, client: str) -> None:
    fleet.await_answers(client, SPACE, HOST, {LEADER}, 4)


def test_a_client_reaches_the_next_cluster_while_the_first_cannot_answer(
    fleet: NodesFleet,
) -> None:
    fleet.must(LEADER, "-n", "shop", "scale", "deployment/web", "--replicas=0")
    fleet.await_answers(FOLLOWER, SPACE, HOST, {FOLLOWER}, 4)
    fleet.must(LEADER, "-n", "shop", "scale", "deployment/web", "--replicas=2")

    fleet.await_answers(FOLLOWER, SPACE, HOST, {LEADER}, 4)
