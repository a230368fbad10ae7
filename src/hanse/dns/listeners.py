"""The sockets of a view: one pair for each worker, all on one port."""

import socket
from ipaddress import ip_address

from msgspec import Struct

_ATTEMPTS = 20
_QUEUE = 4 * 1024 * 1024
"""Bytes of questions that may wait while a worker takes in a change."""


class Listeners(Struct, frozen=True):
    """Bound sockets, as many of each kind as there are workers."""

    datagrams: tuple[socket.socket, ...]
    streams: tuple[socket.socket, ...]

    @property
    def address(self) -> tuple[str, int]:
        """Where clients ask."""
        host, port = self.datagrams[0].getsockname()[:2]
        return host, port

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can ask."""
        return ip_address(self.address[0].partition("%")[0]).is_loopback

    def close(self) -> None:
        for sock in (*self.datagrams, *self.streams):
            sock.close()


def bind_listeners(host: str, port: int, workers: int) -> Listeners:
    """Sockets on an address, for UDP and TCP alike; port 0 finds one that is free for both."""
    for _ in range(_ATTEMPTS if port == 0 else 1):
        try:
            return _bound(host, port, workers)
        except OSError as error:
            taken = error
    raise taken


def _bound(host: str, port: int, workers: int) -> Listeners:
    made: list[socket.socket] = []
    try:
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            for _ in range(workers):
                sock = _socket(host, kind)
                made.append(sock)
                sock.bind((host, port))
                port = sock.getsockname()[1]
                if kind == socket.SOCK_STREAM:
                    sock.listen(128)
    except OSError:
        for sock in made:
            sock.close()
        raise
    return Listeners(tuple(made[:workers]), tuple(made[workers:]))


def _socket(host: str, kind: socket.SocketKind) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
    if ":" in host:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if kind == socket.SOCK_STREAM:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    else:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _QUEUE)
    sock.setblocking(False)
    return sock
