"""Questions about other zones, handed on to other name servers; by UDP, and never waited for."""

import socket
from collections import OrderedDict
from collections.abc import Callable, Sequence
from random import SystemRandom

from msgspec import Struct

from hanse.dns.batch import Client
from hanse.dns.questions import Malformed, question_in
from hanse.dns.table import Table

PATIENCE = 5.0
"""Seconds after which an answer is not waited for any more."""
MOST_WAITING = 4096
"""Questions under way; beyond it the oldest are given up."""
SOCKETS = 4
"""For each server: a forged answer must guess the port too."""
LARGEST = 4096

Address = tuple[str, int]


class _Waiting(Struct, frozen=True):
    """Who asked, by which socket and under which id."""

    sock: socket.socket
    client: Client
    id: bytes
    server: int
    until: float


class Forwarder:
    """Hands questions on in turn, under ids of its own, and brings the answers back."""

    def __init__(self, servers: Sequence[Address], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._random = SystemRandom()
        self._waiting: OrderedDict[tuple[int, int], _Waiting] = OrderedDict()
        self.sockets: dict[int, socket.socket] = {}
        for host, port in servers:
            for _ in range(SOCKETS):
                family = socket.AF_INET6 if ":" in host else socket.AF_INET
                sock = socket.socket(family, socket.SOCK_DGRAM)
                sock.setblocking(False)
                sock.connect((host, port))
                self.sockets[sock.fileno()] = sock

    def takes(self, packet: bytes, table: Table, sock: socket.socket, client: Client) -> bool:
        """Hand a question on if it is about none of a table's zones; whether it was."""
        try:
            question = question_in(packet)
        except (Malformed, IndexError):
            return False
        if packet[2] & 0xF8 or table.zone_of(question.name) is not None:
            return False
        fd = self._random.choice(list(self.sockets))
        number = self._random.randrange(65536)
        now = self._clock()
        if (fd, number) in self._waiting:
            return True  # too unlikely to matter: the client asks again
        self._waiting[fd, number] = _Waiting(sock, client, packet[:2], fd, now + PATIENCE)
        self.expire(now)
        try:
            self.sockets[fd].send(number.to_bytes(2) + packet[2:])
        except OSError:
            del self._waiting[fd, number]
        return True

    def bring_back(self, fd: int) -> None:
        """Give clients the answers that have come on a socket."""
        while True:
            try:
                answer = self.sockets[fd].recv(LARGEST)
            except BlockingIOError:
                return
            except OSError:  # the server is not there; clients ask again
                continue
            waiting = self._waiting.pop((fd, int.from_bytes(answer[:2])), None)
            if waiting is None or len(answer) < 12:
                continue
            try:
                waiting.sock.sendto(waiting.id + answer[2:], waiting.client)
            except OSError:  # a client that cannot be reached
                continue

    def expire(self, now: float) -> None:
        """Give up what has waited for too long; the oldest stand first."""
        while self._waiting:
            oldest = next(iter(self._waiting.values()))
            if oldest.until > now and len(self._waiting) <= MOST_WAITING:
                return
            self._waiting.popitem(last=False)
