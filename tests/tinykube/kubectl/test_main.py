"""`python -m tinykube` started, used with kubectl, and interrupted."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.tinykube.kubectl.command import Kubectl

pytestmark = pytest.mark.anyio


async def test_the_cluster_that_the_command_starts_runs_pods(tmp_path: Path, program: Path) -> None:
    command = ("-m", "tinykube", "--nodes", "1", "--kubeconfig", str(tmp_path / "kubeconfig"))
    running = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=asyncio.subprocess.PIPE
    )
    assert running.stdout is not None
    try:
        ready = (await running.stdout.readline()).decode()
        kubectl = Kubectl(program, tmp_path, ready.split()[0], dict(os.environ))

        await kubectl("create", "deployment", "web", "--image=web")
        await kubectl("rollout", "status", "deployment/web", "--timeout=20s")

        assert len(await kubectl.rows("nodes")) == 2
    finally:
        running.send_signal(signal.SIGINT)
        status = await running.wait()
    assert status == 0
