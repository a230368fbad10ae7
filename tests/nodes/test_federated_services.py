"""Federated Services of every type of endpoints, from pods and from machines outside clusters."""

from collections.abc import Iterator

import pytest

from tests.nodes.federated_services import (
    HERE,
    SPACE,
    THERE,
    FederatedServices,
    create_services,
    joined,
    name_of,
)
from tests.nodes.fleet import NodesFleet, until
from tests.nodes.machines import Machine


@pytest.fixture(scope="module")
def federated(isolated: NodesFleet) -> Iterator[NodesFleet]:
    create_services(isolated)
    yield isolated
    isolated.delete_namespace(SPACE)


class TestServicesOfAgents(FederatedServices):
    """With agents and DNS of `hanse up`, which give them names outside clusters, too."""

    @pytest.mark.parametrize("name", ["load-balancer", "external-ips"])
    def test_a_machine_reaches_a_federated_service_by_its_host_name(
        self, outside: Machine, name: str
    ) -> None:
        url = f"http://{name}.antrea-plus-system.hanse.example"

        seen = until(lambda: outside.netcheck("http", url), lambda result: result.status == 0)

        assert seen.out.startswith(f"{THERE} {name}-")


@pytest.mark.parametrize("cluster", [HERE, THERE])
def test_pods_reach_the_pods_of_a_federated_service_where_they_are_routed(
    routed: NodesFleet, cluster: str
) -> None:
    routed.create_namespace(SPACE)
    routed.apply(THERE, SPACE, *joined("cluster-ip"))

    routed.await_answers(cluster, SPACE, f"http://{name_of('cluster-ip')}", {THERE}, 4)
