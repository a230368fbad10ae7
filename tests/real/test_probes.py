"""Probes of servers that others wrote."""

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hanse.local.real.binaries import cache_folder, find_programs
from hanse.local.real.programs import ETCD_SERVER
from hanse.model.probes import ProbeDetails, ProbeTarget
from hanse.providers.probe_sockets import SocketProbe

pytestmark = [pytest.mark.real, pytest.mark.anyio]


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[int]:
    """The client port of an etcd, which serves grpc.health.v1 by grpc-go."""
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        port, peers = one.getsockname()[1], other.getsockname()[1]
    program = asyncio.run(find_programs([ETCD_SERVER], cache_folder()))["etcd"]
    url, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
    process = subprocess.Popen(
        [
            *(program, "--data-dir", tmp_path / "data", "--listen-client-urls", url),
            *("--advertise-client-urls", url, "--listen-peer-urls", peer),
            *("--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield port
    finally:
        process.kill()
        process.wait()


async def tried(target: ProbeTarget) -> str:
    sockets, loop = SocketProbe(), asyncio.get_running_loop()
    ended: asyncio.Future[str] = loop.create_future()
    sockets(target, 5.0, ended.set_result)
    try:
        return await ended
    finally:
        await sockets.close()


async def test_the_health_of_a_grpc_server_is_understood(etcd: int) -> None:
    target = ProbeTarget("GRPC", "127.0.0.1", etcd, "etcd.example.org")
    for _ in range(300):  # while it starts
        if not await tried(target):
            break
        await asyncio.sleep(0.1)
    unknown = ProbeTarget("GRPC", "127.0.0.1", etcd, details=ProbeDetails(service="shop.v1.Cart"))

    assert await tried(target) == ""
    assert await tried(unknown) == "it gives no health by gRPC"
