"""Questions about other zones, handed on to other name servers; never waited for."""

import socket
from collections import OrderedDict
from collections.abc import Callable, Sequence
from random import SystemRandom

from msgspec import Struct

from hanse.dns.batch import Client
from hanse.dns.cname_chains import (
    Chain,
    follow_aliases,
    retarget_question,
    servfail_response,
    splice_response,
)
from hanse.dns.questions import MalformedMessage, Question, parse_question
from hanse.dns.responder import MOST_TCP, max_udp_size
from hanse.dns.table import Table

PATIENCE = 5.0
"""Seconds after which an answer is not waited for any more."""
MOST_WAITING = 4096
"""Questions under way; beyond it the oldest are given up."""
MOST_STREAMS = 128
"""Questions under way by TCP; beyond it clients hear that it failed."""
SOCKETS = 4
"""For each server: a forged answer must guess the port too."""
LARGEST = 4096

Address = tuple[str, int]


class ForwardedQuestion(Struct, frozen=True):
    """A question for another server: as it came, as it goes on, and what joins the two."""

    packet: bytes
    question: Question
    asked: bytes
    chain: Chain | None = None

    def back(self, answer: bytes, most: int) -> bytes | None:
        """What the client hears of an answer; None where that is nothing."""
        if len(answer) < 12:
            return None
        if self.chain is None:
            return self.packet[:2] + answer[2:]
        return splice_response(self.packet, self.question, self.chain, answer, most)


def forwarded_question(packet: bytes, table: Table) -> ForwardedQuestion | None:
    """The question for another server that a packet means; None where a table answers it."""
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


class _Waiting(Struct, frozen=True):
    """Who asked what, by which socket."""

    sock: socket.socket
    client: Client
    question: ForwardedQuestion
    until: float


class Forwarder:
    """Hands questions on in turn, under ids of its own, and brings the answers back."""

    def __init__(self, servers: Sequence[Address], clock: Callable[[], float]) -> None:
        self._servers = tuple(servers)
        self._clock = clock
        self._random = SystemRandom()
        self._waiting: OrderedDict[tuple[int, int], _Waiting] = OrderedDict()
        self.sockets: dict[int, socket.socket] = {}
        for host, port in servers:
            for _ in range(SOCKETS):
                sock = socket.socket(_family(host), socket.SOCK_DGRAM)
                sock.setblocking(False)
                sock.connect((host, port))
                self.sockets[sock.fileno()] = sock

    def forward(self, packet: bytes, table: Table, sock: socket.socket, client: Client) -> bool:
        """Hand a question on if it is about none of a table's zones; whether it was."""
        question = forwarded_question(packet, table)
        if question is None:
            return False
        fd = self._random.choice(list(self.sockets))
        number = self._random.randrange(65536)
        now = self._clock()
        if (fd, number) in self._waiting:
            return True  # too unlikely to matter: the client asks again
        self._waiting[fd, number] = _Waiting(sock, client, question, now + PATIENCE)
        self.expire(now)
        try:
            self.sockets[fd].send(number.to_bytes(2) + question.asked[2:])
        except OSError:
            del self._waiting[fd, number]
        return True

    def receive_responses(self, fd: int) -> None:
        """Give clients the answers that have come on a socket."""
        while True:
            try:
                answer = self.sockets[fd].recv(LARGEST)
            except BlockingIOError:
                return
            except OSError:  # the server is not there; clients ask again
                continue
            waiting = self._waiting.pop((fd, int.from_bytes(answer[:2])), None)
            if waiting is None:
                continue
            told = waiting.question.back(answer, max_udp_size(waiting.question.question.edns))
            try:
                if told is not None:
                    waiting.sock.sendto(told, waiting.client)
            except OSError:  # a client that cannot be reached
                continue

    def expire(self, now: float) -> None:
        """Give up what has waited for too long; the oldest stand first."""
        while self._waiting:
            oldest = next(iter(self._waiting.values()))
            if oldest.until > now and len(self._waiting) <= MOST_WAITING:
                return
            self._waiting.popitem(last=False)

    def relay(self, question: ForwardedQuestion, tell: Callable[[bytes], None]) -> "Relay":
        """Hand a question on by TCP, whose answer may be of any length."""
        return Relay(self._random.choice(self._servers), question, tell, self._clock() + PATIENCE)


class Relay:
    """One question by a connection of its own, in small steps that never wait."""

    def __init__(
        self,
        server: Address,
        question: ForwardedQuestion,
        tell: Callable[[bytes], None],
        until: float,
    ) -> None:
        self.until = until
        self.sock = socket.socket(_family(server[0]), socket.SOCK_STREAM)
        self.sock.setblocking(False)
        self.sock.connect_ex(server)
        self._question = question
        self._tell = tell
        self._outgoing = len(question.asked).to_bytes(2) + question.asked
        self._incoming = bytearray()

    @property
    def has_pending(self) -> bool:
        """Whether a part of the question is still to be sent."""
        return bool(self._outgoing)

    def advance(self) -> bool:
        """Send and read what can be; whether that was all, and the client has heard."""
        try:
            if self._outgoing:
                self._outgoing = self._outgoing[self.sock.send(self._outgoing) :]
                return False
            told = self.sock.recv(65536)
        except BlockingIOError:
            return False
        except OSError:  # the server is not there
            told = b""
        self._incoming += told
        length = int.from_bytes(self._incoming[:2])
        if told and len(self._incoming) < 2 + length:
            return False
        whole = bytes(self._incoming[2 : 2 + length])
        back = self._question.back(whole, MOST_TCP) if len(whole) == length else None
        self._tell(back or servfail_response(self._question.packet))
        return True

    def fail(self) -> None:
        """Tell the client that nobody answers."""
        self._tell(servfail_response(self._question.packet))


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
