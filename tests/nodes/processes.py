"""Processes and control groups, as /proc and /sys show them."""

import ctypes
import subprocess
from pathlib import Path

from msgspec import Struct

_PR_SET_CHILD_SUBREAPER = 36


class Process(Struct, frozen=True):
    """A process: its start time tells it from a later one with the same id."""

    pid: int
    name: str
    parent: int
    started: str

    @property
    def alive(self) -> bool:
        found = _read(self.pid)
        return found is not None and found.started == self.started


def adopt_orphans() -> None:
    """Make processes whose parent ends children of this one, so that they can be found."""
    assert ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1) == 0


def descendants(pid: int) -> list[Process]:
    """All processes that a process started, directly or not."""
    found = [process for path in Path("/proc").glob("[0-9]*") if (process := _read(int(path.name)))]
    family, grown = {pid}, True
    while grown:
        children = {process.pid for process in found if process.parent in family}
        grown = not children <= family
        family |= children
    return [process for process in found if process.pid in family and process.pid != pid]


def container_process(container: str) -> int:
    """A process of a running container, by the container's id."""
    for group in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            if container in group.read_text():
                return int(group.parent.name)
        except OSError:
            continue
    raise AssertionError(f"no process of container {container} runs")


def node_processes(pid: int, address: str) -> dict[str, int]:
    """The processes by name of the node that has an address, of the nodes of a process."""
    found = descendants(pid)
    for holder in (one for one in found if one.name == "containerd"):
        inside = ("nsenter", "--net", "--target", str(holder.pid), "ip", "-o", "address")
        if f" {address}/" in subprocess.check_output(inside, text=True):
            network = _network(holder.pid)
            return {one.name: one.pid for one in found if _network(one.pid) == network}
    raise AssertionError(f"no node has the address {address}")


def _network(pid: int) -> str:
    """The network namespace of a process; empty if it has ended."""
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return ""


def cgroups_of(pid: int) -> list[Path]:
    """The control groups of the nodes of a process."""
    return [
        *Path("/sys/fs/cgroup").glob(f"*/hanse/{pid}"),
        *Path("/sys/fs/cgroup").glob(f"hanse/{pid}"),
    ]


def _read(pid: int) -> Process | None:
    """A process that runs; None if it has ended, also if nobody has waited for it yet."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    state, parent, *fields = rest.split()
    return None if state in "ZX" else Process(pid, name, int(parent), fields[17])
