"""The sockets of a view: a UDP and a TCP socket for each worker, all on one port."""

import socket
from ipaddress import ip_address

from msgspec import Struct

_ATTEMPTS = 20
_RECEIVE_BUFFER = 4 * 1024 * 1024
"""Receive buffer in bytes, for queries that arrive while a worker applies a change."""


class Listeners(Struct, frozen=True):
    """Bound sockets, one UDP and one TCP socket per worker."""

    datagrams: tuple[socket.socket, ...]
    streams: tuple[socket.socket, ...]

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the sockets."""
        host, port = self.datagrams[0].getsockname()[:2]
        return host, port

    @property
    def is_loopback(self) -> bool:
        """Whether only local clients can connect."""
        return ip_address(self.address[0].partition("%")[0]).is_loopback

    def close(self) -> None:
        """Close all UDP and TCP sockets."""
        for sock in (*self.datagrams, *self.streams):
            sock.close()


def bind_listeners(host: str, port: int, workers: int) -> Listeners:
    """Bind a UDP and a TCP socket for each worker to an address; port 0 finds one free for both.

    Raises OSError if the address cannot be bound; for port 0 after several attempts.
    """
    for _ in range(_ATTEMPTS if port == 0 else 1):
        try:
            return _bind(host, port, workers)
        except OSError as error:
            taken = error
    raise taken


def _bind(host: str, port: int, workers: int) -> Listeners:
    """Bind a UDP and a listening TCP socket for each worker, all on the same port.

    Port 0 takes the port that the first socket gets; on an error all sockets are closed.
    SO_REUSEPORT would share a port with another server of the same user, port 0 included, so the
    first socket of each kind gets it after it is bound.
    """
    sockets: list[socket.socket] = []
    try:
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            for worker in range(workers):
                sock = _open_socket(host, kind)
                sockets.append(sock)
                if worker:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                sock.bind((host, port))
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                port = sock.getsockname()[1]
                if kind == socket.SOCK_STREAM:
                    sock.listen(128)
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return Listeners(tuple(sockets[:workers]), tuple(sockets[workers:]))


def _open_socket(host: str, kind: socket.SocketKind) -> socket.socket:
    """A non-blocking IPv4 or IPv6-only socket, not bound.

    TCP sockets also get SO_REUSEADDR, UDP sockets a larger receive buffer.
    """
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
    if ":" in host:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    if kind == socket.SOCK_STREAM:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    else:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
    sock.setblocking(False)
    return sock
