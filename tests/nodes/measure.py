"""Figures of packets: `python -m tests.nodes.measure`, as root on Linux, with three clusters.

How long until they are ready, from an export to the first connection in another cluster, how long a
dead pod and a dead cluster still get connections, and how many connections are lost while an API
server is away or while an agent restarts.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from hanse.local.up.control import Cut, HealAll
from tests.nodes.fleet import NodesFleet, leases_of
from tests.nodes.manifests import export, service, workload
from tests.nodes.starting import CLUSTERS, starting
from tests.nodes.steady_client import steady_client

HERE, THERE = "lubeck", "hamburg"
SPACE = "measured"
SERVICES = 10
EVERY_MILLISECONDS = 20
LEASE_SECONDS = 6


class Connection(Struct, frozen=True):
    """One connection of a client: when it began and ended, in milliseconds, and what came of it."""

    began: int
    ended: int
    outcome: str

    @property
    def failed(self) -> bool:
        return self.outcome.startswith("error")


def main() -> None:
    """Measure on a fleet of its own, and print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        options = ("--no-sample", "--profile", "kep-1645")
        with starting(Path(folder), "flat", *options, names=(*CLUSTERS, "bergen")) as fleet:
            _print("three clusters and the broker ready", f"{time.monotonic() - began:.1f} s")
            fleet.create_namespace(SPACE)
            _measure_exports(fleet)
            _measure_dead_pod(fleet)
            _measure_dead_cluster(fleet)
            _measure_outage(fleet)
            _measure_restart(fleet)


def _measure_exports(fleet: NodesFleet) -> None:
    """From the export, of a Service whose pod is ready, to the first connection elsewhere."""
    names = [f"service-{number}" for number in range(SERVICES)]
    for name in names:
        fleet.apply(THERE, SPACE, workload("Deployment", THERE, name), service(name))
    for name in names:
        fleet.await_rollout(THERE, SPACE, f"deployment/{name}")
    delays = sorted(_export_delay(fleet, name) for name in names)
    middle = statistics.median(delays)
    _print("export to first connection", f"median {middle} ms, slowest {delays[-1]} ms")


def _export_delay(fleet: NodesFleet, name: str) -> int:
    created = 0

    def create() -> None:
        nonlocal created
        fleet.apply(THERE, SPACE, export(name))
        created = _now()

    connections = _dial_during(fleet, name, 8, create)
    first = next(one for one in connections if not one.failed)
    return first.ended - created


def _measure_dead_pod(fleet: NodesFleet) -> None:
    """From the removal of a pod, without grace, to the last connection that failed."""
    for cluster in (HERE, THERE):
        fleet.apply(cluster, SPACE, workload("Deployment", cluster), service(), export())
        fleet.await_rollout(cluster, SPACE, "deployment/web")
    fleet.await_answers(HERE, SPACE, f"http://{_host('web')}", {HERE, THERE}, 24)
    removed = 0

    def remove() -> None:
        nonlocal removed
        removed = _now()
        fleet.must(THERE, "-n", SPACE, "scale", "deployment/web", "--replicas=0")

    failed = [one for one in _dial_during(fleet, "web", 8, remove) if one.failed]
    last = max((one.began - removed for one in failed), default=0)
    _print("scaled to zero to last failed connection", f"{last} ms, {len(failed)} failed")


def _measure_dead_cluster(fleet: NodesFleet) -> None:
    """From the death of a cluster to the last connection that failed, with a Lease of 6 s."""
    fleet.must(THERE, "-n", SPACE, "scale", "deployment/web", "--replicas=1")
    fleet.await_answers(HERE, SPACE, f"http://{_host('web')}", {HERE, THERE}, 24)
    [address] = fleet.lookup(HERE, SPACE, _host("web"))
    with leases_of(fleet, LEASE_SECONDS):
        with steady_client(fleet.client_pid(HERE, SPACE), address, 81) as client:
            time.sleep(2)
            died = time.time()
            fleet.inject(Cut(HERE, THERE), Cut(THERE, "broker"))
            time.sleep(2 * LEASE_SECONDS)
        fleet.inject(HealAll())
    lost = [request.began - died for request in client.punctual_requests() if request.failed]
    last = max(lost, default=0.0)
    _print(
        f"death of a cluster with a Lease of {LEASE_SECONDS} s to the last lost connection",
        f"{last:.1f} s, {len(lost)} of {len(client.requests)} lost",
    )
    fleet.await_answers(HERE, SPACE, f"http://{_host('web')}", {HERE, THERE}, 24)


def _measure_outage(fleet: NodesFleet) -> None:
    """Connections over an API server's death and return, at which its agent connects anew."""

    def restart() -> None:
        for command in ("kill", "start"):
            fleet.running.run_hanse("local", command, HERE)

    connections = _dial_during(fleet, "web", 15, restart)
    failed = sum(one.failed for one in connections)
    _print("API server away and back", f"{failed} of {len(connections)} connections lost")


def _measure_restart(fleet: NodesFleet) -> None:
    """Connections while the agents of both clusters stop and start."""

    def restart() -> None:
        for command in ("stop", "start"):
            for cluster in (HERE, THERE):
                fleet.running.run_hanse("local", command, "agent", cluster)

    connections = _dial_during(fleet, "web", 15, restart)
    failed = sum(one.failed for one in connections)
    _print("agents stopped and started", f"{failed} of {len(connections)} connections lost")


def _dial_during(
    fleet: NodesFleet, name: str, seconds: int, act: Callable[[], None]
) -> list[Connection]:
    """Dial all the time from a pod of one cluster, and act after a second.

    The time-out is shorter than a second: then a packet that was dropped would be sent again.
    """
    count = seconds * 1000 // EVERY_MILLISECONDS
    options = ("-n", str(count), "-every", f"{EVERY_MILLISECONDS}ms", "-timeout", "200ms")
    target = f"http://{_host(name)}"
    with fleet.running_netcheck(HERE, SPACE, "http", *options, target) as dialling:
        time.sleep(1)
        act()
        output, _ = dialling.communicate()
    lines = (line.split(" ", 2) for line in output.splitlines())
    return [Connection(int(began), int(ended), outcome) for began, ended, outcome in lines]


def _host(name: str) -> str:
    return f"{name}.{SPACE}.svc.clusterset.local"


def _now() -> int:
    return time.time_ns() // 1_000_000


def _print(what: str, figure: str) -> None:
    sys.stdout.write(f"{what}: {figure}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
