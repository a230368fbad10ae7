"""Real clusters on this machine: how soon they are ready, how much memory they take."""

import time

from bench.agents import real_fleet
from bench.figures import AtMost, Figure
from bench.row import Effort, Row, unprepared
from hanse.local.real.fleet import BROKER, NAMES

MIB = 1024 * 1024


async def _once(_: Effort) -> dict[str, float]:
    began = time.perf_counter()
    async with real_fleet() as fleet:
        ready = time.perf_counter() - began
        memory = {name: size / MIB for name, size in fleet.memory().items()}
        stopping = time.perf_counter()
    return {
        "until three and a broker are ready": ready,
        "memory of a cluster": sum(memory[name] for name in NAMES) / len(NAMES),
        "memory of the broker": memory[BROKER],
        "until all are stopped": time.perf_counter() - stopping,
    }


CLUSTERS = Row(
    name="clusters",
    about="real clusters: three and a broker from nothing to ready; memory, shared pages in parts",
    against="fixed goals",
    figures=(
        Figure("until three and a broker are ready", "s", AtMost(10.0)),
        Figure("memory of a cluster", "MiB", AtMost(400.0)),
        Figure("memory of the broker", "MiB"),
        Figure("until all are stopped", "s"),
    ),
    prepare=unprepared(_once),
)
