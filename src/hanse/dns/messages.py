"""What changed in a view's names, as the compiler tells it to every worker."""

from typing import Any

import msgspec
from msgspec import Struct

from hanse.model.dns.records import ZoneNode


class Delta(Struct, frozen=True, tag="delta"):
    """Names that are new or other than before, and names that are gone."""

    view: str
    serial: int
    zones: tuple[bytes, ...] = ()
    synced: bool = False
    """Until then nothing is known not to exist: every name fails."""
    replace_all: bool = False
    """Everything told before is void: these are all names there are."""
    nodes: tuple[ZoneNode, ...] = ()
    removed: tuple[bytes, ...] = ()
    regions: tuple[tuple[str, str], ...] = ()
    """Ranges of clients and the cluster near to them; told to those who know nothing."""
    resolvers: tuple[str, ...] = ()
    secondaries: tuple[str, ...] = ()


class ListeningSocket(Struct, frozen=True):
    """A socket that a worker inherits: whose questions come in there, and how many are too many."""

    view: str
    fd: int
    stream: bool
    per_second: int = 0
    """Answers per second to one network; 0: no limit."""


class Start(Struct, frozen=True, tag="start"):
    """What a worker is told first."""

    listening: tuple[ListeningSocket, ...]
    most_connections: int = 256
    idle_seconds: float = 10.0
    log_every: int = 0
    """One question in so many is told to the log; 0: none is."""
    forward: tuple[tuple[str, int], ...] = ()
    """Name servers that are asked about other zones; none: those are refused."""


class Stop(Struct, frozen=True, tag="stop"):
    """The end: what has come in is answered, and nothing more."""


class Barrier(Struct, frozen=True, tag="mark"):
    """A worker says that it has come so far when it reads this."""

    number: int


Command = Start | Delta | Stop | Barrier


class BarrierReached(Struct, frozen=True, tag="reached"):
    """A worker has done everything up to a mark."""

    number: int


class QueryCount(Struct, frozen=True, array_like=True):
    """How many questions of a kind were answered."""

    view: str
    zone: str
    type: str
    rcode: str
    number: int


SECONDS = (
    *(0.00002, 0.00005, 0.0001, 0.0002, 0.0005),
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5),
)
"""The bounds by which times are told apart."""


class WorkerStats(Struct, frozen=True, tag="counted"):
    """What a worker has done since it last said so, and how much it knows."""

    counts: tuple[QueryCount, ...]
    names: dict[str, int]
    """Names in each view's table."""
    limited: int = 0
    """Answers that were not given, because a network got too many."""
    connections: int = 0
    times: tuple[int, ...] = ()
    """Batches of questions by how long they took, for each of `SECONDS` and beyond the last."""
    seconds: float = 0.0
    """How long they took together."""


class SampledQuery(Struct, frozen=True, tag="sampled"):
    """One question of many, for the log."""

    view: str
    client: str
    name: str
    rtype: str
    rcode: str
    size: int


Report = BarrierReached | WorkerStats | SampledQuery

_orders = msgspec.msgpack.Decoder(Command)
_reports = msgspec.msgpack.Decoder(Report)
_encoder = msgspec.msgpack.Encoder()

LENGTH_BYTES = 4
"""Bytes of the length before each message."""


def encode_frame(message: Any) -> bytes:
    """A message as it goes through the pipe."""
    body = _encoder.encode(message)
    return len(body).to_bytes(LENGTH_BYTES) + body


def decode_command(body: bytes | bytearray | memoryview) -> Command:
    order: Command = _orders.decode(body)
    return order


def decode_report(body: bytes) -> Report:
    report: Report = _reports.decode(body)
    return report
