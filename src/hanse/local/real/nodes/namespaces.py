"""Linux namespaces that end with the process that made them: nothing of them is left behind.

Each is held by a process of a `ProcessGroup`. The kernel removes network devices, mounts and
processes of a namespace when its last process ends.
"""

import asyncio
import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, ParamSpec, TypeVar

from hanse.local.real.errors import NodesFailed
from hanse.local.real.server import ProcessGroup

_CLONE_NEWNET = 0x40000000
_POLL_SECONDS = 0.002

P = ParamSpec("P")
T = TypeVar("T")


class Namespace:
    """The namespaces of one process, which holds them until its process group ends."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def command(self, *arguments: str) -> tuple[str, ...]:
        """A command line that runs these arguments inside; SIGTERM ends them with their parent."""
        inside = ("--target", str(self.pid), *self._nsenter_options())
        return ("nsenter", *inside, "--", "setpriv", "--pdeathsig", "TERM", *arguments)

    async def run(self, *arguments: str, stdin: str | Path = "") -> str:
        """Run a command inside to its end, and return its output; raises `NodesFailed` with it."""
        return await run_command(*self.command(*arguments), stdin=stdin)

    def _nsenter_options(self) -> tuple[str, ...]:
        """The options of nsenter for the namespaces that commands run in; here the network's."""
        return ("--net",)


class NetworkNamespace(Namespace):
    """A network namespace, in which this process can open sockets, too."""

    def __init__(self, group: ProcessGroup, holder: Path) -> None:
        """Create it, and block until it exists; `holder` is the program that waits inside.

        Raises `NodesFailed` if it ends at once.
        """
        process = _hold(group, "unshare", "--net", "--", str(holder), "pause")
        _wait_for_program(process, process.pid, holder)
        super().__init__(process.pid)
        self._thread = ThreadPoolExecutor(1, "namespace", self._enter)

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in a thread inside, and block until it returns or raises.

        Sockets that it opens stay in the namespace.
        """
        return self._thread.submit(function, *args, **kwargs).result()

    def close(self) -> None:
        """End the thread that is inside; the process group ends the rest."""
        self._thread.shutdown()

    def _enter(self) -> None:
        """Move the calling thread into the network namespace; raises `OSError`."""
        descriptor = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        finally:
            os.close(descriptor)


class MachineNamespace(Namespace):
    """Namespaces of network, mounts and processes: what a machine of its own has."""

    def __init__(self, group: ProcessGroup, holder: Path) -> None:
        """Create them, and block until they exist; `holder` is the first process inside.

        It reaps the orphans there. Raises `NodesFailed` if it ends at once.
        """
        kinds = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
        parent = _hold(group, "unshare", *kinds, "--", str(holder), "pause")
        super().__init__(_wait_for_child(parent, holder))

    def _nsenter_options(self) -> tuple[str, ...]:
        """The options of nsenter for the namespaces of network, mounts and processes."""
        return ("--net", "--mount", "--pid")


async def run_command(*arguments: str, stdin: str | Path = "") -> str:
    """Run a command to its end, with a text or file as its input; returns stdout and stderr.

    Raises `NodesFailed` with the output if its status is not 0.
    """
    with _open_input(stdin) as given:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=given,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    output, _ = await process.communicate()
    text = output.decode("utf-8", "replace")
    if process.returncode != 0:
        raise NodesFailed(f"{' '.join(arguments)} failed: {text.strip()}")
    return text


def _open_input(stdin: str | Path) -> IO[bytes]:
    """The file, or a temporary one with the text, opened as the input of a command.

    A pipe could be closed by the command before it is written to.
    """
    if not isinstance(stdin, str):
        return stdin.open("rb")
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(stdin.encode())
    file.seek(0)
    return file


def _hold(group: ProcessGroup, *arguments: str) -> "subprocess.Popen[bytes]":
    """Start the process, in the group, that keeps namespaces alive; its stderr can be read."""
    return subprocess.Popen(  # noqa: S603 - our own arguments
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        process_group=group.id,
    )


def _wait_for_child(parent: "subprocess.Popen[bytes]", program: Path) -> int:
    """The pid of the only child of a process, once it runs a program.

    Blocks until then; raises `NodesFailed` if the process ends.
    """
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    while not (found := _read_text(children).split()):
        _raise_if_ended(parent)
        time.sleep(_POLL_SECONDS)
    _wait_for_program(parent, int(found[0]), program)
    return int(found[0])


def _wait_for_program(parent: "subprocess.Popen[bytes]", pid: int, program: Path) -> None:
    """Wait until a process runs a program: then it has entered its namespaces.

    Blocks until then; raises `NodesFailed` if its parent ends.
    """
    while _executable(pid) != program:
        _raise_if_ended(parent)
        time.sleep(_POLL_SECONDS)


def _raise_if_ended(parent: "subprocess.Popen[bytes]") -> None:
    """Raise `NodesFailed`, with the stderr of the process, if it has ended; else no effect."""
    if parent.poll() is not None:
        assert parent.stderr is not None
        raise NodesFailed(f"namespaces: {parent.stderr.read().decode().strip()}")


def _executable(pid: int) -> Path | None:
    """The program that a process runs; None if that cannot be read."""
    try:
        return Path(f"/proc/{pid}/exe").readlink()
    except OSError:
        return None


def _read_text(path: Path) -> str:
    """The text of a file; empty if it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""
