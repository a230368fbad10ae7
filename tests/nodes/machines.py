"""Machines outside clusters: processes in a network namespace that is connected to the fabric."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path

from msgspec import Struct

from hanse.local.ranges import AddressRanges, address_ranges
from hanse.local.real.binaries import cache_folder, cached
from hanse.local.real.nodes.fabric import dns_address
from hanse.local.real.programs import NETCHECK
from tests.cli.programs import CommandResult
from tests.nodes.fleet import NodesFleet, until
from tests.nodes.manifests import HTTP


class Machine(Struct, frozen=True):
    """A running machine that answers HTTP; it resolves names as clients outside clusters do."""

    pid: int
    address: IPv4Address

    def netcheck(self, *arguments: str) -> CommandResult:
        """Run netcheck on the machine."""
        inside = ("nsenter", "--net", "--mount", "--target", str(self.pid), str(_netcheck()))
        done = subprocess.run([*inside, *arguments], capture_output=True, text=True, check=False)
        return CommandResult(done.returncode, done.stdout, done.stderr)


@contextmanager
def machine(fleet: NodesFleet, cluster: str, name: str, folder: Path) -> Iterator[Machine]:
    """A machine in the network of a cluster's nodes, until the block ends."""
    index = fleet.clusters.index(cluster)
    ranges = address_ranges(index)
    resolver = folder / f"{name}.resolv.conf"
    resolver.write_text(f"nameserver {dns_address(address_ranges(len(fleet.clusters)))}\n")
    script = f"mount --bind {resolver} /etc/resolv.conf; exec {_netcheck()} serve --http={HTTP}"
    process = subprocess.Popen(
        ["unshare", "--net", "--mount", "sh", "-euc", script],
        env={"CLUSTER": f"machine-of-{cluster}", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    try:
        until(lambda: Path(f"/proc/{process.pid}/exe").readlink(), lambda exe: exe == _netcheck())
        yield Machine(process.pid, _attach(fleet, process.pid, index, ranges))
    finally:
        process.kill()
        process.wait()


def _attach(fleet: NodesFleet, pid: int, index: int, ranges: AddressRanges) -> IPv4Address:
    """Connect a process to the bridge of a cluster; returns its address."""
    fabric, address, peer = fleet.fabric_pid, ranges.nodes[100], f"c{index}vm"
    inside, router = ("nsenter", "--net", "--target", str(pid)), ("nsenter", "--net", "--target")
    veth = ("type", "veth", "peer", "name", peer, "netns", str(fabric))
    for command in (
        ("ip", "link", "add", "name", "eth0", "netns", str(pid), *veth),
        (*router, str(fabric), "ip", "link", "set", peer, "master", f"c{index}", "up"),
        (*inside, "ip", "link", "set", "lo", "up"),
        (*inside, "ip", "address", "add", f"{address}/{ranges.nodes.prefixlen}", "dev", "eth0"),
        (*inside, "ip", "link", "set", "eth0", "up"),
        (*inside, "ip", "route", "add", "default", "via", str(ranges.api_server)),
    ):
        subprocess.run(command, check=True)
    return address


def _netcheck() -> Path:
    return cached(NETCHECK, cache_folder())
