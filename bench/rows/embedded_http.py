"""How fast an embedded cluster is over HTTP: creates per second, and how far a watch lags behind.

    python bench/embedded_http.py [--events N] [--creates N]

The server has a process, and so a core, of its own; the client is the agents' own transport.
"""

import argparse
import asyncio
import json
import multiprocessing
import statistics
import time
from multiprocessing.connection import Connection
from socket import AF_INET, SOCK_STREAM, socket

import msgspec
import uvloop

from hanse.kube.access import Access, Endpoint, Fixed, Identity
from hanse.kube.clock import WallClock
from hanse.kube.http import HttpTransport
from hanse.kube.request import Request, Transport
from hanse.local.embedded.api import ApiServer
from hanse.local.embedded.http import serve
from hanse.local.embedded.tls import Authority, server_context
from hanse.local.embedded.users import ADMIN

TOKEN = "bench"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def run_server(ready: Connection, secure: bool) -> None:
    """Serve one cluster until told to stop."""

    async def main() -> None:
        sock = socket(AF_INET, SOCK_STREAM)
        sock.bind(("127.0.0.1", 0))
        authority = Authority.create("bench")
        tls = server_context(authority.server("bench")) if secure else None
        api = ApiServer("bench", clock=WallClock(), history=100_000)
        async with serve(api, sock, {TOKEN: ADMIN}, tls):
            scheme = "https" if secure else "http"
            port = sock.getsockname()[1]
            ready.send((f"{scheme}://127.0.0.1:{port}", authority.certificate))
            await asyncio.get_running_loop().run_in_executor(None, ready.recv)

    uvloop.run(main())


def config_map(number: int) -> bytes:
    made = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"c-{number}", "labels": {"app": "bench"}},
        "data": {"sent": repr(time.time()), "text": "x" * 200},
    }
    return msgspec.json.encode(made)


async def creates_per_second(transport: Transport, count: int, at_once: int) -> float:
    """Creates of small objects over kept connections."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            answer = await transport.send(Request("POST", CONFIGMAPS, body=config_map(number)))
            assert answer.status == 201, answer.body

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    return count / (time.perf_counter() - started)


async def watch_lags(transport: Transport, events: int) -> list[float]:
    """The seconds from sending each of many creates to seeing it on a watch."""
    query = (("watch", "true"), ("timeoutSeconds", "600"), ("labelSelector", "app=bench"))
    lags: list[float] = []
    async with transport.stream(Request("GET", CONFIGMAPS, query)) as lines:
        writing = asyncio.create_task(creates_per_second(transport, events, at_once=4))
        async for line in lines:
            event = msgspec.json.decode(line)
            lags.append(time.time() - float(event["object"]["data"]["sent"]))
            if len(lags) == events:
                break
    await writing
    return lags


async def measure(address: str, certificate: bytes, creates: int, events: int) -> dict[str, float]:
    secure = address.startswith("https")
    endpoint = Endpoint(address, certificate if secure else b"")
    transport = HttpTransport(Fixed(Access(endpoint, Identity(token=TOKEN))))
    try:
        one = await creates_per_second(transport, creates, at_once=1)
        await transport.send(Request("DELETE", CONFIGMAPS))
        eight = await creates_per_second(transport, creates, at_once=8)
        await transport.send(Request("DELETE", CONFIGMAPS))
        lags = sorted(await watch_lags(transport, events))
    finally:
        await transport.close()
    return {
        "creates per second, one at a time": round(one),
        "creates per second, eight at once": round(eight),
        f"watch lag of {events} events, median ms": round(1000 * statistics.median(lags), 1),
        f"watch lag of {events} events, largest ms": round(1000 * lags[-1], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--creates", type=int, default=2000)
    parser.add_argument("--events", type=int, default=10_000)
    given = parser.parse_args()
    results: dict[str, dict[str, float]] = {}
    for scheme in ("http", "https"):
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.Process(
            target=run_server, args=(theirs, scheme == "https"), daemon=True
        )
        server.start()
        address, certificate = ours.recv()
        results[scheme] = uvloop.run(measure(address, certificate, given.creates, given.events))
        ours.send("stop")
        server.join()
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
