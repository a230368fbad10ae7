"""One etcd cluster with a member in each of three clusters, found by global names alone."""

import pytest

from tests.cli.programs import CommandResult
from tests.nodes.conftest import ETCD_IMAGE
from tests.nodes.fleet import NodesFleet, until
from tests.nodes.manifests import Manifest, namespace

CLUSTERS = ("lubeck", "hamburg", "bergen")
SPACE = "quorum"
ZONE = f"etcd.{SPACE}.myfederation.svc.example.com"


def _submitted() -> tuple[Manifest, ...]:
    """A set with one replica in each cluster, each with a load balancer, and its Service."""
    labels = {"app": "etcd"}
    members = ",".join(f"store-{name}-0=http://store-{name}-0.{ZONE}:2380" for name in CLUSTERS)
    container = {
        "name": "etcd",
        "image": ETCD_IMAGE,
        "args": [
            "--name=$(POD)",
            "--data-dir=/tmp/etcd",
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
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": template,
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


def test_a_quorum_survives_the_loss_of_one_cluster(fleet: NodesFleet) -> None:
    until(lambda: _etcdctl(fleet, "lubeck", "put", "ship", "cog"), lambda put: put.status == 0)
    assert _etcdctl(fleet, "bergen", "get", "ship").out == "ship\ncog\n"

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
