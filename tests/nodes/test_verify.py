"""`hanse verify` on real nodes: it finds what a fabric carries, and leaves nothing behind."""

import json
import os
import signal
import subprocess
from typing import Any

from hanse.local.ranges import address_ranges
from hanse.local.real.nodes.fabric import dns_address
from hanse.local.real.nodes.image import NETCHECK_IMAGE
from hanse.model.naming import ZONE
from tests.cli.programs import HANSE, environment
from tests.nodes.fleet import NodesFleet, until
from tests.nodes.processes import node_processes

IMAGE = ("--image", NETCHECK_IMAGE)
QUICKLY = ("--only", "routes,names,services", "--timeout", "8")
HERE, THERE = "lubeck", "hamburg"


def results(fleet: NodesFleet, *arguments: str, status: int) -> list[dict[str, Any]]:
    """The results of a run that ends with this status, and leaves nothing behind."""
    ended = fleet.running.run_hanse("verify", *IMAGE, *arguments, "--json")
    assert ended.status == status, ended.out + ended.err
    assert leftovers(fleet) == []
    found: list[dict[str, Any]] = json.loads(ended.out)["results"]
    return found


def leftovers(fleet: NodesFleet) -> list[str]:
    """The namespaces of runs that still exist."""
    label = "app.kubernetes.io/managed-by=hanse-verify"
    listed = [fleet.get(cluster, "namespaces", "-l", label) for cluster in fleet.clusters]
    return [one["metadata"]["name"] for several in listed for one in several["items"]]


def test_all_arrives_where_pods_and_services_are_routed(routed: NodesFleet) -> None:
    found = results(routed, status=0)

    assert {r["status"] for r in found if r["topic"] != "policies"} == {"ok"}
    assert {(r["source"], r["topic"]) for r in found} >= {
        (cluster, topic) for cluster in (HERE, THERE) for topic in ("routes", "names", "services")
    }


def test_clusterset_ips_need_no_routed_service_ranges(flat: NodesFleet) -> None:
    found = results(flat, "--only", "routes,services", "--timeout", "10", status=0)

    assert {r["status"] for r in found if r["subject"] == "clusterset IP"} == {"ok"}
    assert {
        (r["source"], r["target"], r["status"]) for r in found if r["subject"] == "Service address"
    } == {(a, b, "ok" if a == b else "warning") for a in (HERE, THERE) for b in (HERE, THERE)}


def test_missing_routes_are_told_as_the_cause(isolated: NodesFleet) -> None:
    found = results(isolated, "--only", "routes,services", "--timeout", "10", status=1)

    causes = {(r["source"], r["message"]) for r in found if r["status"] == "failed"}
    assert (HERE, f"no route from {HERE} to the pod range of {THERE}") in causes
    assert all(r["remedy"] for r in found if r["status"] == "failed")


def test_an_image_that_cannot_be_pulled_ends_it_at_once(routed: NodesFleet) -> None:
    ended = routed.running.run_hanse("verify", "--image", "nowhere.invalid/none:1")

    assert ended.status == 1
    assert "image nowhere.invalid/none:1 cannot be pulled" in ended.err
    assert leftovers(routed) == []


def test_a_run_that_is_ended_removes_what_it_created(routed: NodesFleet) -> None:
    folder = routed.running.folder.parent
    for by in (signal.SIGTERM, signal.SIGINT):
        process = subprocess.Popen(
            # In the background of a script, SIGINT would be ignored.
            ["env", "--default-signal=INT", *HANSE, "verify", *IMAGE],
            cwd=folder,
            env=environment(folder, None),
        )
        until(lambda: leftovers(routed), lambda names: len(names) == 2)

        process.send_signal(by)

        assert process.wait(60) != 0
        assert leftovers(routed) == []


def test_missing_routes_and_stubs_are_named_and_what_is_printed_mends_them(
    routed: NodesFleet,
) -> None:
    here, there = address_ranges(0), address_ranges(1)
    lost = (there.services, *node_ranges(routed, THERE))
    for one in lost:
        in_network(routed.fabric_pid, f"ip route delete {one}")
    corefile = Corefile(routed, HERE)
    corefile.write(corefile.text[: corefile.text.index(f"{ZONE}:53")])

    found = results(routed, *QUICKLY, status=1)

    failed = {(r["source"], r["message"]): r["remedy"] for r in found if r["status"] == "failed"}
    for kind in ("pod", "service"):
        remedy = failed[HERE, f"no route from {HERE} to the {kind} range of {THERE}"]
        in_network(routed.fabric_pid, remedy)
    remedy = failed[HERE, f"the DNS of {HERE} does not forward {ZONE}"]
    assert remedy == "add what `hanse dns corefile ADDRESS` prints to its Corefile"
    printed = routed.running.run_hanse("dns", "corefile", str(dns_address(here))).out
    corefile.write(corefile.text + printed)
    results(routed, *QUICKLY, status=0)


def test_a_dead_proxy_and_a_policy_that_drops_are_named(routed: NodesFleet) -> None:
    [here], [there] = (node_ranges(routed, cluster) for cluster in (HERE, THERE))
    rule = f"ip saddr {there} ip daddr {here} ct state new drop"
    chain = "add chain inet planted forward { type filter hook forward priority 0; }"
    commands = ("add table inet planted", chain, f"add rule inet planted forward {rule}")
    for command in commands:
        in_network(programs(routed, HERE)["containerd"], f"nft '{command}'")
    proxy = programs(routed, THERE)["kube-proxy"]
    os.kill(proxy, signal.SIGSTOP)
    try:
        found = results(routed, *QUICKLY, status=1)
    finally:
        os.kill(proxy, signal.SIGCONT)
        in_network(programs(routed, HERE)["containerd"], "nft delete table inet planted")

    causes = {(r["source"], r["target"], r["message"]) for r in found if r["topic"] == "routes"}
    proxy_is_dead = (
        f"the proxy of {THERE} does not follow its Services: its pods are reached, the address of "
        "the Service in front of them is not"
    )
    drops = f"{HERE} drops connections of pods of {THERE}: its own arrive in {THERE}"
    assert {cause for cause in causes if cause[2]} == {
        (HERE, THERE, proxy_is_dead),
        (THERE, THERE, proxy_is_dead),
        (THERE, HERE, drops),
    }
    assert all(r["remedy"] for r in found if r["status"] == "failed")
    results(routed, *QUICKLY, status=0)


class Corefile:
    """The settings of a cluster's CoreDNS, which follows a changed file at a signal."""

    def __init__(self, fleet: NodesFleet, cluster: str) -> None:
        [self._path] = fleet.running.folder.rglob(f"clusters/{cluster}/nodes/1/Corefile")
        self._process = programs(fleet, cluster)["coredns"]
        self.text = self._path.read_text()

    def write(self, text: str) -> None:
        self.text = text
        self._path.write_text(text)
        os.kill(self._process, signal.SIGUSR1)


def programs(fleet: NodesFleet, cluster: str) -> dict[str, int]:
    """The processes by name of a cluster's only node."""
    [node] = fleet.get(cluster, "nodes")["items"]
    [address] = [a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP"]
    return node_processes(fleet.running.process.pid, address)


def node_ranges(fleet: NodesFleet, cluster: str) -> list[str]:
    """The ranges of pods that a cluster's nodes have."""
    return [
        cidr for one in fleet.get(cluster, "nodes")["items"] for cidr in one["spec"]["podCIDRs"]
    ]


def in_network(pid: int, command: str) -> None:
    """Run a shell command in the network of a process."""
    subprocess.run(["nsenter", "--net", "--target", str(pid), "sh", "-c", command], check=True)
