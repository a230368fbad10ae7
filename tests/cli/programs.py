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
COMMAND_TIMEOUT = 60


class CommandResult(Struct, frozen=True):
    """What a program said, and how it ended."""

    status: int
    out: str
    err: str


def hanse(
    *arguments: str, cwd: Path, env: dict[str, str] | None = None, patience: int = COMMAND_TIMEOUT
) -> CommandResult:
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
    return CommandResult(ended.returncode, ended.stdout, ended.stderr)


def environment(home: Path, more: dict[str, str] | None = None) -> dict[str, str]:
    """Nothing of the person who runs the tests, but where programs and their parts are."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**kept, "HOME": str(home), **(more or {})}


class RunningFederation:
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

    def kubectl(self, *arguments: str) -> CommandResult:
        ended = subprocess.run(
            ["kubectl", *arguments],
            env=environment(self.folder, {"KUBECONFIG": str(self.kubeconfig)}),
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT,
            check=False,
        )
        return CommandResult(ended.returncode, ended.stdout, ended.stderr)

    def run_hanse(self, *arguments: str) -> CommandResult:
        """A command of ours in the folder in which it was started."""
        return hanse(*arguments, cwd=self.folder.parent)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        """Tell it to end, and wait until it has."""
        self.process.send_signal(by)
        return self.process.wait(COMMAND_TIMEOUT)


@contextmanager
def running(
    cwd: Path, *arguments: str, env: dict[str, str] | None = None
) -> Iterator[RunningFederation]:
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
        yield RunningFederation(process, cwd / (folder or ".hanse"))
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=COMMAND_TIMEOUT)
