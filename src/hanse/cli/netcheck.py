"""`hanse netcheck`: the programs of the pods that `hanse verify` creates.

The options, output and error texts are those of the program `netcheck` of local clusters.
"""

import asyncio
import errno
import os
import re
import socket

import click

from hanse.cli.errors import CommandFailed, InputError

_SECONDS = re.compile(r"(\d+)s")
_ERRORS = {
    errno.ECONNREFUSED: "connection refused",
    errno.EHOSTUNREACH: "no route to host",
    errno.ENETUNREACH: "network is unreachable",
}


@click.group("netcheck")
def command() -> None:
    """Answer and make connections, as pods of `hanse verify` do.

    \b
    Examples:
      hanse netcheck serve --tcp 8081
      hanse netcheck tcp -n 4 web.shop.svc.clusterset.local:80
      hanse netcheck lookup web.shop.svc.clusterset.local
    """


@command.command("serve")
@click.option("--tcp", "port", type=click.IntRange(1, 65535), required=True, help="The port.")
def serve(port: int) -> None:
    """Answer each TCP connection with $CLUSTER, the host's name and the client's address.

    \b
    Examples:
      hanse netcheck serve --tcp 8081
    """
    asyncio.run(_serve(port))


@command.command("tcp")
@click.option("-n", "count", type=click.IntRange(1, 100), default=1, help="Connections to make.")
@click.option("-timeout", "limit", default="2s", metavar="SECONDS", help="For each: 2s.")
@click.argument("target", metavar="HOST:PORT")
def tcp(count: int, limit: str, target: str) -> None:
    """Connect to a target, and print each answer; the exit status is 1 if one connection failed.

    \b
    Examples:
      hanse netcheck tcp -n 4 -timeout 3s web.shop.svc.clusterset.local:80
    """
    seconds = _SECONDS.fullmatch(limit)
    host, _, port = target.rpartition(":")
    if seconds is None or not host or not port.isdecimal():
        raise InputError("name a target as HOST:PORT, and a time-out as 2s")
    error = ""
    for _ in range(count):
        try:
            click.echo(asyncio.run(_ask(host.strip("[]"), int(port), int(seconds[1]))))
        except OSError as failed:
            error = f"dial tcp {target}: {_describe(failed)}"
    if error:
        raise CommandFailed(error)


@command.command("lookup")
@click.argument("name")
def lookup(name: str) -> None:
    """Print the addresses of a name, one per line.

    \b
    Examples:
      hanse netcheck lookup web.shop.svc.clusterset.local
    """
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as failed:
        raise CommandFailed(f"lookup {name}: {_describe(failed)}") from None
    for address in sorted({str(one[4][0]) for one in found}):
        click.echo(address)


async def _serve(port: int) -> None:
    """Answer each TCP connection with a line, on all addresses of both families, until cancelled.

    The line is $CLUSTER, the host name and the client's address.
    """

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Write the line with our name and the client's address, and close."""
        client = writer.get_extra_info("peername")[0]
        words = (os.environ.get("CLUSTER", ""), socket.gethostname(), client)
        writer.write(f"{' '.join(words)}\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, None, port)
    async with server:
        await server.serve_forever()


async def _ask(host: str, port: int, seconds: int) -> str:
    """Connect once, and return the first line received, stripped; "" if there is none.

    Raises `OSError` if it fails; `TimeoutError`, which is one, after `seconds` in all.
    """
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection(host, port)
        line = await reader.readline()
        writer.close()
        return line.decode("utf-8", "replace").strip()


def _describe(error: OSError) -> str:
    """The text of an error as Go's `net` package words it, which `hanse verify` looks for.

    The error's own text if it is none of the known ones.
    """
    if isinstance(error, TimeoutError):
        return "i/o timeout"
    if isinstance(error, socket.gaierror):
        none = (socket.EAI_NONAME, socket.EAI_NODATA)
        return "no such host" if error.errno in none else "server misbehaving"
    return _ERRORS.get(error.errno or 0, str(error))
