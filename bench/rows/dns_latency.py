"""How long answers take at half of what CoreDNS can do: CoreDNS and we, asked the same."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.ports import free_ports

from bench.dns_servers import (
    addresses_in,
    coredns,
    coredns_command,
    latencies,
    p99,
    packages,
    program_running,
    queries_per_second,
    serves,
)
from bench.figures import AtMost, Figure
from bench.names import seen_with, served, whole_name
from bench.row import Effort, Once, Row
from bench.served import a_server

SECONDS = 4


@asynccontextmanager
async def _prepared(effort: Effort) -> AsyncIterator[Once]:
    program = await coredns()
    await packages()
    seconds = effort.of(SECONDS, 1)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="hanse-bench-dns-")))
        access = stack.enter_context(a_server())
        addresses = await addresses_in(access)
        theirs, ours = folder / "theirs", folder / "ours"
        theirs.write_text("".join(f"{name}. A\n" for name in addresses))
        services = [name.partition(".")[0] for name in addresses]
        ours.write_text("".join(f"{whole_name(name)}. A\n" for name in services))
        [port] = free_ports(1)
        command = coredns_command(program, folder, access, port)
        await stack.enter_async_context(program_running(command, folder / "coredns.log"))
        await serves("CoreDNS", port, addresses)
        own = await stack.enter_async_context(served(seen_with(services)))
        most = await queries_per_second(port, theirs, seconds)

        async def once() -> Mapping[str, float]:
            rate = int(most / 2)
            return {
                "rate": rate,
                "CoreDNS p99": p99(await latencies(port, theirs, seconds, rate)),
                "Hanse p99": p99(await latencies(own.port, ours, seconds, rate)),
            }

        yield once


DNS_LATENCY = Row(
    name="dns-latency",
    about="p99 of answers at half of CoreDNS's most queries per second; ours rotate",
    against="CoreDNS with its kubernetes plugin",
    figures=(
        Figure("rate", "queries/s"),
        Figure("CoreDNS p99", "ms"),
        Figure("Hanse p99", "ms", AtMost(1.0), against="CoreDNS p99"),
    ),
    prepare=_prepared,
)
