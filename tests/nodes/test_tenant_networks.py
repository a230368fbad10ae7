"""Packets between tenants on two real nodes, whatever their NetworkPolicies allow."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hanse.local.real.nodes.image import NETCHECK_IMAGE
from tests.cli.programs import HANSE
from tests.nodes.fleet import NodesFleet, until
from tests.nodes.manifests import TCP, Manifest, pod_spec, service
from tests.nodes.processes import descendants
from tests.nodes.starting import starting

HERE = "lubeck"
TENANTS = ("acme", "bolt")
NODES = ("node-1", "node-2")
WAIT = ("-timeout", "1s")
OPEN_TO_ALL: Manifest = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "all"},
    "spec": {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}],
        "egress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}],
    },
}


def pinned(name: str, node: str) -> Manifest:
    """A pod on a node, which serves and from which tests connect."""
    spec = {**pod_spec(HERE), "nodeName": node}
    metadata = {"name": name, "labels": {"app": "web"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodesFleet]:
    """One cluster with two guarded nodes, and two tenants that allow everything."""
    folder = tmp_path_factory.mktemp("guarded")
    guarded = ("--no-sample", "--guard", "--node-count", "2")
    with starting(folder, "isolated", *guarded, names=(HERE,)) as found:
        for tenant in TENANTS:
            create_tenant(found, tenant)
        found.apply(HERE, "default", *(pinned(f"platform-{node}", node) for node in NODES))
        found.await_ready(HERE, "default", *(f"pod/platform-{node}" for node in NODES))
        yield found


def create_tenant(fleet: NodesFleet, name: str) -> None:
    """A tenant with a pod on each node, and a Service in front of them."""
    tenant = {
        "apiVersion": "arktos.futurewei.com/v1",
        "kind": "Tenant",
        "metadata": {"name": name},
        "spec": {"namespaces": ["web"]},
    }
    fleet.apply(HERE, "default", tenant)
    ready = "--for=jsonpath={.status.phase}=Ready"
    fleet.must(HERE, "wait", "--for=create", "--timeout=60s", f"network/{name}.default")
    fleet.must(HERE, "wait", ready, "--timeout=60s", f"network/{name}.default")
    fleet.apply(HERE, f"{name}-kube-system", dns_server(name))
    fleet.await_ready(HERE, f"{name}-kube-system", "pod/dns")
    space = f"{name}-web"
    fleet.apply(HERE, space, OPEN_TO_ALL, service(), *(pinned(node, node) for node in NODES))
    fleet.await_ready(HERE, space, *(f"pod/{node}" for node in NODES))


def dns_server(tenant: str) -> Manifest:
    """A pod in the place of a network's DNS server, since no image can be pulled here."""
    label = "arktos.futurewei.com"
    labels = {f"{label}/tenant": tenant, f"{label}/network": "default", f"{label}/dns": "default"}
    pod = pinned("dns", NODES[1])
    pod["metadata"]["labels"] = labels
    pod["spec"]["containers"][0]["args"] = ["serve", f"--tcp={TCP}", "--udp=53"]
    return pod


def address(fleet: NodesFleet, space: str, pod: str) -> str:
    return str(fleet.get(HERE, "-n", space, "pod", pod)["status"]["podIP"])


def cluster_ip(fleet: NodesFleet, space: str, name: str = "web") -> str:
    return str(fleet.get(HERE, "-n", space, "service", name)["spec"]["clusterIP"])


def ask(fleet: NodesFleet, space: str, pod: str, target: str, protocol: str = "tcp") -> str:
    """What a pod hears from a target, or the error."""
    inside = ("exec", pod, "--", "/netcheck", protocol, *WAIT, target)
    result = fleet.kubectl(HERE, "-n", space, *inside)
    return result.out if result.status == 0 else result.err


def reached(fleet: NodesFleet, space: str, pod: str, target: str, protocol: str = "tcp") -> bool:
    """Whether a target answers a pod."""
    return ask(fleet, space, pod, target, protocol).startswith(HERE)


def await_reached(
    fleet: NodesFleet, space: str, pod: str, target: str, protocol: str = "tcp"
) -> None:
    until(lambda: ask(fleet, space, pod, target, protocol), lambda said: said.startswith(HERE))


def test_tenants_that_allow_everything_exchange_no_packet(fleet: NodesFleet) -> None:
    for tenant, other in (TENANTS, TENANTS[::-1]):
        space, dns = f"{other}-web", cluster_ip(fleet, f"{other}-kube-system", "kube-dns-default")
        targets = [f"{address(fleet, space, node)}:{TCP}" for node in NODES]
        for source in NODES:
            for target in (*targets, f"{cluster_ip(fleet, space)}:81"):
                assert not reached(fleet, f"{tenant}-web", source, target)
        assert not reached(fleet, f"{tenant}-web", NODES[0], f"{dns}:53", "udp")


def test_a_tenant_reaches_its_own_pods_services_dns_and_the_api_server(fleet: NodesFleet) -> None:
    api = cluster_ip(fleet, "default", "kubernetes")
    for tenant in TENANTS:
        space = f"{tenant}-web"
        dns = cluster_ip(fleet, f"{tenant}-kube-system", "kube-dns-default")
        targets = [f"{address(fleet, space, node)}:{TCP}" for node in NODES]
        for source in NODES:
            for target in (*targets, f"{cluster_ip(fleet, space)}:81"):
                await_reached(fleet, space, source, target)
            await_reached(fleet, space, source, f"{dns}:53", "udp")
            assert "400 Bad Request" in ask(fleet, space, source, f"http://{api}:443", "http")


def test_tenants_do_not_reach_the_platform_which_reaches_itself(fleet: NodesFleet) -> None:
    node = fleet.get(HERE, "node", NODES[1])["status"]["addresses"][0]["address"]
    assert not reached(fleet, "acme-web", NODES[0], f"{node}:10250")
    for source in NODES:
        for target in NODES:
            platform = f"{address(fleet, 'default', f'platform-{target}')}:{TCP}"
            tenant = f"{address(fleet, 'acme-web', target)}:{TCP}"
            await_reached(fleet, "default", f"platform-{source}", platform)
            assert not reached(fleet, "default", f"platform-{source}", tenant)
            assert not reached(fleet, "acme-web", source, platform)


def test_verify_sees_what_should_be(fleet: NodesFleet) -> None:
    names = [f"{tenant}.default" for tenant in TENANTS]
    command = ("networks", "verify", "--image", NETCHECK_IMAGE, "--json")

    ended = fleet.running.run_hanse(*command)

    assert ended.status == 0, ended.out + ended.err
    pairs = json.loads(ended.out)["pairs"]
    seen = {(p["source"], p["target"]): p["seen"] for p in pairs}
    assert seen == {(a, b): "all" if a == b else "none" for a in names for b in names}
    assert len(pairs) == len(names) ** 2
    left = fleet.get(HERE, "pods", "-A", "-l", "app.kubernetes.io/managed-by=hanse-verify")
    assert all("deletionTimestamp" in pod["metadata"] for pod in left["items"])


def test_no_node_forwards_one_tenant_to_another(fleet: NodesFleet) -> None:
    """Through a node port, the tenant would arrive with the address of a node."""
    fleet.apply(HERE, "bolt-web", service("exposed", type="NodePort", selector={"app": "web"}))
    exposed = fleet.get(HERE, "-n", "bolt-web", "service", "exposed")["spec"]["ports"]
    (port,) = (p["nodePort"] for p in exposed if p["port"] == 81)
    for node in NODES:
        addresses = fleet.get(HERE, "node", node)["status"]["addresses"]
        (there,) = (a["address"] for a in addresses if a["type"] == "InternalIP")
        assert not reached(fleet, "acme-web", NODES[0], f"{there}:{port}")


def test_the_platform_opens_a_network_for_whom_it_names(fleet: NodesFleet) -> None:
    tenant = f"{address(fleet, 'acme-web', NODES[1])}:{TCP}"
    peer = {"namespace": "default", "ports": [{"port": TCP}]}
    access = {
        "apiVersion": "arktos.futurewei.com/v1",
        "kind": "NetworkAccess",
        "metadata": {"name": "platform"},
        "spec": {"networks": ["acme.*"], "from": [peer]},
    }
    fleet.apply(HERE, "default", access)
    await_reached(fleet, "default", f"platform-{NODES[0]}", tenant)
    other = f"{address(fleet, 'bolt-web', NODES[1])}:{TCP}"
    assert not reached(fleet, "default", f"platform-{NODES[0]}", other)
    assert not reached(fleet, "bolt-web", NODES[0], tenant)

    fleet.must(HERE, "delete", "networkaccess", "platform")

    until(lambda: reached(fleet, "default", f"platform-{NODES[0]}", tenant), lambda yes: not yes)


def test_rules_outlive_the_guard_until_they_are_removed(fleet: NodesFleet) -> None:
    """Without any rules the pods reach each other: the network plugin enforces no policies."""
    guards = guard_processes(fleet)
    assert len(guards) == len(NODES)
    target = f"{address(fleet, 'bolt-web', NODES[1])}:{TCP}"

    for pid in guards:
        os.kill(pid, signal.SIGKILL)
    assert not reached(fleet, "acme-web", NODES[0], target)

    for pid in node_processes(fleet):
        inside = ("nsenter", "--net", "--target", str(pid))
        subprocess.run([*inside, *HANSE, "guard", "--remove"], check=True)
        tables = subprocess.check_output([*inside, "nft", "list", "tables"], text=True)
        assert "hanse-guard" not in tables
    await_reached(fleet, "acme-web", NODES[0], target)


def guard_processes(fleet: NodesFleet) -> list[int]:
    """The guards of all nodes."""
    found = [(p.pid, arguments(p.pid)) for p in descendants(fleet.running.process.pid)]
    return [pid for pid, words in found if words[0] == HANSE[0].encode() and b"guard" in words]


def node_processes(fleet: NodesFleet) -> list[int]:
    """A process in the network namespace of each node."""
    return [p.pid for p in descendants(fleet.running.process.pid) if p.name == "containerd"]


def arguments(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
