"""Floods a server off loopback with real packets, from one network and from many.

`python -m tests.dns.flood [QUESTIONS_PER_NETWORK]` prints what was heard, as JSON. It needs the
addresses below in a network namespace of its own, as `tests.dns.test_flood` makes it.
"""

import asyncio
import socket
import statistics
import sys
import time

import dns.message
import msgspec
from msgspec import Struct
from prometheus_client import generate_latest

from hanse.dns.settings import ServerSettings
from tests.dns.builders import WEB, cluster_snapshot, endpoint_slice, imported
from tests.dns.loopback_server import Running, running

ADDRESS = "192.0.2.1"
SOURCES = ("198.51.0.0/16", "203.0.113.0/24")
LIMIT = 50
"""Answers per second and network."""
ASKED = 400
NETWORKS, EACH = 40, 120
"""So many networks ask so often each, and meanwhile one that asks little."""
QUIET = 30
"""So often asks the quiet one: less than the limit, however short the flood is."""
ASK_AGAIN_SECONDS = 1.0
WHOLE_SECONDS = 120.0
"""For all of it: what waits for a busy machine waits in many places."""
QUERY = dns.message.make_query(WEB, "A").to_wire()
TRUNCATED = 2


class OneNetwork(Struct, frozen=True):
    """What one network heard that asked too much: whole and truncated answers."""

    whole: int
    truncated: int
    longest_truncated: int
    limited: float


class ManyNetworks(Struct, frozen=True):
    """The whole answers of networks that asked too much, and of one that did not."""

    questions: int
    most: int
    least: int
    quiet_asked: int
    quiet_answered: int
    quiet_asked_again: int
    quiet_median_ms: float
    quiet_slowest_ms: float
    seconds: float


class Flooded(Struct, frozen=True):
    """What was heard in all."""

    one: OneNetwork
    many: ManyNetworks
    whole_by_tcp: bool


async def flood(each: int) -> Flooded:
    """Ask a server for a while, first from one network, then from many."""
    snapshot = cluster_snapshot("lubeck", imported(), endpoint_slice("bergen", "10.2.0.1"))
    settings = ServerSettings(per_second=LIMIT)
    async with (
        asyncio.timeout(WHOLE_SECONDS),
        running(snapshot, hosts=(ADDRESS,), settings=settings) as here,
    ):
        one = await _from_one(here)
        many = await _from_many(here.port, each)
        return Flooded(one, many, not _is_truncated(await _ask_by_tcp(here.port)))


async def _from_one(here: Running) -> OneNetwork:
    answers = []
    with _client("198.51.200.1", here.port) as client:
        for _ in range(ASKED):
            client.send(QUERY)
        while answer := await _receive(client, 3):
            answers.append(answer)
    truncated = [answer for answer in answers if _is_truncated(answer)]
    whole, longest = len(answers) - len(truncated), max(map(len, truncated))
    return OneNetwork(whole, len(truncated), longest, _limited_total(here))


async def _from_many(port: int, each: int) -> ManyNetworks:
    began = time.monotonic()
    clients = [_client(f"198.51.{n}.1", port) for n in range(NETWORKS)]
    quiet = _QuietClient(port)
    whole = [0] * NETWORKS
    for turn in range(each):
        for client in clients:
            client.send(QUERY)
        if turn % (each // QUIET) == 0:
            await quiet.ask()
        for n, client in enumerate(clients):
            whole[n] += _count_whole(client)
    await asyncio.sleep(0.5)
    for n, client in enumerate(clients):
        whole[n] += _count_whole(client)
        client.close()
    quiet.close()
    milliseconds = [1000 * seconds for seconds in quiet.answered_after]
    return ManyNetworks(
        NETWORKS * each,
        max(whole),
        min(whole),
        QUIET,
        len(milliseconds),
        quiet.asked_again,
        round(statistics.median(milliseconds), 2),
        round(max(milliseconds), 2),
        round(time.monotonic() - began, 2),
    )


class _QuietClient:
    """Asks one question at a time, and again when the answer does not come."""

    def __init__(self, port: int) -> None:
        self._socket = _client("203.0.113.9", port)
        self.answered_after: list[float] = []
        self.asked_again = 0

    async def ask(self) -> None:
        """Ask until there is an answer; a truncated one is not counted."""
        began = time.monotonic()
        self._socket.send(QUERY)
        while not (answer := await _receive(self._socket, ASK_AGAIN_SECONDS)):
            self.asked_again += 1
            self._socket.send(QUERY)
        if not _is_truncated(answer):
            self.answered_after.append(time.monotonic() - began)

    def close(self) -> None:
        self._socket.close()


def _client(address: str, port: int) -> socket.socket:
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.bind((address, 0))
    client.connect((ADDRESS, port))
    client.setblocking(False)
    return client


async def _receive(client: socket.socket, seconds: float) -> bytes:
    """The next packet; empty if none comes."""
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.get_running_loop().sock_recv(client, 512)
    except TimeoutError:
        return b""


def _count_whole(client: socket.socket) -> int:
    """How many of the answers that have arrived are whole."""
    whole = 0
    while True:
        try:
            whole += not _is_truncated(client.recv(512))
        except BlockingIOError:
            return whole


async def _ask_by_tcp(port: int) -> bytes:
    reader, writer = await asyncio.open_connection(ADDRESS, port)
    writer.write(len(QUERY).to_bytes(2) + QUERY)
    answer = await reader.readexactly(int.from_bytes(await reader.readexactly(2)))
    writer.close()
    return answer


def _is_truncated(answer: bytes) -> bool:
    return bool(answer[2] & TRUNCATED)


def _limited_total(here: Running) -> float:
    text = generate_latest(here.server.metrics.registry).decode()
    [line] = [line for line in text.splitlines() if line.startswith("hanse_dns_limited_total")]
    return float(line.split()[1])


if __name__ == "__main__":
    questions = int(sys.argv[1]) if len(sys.argv) > 1 else EACH
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(flood(questions))))
