"""One etcd cluster over three clusters, whose members find each other by global names alone."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from operator import eq
from pathlib import Path

import pytest

from tests.cli.programs import CommandResult
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
def writing(fleet: NodesFleet, folder: Path) -> Iterator[Path]:
    """Write through all members while the block runs; the file with what was acknowledged."""
    services = [
        fleet.get(cluster, "-n", SPACE, "service", f"store-{cluster}-0") for cluster in CLUSTERS
    ]
    addresses = [one["status"]["loadBalancer"]["ingress"][0]["ip"] for one in services]
    inside = ("nsenter", "--net", "--target", str(fleet.fabric_pid))
    program = Path(__file__).with_name("etcd_writer.py")
    log = folder / "acknowledged"
    with log.open("w") as output:
        process = subprocess.Popen([*inside, sys.executable, program, *addresses], stdout=output)
    try:
        until(lambda: log.stat().st_size, bool)
        yield log
    finally:
        process.terminate()
        process.wait()


def test_no_acknowledged_write_is_lost_by_a_roll_out_a_scale_down_or_a_rebalance(
    fleet: NodesFleet, tmp_path: Path
) -> None:
    until(lambda: _etcdctl(fleet, "lubeck", "put", "ship", "cog"), lambda put: put.status == 0)
    fleet.await_rollout("broker", SPACE, "statefulset/store")
    before = _pods(fleet)

    with writing(fleet, tmp_path) as log:
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

    _check_writes(fleet, "bergen", log)


def _check_writes(fleet: NodesFleet, cluster: str, log: Path) -> None:
    """Check that the member of a cluster has all that was acknowledged."""
    written = [line.split() for line in log.read_text().splitlines()]
    times = [float(at) for _, at in written]
    kept = _etcdctl(fleet, cluster, "get", "n", "--prefix", "--keys-only").out.split()
    gap = max(later - earlier for earlier, later in pairwise(times))
    assert {key for key, _ in written} <= set(kept), f"{len(written)} writes, {gap:.2f} s apart"


def _pods(fleet: NodesFleet) -> dict[str, str]:
    """The pods of all members, with their uids."""
    pods = (fleet.get(cluster, "-n", SPACE, "pods")["items"] for cluster in CLUSTERS)
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for found in pods for pod in found}


def test_a_quorum_survives_the_loss_of_one_cluster(fleet: NodesFleet, tmp_path: Path) -> None:
    until(lambda: _etcdctl(fleet, "lubeck", "put", "ship", "cog"), lambda put: put.status == 0)
    assert _etcdctl(fleet, "bergen", "get", "ship").out == "ship\ncog\n"

    with writing(fleet, tmp_path) as log:
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
    _check_writes(fleet, "hamburg", log)
