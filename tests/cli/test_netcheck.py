"""`hanse netcheck`: the program of pods that `hanse verify` creates."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.cli.programs import HANSE, POLL_INTERVAL, CommandResult, hanse


def netcheck(*arguments: str) -> CommandResult:
    return hanse("netcheck", *arguments, cwd=Path.cwd())


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return int(server.getsockname()[1])


@contextmanager
def serving(port: int) -> Iterator[None]:
    """A server that answers as the cluster lubeck."""
    arguments = [*HANSE, "netcheck", "serve", f"--tcp={port}"]
    process = subprocess.Popen(arguments, env={**os.environ, "CLUSTER": "lubeck"})
    try:
        while process.poll() is None and netcheck("tcp", f"127.0.0.1:{port}").status:
            time.sleep(POLL_INTERVAL)
        yield
    finally:
        process.terminate()
        process.wait()


def test_a_server_names_its_cluster_its_host_and_the_client() -> None:
    port = free_port()
    with serving(port):
        result = netcheck("tcp", "-n", "2", "-timeout", "5s", f"127.0.0.1:{port}")

    assert result.status == 0, result.err
    assert result.out.splitlines() == [f"lubeck {socket.gethostname()} 127.0.0.1"] * 2


def test_a_failed_connection_says_why() -> None:
    port = free_port()

    result = netcheck("tcp", f"127.0.0.1:{port}")

    assert result.status == 1
    assert result.err == f"hanse: dial tcp 127.0.0.1:{port}: connection refused\n"


def test_a_name_is_looked_up() -> None:
    assert "127.0.0.1" in netcheck("lookup", "localhost").out.split()

    unknown = netcheck("lookup", "nowhere.invalid")
    assert unknown.status == 1
    assert unknown.err.startswith("hanse: lookup nowhere.invalid: ")


def test_a_bad_target_is_told() -> None:
    result = netcheck("tcp", "nowhere")

    assert (result.status, result.err.count("\n")) == (2, 1)
