"""The control socket: one order a line, one answer a line, for the folder's owner alone."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec

from hanse.local.up.control import AnyOrder, Refused, Told, answer_in, order_in
from hanse.local.up.errors import NotRunning, UpError

CarryOut = Callable[[AnyOrder], Awaitable[Told]]

_LONGEST_ADDRESS = 100
"""Kernels take a few more bytes, and not all take the same."""


@asynccontextmanager
async def listening(path: Path, carry_out: CarryOut) -> AsyncIterator[None]:
    """Take orders on a socket at a path until the block ends."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(msgspec.json.encode(await _carried_out(carry_out, line)) + b"\n")
                await writer.drain()
        except ConnectionError:
            return  # whoever asked has left
        finally:
            writer.close()

    server = await asyncio.start_unix_server(answer, sock=_bound(path))
    try:
        yield
    finally:
        server.close()


async def _carried_out(carry_out: CarryOut, line: bytes) -> Told | Refused:
    try:
        return await carry_out(order_in(line))
    except msgspec.DecodeError as error:
        return Refused(f"that is no order: {error}")
    except UpError as error:
        return Refused(str(error))


async def ask(path: Path, order: AnyOrder) -> Told:
    """Give an order to the federation that listens at a path; raises `UpError` if it refuses."""
    try:
        with _address(path) as address:
            reader, writer = await asyncio.open_unix_connection(address)
    except (FileNotFoundError, ConnectionRefusedError):
        folder = path.parent
        raise NotRunning(
            f"no local federation runs in {folder}; start one with `hanse up`, "
            "or name its folder with --dir"
        ) from None
    try:
        writer.write(msgspec.json.encode(order) + b"\n")
        line = await reader.readline()
    finally:
        writer.close()
    if not line:
        raise UpError("the federation ended before it answered; start it again with `hanse up`")
    match answer_in(line):
        case Refused(why):
            raise UpError(why)
        case Told() as told:
            return told


def _bound(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)  # the folder is locked: whoever left it is gone
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        with _address(path) as address:
            made.bind(address)
    except OSError:
        made.close()
        raise
    finally:
        os.umask(mask)
    return made


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """The path in as few bytes as a socket's address can have."""
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
