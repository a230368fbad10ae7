"""Runs `hanse` as a process, as users do."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from tests.cli.command_server import CommandResult, RunningCommand, command_server

__all__ = ["CommandResult"]

HANSE = (sys.executable, "-c", "from hanse.cli import main; main()")
COMMAND_TIMEOUT = 60
KUBECTL_TIMEOUT = 120
SETTLED_WITHIN = 120.0
POLL_INTERVAL = 0.3


def hanse(
    *arguments: str, cwd: Path, env: dict[str, str] | None = None, patience: int = COMMAND_TIMEOUT
) -> CommandResult:
    """Run a command to its end; in a fork of the command server while `commands_in_forks` holds."""
    if _forking:
        return command_server().run(arguments, cwd, environment(cwd, env), patience)
    completed = subprocess.run(
        [*HANSE, *arguments],
        cwd=cwd,
        env=environment(cwd, env),
        capture_output=True,
        text=True,
        timeout=patience,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return CommandResult(completed.returncode, completed.stdout, completed.stderr)


def eventually(check: Callable[[], str]) -> None:
    """Poll until a check has nothing to say; fails with what it says if that takes too long."""
    until = time.monotonic() + SETTLED_WITHIN
    while reason := check():
        assert time.monotonic() < until, reason
        time.sleep(POLL_INTERVAL)


def soon(check: Callable[[], object]) -> None:
    """Poll until a check is true."""
    eventually(lambda: "" if check() else "it never came true")


_forking: list[bool] = []


@contextmanager
def commands_in_forks() -> Iterator[None]:
    """Let `hanse` fork a process that has imported everything instead of starting a new one."""
    _forking.append(True)
    try:
        yield
    finally:
        _forking.pop()


def environment(home: Path, more: dict[str, str] | None = None) -> dict[str, str]:
    """An environment without the variables of whoever runs the tests, but PATH and PYTHONPATH.

    While `commands_in_forks` holds, `hanse` in scripts of bash is a fork, too.
    """
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    shells = {"BASH_ENV": str(command_server().bash_env)} if _forking else {}
    return {**kept, **shells, "HOME": str(home), **(more or {})}


class RunningFederation:
    """A `hanse up` that keeps running."""

    def __init__(self, process: "subprocess.Popen[str] | RunningCommand", folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.output = ""
        """What it has printed so far."""
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._reader = Thread(target=self._read_output, daemon=True)
        self._reader.start()
        self.read_until("Ctrl-C ends it")

    def _read_output(self) -> None:
        """Read all it prints: it would stop in the middle of a line that nobody reads."""
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.output += line
                self._lines.put(line)
        self._lines.put("")

    def read_until(self, text: str) -> str:
        """Wait for the next line that contains a text; fails if it ends before."""
        while line := self._lines.get():
            if text in line:
                return line
        raise AssertionError(f"it ended with {self.process.wait()}: {self.output}")

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def kubectl(self, *arguments: str, stdin: str = "") -> CommandResult:
        own = {"KUBECONFIG": str(self.kubeconfig), "GOGC": "off"}  # it ends before that is worth it
        completed = subprocess.run(
            ["kubectl", *arguments],
            env=environment(self.folder, own),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=KUBECTL_TIMEOUT,
            check=False,
        )
        return CommandResult(completed.returncode, completed.stdout, completed.stderr)

    def run_hanse(
        self, *arguments: str, patience: int = COMMAND_TIMEOUT, env: dict[str, str] | None = None
    ) -> CommandResult:
        """Run a command in the folder in which the federation was started."""
        return hanse(*arguments, cwd=self.folder.parent, env=env, patience=patience)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, and wait for the end."""
        self.process.send_signal(by)
        return self.process.wait(COMMAND_TIMEOUT)

    def join(self) -> None:
        """Wait for its end; fails if an agent of it has failed, which it survives."""
        self.process.wait(COMMAND_TIMEOUT)
        self._reader.join(COMMAND_TIMEOUT)
        assert "agent failed" not in self.output, self.output


def _start(
    arguments: list[str], cwd: Path, env: dict[str, str]
) -> "subprocess.Popen[str] | RunningCommand":
    """Start a command whose `stdout` is all that it prints."""
    if _forking:
        return command_server().start_with_pipe(arguments, cwd, env)
    return subprocess.Popen(
        [*HANSE, *arguments],
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        stdin=subprocess.DEVNULL,
    )


@contextmanager
def running(
    cwd: Path, *arguments: str, env: dict[str, str] | None = None
) -> Iterator[RunningFederation]:
    """A federation that runs in `DIR` or ./.hanse until the block ends."""
    folder = Path(arguments[arguments.index("--dir") + 1]) if "--dir" in arguments else None
    process = _start(["up", *arguments], cwd, environment(cwd, env))
    try:
        yield (federation := RunningFederation(process, cwd / (folder or ".hanse")))
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(COMMAND_TIMEOUT)
    federation.join()
