"""Packet tests of federated Services, for agents of any kind of installation."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.nodes.fleet import NodesFleet
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


def name_of(service: str) -> str:
    """The name of a global federated Service."""
    return f"{service}.antrea-plus-system.svc.cluster.local"


def joined(name: str, **spec: Any) -> tuple[Manifest, Manifest]:
    """A workload with a Service that joins the global federated Service of its name."""
    return workload("Deployment", THERE, name), service(name, annotations={GLOBAL: name}, **spec)


def create_services(fleet: NodesFleet) -> None:
    """A federated Service for each type, with its only member in one cluster."""
    fleet.create_namespace(SPACE)
    for name, spec in TYPES.items():
        fleet.apply(THERE, SPACE, *joined(name, **spec))


class FederatedServices:
    """Tests of a fixture `federated`: a fleet that has the Services made above."""

    @pytest.fixture(scope="class")
    @classmethod
    def outside(
        cls, federated: NodesFleet, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[Machine]:
        """A machine in the network of one cluster, which is a member of a federated Service."""
        with machine(federated, THERE, "scales", tmp_path_factory.mktemp("machine")) as found:
            yield found

    @pytest.mark.parametrize("cluster", [HERE, THERE])
    @pytest.mark.parametrize("name", list(TYPES))
    def test_pods_reach_a_federated_service_of_each_type(
        self, federated: NodesFleet, name: str, cluster: str
    ) -> None:
        federated.await_answers(cluster, SPACE, f"http://{name_of(name)}", {THERE}, 4)

    @pytest.mark.parametrize("cluster", [HERE, THERE])
    def test_pods_reach_a_machine_that_is_a_member(
        self, federated: NodesFleet, outside: Machine, cluster: str
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
        federated.apply(THERE, SPACE, member)

        target = f"http://{name_of('scales')}:{HTTP}"
        federated.await_answers(cluster, SPACE, target, {f"machine-of-{THERE}"}, 4)
