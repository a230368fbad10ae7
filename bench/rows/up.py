"""`hanse up`, from nothing to three ready clusters and a broker: how long, how much memory."""

import asyncio
import re
import sys
import time
from tempfile import TemporaryDirectory

from bench.figures import AtMost, Figure
from bench.processes import as_installed
from bench.row import Effort, Row, unprepared

_PROGRAM = (sys.executable, "-c", "from hanse.cli import main; main()")
_LOOK = "date +%s.%N; grep VmHWM /proc/$PPID/status"
"""Run by the federation itself as soon as it is ready: its shell's parent is the federation."""


async def _once(_: Effort) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        began = time.time()
        running = await asyncio.create_subprocess_exec(
            *_PROGRAM,
            "up",
            "--exec",
            _LOOK,
            cwd=folder,
            env=as_installed(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await running.communicate()
        ended = time.time()
    assert running.returncode == 0, errors.decode()
    said = output.decode()
    ready, kibibytes = float(said.split()[0]), re.search(r"VmHWM:\s+(\d+) kB", said)
    assert kibibytes is not None, f"the kernel does not tell memory: {said!r}"
    return {
        "until ready": ready - began,
        "until all is ended again": ended - ready,
        "most memory": int(kibibytes[1]) / 1024,
    }


UP = Row(
    name="up",
    about="`hanse up`: three embedded clusters, broker, agents and sample, from nothing to ready",
    against="fixed goals",
    figures=(
        Figure("until ready", "s", AtMost(1.0)),
        Figure("most memory", "MiB", AtMost(200.0)),
        Figure("until all is ended again", "s"),
    ),
    prepare=unprepared(_once),
)
