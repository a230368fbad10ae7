"""Tenant networks: admission under load, memory of a full cluster, one pod's flow, addresses."""

import asyncio
import gc
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from ipaddress import ip_network

import aiohttp
import msgspec

from bench.figures import AtMost, Figure, percentile
from bench.processes import apart
from bench.row import Effort, Row, unprepared
from bench.tenants import HERE, seen, weighed
from hanse.cli.process import run_async
from hanse.features.networks.address_pools import Pool, PoolSlot
from hanse.features.networks.feature import Networks
from hanse.features.networks.names import NETWORK
from hanse.features.networks.webhooks import network_hooks
from hanse.kube.certificates import CertificateAuthority
from hanse.kube.clock import WallClock
from hanse.kube.server_tls import server_context
from hanse.model.kinds.core import Pod
from hanse.model.plan import Call, Key, Read
from hanse.model.snapshot import Snapshot
from hanse.web.webhooks.server import serving
from tinykube.virtual_time import EPOCH

RATE = 200
SECONDS = 5
NETWORKS, PODS = 1_000, 20_000
FEW = 100


async def _once(effort: Effort) -> dict[str, float]:
    pods = effort.of(PODS, 1_000)
    networks = effort.of(NETWORKS, FEW)
    slow = await apart(asked, networks, pods, effort.of(SECONDS, 1))
    return {
        "admission p99": slow,
        "memory": await apart(weighed, networks, pods),
        "one pod of few": await apart(flow, FEW, FEW),
        "one pod of many": await apart(flow, networks, pods),
        "address of an empty /12": await apart(taking, 0),
        "address of a half-full /12": await apart(taking, effort.of(500_000, 20_000)),
    }


def asked(networks: int, pods: int, seconds: int) -> float:
    """Milliseconds of the slowest hundredth of pods admitted at a steady rate, over HTTPS."""
    return run_async(lambda: _asked(networks, pods, seconds), long_running=True)  # as agents run


async def _asked(networks: int, pods: int, seconds: int) -> float:
    feature = Networks()
    whole = seen(feature, networks, pods)

    async def nothing_more(question: Read | Call) -> Snapshot:  # noqa: ARG001 - a webhook's
        return whole

    authority = CertificateAuthority.create("bench", WallClock().now())
    issued = authority.server("bench", ["127.0.0.1"], WallClock().now())
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    tls = server_context(issued)
    trust = ssl.create_default_context(cadata=authority.certificate.decode())
    hooks = network_hooks(feature)
    async with (
        serving(hooks, lambda: whole, nothing_more, listener, tls),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust, limit=32)) as session,
    ):
        url = f"https://127.0.0.1:{port}/networks-pods"

        async def ask(number: int) -> float:
            started = time.perf_counter()
            async with session.post(url, data=_review(number, networks)) as answer:
                review = msgspec.json.decode(await answer.read())
            assert review["response"]["allowed"], review
            return (time.perf_counter() - started) * 1000

        for number in range(32):
            await ask(number)
        return percentile(await _paced(ask, RATE * seconds), 0.99)


async def _paced(ask: Callable[[int], Awaitable[float]], count: int) -> tuple[float, ...]:
    """Begin one after the other at the rate, whether or not those before have ended."""
    started = time.perf_counter()
    tasks = []
    for number in range(count):
        await asyncio.sleep(max(0.0, started + number / RATE - time.perf_counter()))
        tasks.append(asyncio.ensure_future(ask(number)))
    return tuple(await asyncio.gather(*tasks))


def _review(number: int, networks: int) -> bytes:
    at = number % networks
    metadata = {
        "name": f"new-{number}",
        "namespace": f"t{at // 10}-web",
        "labels": {NETWORK: f"n{at % 10}", "app": "web"},
    }
    spec = {"containers": [{"name": "main", "image": "registry.example/app:1"}]}
    return msgspec.json.encode(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": f"u-{number}",
                "operation": "CREATE",
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "name": f"new-{number}",
                "namespace": f"t{at // 10}-web",
                "object": {"metadata": metadata, "spec": spec},
                "userInfo": {"username": "anna", "groups": ["system:authenticated"]},
            },
        }
    )


def flow(networks: int, pods: int) -> float:
    """Microseconds of CPU to decide on one pod's port among so many."""
    feature = Networks()
    whole = seen(feature, networks, pods)
    some = [p for _, p in zip(range(FEW), whole.all(HERE, Pod), strict=False)]
    keys = [Key("port", p.metadata.name, p.metadata.namespace) for p in some]
    for key in keys:
        feature.plan(key, whole)
    started = time.process_time()
    for _ in range(20):
        for key in keys:
            feature.plan(key, whole)
    return (time.process_time() - started) / (20 * len(keys)) * 1e6


def taking(used: int) -> float:
    """Microseconds of CPU for one address of a pool in which so many are in use."""
    range_ = ip_network("10.16.0.0/12")
    taken = {str(range_[number * 2 + 1]) for number in range(used)}
    pool = Pool((range_,), frozenset())
    count = 20_000
    gc.freeze()  # the collector's walk through what stands for a store is no work of the pool's
    started = time.process_time()
    for _ in range(count):
        assert pool.take(PoolSlot(), 4, taken.__contains__, EPOCH) is not None
    return (time.process_time() - started) / count * 1e6


NETWORKS_ROW = Row(
    name="networks",
    about="tenant networks: 200 pods a second admitted over HTTPS beside 1,000 networks with "
    "20,000 pods, what those weigh, one pod's flow among few and many, addresses of a /12",
    against="fixed goals; one pod among few, an empty pool",
    figures=(
        Figure("admission p99", "ms", AtMost(10)),
        Figure("memory", "MiB", AtMost(300)),
        Figure("one pod of few", "us"),
        Figure("one pod of many", "us", AtMost(1.5), against="one pod of few"),
        Figure("address of an empty /12", "us"),
        Figure("address of a half-full /12", "us", AtMost(3), against="address of an empty /12"),
    ),
    prepare=unprepared(_once),
)
