"""Queries per second over 5,000 names, with EDNS: our server, CoreDNS and Knot in one run."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.ports import free_ports

from bench.dns_servers import (
    NAMES,
    addresses_in,
    answer_of,
    coredns_command,
    knot_command,
    program_running,
    programs,
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
    coredns = await programs()
    seconds = effort.of(SECONDS, 2)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="hanse-bench-dns-")))
        access = stack.enter_context(a_server())
        addresses = await addresses_in(access)
        queries = folder / "queries"
        queries.write_text("".join(f"{name}. A\n" for name in addresses))
        ports = free_ports(2)
        servers = {
            "CoreDNS": (ports[0], coredns_command(coredns, folder, access, ports[0])),
            "Knot": (ports[1], knot_command(folder, addresses, ports[1])),
        }
        for name, (port, command) in servers.items():
            await stack.enter_async_context(program_running(command, folder / f"{name}.log"))
            await serves(name, port, addresses)
        services = [name.partition(".")[0] for name in addresses]
        rotating = folder / "rotating"
        rotating.write_text("".join(f"{whole_name(name)}. A\n" for name in services))
        own = await stack.enter_async_context(served(seen_with(services)))
        await _rotates(own, services)

        async def once() -> Mapping[str, float]:
            found = {
                name: await queries_per_second(port, queries, seconds)
                for name, (port, _) in servers.items()
            }
            ours = await queries_per_second(own, rotating, seconds)
            return {**found, "Hanse": ours, "Hanse beside Knot": ours}

        yield once


async def _rotates(port: int, services: Sequence[str]) -> None:
    """Make sure that every cluster has its turn."""
    for name in services[:: NAMES // 50]:
        answers = {await answer_of(whole_name(name), port) for _ in range(12)}
        assert len(answers) == len(CLUSTERS), f"we say {answers} for {name}"


DNS = Row(
    name="dns",
    about="queries per second over 5,000 names, dnsperf with EDNS and twenty sockets; ours rotate",
    against="CoreDNS with its kubernetes plugin, and Knot with a file",
    figures=(
        Figure("CoreDNS", "queries/s"),
        Figure("Knot", "queries/s"),
        Figure("Hanse", "queries/s", AtLeast(2.0), against="CoreDNS"),
        Figure("Hanse beside Knot", "queries/s", AtLeast(0.75), against="Knot"),
    ),
    prepare=_prepared,
)
