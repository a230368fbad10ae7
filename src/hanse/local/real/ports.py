"""Ports on loopback: free ones to listen on, and who holds one that is not free."""

import asyncio
import random
import socket
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from msgspec import Struct

from hanse.local.real.errors import PortInUse

BELOW_EPHEMERAL = range(16_000, 30_000)
"""Below what kernels give to outgoing connections, so that none of those takes a server's port
while it restarts; and below the node ports of Kubernetes."""

_LISTENING = "0A"


class PortOwner(Struct, frozen=True):
    """The process that listens on a port."""

    pid: int
    program: str


class PortReservations:
    """Ports that nobody else is given for as long as this is open, listened on or not.

    A server needs its port from when it was chosen, and again after it was away. A claim is a
    socket in the kernel's abstract namespace, which it takes back from whoever ends.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def take(self, count: int) -> list[int]:
        """Different ports on which nobody listens now, and which nobody else has claimed."""
        found: list[int] = []
        for port in random.sample(BELOW_EPHEMERAL, len(BELOW_EPHEMERAL)):
            if len(found) == count:
                break
            if self._claimed(port) and is_port_free(port):
                found.append(port)
        return found

    def close(self) -> None:
        """Let go of all of them."""
        for claim in self._held:
            claim.close()
        self._held.clear()

    def _claimed(self, port: int) -> bool:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0hanse-port-{port}")
        except OSError:
            claim.close()
            return False
        self._held.append(claim)
        return True


def free_ports(count: int) -> list[int]:
    """Different ports on which nobody listens now and which no fleet has claimed."""
    with closing(PortReservations()) as claims:
        return claims.take(count)


def is_port_free(port: int) -> bool:
    """Whether a server could listen on this port of 127.0.0.1 now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do it: connections that still linger from an earlier one do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


async def wait_until_free(port: int, patience: timedelta) -> None:
    """Wait for a port whose holder is perhaps ending; raises `PortInUse` with the holder's name."""
    try:
        async with asyncio.timeout(patience.total_seconds()):
            while not is_port_free(port):  # noqa: ASYNC110 - the kernel tells nobody
                await asyncio.sleep(0.1)
    except TimeoutError:
        holder = find_port_owner(port)
        by = f"process {holder.pid} ({holder.program})" if holder else "another process"
        raise PortInUse(f"port {port} is held by {by}; end it, or choose another port") from None


def find_port_owner(port: int, proc: Path = Path("/proc")) -> PortOwner | None:
    """Who listens on a port, as far as this system and our rights let us see."""
    sockets = {f"socket:[{inode}]" for inode in _listeners(port, proc)}
    if not sockets:
        return None
    for process in proc.glob("[0-9]*"):
        if _holds(process, sockets):
            return PortOwner(int(process.name), _program(process))
    return None


def _listeners(port: int, proc: Path) -> set[str]:
    """The inodes of sockets in state LISTEN on a port, from the kernel's tables."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        try:
            rows = (proc / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, rows):
            local, state, inode = fields[1], fields[3], fields[9]
            if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                inodes.add(inode)
    return inodes


def _holds(process: Path, sockets: set[str]) -> bool:
    try:
        return any(str(opened.readlink()) in sockets for opened in (process / "fd").iterdir())
    except OSError:
        return False


def _program(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "unknown"
