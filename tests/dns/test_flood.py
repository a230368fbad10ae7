"""Rate limits with real packets: a server off loopback, in a network namespace of its own."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import Struct

pytestmark = pytest.mark.skipif(
    shutil.which("unshare") is None
    or shutil.which("ip") is None
    or subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode != 0,
    reason="needs network namespaces of its own (unshare, ip)",
)

ADDRESS = "192.0.2.1"
LIMIT = 50
ASKED = 400

FLOOD = f"""
import asyncio, json, socket, sys
import dns.message
from prometheus_client import generate_latest
from hanse.dns.settings import ServerSettings
from tests.dns.builders import WEB, imported, endpoint_slice, cluster_snapshot
from tests.dns.loopback_server import running

async def main():
    snapshot = cluster_snapshot("lubeck", imported(), endpoint_slice("bergen", "10.2.0.1"))
    settings = ServerSettings(per_second={LIMIT})
    query = dns.message.make_query(WEB, "A").to_wire()
    async with running(snapshot, hosts=("{ADDRESS}",), settings=settings) as here:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(("{ADDRESS}", here.port))
            client.setblocking(False)
            for _ in range({ASKED}):
                client.send(query)
            answers = []
            try:
                async with asyncio.timeout(3):
                    while True:
                        answers.append(await asyncio.get_running_loop().sock_recv(client, 512))
            except TimeoutError:
                pass
        reader, writer = await asyncio.open_connection("{ADDRESS}", here.port)
        writer.write(len(query).to_bytes(2) + query)
        by_tcp = await reader.readexactly(int.from_bytes(await reader.readexactly(2)))
        writer.close()
        metrics = here.server.metrics
    metrics_text = generate_latest(metrics.registry).decode()
    limited = [l for l in metrics_text.splitlines() if l.startswith("hanse_dns_limited_total")]
    whole = sum(1 for a in answers if not a[2] & 2)
    cut = sum(1 for a in answers if a[2] & 2)
    longest = max(len(a) for a in answers if a[2] & 2)
    print(json.dumps({{"whole": whole, "cut": cut, "longest": longest, "asked": len(query),
                      "limited": float(limited[0].split()[1]), "tcp": not by_tcp[2] & 2}}))

asyncio.run(main())
"""


class Flooded(Struct, frozen=True):
    """What one heard who asked too much."""

    whole: int
    cut: int
    longest: int
    asked: int
    limited: float
    tcp: bool


async def flooded(folder: Path) -> Flooded:
    script = folder / "flood.py"
    script.write_text(FLOOD)
    bring_up = f"ip link set lo up && ip addr add {ADDRESS}/32 dev lo"
    process = await asyncio.create_subprocess_exec(
        *("unshare", "-rn", "sh", "-c", f"{bring_up} && exec {sys.executable} {script}"),
        stdout=asyncio.subprocess.PIPE,
        env={
            "PYTHONPATH": ":".join(path for path in sys.path if path),
            "PATH": "/usr/bin:/sbin:/bin",
        },
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return Flooded(**json.loads(output))


@pytest.mark.anyio
async def test_a_client_over_the_rate_limit_is_sent_to_tcp(tmp_path: Path) -> None:
    result = await flooded(tmp_path)

    seconds = 1 + result.whole // LIMIT  # a busy machine may spread the flood over several
    assert LIMIT <= result.whole <= LIMIT * seconds < ASKED
    dropped = ASKED - result.whole
    assert result.limited == dropped
    assert abs(result.cut - dropped / 2) <= seconds, "every second one hears that there is more"
    assert result.longest <= result.asked, "nobody is amplified"
    assert result.tcp, "by TCP the answer is complete"
