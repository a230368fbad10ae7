"""What passes between clusters on each fabric, and what a cut does."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.nodes.fleet import NodesFleet, until
from tests.nodes.manifests import HTTP, service, workload

HERE, THERE = "lubeck", "hamburg"
SPACE = "fabric"
EXTERNAL = "198.18.1.77"

PASSES = {
    "routed": {"pod", "service", "node", "load balancer", "external"},
    "flat": {"pod", "node", "load balancer", "external"},
    "isolated": {"node", "load balancer", "external"},
}


@pytest.fixture(scope="module", params=list(PASSES))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def fleet(kind: str, request: pytest.FixtureRequest) -> Iterator[NodesFleet]:
    """A Service in one cluster that can be reached in five ways."""
    found: NodesFleet = request.getfixturevalue(kind)
    found.create_namespace(SPACE)
    exposed = service(type="LoadBalancer", externalIPs=[EXTERNAL])
    found.apply(THERE, SPACE, workload("Deployment", THERE), exposed)
    found.await_rollout(THERE, SPACE, "deployment/web")
    yield found
    found.delete_namespace(SPACE)


def _targets(fleet: NodesFleet) -> dict[str, str]:
    """Where the Service answers, by the way to it."""
    found = until(
        lambda: fleet.get(THERE, "-n", SPACE, "service", "web"),
        lambda seen: bool(seen["status"]["loadBalancer"].get("ingress")),
    )
    [pod] = fleet.get(THERE, "-n", SPACE, "pods", "-l", "app=web")["items"]
    return {
        "pod": f"http://{pod['status']['podIP']}:{HTTP}",
        "service": f"http://{found['spec']['clusterIP']}",
        "node": f"http://{pod['status']['hostIP']}:{found['spec']['ports'][0]['nodePort']}",
        "load balancer": f"http://{found['status']['loadBalancer']['ingress'][0]['ip']}",
        "external": f"http://{EXTERNAL}",
    }


def test_a_fabric_carries_what_it_says(fleet: NodesFleet, kind: str) -> None:
    targets = _targets(fleet)
    for target in targets.values():
        fleet.await_answers(THERE, SPACE, target, {THERE}, 1)

    reached = {way for way, target in targets.items() if fleet.dial(HERE, SPACE, target, 1).answers}

    assert reached == PASSES[kind]


def test_a_machine_that_comes_and_goes_changes_no_address_of_the_router(
    fleet: NodesFleet, kind: str
) -> None:
    """A bridge without an address of its own takes the lowest one of its ports."""
    inside = ("nsenter", "--net", "--target", str(fleet.fabric_pid), "ip")

    def run_ip(*arguments: str) -> str:
        return subprocess.run(
            [*inside, *arguments], check=True, capture_output=True, text=True
        ).stdout

    before = run_ip("-brief", "link", "show", "c1")
    lowest = ("address", "00:00:00:00:00:01", "type", "veth", "peer", "name", "far")
    run_ip("link", "add", "name", "near", *lowest)
    run_ip("link", "set", "near", "master", "c1", "up")
    with_machine = run_ip("-brief", "link", "show", "c1")
    run_ip("link", "delete", "near")

    assert with_machine == before == run_ip("-brief", "link", "show", "c1")


def test_a_cut_stops_packets_until_it_is_healed(fleet: NodesFleet) -> None:
    target = _targets(fleet)["load balancer"]
    fleet.await_answers(HERE, SPACE, target, {THERE}, 1)

    cut = fleet.running.run_hanse("local", "cut", HERE, THERE)
    during = fleet.dial(HERE, SPACE, target, 2)
    within = fleet.dial(THERE, SPACE, target, 2)
    healed = fleet.running.run_hanse("local", "heal", HERE, THERE)
    after = fleet.dial(HERE, SPACE, target, 2)

    assert (cut.status, healed.status) == (0, 0)
    assert not during.answers
    assert within.clusters == {THERE}
    assert len(after.answers) == 2
