"""A real CoreDNS on loopback, and the differences between its answers and this server's."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import dns.asyncquery
import dns.exception
import dns.message
import pytest
from msgspec import Struct

from hanse.local.real.binaries import cache_folder, find_programs
from hanse.local.real.errors import ProgramMissing
from hanse.local.real.programs import COREDNS_SERVER
from tests.dns.builders import DnsAnswer, parse_answer
from tests.support.ports import free_ports

PATIENCE = 20.0


async def ask(
    port: int, name: str, rtype: str, *, tcp: bool = False, patience: float = PATIENCE
) -> DnsAnswer:
    query = dns.message.make_query(name, rtype)
    by = dns.asyncquery.tcp if tcp else dns.asyncquery.udp
    return parse_answer(await by(query, "127.0.0.1", port=port, timeout=patience))


@asynccontextmanager
async def coredns(blocks: str, folder: Path) -> AsyncIterator[int]:
    """CoreDNS with these server blocks, `PORT` in them replaced; gives the port."""
    try:
        program = (await find_programs((COREDNS_SERVER,), cache_folder()))[COREDNS_SERVER.name]
    except ProgramMissing as missing:
        pytest.skip(str(missing))
    [port] = free_ports(1)
    corefile = folder / "Corefile"
    corefile.write_text(blocks.replace("PORT", str(port)))
    with (folder / "coredns.log").open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            str(program), "-conf", str(corefile), stdout=output, stderr=output
        )
    try:
        yield port
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def until_served(port: int, name: str, rtype: str = "A") -> None:
    """Wait until a name has an answer."""
    answer: DnsAnswer | None = None
    for _ in range(200):
        try:
            answer = await ask(port, name, rtype, patience=0.5)  # it may not listen yet
        except (dns.exception.DNSException, OSError):
            answer = None
        if answer is not None and answer.records:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{name} is still answered with {answer}")


class Difference(Struct, frozen=True):
    """One question to which CoreDNS says something else."""

    name: str
    rtype: str
    ours: str
    theirs: str


def in_words(answer: DnsAnswer, rtype: str) -> str:
    """An answer as far as both have to agree: SRV by port and target, its weight is a choice."""
    records = answer.records
    if rtype == "SRV":
        records = tuple(sorted(" ".join(record.split()[2:]) for record in records))
    return " ".join((answer.code, *records))


async def differences(
    ours: int, theirs: int, questions: Iterable[tuple[str, str]]
) -> list[Difference]:
    """Where the two do not say the same."""
    found: list[Difference] = []
    for name, rtype in questions:
        us = in_words(await ask(ours, name, rtype), rtype)
        them = in_words(await ask(theirs, name, rtype), rtype)
        if us != them:
            found.append(Difference(name, rtype, us, them))
    return found
