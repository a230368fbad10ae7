"""Servers are watched while they run and never outlive the one who started them."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from hanse.local.real.errors import ServerDied
from hanse.local.real.server import ProcessGroup, Server, ServerCommand, proportional_memory


@pytest.fixture
def process_group() -> Iterator[ProcessGroup]:
    process_group = ProcessGroup()
    yield process_group
    process_group.close()


def shell(tmp_path: Path, script: str) -> ServerCommand:
    return ServerCommand(
        cluster="lubeck",
        program="etcd",
        executable=Path("/bin/sh"),
        arguments=("-c", script),
        directory=tmp_path,
        log=tmp_path / "logs" / "etcd.log",
    )


def never(death: ServerDied) -> None:
    raise death


def ends_within(pid: int, seconds: float) -> bool:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


async def test_a_crashed_server_is_reported_with_the_end_of_its_log(
    tmp_path: Path, process_group: ProcessGroup
) -> None:
    deaths: asyncio.Queue[ServerDied] = asyncio.Queue()
    server = Server(
        shell(tmp_path, "echo disk on fire >&2; exit 3"), process_group, deaths.put_nowait
    )

    await server.start()
    death = await deaths.get()

    assert str(death).startswith("etcd of lubeck ended with status 3")
    assert str(tmp_path / "logs" / "etcd.log") in str(death)
    assert str(death).endswith("disk on fire")
    assert server.unexpected_death is not None
    assert server.pid is None


async def test_a_server_that_is_stopped_is_not_reported_as_dead(
    tmp_path: Path, process_group: ProcessGroup
) -> None:
    deaths: list[ServerDied] = []
    server = Server(shell(tmp_path, "exec sleep 1000"), process_group, deaths.append)

    await server.start()
    pid = server.pid
    await server.stop()

    assert pid is not None
    assert ends_within(pid, 0)
    assert not server.running
    assert deaths == []
    assert server.unexpected_death is None


async def test_a_server_that_ignores_sigterm_is_killed_after_the_grace_period(
    tmp_path: Path, process_group: ProcessGroup
) -> None:
    server = Server(shell(tmp_path, 'trap "" TERM; while :; do :; done'), process_group, never)

    await server.start()
    await server.stop(grace=timedelta(milliseconds=50))

    assert not server.running


async def test_a_stopped_server_can_be_started_again_and_adds_to_its_log(
    tmp_path: Path, process_group: ProcessGroup
) -> None:
    deaths: asyncio.Queue[ServerDied] = asyncio.Queue()
    server = Server(shell(tmp_path, "echo once more"), process_group, deaths.put_nowait)

    for _ in range(2):
        await server.start()
        await deaths.get()

    assert server.command.log.read_text() == "once more\nonce more\n"


async def test_closing_the_process_group_kills_every_server(tmp_path: Path) -> None:
    process_group = ProcessGroup()
    servers = [
        Server(shell(tmp_path, "sleep 1000"), process_group, lambda _: None) for _ in range(3)
    ]
    for server in servers:
        await server.start()
    pids = [server.pid for server in servers]

    process_group.close()

    assert all(pid is not None and ends_within(pid, 10) for pid in pids)
    await asyncio.gather(*(server.stop() for server in servers))


STARTS_A_SERVER = """
import asyncio, pathlib, sys
from hanse.local.real.server import ServerCommand, ProcessGroup, Server

async def main():
    folder = pathlib.Path(sys.argv[1])
    sleep = pathlib.Path("/bin/sleep")
    command = ServerCommand("lubeck", "etcd", sleep, ("1000",), folder, folder / "log")
    server = Server(command, ProcessGroup(), print)
    await server.start()
    print(server.pid, flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


def test_nothing_is_left_running_when_the_parent_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTS_A_SERVER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        server = int(parent.stdout.readline())
        assert not ends_within(server, 0)

        parent.send_signal(signal.SIGKILL)

        assert ends_within(server, 10)


def test_memory_of_a_living_process_is_more_than_nothing() -> None:
    assert proportional_memory(os.getpid()) > 2**20
