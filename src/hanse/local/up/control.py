"""The control socket of a running local federation: messages, server and client.

Each line is one JSON message. Only the owner of the folder can connect.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hanse.local.unix_socket import private_listener, socket_address
from hanse.local.up.errors import NotRunning, UpError
from hanse.model.json_input import too_deep

log = logging.getLogger(__name__)

MAX_LINE = 16 * 1024 * 1024
"""Bytes of a message: the status of a large federation says of each cluster how it sees others."""


class _ControlRequest(Struct, frozen=True, tag_field="order", tag=str.lower):
    """The base of all requests; the tag says which one a message is."""


class Cut(_ControlRequest, frozen=True):
    """Drop all traffic between the agents and API servers of two clusters."""

    one: str
    other: str


class Heal(_ControlRequest, frozen=True):
    """Undo a cut."""

    one: str
    other: str


class HealAll(_ControlRequest, frozen=True):
    """Undo all cuts and delays, and start all killed API servers and stopped agents."""


class Kill(_ControlRequest, frozen=True):
    """Stop a cluster's API server."""

    cluster: str


class Start(_ControlRequest, frozen=True):
    """Start a killed API server."""

    cluster: str


class StopAgent(_ControlRequest, frozen=True):
    """Stop a cluster's agent."""

    cluster: str


class StartAgent(_ControlRequest, frozen=True):
    """Start a stopped agent."""

    cluster: str


class Save(_ControlRequest, frozen=True):
    """Save all objects of a cluster under a name."""

    cluster: str
    name: str


class Restore(_ControlRequest, frozen=True):
    """Bring a cluster back to what was saved under a name."""

    cluster: str
    name: str
    bump_revision: int = 0
    """By how much its versions are ahead of the saved ones, so that none is given twice."""


class Slow(_ControlRequest, frozen=True):
    """Delay every response of a cluster."""

    cluster: str
    milliseconds: int


class GetStatus(_ControlRequest, frozen=True, tag="list"):
    """Return the status and change nothing."""


class CreateLoginLink(_ControlRequest, frozen=True, tag="enter"):
    """Return a dashboard URL that logs a browser in, once."""


ControlRequest = (
    Cut
    | Heal
    | HealAll
    | Kill
    | Start
    | StopAgent
    | StartAgent
    | Save
    | Restore
    | Slow
    | GetStatus
    | CreateLoginLink
)


class LocalClusterStatus(Struct, frozen=True):
    """The current state of one cluster."""

    name: str
    standing: str
    """Its role: supervisor, child or broker."""
    url: str
    running: bool
    delay_milliseconds: int
    services: str
    pods: str
    nodes: str
    load_balancers: str
    agent: bool
    """Whether it has an agent."""
    agent_running: bool = False
    """Whether its agent runs; a person can stop it."""
    dns: str = ""
    """The address of its DNS view, as ADDRESS:PORT."""
    network_dns: dict[str, str] = {}
    """The addresses of the DNS views of its tenant networks, by network."""
    sees: dict[str, str] = {}
    """The connection state of each cluster for its agent: the phase, and the reason if any."""
    metrics: str = ""
    """The URL of its agent's metrics, while it runs."""


class LocalFederationStatus(Struct, frozen=True):
    """The current state of the federation: the response to every request that succeeds."""

    pid: int
    engine: str
    clusters: tuple[LocalClusterStatus, ...]
    cuts: tuple[tuple[str, str], ...]
    dns: str = ""
    """The address of the DNS view of clients outside all clusters."""
    fabric_pid: int = 0
    """A process in the network of the nodes, for `nsenter --net --target`; 0 without containers."""
    dashboard: str = ""
    """The dashboard's URL; in the response to `CreateLoginLink` one that logs a browser in."""


class ControlError(Struct, frozen=True):
    """The response to a request that fails."""

    refused: str


RequestHandler = Callable[[ControlRequest], Awaitable[LocalFederationStatus]]

_request_decoder: "msgspec.json.Decoder[ControlRequest]" = msgspec.json.Decoder(ControlRequest)


@asynccontextmanager
async def serve_control_socket(path: Path, handler: RequestHandler) -> AsyncIterator[None]:
    """Serve a Unix socket until the block ends: each line, a request in JSON, is answered by one.

    The answer is the status that the handler returns, or a `ControlError`. A file at the path is
    replaced.
    """

    async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer each line of a connection by one line, until the client ends it.

        A line that is longer than MAX_LINE is answered with a `ControlError`, and ends the
        connection.
        """
        try:
            while line := await reader.readline():
                writer.write(msgspec.json.encode(await _handle_line(handler, line)) + b"\n")
                await writer.drain()
        except ConnectionError:
            return  # the client has disconnected
        except ValueError:  # where the next line begins is not known
            refused = ControlError(f"that is no order: it is longer than {MAX_LINE} bytes")
            writer.write(msgspec.json.encode(refused) + b"\n")
        finally:
            writer.close()

    listener = private_listener(path)
    server = await asyncio.start_unix_server(handle_connection, sock=listener, limit=MAX_LINE)
    try:
        yield
    finally:
        server.close()


async def _handle_line(
    handler: RequestHandler, line: bytes
) -> LocalFederationStatus | ControlError:
    """Decode and handle one request; every failure is returned as a `ControlError`.

    One that is neither a bad message nor an `UpError` is logged, too.
    """
    try:
        return await handler(_request_decoder.decode(line))
    except msgspec.DecodeError as error:
        return ControlError(f"that is no order: {error}")
    except RecursionError:
        return ControlError(f"that is no order: {too_deep()}")
    except UpError as error:
        return ControlError(str(error))
    except Exception as error:  # the boundary of a request: the federation goes on
        log.exception("a request failed", extra={"request": line.decode("utf-8", "replace")})
        return ControlError(f"that failed ({type(error).__name__}: {error}); see `hanse up`")


async def send_request(path: Path, request: ControlRequest) -> LocalFederationStatus:
    """Send a request to the federation that listens at a path, and return the status after it.

    Raises `NotRunning` if none listens, and `UpError` if the request fails.
    """
    try:
        with socket_address(path) as address:
            reader, writer = await asyncio.open_unix_connection(address, limit=MAX_LINE)
    except (FileNotFoundError, ConnectionRefusedError):
        folder = path.parent
        raise NotRunning(
            f"no local federation runs in {folder}; start one with `hanse up`, "
            "or name its folder with --dir"
        ) from None
    try:
        writer.write(msgspec.json.encode(request) + b"\n")
        line = await reader.readline()
    finally:
        writer.close()
    if not line:
        raise UpError("the federation ended before it answered; start it again with `hanse up`")
    match _decode_response(line):
        case ControlError(message):
            raise UpError(message)
        case LocalFederationStatus() as status:
            return status


def _decode_response(line: bytes) -> LocalFederationStatus | ControlError:
    """Decode a response: an error if it has `refused`, else a status; raises `DecodeError`."""
    response: dict[str, Any] = msgspec.json.decode(line)
    if "refused" in response:
        return msgspec.convert(response, ControlError)
    return msgspec.convert(response, LocalFederationStatus)
