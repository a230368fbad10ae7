"""One agent as a process: its restart over much that stands, and what it takes to do much."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial

from bench.agents import agent_process, agents_of, real_fleet
from bench.bare_client import WORK, Write, clear, create, write_all
from bench.figures import AtMost, Figure
from bench.measured_load import measure_agents
from bench.object_waiter import object_waiters
from bench.row import Effort, Once, Row
from bench.rows.throughput import load_of
from bench.services_load import LEFT, imported, looks, prepare
from hanse.features.services.records import ExportRecord
from hanse.features.services.slices import ExportBackends, build_published_slices
from hanse.local.real.fleet import BROKER, NAMES
from hanse.model.kinds.multicluster import ImportedPort
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import to_wire

SERVICES = 600
HERE, ELSEWHERE = NAMES[0], "visby"
"""The agent's cluster, and one that exports everything and has no agent here."""


@asynccontextmanager
async def _imported(imports: int, effort: Effort) -> AsyncIterator[Once]:
    names = [f"service-{number}" for number in range(effort.of(imports, 300))]
    async with real_fleet((HERE,)) as fleet:
        transports = {name: fleet.clusters[name].connect() for name in (HERE, BROKER)}
        try:
            await prepare(transports, ())
            async with (
                object_waiters(transports, looks(1)) as seen,
                agent_process(HERE, fleet.kubeconfig) as first,
            ):
                await write_all(transports, [_alive(), *map(_published, names)])
                for cluster in transports:
                    await seen[cluster].until(imported(names, [ELSEWHERE]))
                await first.quiet()

            async def once() -> Mapping[str, float]:
                async with agent_process(HERE, fleet.kubeconfig) as agent:
                    counters = await agent.quiet()
                assert counters.objects >= 4 * len(names), "it has read them all"
                return {
                    "writes": float(counters.sent),
                    "renewals of Leases": float(counters.leases),
                    "until everything is read": agent.synced_after,
                    "until everything is planned": agent.settled_after,
                    "CPU": counters.cpu,
                    "memory": counters.most_resident,
                }

            yield once
        finally:
            for way in transports.values():
                await way.close()


def _alive() -> Write:
    """The Lease of the cluster that exports everything: what a silent one publishes is not new."""
    spec = {
        "holderIdentity": ELSEWHERE,
        "leaseDurationSeconds": 3_600,
        "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    meta = {"name": ELSEWHERE, "namespace": BROKER_NAMESPACE}
    return create(BROKER, {**head, "metadata": meta, "spec": spec})


def _published(name: str) -> Write:
    """What the agent of another cluster would publish of one Service."""
    record = ExportRecord(
        cluster=ELSEWHERE,
        namespace=WORK,
        name=name,
        exported_at=datetime(2026, 1, 1, tzinfo=UTC),
        type="ClusterSetIP",
        ports=(ImportedPort(port=80, name="http"),),
        ip_families=("IPv4",),
    )
    backing = ExportBackends(addresses=("10.96.0.10",))
    (piece,) = build_published_slices(record, backing, BROKER_NAMESPACE, as_pods=False)
    return create(BROKER, to_wire(piece))


@asynccontextmanager
async def _at_work(effort: Effort) -> AsyncIterator[Once]:
    names = [f"service-{number}" for number in range(effort.of(SERVICES, 100))]
    async with real_fleet() as fleet:
        transports = {name: cluster.connect() for name, cluster in fleet.clusters.items()}
        try:
            await prepare(transports, names)

            async def once() -> Mapping[str, float]:
                async with agents_of(fleet, NAMES) as agents:
                    await measure_agents(agents, transports, load_of(names), time.process_time)
                    counters = [await agent.quiet() for agent in agents]
                await clear(transports, LEFT)
                return {
                    "most memory": max(one.most_resident for one in counters),
                    "CPU": max(one.cpu for one in counters),
                }

            yield once
        finally:
            for way in transports.values():
                await way.close()


def _restart(name: str, imports: int, seconds: float) -> Row:
    return Row(
        name=name,
        about=f"an agent's restart over {imports:,} imports in a real cluster until all is planned",
        against="fixed goals",
        figures=(
            Figure("writes", "", AtMost(0)),
            Figure("renewals of Leases", ""),
            Figure("until everything is read", "s"),
            Figure("until everything is planned", "s", AtMost(seconds)),
            Figure("CPU", "s"),
            Figure("memory", "MiB"),
        ),
        prepare=partial(_imported, imports),
    )


RESTART = _restart("restart", 5_000, 2.0)
RESTART_MANY = _restart("restart-many", 20_000, 8.0)

FOOTPRINT = Row(
    name="footprint",
    about="the agents of three real clusters that export 600 Services each: the largest",
    against="fixed goals; a peer's agent in Go took 170 to 236 MiB and 29 to 39 s CPU",
    figures=(Figure("most memory", "MiB", AtMost(60)), Figure("CPU", "s", AtMost(6.0))),
    prepare=_at_work,
)
