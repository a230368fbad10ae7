"""One etcd cluster over three clusters, whose members find each other by global names alone."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from operator import eq
from pathlib import Path

import msgspec
import pytest

from tests.cli.programs import CommandResult
from tests.nodes import etcd_client
from tests.nodes.conftest import ETCD_IMAGE
from tests.nodes.fleet import NodesFleet, until
from tests.nodes.manifests import Manifest, namespace

CLUSTERS = ("lubeck", "hamburg", "bergen")
MEMBERS = tuple(
    f"store-{place}" for place in ("bergen-0", "bergen-1", "hamburg-0", "lubeck-0", "lubeck-1")
)
"""The members of the etcd cluster, of which four run: any three are a quorum."""
SPACE = "quorum"
ZONE = f"etcd.{SPACE}.myfederation.svc.example.com"
WISHES = "federation.kubernetes.io/statefulset-preferences"
TWO_IN_LUBECK = '{"rebalance": true, "clusters": {"lubeck": {"minReplicas": 2}, "*": {}}}'
HEARTBEAT_MILLISECONDS = 100
ELECTION_MILLISECONDS = 1000
BALLOTS = 3
LONGEST_SECONDS_WITHOUT_READ = (
    BALLOTS * 2 * ELECTION_MILLISECONDS / 1000
    + etcd_client.READ_SECONDS
    + etcd_client.PAUSE_SECONDS
)
"""How long an election may keep all members from reading.

A member asks for votes at most two election timeouts (etcd adds up to one at random) after the last
message of a leader, and again as long after a ballot that nobody won; three members of five have to
agree, so that two ballots may be lost; the client's read of that moment ends at its deadline.
"""


def _submitted() -> tuple[Manifest, ...]:
    """A set with a replica or two in each cluster, each with a load balancer, and its Service."""
    labels = {"app": "etcd"}
    members = ",".join(f"{name}=http://{name}.{ZONE}:2380" for name in MEMBERS)
    container = {
        "name": "etcd",
        "image": ETCD_IMAGE,
        "args": [
            "--name=$(POD)",
            "--data-dir=/data/etcd",
            "--listen-peer-urls=http://0.0.0.0:2380",
            "--listen-client-urls=http://0.0.0.0:2379",
            f"--initial-advertise-peer-urls=http://$(POD).{ZONE}:2380",
            f"--advertise-client-urls=http://$(POD).{ZONE}:2379",
            f"--initial-cluster={members}",
            f"--heartbeat-interval={HEARTBEAT_MILLISECONDS}",
            f"--election-timeout={ELECTION_MILLISECONDS}",
        ],
        "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [
            {"name": "server", "containerPort": 2380},
            {"name": "client", "containerPort": 2379},
        ],
        "readinessProbe": {
            "httpGet": {"path": "/health", "port": 2379},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
        },
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "64Mi"}},
        },
    }
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    replicas = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": "store",
            "annotations": {"federation.kubernetes.io/statefulset-lb-needed": "true"},
        },
        "spec": {
            "serviceName": "etcd",
            "replicas": 4,
            "selector": {"matchLabels": labels},
            "template": template,
            "volumeClaimTemplates": [claim],
        },
    }
    ports = [{"name": "server", "port": 2380}, {"name": "client", "port": 2379}]
    governing = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "etcd"},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": labels,
            "ports": ports,
        },
    }
    return namespace(SPACE), governing, replicas


@pytest.fixture(scope="module")
def fleet(isolated: NodesFleet) -> NodesFleet:
    isolated.apply("broker", SPACE, *_submitted())
    return isolated


def _etcdctl(fleet: NodesFleet, cluster: str, *arguments: str) -> CommandResult:
    inside = ("exec", f"store-{cluster}-0", "--", "/etcdctl", "--command-timeout=3s")
    return fleet.kubectl(cluster, "-n", SPACE, *inside, *arguments)


@contextmanager
def using(fleet: NodesFleet, folder: Path) -> Iterator[Path]:
    """Write and read through members of all clusters while the block runs; the client's log."""
    services = [
        fleet.get(cluster, "-n", SPACE, "service", f"store-{cluster}-0") for cluster in CLUSTERS
    ]
    addresses = [one["status"]["loadBalancer"]["ingress"][0]["ip"] for one in services]
    inside = ("nsenter", "--net", "--target", str(fleet.fabric_pid))
    log = folder / "client.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*inside, sys.executable, etcd_client.__file__, *addresses], stdout=output
        )
    try:
        until(log.read_text, lambda text: "n0 " in text and "read " in text)
        yield log
    finally:
        process.terminate()
        process.wait()
        with log.open("a") as output:
            output.write(f"end {time.monotonic()}\n")


def test_a_roll_out_a_scale_down_and_a_rebalance_lose_no_write_and_pause_reads_for_elections_alone(
    fleet: NodesFleet, tmp_path: Path
) -> None:
    until(lambda: _etcdctl(fleet, "lubeck", "put", "ship", "cog"), lambda put: put.status == 0)
    fleet.await_rollout("broker", SPACE, "statefulset/store")
    before = _pods(fleet)

    with using(fleet, tmp_path) as log:
        fleet.must("broker", "-n", SPACE, "rollout", "restart", "statefulset/store")
        fleet.await_rollout("broker", SPACE, "statefulset/store")
        after = _pods(fleet)
        assert not set(before.values()) & set(after.values()), "every member was replaced"
        for replicas in (3, 4):
            fleet.must("broker", "-n", SPACE, "scale", f"--replicas={replicas}", "sts/store")
            until(lambda: len(_pods(fleet)), partial(eq, replicas))
            fleet.await_rollout("broker", SPACE, "statefulset/store")
        fleet.must("broker", "-n", SPACE, "annotate", "sts/store", f"{WISHES}={TWO_IN_LUBECK}")
        until(lambda: set(_pods(fleet)), partial(eq, {*MEMBERS} - {"store-bergen-1"}))
        fleet.await_rollout("broker", SPACE, "statefulset/store")

    _check(fleet, "bergen", log)


def _check(fleet: NodesFleet, cluster: str, log: Path) -> None:
    """Check that a cluster's member has what was acknowledged, and that elections alone paused."""
    done = [line.split() for line in log.read_text().splitlines()]
    written = {what for what, _ in done if what.startswith("n")}
    kept = _etcdctl(fleet, cluster, "get", "n", "--prefix", "--keys-only").out.split()
    assert written <= set(kept), f"{len(written)} writes"

    reads = [float(at) for what, at in done if what in {"read", "end"}]
    pause = max(later - earlier for earlier, later in pairwise(sorted(reads)))
    assert pause <= LONGEST_SECONDS_WITHOUT_READ, f"{len(reads) - 1} reads"


def _pods(fleet: NodesFleet) -> dict[str, str]:
    """The pods of all members, with their uids."""
    pods = (fleet.get(cluster, "-n", SPACE, "pods")["items"] for cluster in CLUSTERS)
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for found in pods for pod in found}


def _make_leader(fleet: NodesFleet, cluster: str) -> bool:
    """Whether the first member of a cluster leads; if not, its leader is asked to hand over."""
    status = _etcdctl(fleet, cluster, "endpoint", "status", "-w=json")
    if status.status != 0:
        return False
    [seen] = msgspec.json.decode(status.out)
    member = seen["Status"]["header"]["member_id"]
    everyone = ",".join(f"http://{name}.{ZONE}:2379" for name in _pods(fleet))
    if seen["Status"]["leader"] != member:
        _etcdctl(fleet, cluster, "move-leader", f"--endpoints={everyone}", f"{member:x}")
        return False
    return True


def test_a_quorum_survives_the_loss_of_one_cluster(fleet: NodesFleet, tmp_path: Path) -> None:
    until(lambda: _etcdctl(fleet, "lubeck", "put", "ship", "cog"), lambda put: put.status == 0)
    assert _etcdctl(fleet, "bergen", "get", "ship").out == "ship\ncog\n"
    until(lambda: _make_leader(fleet, "hamburg"), bool)  # so that the others have to elect one

    with using(fleet, tmp_path) as log:
        for other in ("lubeck", "bergen"):
            fleet.running.run_hanse("local", "cut", "hamburg", other)
        until(lambda: _etcdctl(fleet, "bergen", "put", "ship", "hulk"), lambda put: put.status == 0)
        alone = _etcdctl(fleet, "hamburg", "put", "ship", "raft")
        fleet.running.run_hanse("local", "heal", "--all")

    assert alone.status != 0
    until(
        lambda: {_etcdctl(fleet, cluster, "get", "ship").out for cluster in CLUSTERS},
        lambda read: read in ({"ship\nhulk\n"}, {"ship\nraft\n"}),  # it may have been kept back
    )
    _check(fleet, "hamburg", log)
