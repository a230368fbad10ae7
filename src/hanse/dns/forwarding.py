"""Forwards queries for other zones to upstream name servers, without blocking."""

import socket
from collections import OrderedDict
from collections.abc import Callable, Sequence
from random import SystemRandom

from msgspec import Struct

from hanse.dns.batch import SocketAddress
from hanse.dns.cname_chains import (
    Chain,
    follow_aliases,
    retarget_question,
    servfail_response,
    splice_response,
)
from hanse.dns.questions import DnsQuestion, MalformedMessage, parse_question
from hanse.dns.responder import MAX_TCP_SIZE, max_udp_size
from hanse.dns.table import Table

QUERY_TIMEOUT = 5.0
"""Seconds after which a forwarded query is given up."""
MAX_IN_FLIGHT = 4096
"""Queries in flight by UDP; beyond it the oldest are given up."""
MAX_TCP_IN_FLIGHT = 128
"""Queries in flight by TCP; beyond it clients get SERVFAIL."""
SOCKETS = 4
"""UDP sockets per upstream: a forged response must guess the port too."""
LARGEST = 4096

Address = tuple[str, int]


class ForwardedQuestion(Struct, frozen=True):
    """A query for an upstream: as received, as forwarded, and the CNAME chain between both."""

    packet: bytes
    question: DnsQuestion
    query: bytes
    chain: Chain | None = None

    def client_response(self, answer: bytes, most: int) -> bytes | None:
        """The response for the client; None if the upstream's response is malformed.

        Without a CNAME chain it is that of the upstream with the client's id; only behind a chain
        is it built anew and limited to `most` bytes.
        """
        if len(answer) < 12:
            return None
        if self.chain is None:
            return self.packet[:2] + answer[2:]
        return splice_response(self.packet, self.question, self.chain, answer, most)


def forwarded_question(packet: bytes, table: Table) -> ForwardedQuestion | None:
    """The query to forward for a packet; None if the table answers it, or does not forward.

    Names outside the table's zones are forwarded, and, once the table is synced, alias chains that
    lead out of them. Malformed packets and those that are no standard query are not.
    """
    if not table.forwards:
        return None
    try:
        question = parse_question(packet)
    except (MalformedMessage, IndexError):
        return None
    if packet[2] & 0xF8:
        return None
    if table.zone_of(question.name) is None:
        return ForwardedQuestion(packet, question, packet)
    chain = follow_aliases(question, table) if table.synced else None
    if chain is None or table.zone_of(chain.target) is not None:
        return None
    return ForwardedQuestion(packet, question, retarget_question(packet, question, chain), chain)


class _InFlight(Struct, frozen=True):
    """A query in flight: its client, its socket and its deadline."""

    sock: socket.socket
    client: SocketAddress
    question: ForwardedQuestion
    deadline: float


class Forwarder:
    """Forwards UDP queries under ids of its own, and returns the responses to the clients."""

    def __init__(self, servers: Sequence[Address], clock: Callable[[], float]) -> None:
        """Open `SOCKETS` non-blocking UDP sockets to each server; `clock` gives seconds.

        Raises OSError if a socket cannot be opened.
        """
        self._servers = tuple(servers)
        self._clock = clock
        self._random = SystemRandom()
        self._in_flight: OrderedDict[tuple[int, int], _InFlight] = OrderedDict()
        self.sockets: dict[int, socket.socket] = {}
        for host, port in servers:
            for _ in range(SOCKETS):
                sock = socket.socket(_family(host), socket.SOCK_DGRAM)
                sock.setblocking(False)
                sock.connect((host, port))
                self.sockets[sock.fileno()] = sock

    def forward(
        self, packet: bytes, table: Table, sock: socket.socket, client: SocketAddress
    ) -> bool:
        """Forward a query unless the table answers it; returns whether it was taken.

        It is sent under a random id by a random socket; one that cannot be sent is dropped, but
        counts as taken. Also gives up expired queries.
        """
        question = forwarded_question(packet, table)
        if question is None:
            return False
        fd = self._random.choice(list(self.sockets))
        number = self._random.randrange(65536)
        now = self._clock()
        if (fd, number) in self._in_flight:
            return True  # too unlikely to matter: the client retries
        self._in_flight[fd, number] = _InFlight(sock, client, question, now + QUERY_TIMEOUT)
        self.expire(now)
        try:
            self.sockets[fd].send(number.to_bytes(2) + question.query[2:])
        except OSError:
            del self._in_flight[fd, number]
        return True

    def receive_responses(self, fd: int) -> None:
        """Send all responses that wait on a socket to their clients.

        Unknown and malformed ones are dropped, and so are errors of sockets.
        """
        while True:
            try:
                answer = self.sockets[fd].recv(LARGEST)
            except BlockingIOError:
                return
            except OSError:  # the upstream is unreachable; clients retry
                continue
            in_flight = self._in_flight.pop((fd, int.from_bytes(answer[:2])), None)
            if in_flight is None:
                continue
            response = in_flight.question.client_response(
                answer, max_udp_size(in_flight.question.question.edns)
            )
            try:
                if response is not None:
                    in_flight.sock.sendto(response, in_flight.client)
            except OSError:  # a client that cannot be reached
                continue

    def expire(self, now: float) -> None:
        """Give up, without a response, queries past their deadline or over `MAX_IN_FLIGHT`."""
        while self._in_flight:
            oldest = next(iter(self._in_flight.values()))
            if oldest.deadline > now and len(self._in_flight) <= MAX_IN_FLIGHT:
                return
            self._in_flight.popitem(last=False)

    def relay(self, question: ForwardedQuestion, on_response: Callable[[bytes], None]) -> "Relay":
        """Open a TCP relay to a random upstream for a query, with deadline `QUERY_TIMEOUT`.

        `on_response` gets the response for the client. Raises OSError if no socket can be opened.
        """
        return Relay(
            self._random.choice(self._servers), question, on_response, self._clock() + QUERY_TIMEOUT
        )


class Relay:
    """One query on a TCP connection of its own; no method blocks."""

    def __init__(
        self,
        server: Address,
        question: ForwardedQuestion,
        on_response: Callable[[bytes], None],
        deadline: float,
    ) -> None:
        """Begin to connect to a server; `on_response` gets the response or SERVFAIL for the client.

        Past the `deadline` the owner closes it.
        """
        self.deadline = deadline
        self.sock = socket.socket(_family(server[0]), socket.SOCK_STREAM)
        self.sock.setblocking(False)
        self.sock.connect_ex(server)
        self._question = question
        self._on_response = on_response
        self._outgoing = len(question.query).to_bytes(2) + question.query
        self._incoming = bytearray()

    @property
    def has_pending(self) -> bool:
        """Whether a part of the query is still to be sent."""
        return bool(self._outgoing)

    def advance(self) -> bool:
        """Write or read what is possible; returns whether the client has its response.

        The client gets SERVFAIL if the upstream is unreachable or its response malformed.
        """
        try:
            if self._outgoing:
                self._outgoing = self._outgoing[self.sock.send(self._outgoing) :]
                return False
            data = self.sock.recv(65536)
        except BlockingIOError:
            return False
        except OSError:  # the upstream is unreachable
            data = b""
        self._incoming += data
        length = int.from_bytes(self._incoming[:2])
        if data and len(self._incoming) < 2 + length:
            return False
        message = bytes(self._incoming[2 : 2 + length])
        client_response = (
            self._question.client_response(message, MAX_TCP_SIZE)
            if len(message) == length
            else None
        )
        self._on_response(client_response or servfail_response(self._question.packet))
        return True

    def fail(self) -> None:
        """Send SERVFAIL to the client; the owner closes the connection."""
        self._on_response(servfail_response(self._question.packet))


def _family(host: str) -> socket.AddressFamily:
    """AF_INET6 for an IPv6 address, else AF_INET."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET
