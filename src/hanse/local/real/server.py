"""One server process: starting, watching and stopping it, without leaving orphans."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from msgspec import Struct

from hanse.local.real.errors import ServerDied
from hanse.local.real.ports import wait_until_free

PORT_TIMEOUT = timedelta(seconds=10)
STOP_GRACE_PERIOD = timedelta(seconds=10)


class ServerCommand(Struct, frozen=True):
    """The command line of a server; relative paths in its arguments start at `directory`."""

    cluster: str
    program: str
    executable: Path
    arguments: tuple[str, ...]
    directory: Path
    log: Path
    port: int | None = None


class ProcessGroup:
    """A process group whose processes are all killed when this process ends or closes it.

    Its leader waits for the end of a pipe that only this process can write to, which comes even
    when this process is killed, and then kills the group.
    """

    def __init__(self) -> None:
        """Start the group's leader, which kills the group at `close`, or when this process ends."""
        self._leader = subprocess.Popen(
            ["/bin/sh", "-c", "cat >/dev/null; kill -KILL 0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )

    @property
    def id(self) -> int:
        """The id of the process group that servers join."""
        return self._leader.pid

    def close(self) -> None:
        """Kill every process of the group; waits for the end of its leader only."""
        assert self._leader.stdin is not None
        self._leader.stdin.close()
        self._leader.wait()


class Server:
    """A server process that can be restarted after it was stopped, was killed or has crashed."""

    def __init__(
        self,
        command: ServerCommand,
        process_group: ProcessGroup,
        on_death: Callable[[ServerDied], None],
    ) -> None:
        """Nothing is started; `on_death` is called if the process ends by itself."""
        self.command = command
        self._process_group = process_group
        self._on_death = on_death
        self._process: subprocess.Popen[bytes] | None = None
        self._exit_code: asyncio.Future[int] | None = None
        self._expected_to_run = False

    @property
    def pid(self) -> int | None:
        """The pid while the process runs; else None."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def running(self) -> bool:
        """Whether the process was started and has not ended, as far as the event loop has seen."""
        return self._exit_code is not None and not self._exit_code.done()

    @property
    def unexpected_death(self) -> ServerDied | None:
        """The error of a process that exited without being stopped, to be raised; else None."""
        if self._expected_to_run and self._exit_code is not None and self._exit_code.done():
            return self._died_error(self._exit_code.result())
        return None

    async def start(self) -> None:
        """Wait until its port, if it has one, is free, start and watch the process.

        No effect if it runs; does not wait until it serves. Raises `PortInUse` if the port is not
        free after PORT_TIMEOUT.
        """
        if self.running:
            return
        if self.command.port is not None:
            await wait_until_free(self.command.port, PORT_TIMEOUT)
        if self.pid is not None:  # somebody else has started it meanwhile
            return
        self._process = _spawn(self.command, self._process_group.id)
        self._expected_to_run = True
        self._exit_code = asyncio.get_running_loop().create_future()
        self._watch(self._process, self._exit_code)

    async def stop(self, grace: timedelta = STOP_GRACE_PERIOD) -> None:
        """Send SIGTERM and wait for the end; SIGKILL after the grace period or if cancelled.

        That end is not reported, and `unexpected_death` is None from then on; there is no other
        effect if the process does not run.
        """
        self._expected_to_run = False
        if self._process is None or self._exit_code is None:
            return
        if not self._exit_code.done():
            self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace.total_seconds()):
                await asyncio.shield(self._exit_code)
        except TimeoutError:
            self._process.kill()
            await asyncio.shield(self._exit_code)
        except asyncio.CancelledError:
            self._process.kill()
            raise

    async def kill(self) -> None:
        """Send SIGTERM and at once SIGKILL, and wait for the end of the process."""
        await self.stop(grace=timedelta(0))

    def _watch(self, process: subprocess.Popen[bytes], exit_code: asyncio.Future[int]) -> None:
        """Have the event loop call `on_exit` when the process ends, which sets the exit code.

        An exit while the server is expected to run is reported to `on_death`.
        """
        loop = asyncio.get_running_loop()
        descriptor = os.pidfd_open(process.pid)

        def on_exit() -> None:
            """Reap the process and set its exit code; report its death unless we stopped it."""
            loop.remove_reader(descriptor)
            os.close(descriptor)
            code = process.wait()
            exit_code.set_result(code)
            if self._expected_to_run:
                self._on_death(self._died_error(code))

        loop.add_reader(descriptor, on_exit)

    def _died_error(self, code: int) -> ServerDied:
        return ServerDied(self.command.cluster, self.command.program, code, self.command.log)


def _spawn(command: ServerCommand, group: int) -> subprocess.Popen[bytes]:
    """Start the program in the process group, its output appended to the log; does not wait."""
    command.log.parent.mkdir(parents=True, exist_ok=True)
    with command.log.open("ab") as log:
        return subprocess.Popen(  # noqa: S603 - our own arguments
            [command.executable, *command.arguments],
            cwd=command.directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=group,
        )


def proportional_memory(pid: int) -> int:
    """The proportional set size (PSS) of a process in bytes; 0 if it cannot be read."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
