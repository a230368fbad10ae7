"""The guard of a node: what a pod costs among 20,000 in 1,000 networks, and what that weighs."""

import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from bench.figures import AtMost, Figure
from bench.row import Effort, Row, Skip, unprepared
from hanse.features.networks.guard.facts import AddressOwner, ClusterFacts, NetworkFacts
from hanse.features.networks.guard.ruleset import TABLE, build_ruleset
from hanse.features.networks.guard.transaction import move_addresses, replacement
from hanse.features.networks.names import NetworkName
from hanse.providers.nftables import Nftables

NETWORKS, PODS, UPDATES = 1_000, 20_000, 200


async def _once(effort: Effort) -> Mapping[str, float]:
    """Measure in a process and a network namespace of its own."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        raise Skip("needs root and unshare, to change rules in a network namespace of its own")
    size = (effort.of(NETWORKS, 50), effort.of(PODS, 500), effort.of(UPDATES, 20))
    program = f"from bench.rows.guard import measure; measure{size!r}"
    process = await asyncio.create_subprocess_exec(
        *("unshare", "--net", sys.executable, "-c", program),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, "the rules could not be written"
    found: dict[str, float] = json.loads(output)
    return found


def measure(networks: int, pods: int, updates: int) -> None:
    """Write the rules of so many pods, add one after the other, and print what it took."""
    names = [NetworkName(f"tenant-{number}") for number in range(networks)]
    facts = ClusterFacts(
        tuple(NetworkFacts(name) for name in names), inside=("10.0.0.0/8",), local_pods=()
    )
    owners = {
        f"10.{4 + n // 65536}.{n // 256 % 256}.{n % 256}": AddressOwner("web", names[n % networks])
        for n in range(pods)
    }
    rules, ruleset = Nftables(), build_ruleset(facts, owners)
    rules.run(replacement(ruleset))
    took, started = [], time.process_time()
    for number in range(updates):
        owner = AddressOwner("web", names[number % networks])
        began = time.perf_counter()
        rules.change(TABLE, move_addresses(ruleset, {f"10.99.0.{number}": owner}))
        took.append(time.perf_counter() - began)
    cpu = (time.process_time() - started) / updates
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    figures = {
        "one pod more": sorted(took)[updates // 2] * 1e3,
        "CPU of one pod more": cpu * 1e3,
        "memory": resident / 2**20,
    }
    sys.stdout.write(json.dumps(figures))


GUARD = Row(
    name="guard",
    about="the rules of a node with 20,000 pods in 1,000 networks: one pod more, and the memory of "
    "the process beside what it watches",
    against="fixed goals",
    figures=(
        Figure("one pod more", "ms", AtMost(5)),
        Figure("CPU of one pod more", "ms", AtMost(5)),
        Figure("memory", "MiB", AtMost(60)),
    ),
    prepare=unprepared(_once),
)
