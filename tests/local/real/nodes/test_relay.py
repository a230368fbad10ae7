"""The egress proxy and the relay, in this machine's own network namespace."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from hanse.local.real.nodes.namespaces import NetworkNamespace
from hanse.local.real.nodes.relay import egress_proxy, relay_to_loopback
from tests.support.ports import free_ports

T = TypeVar("T")


class _ThisNamespace:
    """Calls functions in the namespace of the tests."""

    def call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        return function(*args, **kwargs)


HERE = cast(NetworkNamespace, _ThisNamespace())


@asynccontextmanager
async def _echo_server(port: int) -> AsyncIterator[None]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(-1))
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", port):
        yield


async def _connect_through(proxy: Path, target: str, text: bytes) -> tuple[bytes, bytes]:
    """The status line of the proxy, and all that comes after its header."""
    reader, writer = await asyncio.open_unix_connection(proxy)
    writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    header = await reader.readuntil(b"\r\n\r\n")
    writer.write(text)
    writer.write_eof()
    answer = await reader.read(-1)
    writer.close()
    return header.splitlines()[0], answer


async def test_the_proxy_connects_and_copies_in_both_directions(tmp_path: Path) -> None:
    [port] = free_ports(1)

    async with _echo_server(port), egress_proxy(HERE, tmp_path / "proxy"):
        status, answer = await _connect_through(tmp_path / "proxy", f"127.0.0.1:{port}", b"ahoy")

    assert (status, answer) == (b"HTTP/1.1 200 Connection established", b"ahoy")


async def test_the_proxy_says_that_nobody_listens(tmp_path: Path) -> None:
    [port] = free_ports(1)

    async with egress_proxy(HERE, tmp_path / "proxy"):
        status, answer = await _connect_through(tmp_path / "proxy", f"127.0.0.1:{port}", b"")

    assert (status, answer) == (b"HTTP/1.1 502 Bad Gateway", b"")


async def test_a_request_that_is_none_ends_the_connection(tmp_path: Path) -> None:
    async with egress_proxy(HERE, tmp_path / "proxy"):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "proxy")
        writer.write(b"\r\n\r\n")
        answer = await reader.read(-1)
        writer.close()

    assert answer == b""


async def test_the_relay_reaches_the_same_port_of_loopback() -> None:
    [port] = free_ports(1)

    async with _echo_server(port), relay_to_loopback(HERE, "127.0.0.2", port):
        reader, writer = await asyncio.open_connection("127.0.0.2", port)
        writer.write(b"ahoy")
        writer.write_eof()
        answer = await reader.read(-1)
        writer.close()

    assert answer == b"ahoy"


async def test_a_side_that_is_lost_ends_the_other_and_no_task_is_collected(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """asyncio keeps no reference to the task of a connection that is lost."""
    [port] = free_ports(1)
    accepted: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await accepted.put((reader, writer))

    far = await asyncio.start_server(hold, "127.0.0.1", port)
    async with far:
        async with relay_to_loopback(HERE, "127.0.0.2", port):
            _, near = await asyncio.open_connection("127.0.0.2", port)
            near.write(b"ahoy")
            reader, writer = await accepted.get()
            assert await reader.readexactly(4) == b"ahoy"
            near.transport.abort()
            assert await reader.read(-1) == b"", "it hears of the end, and is silent"
            gc.collect()
        assert await reader.read(-1) == b""
        writer.close()

    gc.collect()
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []
