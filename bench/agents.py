"""Agents as processes of their own, and the real clusters that they work on."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.agent import AgentCounters
from bench.processes import as_installed
from bench.row import Skip
from hanse.local.real.binaries import cache_folder, find_programs
from hanse.local.real.errors import ProgramMissing
from hanse.local.real.fleet import NAMES, RealFleet
from hanse.local.real.programs import CLUSTER

_LONGEST_LINE = 16 * 1024 * 1024


class AgentProcess:
    """One agent, and how long it took from nothing to having read and to having done everything."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.synced_after = 0.0
        self.settled_after = 0.0
        self._process = process
        self._began = time.perf_counter()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def started(self) -> None:
        """Wait until it has nothing left to do."""
        await self._hear("synced")
        self.synced_after = time.perf_counter() - self._began
        await self._hear("settled")
        self.settled_after = time.perf_counter() - self._began

    async def ask(self) -> AgentCounters:
        """What it has done so far."""
        self.tell("tell")
        return msgspec.json.decode(await self._line(), type=AgentCounters)

    async def seen(self) -> dict[str, float]:
        """When it first had each address in an imported slice; of `bench.embedded_agent`."""
        self.tell("seen")
        return msgspec.json.decode(await self._line(), type=dict[str, float])

    def tell(self, line: str) -> None:
        """Send it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    async def quiet(self) -> AgentCounters:
        """What it has done, once it does nothing more."""
        while not (report := await self.ask()).quiet:  # noqa: ASYNC110 - it tells when asked
            await asyncio.sleep(0.05)
        return report

    async def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    async def _hear(self, word: str) -> None:
        line = await self._line()
        assert line.strip() == word.encode(), f"the agent said {line!r}, not {word}"

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line, f"the agent ended with {await self._process.wait()}"
        return line


@asynccontextmanager
async def agent_process(
    cluster: str, kubeconfig: Path, *arguments: str, module: str = "bench.agent"
) -> AsyncIterator[AgentProcess]:
    """An agent of a cluster, started and with nothing left to do, until the block ends."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, cluster, str(kubeconfig), *arguments),
        cwd=Path(__file__).parent.parent,
        env=as_installed(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_LONGEST_LINE,
    )
    agent = AgentProcess(process)
    try:
        await agent.started()
        yield agent
    finally:
        await agent.stop()


@asynccontextmanager
async def agents_of(fleet: RealFleet, names: Iterable[str]) -> AsyncIterator[list[AgentProcess]]:
    """An agent for each cluster, all with nothing left to do."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(agent_process(name, fleet.kubeconfig)) for name in names
        ]


@asynccontextmanager
async def real_fleet(names: Sequence[str] = NAMES) -> AsyncIterator[RealFleet]:
    """Real clusters and a broker, until the block ends; skips where they are not built."""
    try:
        binaries = await find_programs(CLUSTER, cache_folder())
    except ProgramMissing as missing:
        raise Skip(str(missing)) from None
    with TemporaryDirectory(prefix="hanse-bench-") as folder:
        async with RealFleet(Path(folder), binaries, names) as fleet:
            yield fleet
