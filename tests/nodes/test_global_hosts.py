"""GSLB hosts: a client that follows the answers reaches the cluster that they name."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hanse.local.up.sample import SAMPLE_NAMESPACE
from tests.nodes.fleet import NodesFleet, until
from tests.nodes.global_hosts import HOST, SPACE, GlobalHosts

FIRST, SECOND, RESERVE = "lubeck", "hamburg", "bergen"


@pytest.fixture(scope="module")
def travellers(isolated: NodesFleet) -> Iterator[NodesFleet]:
    """The shop of the sample: two clusters share the answers, the third has a lower priority."""
    isolated.create_namespace(SPACE)
    yield isolated
    isolated.delete_namespace(SPACE)


class TestHostsOfAgents(GlobalHosts):
    """With agents and DNS of `hanse up`."""

    shop = SAMPLE_NAMESPACE
    preferred = (FIRST, SECOND)
    reserve = RESERVE


MONITOR = {"type": "TCP", "port": "80", "interval": "1", "timeout": "1", "up": "1", "down": "2"}
TTL_SECONDS = 1
RULE_SECONDS = 3 + TTL_SECONDS
"""Two intervals and the time-out of the monitor; then resolvers may keep an answer for its TTL."""
SLACK_SECONDS = 4
"""For the processes of three clusters on one machine; who does not fail over loses to the end."""
DIALLING = ("-every", "100ms", "-timeout", "2s", "-n", "110")


def test_a_client_follows_the_living_when_the_site_of_the_leader_dies(
    travellers: NodesFleet,
) -> None:
    with (
        _probed_by_name_servers(travellers),
        _healed(travellers),
        travellers.running_netcheck(SECOND, SPACE, "http", *DIALLING, HOST) as client,
    ):
        time.sleep(1)
        assert travellers.running.run_hanse("local", "cut", FIRST, SECOND).status == 0
        died = time.time()  # at the latest
        for other in (RESERVE, "broker"):
            assert travellers.running.run_hanse("local", "cut", FIRST, other).status == 0
        assert travellers.running.run_hanse("local", "stop", "agent", FIRST).status == 0
        assert travellers.running.run_hanse("local", "kill", FIRST).status == 0
        lines = [line.split(" ", 2) for line in client.communicate()[0].splitlines()]

    outcomes = [(int(began) / 1000 - died, outcome) for began, _, outcome in lines]
    assert any(outcome.startswith(FIRST) for _, outcome in outcomes), "the leader served before"
    after = [out for since, out in outcomes if since > RULE_SECONDS + SLACK_SECONDS]
    assert {outcome.split()[0] for outcome in after} == {SECOND}, outcomes
    travellers.await_answers(SECOND, SPACE, HOST, {FIRST, SECOND}, 24)


@contextmanager
def _healed(fleet: NodesFleet) -> Iterator[None]:
    """Undo all faults after the block."""
    try:
        yield
    finally:
        assert fleet.running.run_hanse("local", "heal", "--all").status == 0


@contextmanager
def _probed_by_name_servers(fleet: NodesFleet) -> Iterator[None]:
    """Let monitors decide, not readiness alone, until the block ends."""
    space, policy = ("-n", "avi-system"), "globaldeploymentpolicy/global-gdp"
    stood = fleet.get(FIRST, *space, policy)["spec"]
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "quick"}, "data": MONITOR}
    fleet.apply(FIRST, "avi-system", data)
    changed = {
        "controlPlaneHmOnly": False,
        "healthMonitorTemplate": "quick",
        "ttl": TTL_SECONDS,
    }
    patch = ("patch", policy, "--type=merge", "-p")
    fleet.must(FIRST, *space, *patch, json.dumps({"spec": changed}))
    until(
        lambda: fleet.get(SECOND, *space, "globalservice/web.global.test"),
        lambda seen: seen["spec"].get("ttl") == TTL_SECONDS and seen["status"].get("up") == "3/3",
    )
    try:
        yield
    finally:
        restored = {field: stood.get(field) for field in changed}
        fleet.must(FIRST, *space, *patch, json.dumps({"spec": restored}))
