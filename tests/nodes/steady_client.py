"""A client that begins a connection every 20 ms, whether or not earlier ones are answered.

`python -m tests.nodes.steady_client ADDRESS PORT` prints a line for each connection, with the time
at which it began, by how much that was late, and the first word of the answer, until its standard
input ends. It runs on the machine's own Python in the network of a pod.
"""

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from msgspec import Struct

EVERY_SECONDS = 0.02
PUNCTUAL_SECONDS = 0.25
TIMEOUT_SECONDS = 4.0
"""Long enough for a busy machine. What goes to a dead endpoint is lost however long one waits: also
what is sent again has the same destination."""
FIRST_PORT, PORTS = 10_000, 22_000
"""Where connections come from: below the ports that the kernel chooses from, of which it takes one
again within a minute or two. For as long, a connection to an endpoint that did not answer stays in
the node's connection tracking, and takes one from the same port to that endpoint, dead or not."""
FAILED = "failed"
END_SECONDS = 30


class Request(Struct, frozen=True):
    """When a connection began, by how much too late, and the cluster that answered."""

    began: float
    late: float
    cluster: str

    @property
    def failed(self) -> bool:
        return self.cluster == FAILED


class SteadyClient:
    """A running client, and what became of its connections so far."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.requests: list[Request] = []
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                began, late, cluster = line.split()
                self.requests.append(Request(float(began), float(late), cluster))

    def clusters_since(self, moment: float) -> set[str]:
        """Who has answered connections that began after a moment."""
        found = (request for request in self.requests if request.began > moment)
        return {request.cluster for request in found if not request.failed}

    def losses_of_late(self) -> list[bool]:
        """Whether each connection failed, of the latest second of which all outcomes are known."""
        until = time.time() - TIMEOUT_SECONDS - 0.5
        return [r.failed for r in self.requests if until - 1 < r.began < until]

    def punctual_requests(self) -> list[Request]:
        """Those during which the client had a CPU when it wanted one.

        A client that waits for the machine fails to begin connections and to read answers.
        """
        late = [request.began for request in self.requests if request.late > PUNCTUAL_SECONDS]
        return [r for r in self.requests if not _any_between(late, r.began, TIMEOUT_SECONDS)]

    def history(self) -> str:
        """A line for each second: how many requests each cluster answered, how many failed."""
        seconds: dict[int, Counter[str]] = {}
        for request in self.requests:
            seconds.setdefault(int(request.began), Counter())[request.cluster] += 1
        return "\n".join(f"{second}: {dict(seen)}" for second, seen in sorted(seconds.items()))

    def stop(self) -> None:
        """End it, and wait for the last answers."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(END_SECONDS)
        self._reader.join(END_SECONDS)


@contextmanager
def steady_client(network_of: int, address: str, port: int) -> Iterator[SteadyClient]:
    """A client in the network of a process, until the block ends."""
    inside = ("nsenter", "--net", "--target", str(network_of))
    command = (sys.executable, "-m", "tests.nodes.steady_client", address, str(port))
    process = subprocess.Popen(
        [*inside, *command],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    client = SteadyClient(process)
    try:
        yield client
    finally:
        client.stop()


def waited_for_cpu() -> float:
    """The seconds, since the machine started, in which a process of it waited for a CPU.

    A kernel that does not count them is taken as busy all the time.
    """
    try:
        text = Path("/proc/pressure/cpu").read_text()
    except OSError:
        return time.monotonic()
    return int(text.split("\n")[0].rpartition("total=")[2]) / 1e6


def _any_between(moments: list[float], begin: float, seconds: float) -> bool:
    return any(begin <= moment <= begin + seconds for moment in moments)


async def _main(address: str, port: int) -> None:
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    async with asyncio.TaskGroup() as connections:
        number = int(time.monotonic() / EVERY_SECONDS)  # so that no other client has the same ones
        while not ended.done():
            late = time.monotonic() - number * EVERY_SECONDS
            connections.create_task(_connect(address, port, number, late))
            number += 1
            await asyncio.sleep(number * EVERY_SECONDS - time.monotonic())


async def _connect(address: str, port: int, number: int, late: float) -> None:
    began = time.time()
    cluster = FAILED
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_connection(
                address, port, local_addr=("0.0.0.0", FIRST_PORT + number % PORTS)
            )
            try:
                cluster = (await reader.readline()).split()[0].decode()
            finally:
                writer.close()
    except (OSError, TimeoutError, IndexError):
        pass
    print(began, f"{late:.3f}", cluster, flush=True)  # noqa: T201 - the output is what the test reads


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2])))
