"""Ports on loopback: reserving free ones, and finding the process that uses one."""

import asyncio
import random
import socket
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
    """Ports that no other fleet on this machine can reserve until this is closed.

    A server needs its port before it listens on it, and again after a restart. A reservation is a
    Unix socket in the abstract namespace, which the kernel removes when the process ends.
    """

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def reserve(self, count: int) -> list[int]:
        """Reserve distinct ports of loopback that are free and not reserved by others, at random.

        They are in BELOW_EPHEMERAL; fewer than `count` are returned if there are no more.
        """
        found: list[int] = []
        for port in random.sample(BELOW_EPHEMERAL, len(BELOW_EPHEMERAL)):
            if len(found) == count:
                break
            if self._try_reserve(port):
                found.append(port)
        return found

    def close(self) -> None:
        """Release all reservations."""
        for reservation in self._sockets:
            reservation.close()
        self._sockets.clear()

    def _try_reserve(self, port: int) -> bool:
        """Reserve one port; False, with nothing reserved, if it is reserved already or in use."""
        reservation = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            reservation.bind(f"\0hanse-port-{port}")
        except OSError:
            reservation.close()
            return False
        if not is_port_free(port):
            reservation.close()
            return False
        self._sockets.append(reservation)
        return True


def is_port_free(port: int) -> bool:
    """Whether a server could listen on this port of 127.0.0.1 now; it is not kept."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: connections in TIME_WAIT of an earlier server do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


async def wait_until_free(port: int, within: timedelta) -> None:
    """Wait until a port is free; raises `PortInUse` with its owner after that time."""
    try:
        async with asyncio.timeout(within.total_seconds()):
            while not is_port_free(port):  # noqa: ASYNC110 - the kernel sends no event
                await asyncio.sleep(0.1)
    except TimeoutError:
        owner = find_port_owner(port)
        by = f"process {owner.pid} ({owner.program})" if owner else "another process"
        raise PortInUse(f"port {port} is held by {by}; end it, or choose another port") from None


def find_port_owner(port: int, proc: Path = Path("/proc")) -> PortOwner | None:
    """A process that listens on a TCP port; None if none does, or /proc does not show it."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port, proc)}
    if not sockets:
        return None
    for process in proc.glob("[0-9]*"):
        if _has_socket(process, sockets):
            return PortOwner(int(process.name), _program_name(process))
    return None


def _listening_inodes(port: int, proc: Path) -> set[str]:
    """The inodes of TCP sockets in state LISTEN on a port, by the kernel's tables in `proc`.

    Both of IPv4 and IPv6; a table that cannot be read counts as empty.
    """
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


def _has_socket(process: Path, sockets: set[str]) -> bool:
    """Whether a process (its folder in /proc) has one of the sockets open; False if unreadable."""
    try:
        return any(
            str(descriptor.readlink()) in sockets for descriptor in (process / "fd").iterdir()
        )
    except OSError:
        return False


def _program_name(process: Path) -> str:
    """The program of a process (its folder in /proc); `unknown` if it is gone."""
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "unknown"
