"""Federated Services of every type of endpoints, from pods and from machines outside clusters."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.nodes.fleet import NodesFleet, until
from tests.nodes.machines import Machine, machine
from tests.nodes.manifests import HTTP, Manifest, service, workload

HERE, THERE = "lubeck", "hamburg"
SPACE = "market"
GLOBAL = "svc.global.federated.antreaplus.vmware.com"
EXTERNAL = "198.18.1.99"

TYPES: dict[str, dict[str, Any]] = {
    "node-port": {"type": "NodePort"},
    "load-balancer": {"type": "LoadBalancer"},
    "external-ips": {"externalIPs": [EXTERNAL]},
}
"""The Services that clusters reach which route neither pods nor Services."""


def _name(service: str) -> str:
    return f"{service}.antrea-plus-system.svc.cluster.local"


def _joined(name: str, **spec: Any) -> tuple[Manifest, Manifest]:
    """A workload with a Service that joins the global federated Service of its name."""
    return workload("Deployment", THERE, name), service(name, annotations={GLOBAL: name}, **spec)


@pytest.fixture(scope="module")
def fleet(isolated: NodesFleet) -> Iterator[NodesFleet]:
    """A federated Service for each type, with its only member in one cluster."""
    isolated.create_namespace(SPACE)
    for name, spec in TYPES.items():
        isolated.apply(THERE, SPACE, *_joined(name, **spec))
    yield isolated
    isolated.delete_namespace(SPACE)


@pytest.fixture(scope="module")
def outside(fleet: NodesFleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine in the network of one cluster, which is a member of a federated Service."""
    with machine(fleet, THERE, "scales", tmp_path_factory.mktemp("machine")) as found:
        yield found


@pytest.mark.parametrize("cluster", [HERE, THERE])
@pytest.mark.parametrize("name", list(TYPES))
def test_pods_reach_a_federated_service_of_each_type(
    fleet: NodesFleet, name: str, cluster: str
) -> None:
    fleet.await_answers(cluster, SPACE, f"http://{_name(name)}", {THERE}, 4)


@pytest.mark.parametrize("cluster", [HERE, THERE])
def test_pods_reach_the_pods_of_a_federated_service_where_they_are_routed(
    routed: NodesFleet, cluster: str
) -> None:
    routed.create_namespace(SPACE)
    routed.apply(THERE, SPACE, *_joined("cluster-ip"))

    routed.await_answers(cluster, SPACE, f"http://{_name('cluster-ip')}", {THERE}, 4)


@pytest.mark.parametrize("cluster", [HERE, THERE])
def test_pods_reach_a_machine_that_is_a_member(
    fleet: NodesFleet, outside: Machine, cluster: str
) -> None:
    tags = {
        "svc.antreaplus.vmware.com": "scales",
        "ports.antreaplus.vmware.com": f"http:{HTTP}/TCP",
        GLOBAL: "scales",
    }
    addresses = [{"addressType": "InternalIP", "address": str(outside.address)}]
    member = {
        "apiVersion": "antreaplus.vmware-tanzu.com/v1alpha1",
        "kind": "VirtualMachine",
        "metadata": {"name": "scales-1"},
        "spec": {
            "id": "i-0a1b2c",
            "tags": tags,
            "networkInterfaces": [{"name": "eth0", "ips": addresses}],
        },
    }
    fleet.apply(THERE, SPACE, member)

    target = f"http://{_name('scales')}:{HTTP}"
    fleet.await_answers(cluster, SPACE, target, {f"machine-of-{THERE}"}, 4)


@pytest.mark.parametrize("name", ["load-balancer", "external-ips"])
def test_a_machine_reaches_a_federated_service_by_its_host_name(
    outside: Machine, name: str, tmp_path: Path
) -> None:
    url = f"http://{name}.antrea-plus-system.hanse.example"

    seen = until(lambda: outside.netcheck("http", url), lambda result: result.status == 0)

    assert seen.out.startswith(f"{THERE} {name}-")
