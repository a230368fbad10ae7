"""Runs commands in forks of a process that has imported all of Hanse.

A command is still a process of its own, with its own folder, environment, descriptors and exit
status. It only does not import a thousand modules again, which takes most of what a short command
takes.
"""

import atexit
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock

from msgspec import Struct

_LARGEST_REQUEST = 1 << 17
_ROOT = Path(__file__).parents[2]


class CommandResult(Struct, frozen=True):
    """The output and exit status of a process."""

    status: int
    out: str
    err: str


class CommandServer:
    """The process that is forked; it ends with its creator, whose end of the socket then closes."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, str(theirs.fileno())],
                cwd=_ROOT,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        atexit.register(self.close)

    def close(self) -> None:
        """End it."""
        self._socket.close()
        self._process.wait()

    def run(
        self, arguments: Sequence[str], cwd: Path, env: dict[str, str], timeout: float
    ) -> CommandResult:
        """Run a command to its end; fails if that is not reached within the timeout."""
        request = json.dumps([list(arguments), str(cwd), env]).encode()
        ours, theirs = socket.socketpair()
        with TemporaryFile() as out, TemporaryFile() as err, ours:
            with theirs, self._lock:
                files = [out.fileno(), err.fileno(), theirs.fileno()]
                socket.send_fds(self._socket, [request], files)
            ours.settimeout(timeout)
            pid, _, status = _receive_report(ours, arguments, timeout).partition(b" ")
            if not status:
                raise AssertionError(f"{arguments} was ended by a signal (process {int(pid)})")
            return CommandResult(int(status), _text(out.fileno()), _text(err.fileno()))


def _receive_report(connection: socket.socket, arguments: Sequence[str], timeout: float) -> bytes:
    """What a command says of itself: its process id as it begins, its exit status as it ends."""
    report = b""
    try:
        while received := connection.recv(100):
            report += received
    except TimeoutError:
        if report:
            os.kill(int(report.split()[0]), signal.SIGKILL)
        raise subprocess.TimeoutExpired(list(arguments), timeout) from None
    return report


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


def _serve(connection: socket.socket) -> None:
    """Fork a process for each request, until nobody can send one any more."""
    _import_all()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    running = set[int]()
    while True:
        request, descriptors, _, _ = socket.recv_fds(connection, _LARGEST_REQUEST, 3)
        if not request:
            return
        if (pid := os.fork()) == 0:
            connection.close()
            _run(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        running.add(pid)
        running -= {ended for ended in running if os.waitpid(ended, os.WNOHANG)[0]}


def _run(request: bytes, descriptors: Sequence[int]) -> None:
    """Be the command, and end."""
    from hanse.cli import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    out, err, report = descriptors
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.write(report, b"%d " % os.getpid())
    arguments, folder, environment = json.loads(request)
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
    os.write(report, b"%d" % status)
    os._exit(status)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        _serve(requests)
