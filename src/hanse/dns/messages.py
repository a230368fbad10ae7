"""The messages between the server and its worker processes, and their framing."""

from typing import Any

import msgspec
from msgspec import Struct

from hanse.model.dns.records import ZoneNode


class Delta(Struct, frozen=True, tag="delta"):
    """The changes of a view: new or changed nodes, and removed names."""

    view: str
    serial: int
    zones: tuple[bytes, ...] = ()
    synced: bool = False
    """Until the view is synced, every query gets SERVFAIL."""
    answering: tuple[bytes, ...] = ()
    """Zones whose known names are answered before that, too."""
    replace_all: bool = False
    """Whether `nodes` are all names of the view, instead of changes."""
    nodes: tuple[ZoneNode, ...] = ()
    removed: tuple[bytes, ...] = ()
    regions: tuple[tuple[str, str], ...] = ()
    """Client CIDRs with the cluster near to each; set only with `replace_all`."""
    resolvers: tuple[str, ...] = ()
    secondaries: tuple[str, ...] = ()


class DropView(Struct, frozen=True, tag="drop"):
    """A view is served no longer, and its table goes."""

    view: str


class ClientViewsDelta(Struct, frozen=True, tag="clients"):
    """The views of clients by their packed address; None: the address is nobody's any more."""

    changes: tuple[tuple[bytes, str | None], ...]


class ListeningSocket(Struct, frozen=True):
    """A socket that a worker inherits, with its view and its rate limit."""

    view: str
    fd: int
    stream: bool
    per_second: int = 0
    """Responses per second to one client network; 0: no limit."""
    by_client: bool = False
    """Whether the client's address selects the view; `view` is for clients that have none."""


class StartWorker(Struct, frozen=True, tag="start"):
    """The first command: sockets and settings."""

    listening: tuple[ListeningSocket, ...]
    most_connections: int = 256
    idle_seconds: float = 10.0
    log_every: int = 0
    """One query in so many is logged; 0: none."""
    forward: tuple[tuple[str, int], ...] = ()
    """Upstream name servers for other zones; without any, other zones are refused."""


class Stop(Struct, frozen=True, tag="stop"):
    """Respond to what has arrived, then exit."""


class Barrier(Struct, frozen=True, tag="mark"):
    """Ask for a report once all earlier commands were applied."""

    number: int


Command = StartWorker | Delta | DropView | ClientViewsDelta | Stop | Barrier


class BarrierReached(Struct, frozen=True, tag="reached"):
    """A worker has applied all commands up to a barrier."""

    number: int


class QueryCount(Struct, frozen=True, array_like=True):
    """Number of queries by view, zone, type and rcode."""

    view: str
    zone: str
    type: str
    rcode: str
    number: int


SECONDS = (
    *(0.00002, 0.00005, 0.0001, 0.0002, 0.0005),
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5),
)
"""Upper bounds of the latency histogram."""


class WorkerStats(Struct, frozen=True, tag="counted"):
    """Counters of a worker since its last report, and its current sizes."""

    counts: tuple[QueryCount, ...]
    names: dict[str, int]
    """Names in each view's table."""
    limited: int = 0
    """Responses dropped by rate limits."""
    connections: int = 0
    times: tuple[int, ...] = ()
    """Batches by duration: one bucket for each of `SECONDS`, and one beyond."""
    seconds: float = 0.0
    """Sum of their durations."""


class SampledQuery(Struct, frozen=True, tag="sampled"):
    """One sampled query, for the log."""

    view: str
    client: str
    name: str
    rtype: str
    rcode: str
    size: int


Report = BarrierReached | WorkerStats | SampledQuery

_commands = msgspec.msgpack.Decoder(Command)
_reports = msgspec.msgpack.Decoder(Report)
_encoder = msgspec.msgpack.Encoder()

LENGTH_BYTES = 4
"""Size of the length prefix of each frame."""


def encode_frame(message: Any) -> bytes:
    """Encode a message with its length prefix."""
    body = _encoder.encode(message)
    return len(body).to_bytes(LENGTH_BYTES) + body


def decode_command(body: bytes | bytearray | memoryview) -> Command:
    """Decode a command without its length prefix; raises `msgspec.DecodeError` for other bytes."""
    command: Command = _commands.decode(body)
    return command


def decode_report(body: bytes) -> Report:
    """Decode a report without its length prefix; raises `msgspec.DecodeError` for other bytes."""
    report: Report = _reports.decode(body)
    return report
