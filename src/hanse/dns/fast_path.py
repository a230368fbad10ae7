"""The hot path: read a batch of datagrams, look each up, write the responses.

A packet that was answered before has its response cached, apart from the id. One in the common form
is recognised by its header and answered from prepared parts; all others go to `respond`, which
handles every case.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from socket import socket

from hanse.dns.batch import Batch, SocketAddress
from hanse.dns.limits import Limiter
from hanse.dns.questions import MAX_UDP_SIZE, MIN_UDP_SIZE
from hanse.dns.responder import rate_limited_response, respond
from hanse.dns.table import Table
from hanse.model.dns.records import RecordType

_PLAIN = b"\0\1\0\0\0\0\0\0"
_EDNS = b"\0\1\0\0\0\0\0\1"
COMMON_HEADERS = {
    bytes((recursion, bits)) + counts: recursion + (2 if counts is _EDNS else 0)
    for recursion in (0, 1)
    for bits in (0x00, 0x10, 0x20, 0x30)
    for counts in (_PLAIN, _EDNS)
}
"""Query headers after the id in the common form, each with the index into `Headers`."""

_OPT_FRONT = b"\0\0\x29"
_OPT_ENDS = (b"\0\0\0\0\0\0", b"\0\0\x80\0\0\0")
"""How an OPT record without options ends: without and with DO."""
_OPT_SIZE = 11

_SRV = RecordType.SRV.to_bytes(2) + b"\0\1"
"""How a question for SRV ends: its response has the addresses of the targets, too."""

Sample = Callable[[Batch, int, bytes], None]
"""Called for every query while it is in its slot, with the response after the id."""

GeneralResponder = Callable[[bytes, Table, SocketAddress], bytes | None]
"""Responds to a packet that has no prepared response; None: later, or never."""


def respond_to_any(packet: bytes, table: Table, client: SocketAddress) -> bytes | None:
    """The response to any datagram, by `respond`; None if it must get none."""
    return respond(packet, table, stream=False, client=client[0])


def serve_datagrams(
    sock: socket,
    batch: Batch,
    table: Table,
    limiter: Limiter | None = None,
    sample: Sample | None = None,
    fallback: GeneralResponder = respond_to_any,
    by_client: Mapping[bytes, Table] | None = None,
) -> None:
    """Receive one batch of the waiting datagrams, and send responses; socket errors are ignored.

    Queries over the limit are dropped or answered truncated; of the others, what is neither cached
    nor prepared goes to `fallback`, which may return None and respond later, and whose responses
    are not cached; `sample` is called for every response, truncated ones too; a table in
    `by_client`, by packed client address, takes the place of `table`.
    """
    fd, cached, others = sock.fileno(), table.response_cache.get, table
    buffer, lengths, sizes = batch.bytes, batch.lengths, batch.sizes
    number = batch.receive(fd)
    unsent = 0
    for slot, at, length, size in batch.slots[:number]:
        if by_client is not None:
            table = by_client.get(batch.address(slot), others)
            cached = table.response_cache.get
        found = cached(buffer[at + 2 : at + lengths[length]].tobytes())
        response: bytes | None
        if limiter is not None and not limiter.allows(batch.address(slot)):
            slip = limiter.sends_truncated
            response = _after_id(rate_limited_response(batch.packet(slot)) if slip else None)
        elif found is not None:
            rotation, counter = found
            counter[0] += 1
            response = next(rotation)
        else:
            response = prepared_response(batch.packet(slot), table) or _after_id(
                fallback(batch.packet(slot), table, batch.client(slot))
            )
        if response is None:
            batch.send(fd, unsent, slot)
            unsent = slot + 1
            continue
        if sample is not None:
            sample(batch, slot, response)
        end = at + 2 + len(response)
        buffer[at + 2 : end] = response
        sizes[size] = end - at
    batch.send(fd, unsent, number)


def _after_id(answer: bytes | None) -> bytes | None:
    """A response, if any, without its id: it is written over the query, which has the same."""
    return None if answer is None else answer[2:]


def prepared_response(packet: bytes, table: Table) -> bytes | None:
    """The response without its id to a query in the common form, which is also counted and cached.

    The common form is a standard query with one question and at most an OPT record without options.
    None for other queries, for SRV, for names and types not in the table (all until it is synced),
    and if the response is too large for the client or a datagram.
    """
    kind = COMMON_HEADERS.get(packet[2:12])
    if kind is None:
        return None
    question, opt, room = packet[12:], b"", MIN_UDP_SIZE
    if kind >= 2:
        question = packet[12:-_OPT_SIZE]
        opt, room = _opt_and_room(packet[-_OPT_SIZE:])
        if not opt:
            return None
    entry = None if question[-4:] == _SRV else table.ready.get(question.lower())
    if entry is None:
        return None
    table.cache_response(packet, entry, kind, opt, room)
    headers, body, counter, rotation, _ = entry
    if rotation is not None:
        headers, body = next(rotation)
    response: bytes = headers[kind] + question + body + opt
    if len(response) + 2 > room:
        return None
    counter[0] += 1
    return response


@lru_cache(maxsize=256)
def _opt_and_room(opt: bytes) -> tuple[bytes, int]:
    """The OPT record in response to one without options, and the size of the response.

    The size is the client's within `MIN_UDP_SIZE` and `MAX_UDP_SIZE`. Empty and 0 if the client's
    OPT has options or another version.
    """
    if not opt.startswith(_OPT_FRONT) or not opt.endswith(_OPT_ENDS):
        return b"", 0
    room = min(max(int.from_bytes(opt[3:5]), MIN_UDP_SIZE), MAX_UDP_SIZE)
    return _OPT_FRONT + MAX_UDP_SIZE.to_bytes(2) + opt[5:], room
