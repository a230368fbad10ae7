"""Packets between tenants on two real nodes, whatever their NetworkPolicies allow."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import IO

import pytest
import yaml

from hanse.local.real.nodes.image import NETCHECK_IMAGE
from tests.cli.programs import HANSE
from tests.nodes.fleet import NodesFleet, until
from tests.nodes.manifests import TCP, Manifest, pod_spec, service
from tests.nodes.policies import enforced
from tests.nodes.processes import container_process, descendants
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
    guarded = ("--no-sample", "--guard", "--node-count", "2", "--network-dns", "shared")
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


SYSTEM, SHARED = "hanse-system", "hanse-network-dns"


def test_one_dns_server_answers_each_tenant_its_own_names_alone(fleet: NodesFleet) -> None:
    """The pods in the place of networks' own servers go; the address of each DNS stays."""
    for tenant in TENANTS:
        fleet.must(HERE, "-n", f"{tenant}-kube-system", "delete", "pod", "dns", "--grace-period=1")
    before = {t: cluster_ip(fleet, f"{t}-kube-system", "kube-dns-default") for t in TENANTS}

    with shared_server(fleet):
        for tenant, other in (TENANTS, TENANTS[::-1]):
            space, dns = f"{tenant}-web", before[tenant]
            own, foreign = f"web.{space}.svc.cluster.local", f"web.{other}-web.svc.cluster.local"
            for pod in NODES:
                await_answer(fleet, space, pod, dns, own)
                assert query(fleet, space, pod, dns, foreign) == ["NXDOMAIN"]
                assert query(fleet, space, pod, dns, own, "tcp") == [cluster_ip(fleet, space)]
                assert query(fleet, space, pod, dns, foreign, "tcp") == ["NXDOMAIN"]
            reverse = ip_address(address(fleet, f"{other}-web", NODES[0])).reverse_pointer
            assert query(fleet, space, NODES[0], dns, reverse) == ["NXDOMAIN"]
            platform = f"platform-{NODES[0]}"
            assert query(fleet, "default", platform, dns, own) == ["REFUSED"]
            assert not reached(fleet, space, NODES[0], f"{address(fleet, SYSTEM, SHARED)}:{TCP}")
            assert cluster_ip(fleet, f"{tenant}-kube-system", "kube-dns-default") == dns
    for tenant in TENANTS:
        fleet.apply(HERE, f"{tenant}-kube-system", dns_server(tenant))
        fleet.await_ready(HERE, f"{tenant}-kube-system", "pod/dns")


@contextmanager
def shared_server(fleet: NodesFleet) -> Iterator[None]:
    """Our server in the network of a pod, since no image can be pulled here, and its Service."""
    labels = {"app.kubernetes.io/name": SHARED}
    pod = pinned(SHARED, NODES[1])
    pod["metadata"]["labels"] = labels
    ports = [
        {"name": n, "port": 53, "protocol": p} for n, p in (("dns", "UDP"), ("dns-tcp", "TCP"))
    ]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SHARED},
        "spec": {"selector": labels, "ports": ports},
    }
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}
    fleet.apply(HERE, "default", space)
    fleet.apply(HERE, SYSTEM, pod, service)
    fleet.await_ready(HERE, SYSTEM, f"pod/{SHARED}")
    config = yaml.safe_load(fleet.running.kubeconfig.read_text())
    for one in config["clusters"]:
        if one["name"] == HERE:
            one["cluster"]["server"] = f"https://{cluster_ip(fleet, 'default', 'kubernetes')}:443"
    kubeconfig = fleet.running.folder / "from-a-pod.kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    where = ("--kubeconfig", str(kubeconfig), "--context", HERE)
    serving = ("dns", "--networks", "--workers", "1", "--listen", "0.0.0.0:53")
    enter = inside(fleet, SYSTEM, SHARED)[:-2]
    with subprocess.Popen([*enter, *HANSE, *where, *serving]) as server:
        yield
        server.terminate()
    for kind in ("service", "pod"):  # the namespace is the agent's, too
        fleet.must(HERE, "-n", SYSTEM, "delete", kind, SHARED, "--wait=false")


QUERY = """
import dns.message, dns.query, dns.rcode, sys
server, name, kind, protocol = sys.argv[1:]
question = dns.message.make_query(name, kind)
try:
    answer = getattr(dns.query, protocol)(question, server, timeout=2)
except Exception as error:
    print(type(error).__name__)
else:
    found = [record.to_text() for group in answer.answer for record in group]
    print(*(found or [dns.rcode.to_text(answer.rcode())]), sep="\\n")
"""


def query(
    fleet: NodesFleet, space: str, pod: str, server: str, name: str, protocol: str = "udp"
) -> list[str]:
    """The records that a pod gets for a name, or the code of the response."""
    kind = "PTR" if name.endswith(".arpa") else "A"
    command = [*inside(fleet, space, pod), QUERY, server, name, kind, protocol]
    return subprocess.check_output(command, text=True).split()


def await_answer(fleet: NodesFleet, space: str, pod: str, server: str, name: str) -> None:
    """Wait until a pod gets the address of its Service by name."""
    wanted = [cluster_ip(fleet, space)]
    until(lambda: query(fleet, space, pod, server, name), lambda found: found == wanted)


BRIDGED = ("one", "two")


def test_pods_on_a_bridge_send_with_their_own_addresses_alone(fleet: NodesFleet) -> None:
    """The plugin of the first node becomes a bridge; guards follow, and so do new pods."""
    folder = Path(f"/proc/{node_processes(fleet)[0]}/root/run/node/cni")
    base = json.loads((folder / "10-pods.conflist").read_text())
    addresses = base["plugins"][0]["ipam"]
    plugin = {"type": "bridge", "bridge": "pods0", "isGateway": True, "ipam": addresses}
    bridge = {**base, "plugins": [plugin]}
    (folder / "05-bridge.conflist").write_text(json.dumps(bridge))
    until(lambda: installed_config(folder), lambda text: "pods0" in text)
    node = node_of(fleet, addresses)
    fleet.apply(HERE, "acme-web", pinned("one", node))
    fleet.apply(HERE, "bolt-web", *(pinned(name, node) for name in BRIDGED))
    fleet.await_ready(HERE, "bolt-web", *(f"pod/{name}" for name in BRIDGED))
    fleet.await_ready(HERE, "acme-web", "pod/one")
    server, friend = (address(fleet, "bolt-web", name) for name in BRIDGED)
    await_reached(fleet, "bolt-web", "two", f"{server}:{TCP}")

    with listening(fleet, "bolt-web", "one") as heard:
        send_datagram(fleet, "acme-web", "one", friend, server, "forged")
        send_datagram(fleet, "bolt-web", "two", friend, server, "own")
        assert heard.readline() == "own\n"

    (folder / "05-bridge.conflist").unlink()
    for space, names in (("acme-web", ("one",)), ("bolt-web", BRIDGED)):
        fleet.must(HERE, "-n", space, "delete", "pod", *names, "--grace-period=1")
    until(lambda: installed_config(folder), lambda text: "pods0" not in text)
    until(lambda: checked_ports(fleet), lambda count: count == 0)
    there = ["nsenter", "--net", "--target", str(node_processes(fleet)[0])]
    subprocess.run([*there, "ip", "link", "delete", "pods0"], check=True)  # it bypasses the rules


def installed_config(folder: Path) -> str:
    """The network configuration of guards in a folder; empty if there is none."""
    file = folder / "00-hanse.conflist"
    return file.read_text() if file.exists() else ""


def checked_ports(fleet: NodesFleet) -> int:
    """How many ports of the first node have rules."""
    there = ["nsenter", "--net", "--target", str(node_processes(fleet)[0])]
    rules = subprocess.check_output([*there, "nft", "list", "table", "bridge", "hanse-guard"])
    return rules.count(b"chain port-")


def node_of(fleet: NodesFleet, addresses: Manifest) -> str:
    """The node with a pod range of a network configuration."""
    pods = ip_network(addresses["ranges"][0][0]["subnet"])
    (name,) = (n for n in NODES if ip_address(address(fleet, "acme-web", n)) in pods)
    return name


def inside(fleet: NodesFleet, space: str, pod: str) -> list[str]:
    """The start of a command that runs in the network of a pod."""
    status = fleet.get(HERE, "-n", space, "pod", pod)["status"]["containerStatuses"][0]
    pid = container_process(status["containerID"].rpartition("/")[2])
    return ["nsenter", "--net", "--target", str(pid), sys.executable, "-c"]


@contextmanager
def listening(fleet: NodesFleet, space: str, pod: str) -> Iterator[IO[str]]:
    """What a pod hears by UDP, a line for each datagram."""
    command = [*inside(fleet, space, pod), LISTEN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listener:
        assert listener.stdout is not None
        assert listener.stdout.readline() == "listening\n"
        yield listener.stdout
        listener.kill()


LISTEN = """
import socket
ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ear.bind(("0.0.0.0", 9000))
print("listening", flush=True)
while True:
    print(ear.recv(100).decode(), flush=True)
"""
SEND = """
import socket, struct, sys
source, target, word = sys.argv[1:]
body = struct.pack("!HHHH", 9, 9000, 8 + len(word), 0) + word.encode()
ends = socket.inet_aton(source), socket.inet_aton(target)
head = struct.pack("!BBHHHBBH4s4s", 69, 0, 20 + len(body), 0, 0, 64, 17, 0, *ends)
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for _ in range(3):
    raw.sendto(head + body, (target, 0))
"""


def send_datagram(
    fleet: NodesFleet, space: str, pod: str, source: str, target: str, word: str
) -> None:
    """Send with any source address."""
    subprocess.run([*inside(fleet, space, pod), SEND, source, target, word], check=True)


def test_rules_outlive_the_guard_until_they_are_removed(fleet: NodesFleet) -> None:
    """Without any rules the pods reach each other: the network plugin enforces no policies."""
    guards = guard_processes(fleet)
    assert len(guards) == len(NODES)
    target = f"{address(fleet, 'bolt-web', NODES[1])}:{TCP}"

    for pid in guards:
        os.kill(pid, signal.SIGKILL)
    assert not reached(fleet, "acme-web", NODES[0], target)

    for pid in node_processes(fleet):
        there = ("nsenter", "--net", "--mount", "--target", str(pid))
        subprocess.run([*there, *HANSE, "guard", "--remove"], check=True)
        tables = subprocess.check_output([*there, "nft", "list", "tables"], text=True)
        assert "hanse-guard" not in tables
        configs = Path(f"/proc/{pid}/root/run/node/cni").iterdir()
        assert [path.name for path in configs] == ["10-pods.conflist"]
    await_reached(fleet, "acme-web", NODES[0], target)
    fleet.apply(HERE, "acme-web", pinned("later", NODES[0]))
    fleet.must(HERE, "-n", "acme-web", "delete", "pod", NODES[1], "--grace-period=1")
    fleet.await_ready(HERE, "acme-web", "pod/later")


def test_no_packet_passes_while_guards_come_and_go(fleet: NodesFleet) -> None:
    """After the test above: without guards, and with policies that are enforced from here on."""
    for tenant in TENANTS:
        fleet.must(HERE, "-n", f"{tenant}-web", "delete", "networkpolicy", "all")
    fleet.must(HERE, "-n", LEASES, "delete", "leases", "--all")  # else they count for a minute
    until(lambda: isolated_by(fleet), lambda told: told == {"GuardsMissing"})
    nodes = node_processes(fleet)
    pods = {
        pod: address(fleet, *pod)
        for pod in (
            ("acme-web", NODES[0]),
            ("acme-web", "later"),
            *(("bolt-web", n) for n in NODES),
        )
    }
    with enforced(fleet.running.kubeconfig, HERE, nodes, TCP), connecting(fleet, pods) as seen:
        guards = [start_guard(fleet, nodes[0])]
        until(lambda: leases(fleet), lambda names: len(names) == 1)
        assert isolated_by(fleet) == {"GuardsMissing"}
        guards.append(start_guard(fleet, nodes[1]))
        until(lambda: isolated_by(fleet), lambda told: told == {"Guards"})
        assert our_policies(fleet) == []
        seen.pause()

        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-3"}}
        fleet.apply(HERE, "default", node)
        until(lambda: isolated_by(fleet), lambda told: told == {"GuardsMissing"})
        fleet.must(HERE, "delete", "node", "node-3")
        until(lambda: isolated_by(fleet), lambda told: told == {"Guards"})
        seen.pause()

        for guard in guards:
            guard.terminate()
        assert [guard.wait(60) for guard in guards] == [0, 0]
        for pid in nodes:
            tables = ["nsenter", "--net", "--target", str(pid), "nft", "list", "tables"]
            assert b"hanse-guard" not in subprocess.check_output(tables)
        assert isolated_by(fleet) == {"GuardsMissing"}
        assert leases(fleet) == []
        seen.pause()

    assert seen.between_tenants == []
    assert seen.failed_within == []


LEASES = "hanse-guards"


class Seen:
    """What pods tell of their connections: within their tenant, and to another's."""

    def __init__(self) -> None:
        self.between_tenants: list[str] = []
        self.failed_within: list[str] = []
        self.lines = 0

    def read(self, output: IO[str], space: str, names: dict[str, str]) -> None:
        """Read the lines of a pod until it ends."""
        for line in output:
            target, _, outcome = line.strip().partition(" ")
            self.lines += 1
            told = f"{space} to {names[target]}: {outcome}"
            if names[target] != space and outcome == "connected":
                self.between_tenants.append(told)
            elif names[target] == space and outcome != "connected":
                self.failed_within.append(told)

    def pause(self) -> None:
        """Wait until all pods have tried all again."""
        start = self.lines
        until(lambda: self.lines, lambda lines: lines > start + 40)


CONNECT = """
import socket, sys, time
port, *targets = sys.argv[1:]
while True:
    for target in targets:
        try:
            socket.create_connection((target, int(port)), timeout=0.5).close()
            print(target, "connected", flush=True)
        except OSError as error:
            print(target, type(error).__name__, flush=True)
    time.sleep(0.05)
"""


@contextmanager
def connecting(fleet: NodesFleet, pods: dict[tuple[str, str], str]) -> Iterator[Seen]:
    """Pods connect to all others all the time."""
    seen, names = Seen(), {ip: space for (space, _), ip in pods.items()}
    with ExitStack() as stack:
        for (space, pod), ip in pods.items():
            targets = [other for other in pods.values() if other != ip]
            command = [*inside(fleet, space, pod), CONNECT, str(TCP), *targets]
            client = stack.enter_context(
                subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            )
            stack.callback(client.kill)
            assert client.stdout is not None
            reader = threading.Thread(target=seen.read, args=(client.stdout, space, names))
            reader.start()
        yield seen


def start_guard(fleet: NodesFleet, pid: int) -> "subprocess.Popen[bytes]":
    """A guard on the node of a process, whose DaemonSet is gone when it ends."""
    config = Path(f"/proc/{pid}/root/run/node/cni/10-pods.conflist").read_text()
    pods = ip_network(json.loads(config)["plugins"][0]["ipam"]["ranges"][0][0]["subnet"])
    (node,) = (n for n in NODES if ip_address(address(fleet, "bolt-web", n)) in pods)
    where = ("nsenter", "--net", "--mount", "--target", str(pid))
    options = ("--kubeconfig=/run/node/guard.kubeconfig", "guard", f"--node={node}")
    return subprocess.Popen([*where, *HANSE, *options, "--daemonset=hanse-system/none"])


def isolated_by(fleet: NodesFleet) -> set[str]:
    """What the networks say that isolates them."""
    conditions = [
        c for n in fleet.get(HERE, "networks")["items"] for c in n["status"]["conditions"]
    ]
    return {c["reason"] for c in conditions if c["type"] == "Isolated"}


def our_policies(fleet: NodesFleet) -> list[str]:
    items = fleet.get(HERE, "networkpolicies", "-A")["items"]
    return [p["metadata"]["name"] for p in items if p["metadata"]["name"].startswith("hanse-")]


def leases(fleet: NodesFleet) -> list[str]:
    return [one["metadata"]["name"] for one in fleet.get(HERE, "-n", LEASES, "leases")["items"]]


def guard_processes(fleet: NodesFleet) -> list[int]:
    """The guards of all nodes."""
    found = [(p.pid, arguments(p.pid)) for p in descendants(fleet.running.process.pid)]
    return [pid for pid, words in found if words[0] == HANSE[0].encode() and b"guard" in words]


def node_processes(fleet: NodesFleet) -> list[int]:
    """A process in the network namespace of each node."""
    return [p.pid for p in descendants(fleet.running.process.pid) if p.name == "containerd"]


def arguments(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
