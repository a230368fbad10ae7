"""Runs commands in forks of a process that has imported all of Hanse.

A command is still a process of its own, with its own folder, environment, descriptors and exit
status. It only does not import a thousand modules again, which takes most of what a short command
takes. Shells get such commands by `command_client.py`.
"""

import atexit
import gc
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, NoReturn

from msgspec import Struct

_LARGEST_REQUEST = 1 << 17
_ROOT = Path(__file__).parents[2]
_CLIENT = Path(__file__).with_name("command_client.py")


class CommandResult(Struct, frozen=True):
    """The output and exit status of a process."""

    status: int
    out: str
    err: str


class RunningCommand:
    """A command in a fork; of `subprocess.Popen` it has what tests use."""

    def __init__(self, report: socket.socket, stdout: IO[str] | None = None) -> None:
        """Take what the command says of itself: its process id, and its exit status at its end."""
        self._report = report
        self.pid = int(report.recv(100))
        self.stdout = stdout
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, -1 if a signal ended it; raises `TimeoutError`."""
        if self.returncode is None:
            self._report.settimeout(timeout)
            status = self._report.recv(100)
            while self._report.recv(100):
                pass  # the socket is closed as the process ends
            self._report.close()
            self.returncode = int(status) if status else -1
        return self.returncode

    def finish(self, timeout: float) -> int:
        """Its exit status; what it prints until its end is read, or it would wait for a reader."""
        assert self.stdout is not None
        with self.stdout as rest:
            while select.select([rest], [], [], timeout)[0] and os.read(rest.fileno(), 1 << 16):
                pass
        return self.wait(timeout)

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""
        if self.returncode is None and select.select([self._report], [], [], 0)[0]:
            return self.wait()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it is known to have ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send it SIGTERM."""
        self.send_signal(signal.SIGTERM)


class CommandServer:
    """The process that is forked; it ends with its creator, whose end of the socket then closes."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="hanse-commands-")
        self._address = Path(self._folder.name) / "requests"
        self.bash_env = self._make_program()
        """A file for BASH_ENV: `hanse` in scripts of bash is a fork, too."""
        self._socket, theirs = socket.socketpair()
        with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as requests:
            requests.bind(str(self._address))
            requests.listen()
            descriptors = [theirs.fileno(), requests.fileno()]
            self._process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, *map(str, descriptors)],
                cwd=_ROOT,
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
            )
        atexit.register(self.close)

    def close(self) -> None:
        """End it."""
        self._socket.close()
        self._process.wait()
        self._folder.cleanup()

    def _make_program(self) -> Path:
        """Make a program `hanse`; the result puts it before others."""
        program, bash_env = (Path(self._folder.name) / name for name in ("bin/hanse", "env.sh"))
        program.parent.mkdir()
        command = f"'{sys.executable}' -I -S '{_CLIENT}' '{self._address}'"
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        program.chmod(0o755)
        bash_env.write_text(f"PATH='{program.parent}':$PATH\n")
        return bash_env

    def start(
        self,
        arguments: Sequence[str],
        cwd: Path,
        env: dict[str, str],
        out: IO[bytes],
        err: IO[bytes],
    ) -> RunningCommand:
        """Start a command that reads nothing and writes to these files."""
        request = json.dumps([list(arguments), str(cwd), env]).encode()
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(str(self._address))
        with Path(os.devnull).open() as nothing:
            files = [nothing.fileno(), out.fileno(), err.fileno()]
            socket.send_fds(connection, [request], files)
        return RunningCommand(connection)

    def run(
        self, arguments: Sequence[str], cwd: Path, env: dict[str, str], timeout: float
    ) -> CommandResult:
        """Run a command to its end; fails if that is not reached within the timeout."""
        with TemporaryFile() as out, TemporaryFile() as err:
            command = self.start(arguments, cwd, env, out, err)
            try:
                status = command.wait(timeout)
            except TimeoutError:
                command.send_signal(signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(arguments), timeout) from None
            assert status >= 0, f"{arguments} was ended by a signal (process {command.pid})"
            return CommandResult(status, _text(out.fileno()), _text(err.fileno()))

    def start_with_pipe(
        self, arguments: Sequence[str], cwd: Path, env: dict[str, str]
    ) -> RunningCommand:
        """Start a command whose `stdout` is all that it prints."""
        reading, writing = os.pipe()
        with os.fdopen(writing, "wb") as printed:
            command = self.start(arguments, cwd, env, printed, printed)
        command.stdout = os.fdopen(reading)
        return command


def _text(descriptor: int) -> str:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode()


@cache
def command_server() -> CommandServer:
    """The one of this process."""
    return CommandServer()


def _import_all() -> None:
    import hanse

    for module in pkgutil.walk_packages(hanse.__path__, "hanse."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    for name in ("aiohttp", "aiohttp.connector", "encodings.idna"):
        import_module(name)


def _serve(creator: socket.socket, requests: socket.socket) -> None:
    """Fork a process for each request, until the creator has ended."""
    _import_all()
    gc.collect()
    gc.freeze()  # or collections of the forks copy all that was imported
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    running = set[int]()
    while creator not in select.select([creator, requests], [], [])[0]:
        report, _ = requests.accept()
        with report:
            request, descriptors, _, _ = socket.recv_fds(report, _LARGEST_REQUEST, 3)
            if (pid := os.fork()) == 0:
                creator.close()
                requests.close()
                _run(request, descriptors, report)
        for descriptor in descriptors:
            os.close(descriptor)
        running.add(pid)
        running -= {ended for ended in running if os.waitpid(ended, os.WNOHANG)[0]}


def _run(request: bytes, descriptors: Sequence[int], report: socket.socket) -> NoReturn:
    """Be the command, and end."""
    try:
        for standard, descriptor in enumerate(descriptors):
            os.dup2(descriptor, standard)
            os.close(descriptor)
        report.send(b"%d" % os.getpid())
        status = _status_of(*json.loads(request))
        report.send(b"%d" % status)
        os._exit(status)
    finally:
        os._exit(1)  # whoever asked has ended


def _status_of(arguments: list[str], folder: str, environment: dict[str, str]) -> int:
    """The exit status of a command, as the interpreter gives it."""
    from hanse.cli import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    status = 1
    try:
        main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:  # noqa: BLE001 - as the interpreter does at its end
        sys.excepthook(*sys.exc_info())
    sys.stdout.flush()
    sys.stderr.flush()
    return status


if __name__ == "__main__":
    with (
        socket.socket(fileno=int(sys.argv[1])) as creator,
        socket.socket(fileno=int(sys.argv[2])) as requests,
    ):
        _serve(creator, requests)
