"""The hot path: a datagram in, a table looked up, a datagram out.

A packet that was answered before is answered again by itself, but for its id. One in the usual form
is recognised by its header and answered from prepared parts; everything else goes to `respond`,
which knows every case.
"""

from collections.abc import Callable
from socket import socket

from hanse.dns.batch import Batch, Client
from hanse.dns.limits import Limiter
from hanse.dns.questions import OUR_UDP, SMALLEST_UDP
from hanse.dns.responder import rate_limited_response, respond
from hanse.dns.table import Table

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

Sample = Callable[[Batch, int, bytes], None]
"""Hears of every question, while it is in its slot, and of its answer after the id."""

UncachedResponder = Callable[[bytes, Table, Client], bytes | None]
"""Answers a packet that has not been seen since something changed; None: not now, or never."""


def respond_uncached(packet: bytes, table: Table, client: Client) -> bytes | None:
    """The answer from the table, by the short way where the packet is of the usual form."""
    return _answer(packet, table, client[0])


def serve_datagrams(
    sock: socket,
    batch: Batch,
    table: Table,
    limiter: Limiter | None = None,
    sample: Sample | None = None,
    fallback: UncachedResponder = respond_uncached,
) -> None:
    """Answer what waits on a socket, up to a batch."""
    fd, known = sock.fileno(), table.response_cache.get
    held, lengths, sizes = batch.bytes, batch.lengths, batch.sizes
    number = batch.receive(fd)
    unsent = 0
    for slot, at, length, size in batch.slots[:number]:
        hit = known(held[at + 2 : at + lengths[length]].tobytes())
        told: bytes | None
        if limiter is not None and not limiter.allows(batch.address(slot)):
            told = (
                _after_id(rate_limited_response(batch.packet(slot)))
                if limiter.sends_truncated
                else None
            )
        elif hit is not None:
            rotation, counter = hit
            counter[0] += 1
            told = next(rotation)
        else:
            told = _after_id(fallback(batch.packet(slot), table, batch.client(slot)))
        if told is None:
            batch.send(fd, unsent, slot)
            unsent = slot + 1
            continue
        if sample is not None:
            sample(batch, slot, told)
        end = at + 2 + len(told)
        held[at + 2 : end] = told
        sizes[size] = end - at
    batch.send(fd, unsent, number)


def _after_id(answer: bytes | None) -> bytes | None:
    """What is told; the id is that of the question, in whose place it is written."""
    return None if answer is None else answer[2:]


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
    table.cache_response(packet, entry, kind, opt, room)
    headers, body, counter, rotation, _ = entry
    if rotation is not None:
        headers, body = next(rotation)
    answer: bytes = packet[:2] + headers[kind] + question + body + opt
    if len(answer) > room:
        return respond(packet, table, stream=False, client=client)
    counter[0] += 1
    return answer
