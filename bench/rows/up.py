"""`hanse up`, from nothing to three ready clusters and a broker: how long, how much memory."""

import json
import re
import subprocess
import sys
import time
from statistics import median
from tempfile import TemporaryDirectory

REPEATS = 5
_PROGRAM = (sys.executable, "-c", "from hanse.cli import main; main()")
_LOOK = "date +%s.%N; grep VmHWM /proc/$PPID/status"
"""Run by the federation itself as soon as it is ready: its shell's parent is the federation."""


def run(repeats: int = REPEATS) -> dict[str, float]:
    """Medians: seconds until ready and until everything is gone, and the most memory in MiB."""
    runs = [_once() for _ in range(repeats)]
    return {name: median(one[name] for one in runs) for name in runs[0]}


def _once() -> dict[str, float]:
    with TemporaryDirectory() as folder:
        began = time.time()
        said = subprocess.run(
            [*_PROGRAM, "up", "--exec", _LOOK],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
            stdin=subprocess.DEVNULL,
        ).stdout
        ended = time.time()
    ready = float(said.split()[0])
    kibibytes = re.search(r"VmHWM:\s+(\d+) kB", said)
    assert kibibytes is not None, f"the kernel does not tell memory: {said!r}"
    return {
        "up: seconds until three clusters are ready": ready - began,
        "up: seconds until all is ended again": ended - ready,
        "up: most memory in MiB": int(kibibytes[1]) / 1024,
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
