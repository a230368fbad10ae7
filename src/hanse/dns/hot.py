"""The hot path: a datagram in, a table looked up, a datagram out.

A packet that was answered before is answered again by itself, but for its id. One in the usual form
is recognised by its header and answered from prepared parts; everything else goes to `respond`,
which knows every case.
"""

from collections.abc import Callable
from socket import socket

from hanse.dns.limits import Limiter
from hanse.dns.questions import OUR_UDP, SMALLEST_UDP
from hanse.dns.responder import respond, slipped
from hanse.dns.table import Table

BATCH = 64
"""Datagrams after which other sockets get their turn."""

LARGEST = 4096

_PLAIN = b"\0\1\0\0\0\0\0\0"
_EDNS = b"\0\1\0\0\0\0\0\1"
USUAL = {
    bytes((recursion, bits)) + counts: recursion + (2 if counts is _EDNS else 0)
    for recursion in (0, 1)
    for bits in (0x00, 0x10, 0x20, 0x30)
    for counts in (_PLAIN, _EDNS)
}
"""Headers after the id of one plain question, and which of an answer's headers replies to it."""

_OPT_FRONT = b"\0\0\x29"
_OPT_ENDS = {
    b"\0\0\0\0\0\0": b"\0\0\x29" + OUR_UDP.to_bytes(2) + b"\0\0\0\0\0\0",
    b"\0\0\x80\0\0\0": b"\0\0\x29" + OUR_UDP.to_bytes(2) + b"\0\0\x80\0\0\0",
}
"""How an OPT record without options ends, and ours in reply."""

Sample = Callable[[bytes, str, bytes], None]
Anew = Callable[[bytes, Table, tuple[str, int]], bytes | None]
"""Answers a packet that has not been seen since something changed; None: not now, or never."""


def answer_anew(packet: bytes, table: Table, client: tuple[str, int]) -> bytes | None:
    """The answer from the table, by the short way where the packet is of the usual form."""
    return _answer(packet, table, client[0])


def serve_datagrams(
    sock: socket,
    table: Table,
    limiter: Limiter | None,
    sample: Sample | None,
    every: int,
    anew: Anew = answer_anew,
) -> None:
    """Answer what waits on a socket, up to a batch."""
    receive, send, known = sock.recvfrom, sock.sendto, table.hits.get
    for _ in range(BATCH):
        try:
            packet, client = receive(LARGEST)
        except BlockingIOError:
            return
        except OSError:  # what an earlier client's network sent back to us
            continue
        hit = known(packet[2:])
        answer: bytes | None
        if limiter is not None and not limiter.allows(client[0]):
            answer = slipped(packet) if limiter.slips else None
        elif hit is not None:
            turns, counter = hit
            counter[0] += 1
            answer = packet[:2] + next(turns)
        else:
            answer = anew(packet, table, client)
        if answer is None:
            continue
        if sample is not None:
            table.unsampled += 1
            if table.unsampled >= every:
                table.unsampled = 0
                sample(packet, client[0], answer)
        try:
            send(answer, client)
        except OSError:  # a client that cannot be reached, or a full buffer: it will ask again
            continue


def _answer(packet: bytes, table: Table, client: str) -> bytes | None:
    """The answer to a packet that has not been seen since something changed."""
    kind = USUAL.get(packet[2:12])
    if kind is None:
        return respond(packet, table, stream=False, client=client)
    question, opt, room = packet[12:], b"", SMALLEST_UDP
    if kind >= 2:
        question, opt = packet[12:-11], _OPT_ENDS.get(packet[-6:], b"")
        if packet[-11:-8] != _OPT_FRONT or not opt:
            return respond(packet, table, stream=False, client=client)
        room = min(max(packet[-8] << 8 | packet[-7], SMALLEST_UDP), OUR_UDP)
    entry = table.ready.get(question.lower())
    if entry is None:
        return respond(packet, table, stream=False, client=client)
    table.learn(packet, entry, kind, opt, room)
    heads, body, counter, turns, _ = entry
    if turns is not None:
        heads, body = next(turns)
    answer: bytes = packet[:2] + heads[kind] + question + body + opt
    if len(answer) > room:
        return respond(packet, table, stream=False, client=client)
    counter[0] += 1
    return answer
