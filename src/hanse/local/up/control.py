"""The control socket of a running local federation: requests, responses, server and client.

Each line is one JSON message. Only the owner of the folder can connect.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hanse.local.up.errors import NotRunning, UpError


class Order(Struct, frozen=True, tag_field="order", tag=str.lower):
    """Something to be done."""


class Cut(Order, frozen=True):
    """Let nothing through between the agents and API servers of two clusters."""

    one: str
    other: str


class Heal(Order, frozen=True):
    """Undo a cut."""

    one: str
    other: str


class HealAll(Order, frozen=True):
    """Undo every cut, every slowness, and start what was killed."""


class Kill(Order, frozen=True):
    """Stop a cluster's API server."""

    cluster: str


class Start(Order, frozen=True):
    """Bring a killed API server back."""

    cluster: str


class Slow(Order, frozen=True):
    """Let a cluster answer late."""

    cluster: str
    milliseconds: int


class GetStatus(Order, frozen=True):
    """Only tell how things are."""


class CreateLoginLink(Order, frozen=True):
    """Tell a link that lets a browser into the dashboard, once."""


ControlRequest = Cut | Heal | HealAll | Kill | Start | Slow | GetStatus | CreateLoginLink


class LocalClusterStatus(Struct, frozen=True):
    """One cluster as it is now."""

    name: str
    standing: str
    url: str
    running: bool
    delay_milliseconds: int
    services: str
    pods: str
    nodes: str
    load_balancers: str
    agent: bool
    dns: str = ""
    """Where its clients' names are answered, as ADDRESS:PORT."""
    network_dns: dict[str, str] = {}
    """Where those of its tenant networks are, by network."""
    sees: dict[str, str] = {}
    """What its agent knows of each cluster: Synced, or what else and why."""


class LocalFederationStatus(Struct, frozen=True):
    """The federation as it is now: the answer to any order that could be carried out."""

    pid: int
    engine: str
    clusters: tuple[LocalClusterStatus, ...]
    cuts: tuple[tuple[str, str], ...]
    dns: str = ""
    """Where names are answered to those who ask from no cluster."""
    dashboard: str = ""
    """The dashboard's address; after `CreateLoginLink` a link that lets a browser in, once."""


class ControlError(Struct, frozen=True):
    """The answer to an order that could not."""

    refused: str


_orders: "msgspec.json.Decoder[ControlRequest]" = msgspec.json.Decoder(ControlRequest)


def order_in(line: bytes) -> ControlRequest:
    """Raises `msgspec.DecodeError` for anything else."""
    return _orders.decode(line)


def answer_in(line: bytes) -> LocalFederationStatus | ControlError:
    """The answer that was sent; raises `msgspec.DecodeError` for anything else."""
    answer: dict[str, Any] = msgspec.json.decode(line)
    if "refused" in answer:
        return msgspec.convert(answer, ControlError)
    return msgspec.convert(answer, LocalFederationStatus)


CarryOut = Callable[[ControlRequest], Awaitable[LocalFederationStatus]]

_LONGEST_ADDRESS = 100
"""Kernels take a few more bytes, and not all take the same."""


@asynccontextmanager
async def serve_control_socket(path: Path, execute: CarryOut) -> AsyncIterator[None]:
    """Take orders on a socket at a path until the block ends."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(msgspec.json.encode(await _carried_out(execute, line)) + b"\n")
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


async def _carried_out(execute: CarryOut, line: bytes) -> LocalFederationStatus | ControlError:
    try:
        return await execute(order_in(line))
    except msgspec.DecodeError as error:
        return ControlError(f"that is no order: {error}")
    except UpError as error:
        return ControlError(str(error))


async def send_request(path: Path, order: ControlRequest) -> LocalFederationStatus:
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
        case ControlError(why):
            raise UpError(why)
        case LocalFederationStatus() as told:
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
