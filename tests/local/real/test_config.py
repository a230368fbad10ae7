"""Address ranges of a fleet, and the servers of a cluster by its role."""

from itertools import combinations
from pathlib import Path

import pytest

from hanse.local.ranges import address_ranges
from hanse.local.real.config import Broker, ClusterConfig, Role, Workloads, server_commands
from hanse.local.real.fleet import RealFleet
from hanse.local.real.kwok import node_objects
from hanse.local.real.programs import ALL

BINARIES = {program.name: Path("/bin") / program.name for program in ALL}


def config(role: Role) -> ClusterConfig:
    here = Path("/fleet")
    return ClusterConfig(
        "lubeck", role, address_ranges(0), 16443, here / "clusters/lubeck", here / "logs"
    )


def test_no_two_ranges_of_a_whole_fleet_overlap() -> None:
    ranges = [address_ranges(index) for index in range(100)]
    networks = [
        network
        for one in ranges
        for network in (one.services, one.pods, one.nodes, one.external, one.load_balancers)
    ]

    assert not any(one.overlaps(other) for one, other in combinations(networks, 2))


def test_a_fleet_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="cluster 101: a fleet has at most 100 clusters"):
        address_ranges(100)


def test_a_cluster_with_workloads_runs_all_its_servers() -> None:
    programs = [command.program for command in server_commands(config(Workloads()), BINARIES)]

    assert programs == [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kwok",
    ]


def test_a_broker_runs_no_workload_controllers() -> None:
    parts = {
        command.program: command.arguments
        for command in server_commands(config(Broker()), BINARIES)
    }

    assert list(parts) == ["etcd", "kube-apiserver", "kube-controller-manager"]
    [controllers] = [
        one for one in parts["kube-controller-manager"] if one.startswith("--controllers=")
    ]
    assert "*" not in controllers
    assert "deployment" not in controllers


def test_only_the_api_server_takes_a_port() -> None:
    ports = {
        command.program: command.port for command in server_commands(config(Workloads()), BINARIES)
    }

    assert {program for program, port in ports.items() if port} == {"kube-apiserver"}


def test_nodes_have_distinct_internal_and_external_addresses() -> None:
    ranges = address_ranges(4)
    nodes = node_objects("bergen", 3, ranges)

    addresses = [one["address"] for found in nodes for one in found["status"]["addresses"]]
    zones = {one["metadata"]["labels"]["topology.kubernetes.io/zone"] for one in nodes}
    assert len(set(addresses)) == 9
    assert zones == {"bergen-a", "bergen-b", "bergen-c"}
    assert str(ranges.api_server) not in addresses


def test_no_cluster_can_have_the_name_of_the_broker(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no cluster can be named broker"):
        RealFleet(tmp_path, {}, names=("lubeck", "broker"))
