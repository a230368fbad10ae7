"""Queries per second over 5,000 names, with EDNS: our server and CoreDNS in one run."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.ports import free_ports

from bench.dns_servers import (
    addresses_in,
    answer_of,
    coredns,
    coredns_command,
    packages,
    program_running,
    queries_per_second,
    serves,
)
from bench.figures import AtLeast, Figure
from bench.names import CLUSTERS, seen_with, served, whole_name
from bench.row import Effort, Once, Row
from bench.served import a_server

SECONDS = 5


@asynccontextmanager
async def _prepared(effort: Effort) -> AsyncIterator[Once]:
    program = await coredns()
    await packages()
    seconds = effort.of(SECONDS, 2)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="hanse-bench-dns-")))
        access = stack.enter_context(a_server())
        addresses = await addresses_in(access)
        queries = folder / "queries"
        queries.write_text("".join(f"{name}. A\n" for name in addresses))
        [port] = free_ports(1)
        command = coredns_command(program, folder, access, port)
        await stack.enter_async_context(program_running(command, folder / "coredns.log"))
        await serves("CoreDNS", port, addresses)
        services = [name.partition(".")[0] for name in addresses]
        rotating = folder / "rotating"
        rotating.write_text("".join(f"{whole_name(name)}. A\n" for name in services))
        own = await stack.enter_async_context(served(seen_with(services)))
        await rotates(own.port, services)

        async def once() -> Mapping[str, float]:
            return {
                "CoreDNS": await queries_per_second(port, queries, seconds),
                "Hanse": await queries_per_second(own.port, rotating, seconds),
            }

        yield once


async def rotates(port: int, services: Sequence[str]) -> None:
    """Make sure that every cluster has its turn."""
    for name in services[:: -(-len(services) // 50)]:
        answers = {await answer_of(whole_name(name), port) for _ in range(12)}
        assert len(answers) == len(CLUSTERS), f"we say {answers} for {name}"


DNS = Row(
    name="dns",
    about="queries per second over 5,000 names, dnsperf with EDNS and twenty sockets; ours rotate",
    against="CoreDNS with its kubernetes plugin",
    figures=(
        Figure("CoreDNS", "queries/s"),
        Figure("Hanse", "queries/s", AtLeast(2.0), against="CoreDNS"),
    ),
    prepare=_prepared,
)
