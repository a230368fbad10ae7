"""How fast the embedded cluster is in process: requests per second on one core, size when idle."""

import asyncio
import resource
import time
from collections.abc import Awaitable, Callable

import msgspec

from tinykube.apiserver import ApiServer
from tinykube.clock import WallClock
from tinykube.request import MERGE_PATCH, Request, Response

COUNT = 5_000
SERVICES = "/api/v1/namespaces/default/services"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


async def per_second(what: str, times: int, step: Callable[[int], Awaitable[Response]]) -> float:
    """Do something many times, each time checked, and say how many a second of CPU holds."""
    start = time.process_time()
    for number in range(times):
        response = await step(number)
        assert response.status < 300, response.body
    rate = times / (time.process_time() - start)
    print(f"{what:<28}{rate:>10,.0f} /s")
    return rate


def body(number: int) -> bytes:
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"c{number}", "labels": {"app": "bench", "n": str(number % 7)}},
            "data": {"key": "value"},
        }
    )


def service(number: int) -> bytes:
    spec = {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]}
    return msgspec.json.encode({"metadata": {"name": f"s{number}"}, "spec": spec})


async def requests_per_second() -> None:
    api = ApiServer("bench", clock=WallClock())
    bodies = [body(number) for number in range(COUNT)]
    services = [service(number) for number in range(1_000)]
    patch = msgspec.json.encode({"data": {"key": "other"}})

    def create(number: int) -> Awaitable[Response]:
        return api.send(Request("POST", CONFIGMAPS, (), bodies[number]))

    def serve(number: int) -> Awaitable[Response]:
        return api.send(Request("POST", SERVICES, (), services[number]))

    def get(number: int) -> Awaitable[Response]:
        return api.send(Request("GET", f"{CONFIGMAPS}/c{number}"))

    def change(number: int) -> Awaitable[Response]:
        path = f"{CONFIGMAPS}/c{number}"
        return api.send(Request("PATCH", path, (), patch, MERGE_PATCH))

    await per_second("create ConfigMap", COUNT, create)
    await per_second("create Service", len(services), serve)
    await per_second("get", COUNT, get)
    await per_second("merge patch", COUNT, change)
    await per_second(f"list of {COUNT}", 20, lambda _: api.send(Request("GET", CONFIGMAPS)))


def idle_clusters(count: int = 100) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    kept = [ApiServer(f"c{number}", clock=WallClock()) for number in range(count)]
    took = time.process_time() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{len(kept)} idle clusters: {grown:.0f} MiB more, {took * 1000:.0f} ms")


if __name__ == "__main__":
    idle_clusters()
    asyncio.run(requests_per_second())
