"""One server process: started, watched, stopped, and never left behind."""

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

PORT_PATIENCE = timedelta(seconds=10)
STOP_PATIENCE = timedelta(seconds=10)


class ServerCommand(Struct, frozen=True):
    """How a server of a cluster is run: relative paths among its arguments start at `directory`."""

    cluster: str
    program: str
    executable: Path
    arguments: tuple[str, ...]
    directory: Path
    log: Path
    port: int | None = None


class ProcessGroup:
    """A process group that ends, to the last member, as soon as this process ends or lets go.

    Its leader waits for the end of a pipe that only this process can write to, which comes even
    when this process is killed, and then kills the group.
    """

    def __init__(self) -> None:
        self._leader = subprocess.Popen(
            ["/bin/sh", "-c", "cat >/dev/null; kill -KILL 0"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )

    @property
    def group(self) -> int:
        """The process group that servers join."""
        return self._leader.pid

    def close(self) -> None:
        """End every process of the group now."""
        assert self._leader.stdin is not None
        self._leader.stdin.close()
        self._leader.wait()


class Server:
    """A server process that can be started again after it was stopped, killed or has died."""

    def __init__(
        self, command: ServerCommand, keeper: ProcessGroup, on_death: Callable[[ServerDied], None]
    ) -> None:
        self.command = command
        self._keeper = keeper
        self._on_death = on_death
        self._process: subprocess.Popen[bytes] | None = None
        self._ended: asyncio.Future[int] | None = None
        self._expected_to_run = False

    @property
    def pid(self) -> int | None:
        """The process while it runs."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def running(self) -> bool:
        return self._ended is not None and not self._ended.done()

    @property
    def unexpected_death(self) -> ServerDied | None:
        """How it ended, if it has and nobody asked it to."""
        if self._expected_to_run and self._ended is not None and self._ended.done():
            return self._died(self._ended.result())
        return None

    async def start(self) -> None:
        """Start the process, once its port is free."""
        if self.running:
            return
        if self.command.port is not None:
            await wait_until_free(self.command.port, PORT_PATIENCE)
        self._process = _spawn(self.command, self._keeper.group)
        self._expected_to_run = True
        self._ended = asyncio.get_running_loop().create_future()
        self._watch(self._process, self._ended)

    async def stop(self, patience: timedelta = STOP_PATIENCE) -> None:
        """Ask the process to end, and make it end when it takes too long."""
        self._expected_to_run = False
        if self._process is None or self._ended is None:
            return
        if not self._ended.done():
            self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(patience.total_seconds()):
                await asyncio.shield(self._ended)
        except TimeoutError:
            self._process.kill()
            await asyncio.shield(self._ended)
        except asyncio.CancelledError:
            self._process.kill()
            raise

    async def kill(self) -> None:
        """End the process as a crash of its machine would, on purpose."""
        await self.stop(patience=timedelta(0))

    def _watch(self, process: subprocess.Popen[bytes], ended: asyncio.Future[int]) -> None:
        loop = asyncio.get_running_loop()
        descriptor = os.pidfd_open(process.pid)

        def on_end() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            code = process.wait()
            ended.set_result(code)
            if self._expected_to_run:
                self._on_death(self._died(code))

        loop.add_reader(descriptor, on_end)

    def _died(self, code: int) -> ServerDied:
        return ServerDied(self.command.cluster, self.command.program, code, self.command.log)


def _spawn(command: ServerCommand, group: int) -> subprocess.Popen[bytes]:
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
    """A process's share of memory in bytes; pages it shares with others are counted in parts."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
