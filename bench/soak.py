"""A long run on real clusters with churn: does anything grow that should not?

    python -m bench.soak --minutes 60 --page docs/soak.md

Three agents import what three clusters export, while exports come and go, endpoints change and API
servers restart. Each minute what they use is read; at the end the second half is compared with the
first quarter of it: memory, descriptors, connections, Events and the objects of the broker.
"""

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import msgspec
from msgspec import Struct

from bench.agents import AgentProcess, agents_of, real_fleet
from bench.bare_client import WORK, base_of
from bench.processes import resident, seconds_of
from bench.services_load import exports, prepare
from hanse.kube.errors import KubeError
from hanse.kube.transport import MERGE_PATCH, Request, Transport
from hanse.local.real.fleet import BROKER, NAMES, RealFleet
from hanse.local.real.programs import API_SERVER
from hanse.model.naming import BROKER_NAMESPACE

SERVICES = tuple(f"service-{number}" for number in range(100))
CHANGES_PER_SECOND = 4
RESTART_EVERY = 300.0
"""Seconds between restarts of API servers, one after the other."""

GROWTH = 1.1
"""What may be more at the end than in the middle: allocators and caches breathe."""

FLAT = ("memory", "descriptors", "connections", "events", "records")
"""Figures that may not grow once the fleet has warmed up."""


class Sample(Struct, frozen=True):
    """What was in use at one moment: the largest agent, and the broker."""

    minute: float
    memory: float
    """MiB of the agent that has most."""
    descriptors: float
    connections: float
    cpu: float
    """Seconds that all agents have used since the last sample, each second of the run."""
    events: float
    """Events that stand in all clusters."""
    records: float
    """EndpointSlices on the broker."""
    etcd: float
    """MiB of the broker's etcd, with what it has not compacted."""


class Churn:
    """Exports that come and go, and endpoints that change."""

    def __init__(self, transports: Mapping[str, Transport]) -> None:
        self._transports = transports
        self._random = Random(1)
        self.changes = 0

    async def run(self) -> None:
        """Change something a few times a second; a server that restarts refuses."""
        while True:
            try:
                await self._change(self._random.choice(NAMES), self._random.choice(SERVICES))
                self.changes += 1
            except KubeError:
                pass
            await asyncio.sleep(1 / CHANGES_PER_SECOND)

    async def _change(self, cluster: str, name: str) -> None:
        transport = self._transports[cluster]
        match self._random.choice(("export", "unexport", "endpoints", "endpoints")):
            case "export":
                await transport.send(exports(cluster, [name])[0].request)
            case "unexport":
                base = base_of("multicluster.x-k8s.io/v1alpha1", WORK)
                await transport.send(Request("DELETE", f"{base}/serviceexports/{name}"))
            case _:
                base = base_of("discovery.k8s.io/v1", WORK)
                address = f"10.20.{NAMES.index(cluster)}.{self._random.randrange(1, 250)}"
                endpoints = [{"addresses": [address], "conditions": {"ready": True}}]
                body = msgspec.json.encode({"endpoints": endpoints})
                path = f"{base}/endpointslices/{name}"
                await transport.send(Request("PATCH", path, body=body, content_type=MERGE_PATCH))


async def restart_servers(fleet: RealFleet) -> None:
    """Restart one API server after the other, without end."""
    while True:
        for name in (*NAMES, BROKER):
            await asyncio.sleep(RESTART_EVERY)
            cluster = fleet.clusters[name]
            await cluster.servers[API_SERVER.name].stop()
            await cluster.start_server(API_SERVER.name)


class Meter:
    """Reads what agents and clusters use."""

    def __init__(
        self, fleet: RealFleet, transports: Mapping[str, Transport], agents: Sequence[AgentProcess]
    ) -> None:
        self._fleet = fleet
        self._transports = transports
        self._agents = [agent.pid for agent in agents]
        self._began = time.monotonic()
        self._last = (self._began, self._cpu())

    async def sample(self) -> Sample:
        """What is in use now; raises `KubeError` while a server is away."""
        now, cpu = time.monotonic(), self._cpu()
        (last, before), self._last = self._last, (now, cpu)
        return Sample(
            minute=(now - self._began) / 60,
            memory=max(map(resident, self._agents)),
            descriptors=max(len(_descriptors(pid)) for pid in self._agents),
            connections=max(
                sum(target.startswith("socket:") for target in _descriptors(pid))
                for pid in self._agents
            ),
            cpu=(cpu - before) / max(now - last, 1),
            events=sum([await self._count(c, "/api/v1/events") for c in NAMES]),
            records=await self._count(
                BROKER, f"{base_of('discovery.k8s.io/v1', BROKER_NAMESPACE)}/endpointslices"
            ),
            etcd=self._etcd_size(),
        )

    def _cpu(self) -> float:
        return sum(map(seconds_of, self._agents))

    async def _count(self, cluster: str, path: str) -> int:
        answer = await self._transports[cluster].send(Request("GET", path, (("limit", "1"),)))
        listed = msgspec.json.decode(answer.body)
        return len(listed["items"]) + int(listed["metadata"].get("remainingItemCount", 0))

    def _etcd_size(self) -> float:
        database = self._fleet.clusters[BROKER].config.directory / "etcd" / "member" / "snap" / "db"
        return database.stat().st_size / 2**20


def _descriptors(pid: int) -> list[str]:
    """What the descriptors of a process refer to."""
    found = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(str(descriptor.readlink()))
        except FileNotFoundError:
            continue  # closed meanwhile
    return found


def grown(samples: Sequence[Sample]) -> list[str]:
    """The figures that are higher in the last quarter than in the third, by more than breathing."""
    quarter = max(len(samples) // 4, 1)
    middle, end = samples[-2 * quarter : -quarter], samples[-quarter:]
    return [
        figure for figure in FLAT if _median(end, figure) > GROWTH * max(_median(middle, figure), 1)
    ]


def _median(samples: Sequence[Sample], figure: str) -> float:
    return statistics.median(getattr(sample, figure) for sample in samples) if samples else 0.0


def report(samples: Sequence[Sample], changes: int) -> str:
    """The page: the machine, the samples, and what grew."""
    figures = Sample.__struct_fields__
    step = max(len(samples) // 12, 1)
    shown = [*samples[:-1:step], samples[-1]]
    setting = (
        f"`make soak`, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores: three agents with "
        f"every feature on real clusters for {samples[-1].minute:.0f} minutes, {len(SERVICES)} "
        f"Services in each, {changes} changes, an API server restarted every "
        f"{RESTART_EVERY / 60:.0f} minutes. Memory (MiB), descriptors and connections are of the "
        "agent that has most; cpu is of all three, in cores; etcd is the broker's, in MiB."
    )
    lines = [
        "# Soak",
        "",
        setting,
        "",
        f"| {' | '.join(figures)} |",
        f"|{'---|' * len(figures)}",
        *(
            f"| {' | '.join(f'{getattr(sample, figure):.4g}' for figure in figures)} |"
            for sample in shown
        ),
        "",
    ]
    growing = grown(samples)
    verdict = f"Grows: {', '.join(growing)}." if growing else "Nothing grows."
    return "\n".join([*lines, verdict, ""])


@asynccontextmanager
async def _transports(fleet: RealFleet) -> AsyncIterator[dict[str, Transport]]:
    opened = {name: fleet.clusters[name].connect() for name in (*NAMES, BROKER)}
    try:
        yield opened
    finally:
        for transport in opened.values():
            await transport.close()


async def soak(minutes: float) -> tuple[list[Sample], int]:
    """Samples of a run, about a hundred or one a minute, and how much was changed."""
    interval = min(60.0, minutes * 60 / 20)
    samples: list[Sample] = []
    async with real_fleet() as fleet, _transports(fleet) as transports:
        await prepare(transports, SERVICES)
        async with agents_of(fleet, NAMES) as agents, asyncio.TaskGroup() as group:
            churn, meter = Churn(transports), Meter(fleet, transports, agents)
            running = [
                group.create_task(churn.run(), name="churn"),
                group.create_task(restart_servers(fleet), name="restarts"),
            ]
            end = time.monotonic() + minutes * 60
            while time.monotonic() < end:
                await asyncio.sleep(interval)
                try:
                    samples.append(await meter.sample())
                except KubeError:
                    continue  # a server restarts
                sys.stderr.write(f"{samples[-1]}\n")
            for task in running:
                task.cancel()
    return samples, churn.changes


def main() -> int:
    """The exit status: 1 if something grows."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--page", type=Path, help="write the results there")
    options = parser.parse_args()
    samples, changes = asyncio.run(soak(options.minutes))
    text = report(samples, changes)
    sys.stdout.write(text)
    if options.page:
        options.page.write_text(text)
    return int(bool(grown(samples)))


if __name__ == "__main__":
    sys.exit(main())
