"""Real packets pass as the evaluation of policies says: network namespaces and nftables."""

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from hanse.features.networks.names import DNS, TENANT, NetworkName
from hanse.features.networks.reachability import is_allowed
from hanse.features.networks.traffic import TrafficEndpoint, TrafficPort
from tests.features.networks.nftables import ruleset
from tests.features.networks.test_isolation import spot, written

SCRIPT = Path(__file__).with_name("netns_runner.py")
PORTS = (TrafficPort(8080), TrafficPort(53))


def lacking() -> str:
    """What keeps namespaces and rules from being made here; empty if nothing does."""
    trial = ("unshare", "-rn", "nft", "add", "table", "inet", "trial")
    try:
        tried = subprocess.run(trial, capture_output=True, text=True, check=False, timeout=20)
    except OSError as error:
        return f"needs unshare and nft: {error}"
    return f"not permitted here: {tried.stderr.strip()[:80]}" if tried.returncode else ""


def at(address: str, endpoint: TrafficEndpoint) -> TrafficEndpoint:
    return TrafficEndpoint(
        address, endpoint.namespace, endpoint.labels, endpoint.namespace_labels, (address,)
    )


def test_packets_pass_between_pods_of_one_network_and_no_others() -> None:
    if reason := lacking():
        pytest.skip(reason)
    lab, bolt = NetworkName("acme", "lab"), NetworkName("bolt", "default")
    policies = written(peers=(("acme", "lab", bolt), ("bolt", "default", lab)))
    pods = [
        at("10.4.0.1", spot("acme-web", "default", app="web")),
        at("10.4.0.2", spot("acme-web", "default", app="db")),
        at("10.4.0.3", spot("acme-db", app="batch")),
        at("10.4.0.4", spot("acme-db", "lab")),
        at("10.4.0.5", spot("acme-kube-system", "lab", **{DNS: "lab", TENANT: "acme"})),
        at("10.4.0.6", spot("bolt-web", "default")),
        at("10.4.0.7", spot("plain")),
    ]
    plan = {
        "rules": ruleset(pods, policies, PORTS),
        "addresses": [pod.name for pod in pods],
        "ports": [traffic_port.port for traffic_port in PORTS],
    }

    output = subprocess.run(
        ["unshare", "-rn", sys.executable, str(SCRIPT)],
        input=json.dumps(plan),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert output.returncode == 0, output.stderr
    reached = {tuple(endpoint) for endpoint in json.loads(output.stdout)["reached"]}
    expected = {
        (a.name, b.name, traffic_port.port)
        for a, b, traffic_port in product(pods, pods, PORTS)
        if a is b or is_allowed(a, b, traffic_port, policies)
    }
    assert reached == expected
    assert ("10.4.0.1", "10.4.0.2", 8080) in reached
    assert ("10.4.0.3", "10.4.0.2", 8080) in reached
    assert ("10.4.0.4", "10.4.0.6", 8080) in reached
    assert ("10.4.0.7", "10.4.0.4", 8080) not in reached
