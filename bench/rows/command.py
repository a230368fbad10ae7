"""How long the command line takes to start, beside Python alone."""

import asyncio
import os
import sys
import time

from bench.figures import AtMost, Figure
from bench.row import Effort, Row, unprepared

TRIES = 5
_IMPORTED = (
    "import time; t = time.perf_counter(); import hanse.cli.root; print(time.perf_counter() - t)"
)
"""`hanse.cli` alone imports nothing: the root is what every command needs."""
_MAIN = "from hanse.cli import main; main()"


async def _started(*arguments: str) -> float:
    """The least of a few tries: what is more is the neighbours'."""
    return min([await _once(*arguments) for _ in range(TRIES)])


async def _once(*arguments: str) -> float:
    began = time.perf_counter()
    await _output(*arguments)
    return time.perf_counter() - began


async def _output(*arguments: str) -> bytes:
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        env={**os.environ, "KUBECONFIG": "/dev/null"},
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await running.communicate()
    assert running.returncode == 0, f"{arguments} ended with {running.returncode}"
    return said


async def _measured(_: Effort) -> dict[str, float]:
    imported = [float(await _output("-c", _IMPORTED)) for _ in range(TRIES)]
    return {
        "python alone": await _started("-c", "pass"),
        "import": min(imported),
        "hanse version": await _started("-c", _MAIN, "version"),
        "hanse --help": await _started("-c", _MAIN, "--help"),
    }


CLI = Row(
    name="cli",
    about="start of the command line: its import, `hanse version`, `hanse --help`",
    against="`python -c pass`, shown as the floor",
    figures=(
        Figure("import", "s", AtMost(0.3)),
        Figure("hanse version", "s", AtMost(0.3)),
        Figure("hanse --help", "s", AtMost(0.06)),
        Figure("python alone", "s"),
    ),
    prepare=unprepared(_measured),
)
