"""The program as a person runs it: its own process, its own output, its own exit status."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

HANSE = (sys.executable, "-c", "from hanse.cli import main; main()")
PATIENCE = 60


class Said(Struct, frozen=True):
    """What a program said, and how it ended."""

    status: int
    out: str
    err: str


def hanse(
    *arguments: str, cwd: Path, env: dict[str, str] | None = None, patience: int = PATIENCE
) -> Said:
    """Run a command to its end."""
    ended = subprocess.run(
        [*HANSE, *arguments],
        cwd=cwd,
        env=environment(cwd, env),
        capture_output=True,
        text=True,
        timeout=patience,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return Said(ended.returncode, ended.stdout, ended.stderr)


def environment(home: Path, more: dict[str, str] | None = None) -> dict[str, str]:
    """Nothing of the person who runs the tests, but where programs and their parts are."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**kept, "HOME": str(home), **(more or {})}


class Running:
    """A `hanse up` that stays."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self.process = process
        self.folder = folder
        assert process.stdout is not None
        self.told = ""
        for line in process.stdout:
            self.told += line
            if line.startswith("Ctrl-C ends it"):
                return
        raise AssertionError(f"it ended with {process.wait()}: {self.told}")

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def kubectl(self, *arguments: str) -> Said:
        ended = subprocess.run(
            ["kubectl", *arguments],
            env=environment(self.folder, {"KUBECONFIG": str(self.kubeconfig)}),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return Said(ended.returncode, ended.stdout, ended.stderr)

    def beside(self, *arguments: str) -> Said:
        """A command of ours in the folder in which it was started."""
        return hanse(*arguments, cwd=self.folder.parent)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        """Tell it to end, and wait until it has."""
        self.process.send_signal(by)
        return self.process.wait(PATIENCE)


@contextmanager
def running(cwd: Path, *arguments: str, env: dict[str, str] | None = None) -> Iterator[Running]:
    """A federation that runs in `DIR` or ./.hanse until the block ends."""
    folder = Path(arguments[arguments.index("--dir") + 1]) if "--dir" in arguments else None
    process = subprocess.Popen(
        [*HANSE, "up", *arguments],
        cwd=cwd,
        env=environment(cwd, env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    try:
        yield Running(process, cwd / (folder or ".hanse"))
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=PATIENCE)
