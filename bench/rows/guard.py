"""The guard of a node: what a pod costs among 20,000 in 1,000 networks, and what that weighs.

Packets go between two network namespaces, as pods, through a third one with the rules.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from bench.figures import AtLeast, AtMost, Figure
from bench.row import Effort, Row, Skip, unprepared
from bench.tenants import wire
from hanse.features.networks.guard.facts import AddressOwner, ClusterFacts, NetworkFacts
from hanse.features.networks.guard.ruleset import TABLE, Ruleset, build_ruleset
from hanse.features.networks.guard.transaction import REMOVAL, replacement, set_owners
from hanse.features.networks.guard.watches import GUARD_WATCHES
from hanse.features.networks.names import NetworkName
from hanse.providers.nftables import Nftables

NETWORKS, PODS, UPDATES = 1_000, 20_000, 200


ONE, OTHER, PORT = "10.4.0.1", "10.4.0.2", 5201
"""The addresses of two pods of one network, whose packets are measured."""
TRACKED = """
table inet tracked
add chain inet tracked forward { type filter hook forward priority -10; }
add rule inet tracked forward ct state invalid drop
"""
"""Connections are tracked on every node, by kube-proxy's rules."""
CONNECT = """
import socket, sys
for line in sys.stdin:
    socket.create_connection(tuple(line.split()), 5).close()
    print("reached", flush=True)
"""


async def _rules_once(effort: Effort) -> Mapping[str, float]:
    networks, pods = effort.of(NETWORKS, 50), effort.of(PODS, 500)
    size = (networks, pods, effort.of(UPDATES, 20))
    return {**await _measured(f"measure{size!r}"), **await _weighed(networks, pods)}


async def _weighed(networks: int, pods: int) -> Mapping[str, float]:
    """What a guard weighs, in a process and a network namespace of its own."""
    watched = {watch.kind.kind.name for watch in GUARD_WATCHES}
    lines = [
        b"%s %s\n" % (kind.kind.name.encode(), body)
        for kind, body in wire(networks, pods)
        if kind.kind.name in watched
    ]
    process = await asyncio.create_subprocess_exec(
        *("unshare", "--net", sys.executable, "-m", "bench.guard_process"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    output, _ = await process.communicate(b"".join(lines))
    assert process.returncode == 0, "the guard could not be weighed"
    found: dict[str, float] = json.loads(output)
    return found


async def _packets_once(effort: Effort) -> Mapping[str, float]:
    if shutil.which("iperf3") is None:
        raise Skip("needs iperf3; install the package iperf3")
    size = (effort.of(NETWORKS, 50), effort.of(PODS, 500), effort.of(2, 1))
    return await _measured(f"measure_packets{size!r}")


async def _measured(call: str) -> Mapping[str, float]:
    """Measure in a process and a network namespace of its own."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        raise Skip("needs root and unshare, to change rules in a network namespace of its own")
    name = call.partition("(")[0]
    program = f"from bench.rows.guard import {name}; {call}"
    process = await asyncio.create_subprocess_exec(
        *("unshare", "--net", sys.executable, "-c", program),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, "the rules could not be written"
    found: dict[str, float] = json.loads(output)
    return found


def _cluster(networks: int, pods: int) -> tuple[list[NetworkName], Ruleset]:
    """The names of so many networks, and the rules of so many pods in them."""
    names = [NetworkName(f"tenant-{number}") for number in range(networks)]
    facts = ClusterFacts(
        tuple(NetworkFacts(name) for name in names), inside=("10.0.0.0/8",), local_pods=()
    )
    owners = {
        f"10.{5 + n // 65536}.{n // 256 % 256}.{n % 256}": AddressOwner("web", names[n % networks])
        for n in range(pods)
    }
    return names, build_ruleset(facts, owners)


def measure(networks: int, pods: int, updates: int) -> None:
    """Write the rules of so many pods, add one after the other, and print what it took."""
    names, ruleset = _cluster(networks, pods)
    rules = Nftables()
    rules.run(replacement(ruleset))
    took, started = [], time.process_time()
    for number in range(updates):
        owner = AddressOwner("web", names[number % networks])
        began = time.perf_counter()
        rules.change(TABLE, set_owners(ruleset, {f"10.99.0.{number}": owner}))
        took.append(time.perf_counter() - began)
    cpu = (time.process_time() - started) / updates
    figures = {
        "one pod more": sorted(took)[updates // 2] * 1e3,
        "CPU of one pod more": cpu * 1e3,
    }
    sys.stdout.write(json.dumps(figures))


def measure_packets(networks: int, pods: int, seconds: int) -> None:
    """Throughput with and without the rules in turn, and how soon a new pod is reached."""
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    names, ruleset = _cluster(networks, pods)
    owner, rules = AddressOwner("web", names[0]), Nftables()
    rules.run(TRACKED + replacement(ruleset))
    one, other = (_wire(number, address) for number, address in enumerate((ONE, OTHER)))
    server = subprocess.Popen(
        [*other, "iperf3", "--server"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    client = subprocess.Popen(
        [*one, sys.executable, "-c", CONNECT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    rules.change(TABLE, set_owners(ruleset, {ONE: owner}))
    first = [_first_packet(client, rules, ruleset, owner) for _ in range(20)]
    client.kill()
    rates: dict[bool, list[float]] = {True: [], False: []}
    for guarded in (False, True, True, False) * 2:
        rules.run(replacement(ruleset) if guarded else REMOVAL)
        rates[guarded].append(_throughput(one, seconds))
    server.kill()
    figures = {
        "a new pod is reached": sorted(first)[len(first) // 2] * 1e3,
        "throughput": median(rates[True]) / 1e9,
        "throughput without a guard": median(rates[False]) / 1e9,
    }
    sys.stdout.write(json.dumps(figures))


def _wire(number: int, address: str) -> list[str]:
    """Connect a new network namespace; returns the start of commands that run in it."""
    holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)
    inside = ["nsenter", "--net", "--target", str(holder.pid)]
    own = Path("/proc/self/ns/net").readlink()
    while Path(f"/proc/{holder.pid}/ns/net").readlink() == own:
        time.sleep(0.01)
    commands = f"""
ip link add pod{number} type veth peer name eth0 netns {holder.pid}
ip addr add 10.255.{number}.1/32 dev pod{number}
ip link set pod{number} up
ip route add {address}/32 dev pod{number}
{" ".join(inside)} sh -ec "ip link set lo up; ip addr add {address}/32 dev eth0; \\
    ip link set eth0 up; ip route add 10.255.{number}.1 dev eth0; \\
    ip route add default via 10.255.{number}.1"
"""
    subprocess.run(["sh", "-e"], input=commands, text=True, check=True)
    return inside


def _first_packet(
    client: "subprocess.Popen[str]", rules: Nftables, ruleset: Ruleset, owner: AddressOwner
) -> float:
    """The seconds from when an address is known to a connection to it."""
    assert client.stdin is not None
    assert client.stdout is not None
    rules.change(TABLE, set_owners(ruleset, {OTHER: None}))
    began = time.perf_counter()
    rules.change(TABLE, set_owners(ruleset, {OTHER: owner}))
    print(OTHER, PORT, file=client.stdin, flush=True)
    assert client.stdout.readline() == "reached\n"
    return time.perf_counter() - began


def _throughput(inside: list[str], seconds: int) -> float:
    """Bits of one TCP connection in a second of CPU, whatever else the machine does."""
    command = [*inside, "iperf3", "--client", OTHER, "--time", str(seconds), "--json"]
    while True:  # the server may be about to end the test before
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
        if "error" not in (found := json.loads(done.stdout)):
            break
        time.sleep(0.1)
    end, used = found["end"], found["end"]["cpu_utilization_percent"]
    busy = float(used["host_total"] + used["remote_total"]) / 100
    return float(end["sum_received"]["bits_per_second"]) / busy


GUARD = Row(
    name="guard",
    about="the rules of a node with 20,000 pods in 1,000 networks: one pod more, and the memory of "
    "the guard, with its imports alone, with what it watches, and with all",
    against="fixed goals",
    figures=(
        Figure("one pod more", "ms", AtMost(5)),
        Figure("CPU of one pod more", "ms", AtMost(5)),
        Figure("imports", "MiB"),
        Figure("what it watches", "MiB"),
        Figure("memory", "MiB", AtMost(60)),
    ),
    prepare=unprepared(_rules_once),
)
GUARD_PACKETS = Row(
    name="guard-packets",
    about="packets between two pods through the rules of 20,000 pods in 1,000 networks: one TCP "
    "connection per second of CPU, and a pod's first packet once its address is known",
    against="the same without a guard",
    figures=(
        Figure("a new pod is reached", "ms", AtMost(50)),
        Figure("throughput", "Gbit/CPU s", AtLeast(0.97), against="throughput without a guard"),
        Figure("throughput without a guard", "Gbit/CPU s"),
    ),
    prepare=unprepared(_packets_once),
)
