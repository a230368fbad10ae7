"""`hanse status` of 60 clusters with 5,000 services, over HTTPS beside trips of 20 ms."""

import asyncio
import os
import resource
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.figures import AtMost, Figure
from bench.processes import as_installed
from bench.row import Effort, Once, Row
from bench.rows.judgement import CLUSTERS, SERVICES
from bench.served_fleet import served_fleet

TRIP = timedelta(milliseconds=20)
_MAIN = "from hanse.cli import main; main()"


@asynccontextmanager
async def _served(effort: Effort) -> AsyncIterator[Once]:
    services = effort.of(SERVICES, 200)
    with TemporaryDirectory() as folder:
        kubeconfig = Path(folder, "kubeconfig")
        with served_fleet(services, TRIP, kubeconfig):
            yield lambda: _status(kubeconfig, services)


async def _status(kubeconfig: Path, services: int) -> dict[str, float]:
    """Run the command to its end, as a person does."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _MAIN, "--kubeconfig", str(kubeconfig), "status"),
        env={**as_installed(), "HOME": os.devnull},
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await running.communicate()
    took = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = said.decode().splitlines()
    assert running.returncode == 0, said
    assert lines[0].startswith("CLUSTER"), f"nothing is wrong, but: {lines[0]}"
    listed = sum("/" in line and "ClusterSetIP" in line for line in lines)
    assert listed == services or ["shop", str(services), str(services)] in [
        line.split() for line in lines
    ]
    assert sum(" yes " in line for line in lines) == CLUSTERS + 1
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"time": took, "CPU": spent}


STATUS = Row(
    name="status",
    about="`hanse status` of 60 clusters with 5,000 services, over HTTPS, each answer 20 ms away",
    against="fixed goals; the servers run on the same machine",
    figures=(Figure("time", "s", AtMost(2.0)), Figure("CPU", "s")),
    prepare=_served,
)
