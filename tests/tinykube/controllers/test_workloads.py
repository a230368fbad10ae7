"""Deployments, StatefulSets, DaemonSets and Jobs in a running cluster."""

from typing import Any

import pytest

from tinykube.controllers.controller_manager import Simulation
from tinykube.controllers.kubelet import PodTiming
from tinykube.resources import Object

from .scenario import ClusterClient, ready_pods, run_cluster, workload

pytestmark = pytest.mark.anyio


def images(cluster: ClusterClient) -> set[str]:
    return {one["spec"]["containers"][0]["image"] for one in cluster.all("pods")}


def image(name: str, **annotations: str) -> Object:
    template: dict[str, Any] = {"spec": {"containers": [{"name": "web", "image": name}]}}
    if annotations:
        template["metadata"] = {"annotations": annotations}
    return {"spec": {"template": template}}


def condition(obj: Object, kind: str) -> Object:
    found = [one for one in obj["status"]["conditions"] if one["type"] == kind]
    assert len(found) == 1
    only: Object = found[0]
    return only


def is_rolled_out(cluster: ClusterClient, name: str = "web", replicas: int = 3) -> bool:
    """Whether a rollout is complete, by the rules of `kubectl rollout status`."""
    found = cluster.require("deployments.apps", name)
    status = found.get("status", {})
    fields = ("updatedReplicas", "replicas", "availableReplicas")
    observed = int(status.get("observedGeneration", 0)) >= found["metadata"]["generation"]
    return observed and all(status.get(field, 0) == replicas for field in fields)


async def test_a_deployment_becomes_ready() -> None:
    async with run_cluster() as cluster:
        await cluster.create(workload("Deployment"))

        await cluster.wait_until(lambda: is_rolled_out(cluster))

        found = cluster.require("deployments.apps", "web")
        assert condition(found, "Available")["status"] == "True"
        assert condition(found, "Progressing")["reason"] == "NewReplicaSetAvailable"
        assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
        assert {one["spec"]["nodeName"] for one in cluster.all("pods")} == set(
            cluster.names("nodes")
        )


async def test_a_rollout_replaces_every_pod_and_never_has_too_few() -> None:
    async with run_cluster() as cluster:
        await cluster.create(workload("Deployment", replicas=4))
        await cluster.wait_until(lambda: is_rolled_out(cluster, replicas=4))
        fewest = 4

        def count() -> bool:
            nonlocal fewest
            fewest = min(fewest, len(ready_pods(cluster)))
            return is_rolled_out(cluster, replicas=4) and images(cluster) == {"web:2"}

        await cluster.patch("deployments.apps", "web", image("web:2"))
        await cluster.wait_until(count)

        assert fewest >= 3
        assert len(cluster.all("replicasets.apps")) == 2


async def test_undoing_a_rollout_brings_the_first_replica_set_back() -> None:
    async with run_cluster() as cluster:
        await cluster.create(workload("Deployment"))
        await cluster.wait_until(lambda: is_rolled_out(cluster))
        (first,) = cluster.names("replicasets.apps")
        await cluster.patch("deployments.apps", "web", image("web:2"))
        await cluster.wait_until(lambda: is_rolled_out(cluster) and images(cluster) == {"web:2"})

        await cluster.patch("deployments.apps", "web", image("web:1"))
        await cluster.wait_until(lambda: is_rolled_out(cluster) and images(cluster) == {"web:1"})

        notes = cluster.require("replicasets.apps", first)["metadata"]["annotations"]
        assert notes["deployment.kubernetes.io/revision"] == "3"
        assert len(cluster.all("replicasets.apps")) == 2


async def test_recreate_never_runs_two_templates_together() -> None:
    async with run_cluster() as cluster:
        await cluster.create(workload("Deployment", strategy={"type": "Recreate"}))
        await cluster.wait_until(lambda: is_rolled_out(cluster))
        together = False

        def look() -> bool:
            nonlocal together
            together = together or len(images(cluster)) > 1
            return is_rolled_out(cluster) and images(cluster) == {"web:2"}

        await cluster.patch("deployments.apps", "web", image("web:2"))
        await cluster.wait_until(look)

        assert not together


async def test_a_failing_rollout_stops_and_exceeds_its_deadline() -> None:
    async with run_cluster() as cluster:
        await cluster.create(workload("Deployment", progressDeadlineSeconds=30))
        await cluster.wait_until(lambda: is_rolled_out(cluster))

        broken = image("web:2", **{"sim.hanse.dev/phase": "CrashLoop"})
        await cluster.patch("deployments.apps", "web", broken)
        await cluster.wait_until(
            lambda: (
                condition(cluster.require("deployments.apps", "web"), "Progressing")["reason"]
                == "ProgressDeadlineExceeded"
            )
        )

        assert len(ready_pods(cluster)) == 3


async def test_scaling_up_and_down_by_the_scale_subresource() -> None:
    async with run_cluster() as cluster:
        await cluster.create(workload("Deployment"))
        await cluster.wait_until(lambda: is_rolled_out(cluster))

        await cluster.patch("deployments.apps", "web", {"spec": {"replicas": 7}}, sub="scale")
        await cluster.wait_until(lambda: is_rolled_out(cluster, replicas=7))
        await cluster.patch("deployments.apps", "web", {"spec": {"replicas": 0}}, sub="scale")
        await cluster.wait_until(lambda: not cluster.all("pods"))

        assert len(cluster.all("replicasets.apps")) == 1


async def test_a_deleted_pod_is_replaced() -> None:
    async with run_cluster() as cluster:
        await cluster.create(workload("Deployment"))
        await cluster.wait_until(lambda: is_rolled_out(cluster))
        victim = cluster.names("pods")[0]

        await cluster.delete("pods", victim)
        await cluster.wait_until(
            lambda: victim not in cluster.names("pods") and is_rolled_out(cluster)
        )

        assert len(ready_pods(cluster)) == 3


async def test_failed_pods_are_replaced_with_backoff() -> None:
    async with run_cluster() as cluster:
        template = {
            "metadata": {
                "labels": {"app": "web"},
                "annotations": {"sim.hanse.dev/phase": "Failed"},
            },
            "spec": {"containers": [{"name": "web", "image": "web:1"}]},
        }
        await cluster.create(workload("ReplicaSet", replicas=1, template=template))

        await cluster.writes_during(60)

        assert 3 < len(cluster.all("pods")) < 10


async def test_a_replica_set_adopts_pods_that_it_selects() -> None:
    async with run_cluster() as cluster:
        orphan = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "mine", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:1"}]},
        }
        await cluster.create(orphan)
        await cluster.create(workload("ReplicaSet", replicas=2))

        await cluster.wait_until(lambda: len(ready_pods(cluster)) == 2)

        assert "mine" in cluster.names("pods")
        owner = cluster.require("pods", "mine")["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["controller"]) == ("ReplicaSet", True)


CLAIMS = [
    {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
]


async def test_a_stateful_set_starts_in_order_with_its_volumes() -> None:
    async with run_cluster() as cluster:
        spec: dict[str, Any] = {"serviceName": "db", "volumeClaimTemplates": CLAIMS}
        await cluster.create(workload("StatefulSet", "db", **spec))

        await cluster.wait_until(lambda: len(ready_pods(cluster)) == 3)

        assert cluster.names("pods") == ["db-0", "db-1", "db-2"]
        created = [one["metadata"]["resourceVersion"] for one in cluster.all("pods")]
        assert created == sorted(created, key=int)
        claims = cluster.all("persistentvolumeclaims")
        assert [one["status"]["phase"] for one in claims] == ["Bound"] * 3
        volumes = cluster.all("persistentvolumes")
        assert {one["spec"]["volumeName"] for one in claims} == {
            one["metadata"]["name"] for one in volumes
        }


async def test_a_stateful_set_scales_down_from_the_highest_ordinal_and_keeps_its_claims() -> None:
    async with run_cluster() as cluster:
        spec: dict[str, Any] = {"serviceName": "db", "volumeClaimTemplates": CLAIMS}
        await cluster.create(workload("StatefulSet", "db", **spec))
        await cluster.wait_until(lambda: len(ready_pods(cluster)) == 3)

        await cluster.patch("statefulsets.apps", "db", {"spec": {"replicas": 1}})
        await cluster.wait_until(lambda: len(cluster.all("pods")) == 1)

        assert cluster.names("pods") == ["db-0"]
        assert len(cluster.all("persistentvolumeclaims")) == 3


async def test_claims_are_deleted_on_scale_down_by_the_retention_policy() -> None:
    async with run_cluster() as cluster:
        policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
        spec: dict[str, Any] = {
            "serviceName": "db",
            "volumeClaimTemplates": CLAIMS,
            "persistentVolumeClaimRetentionPolicy": policy,
        }
        await cluster.create(workload("StatefulSet", "db", **spec))
        await cluster.wait_until(lambda: len(ready_pods(cluster)) == 3)

        await cluster.patch("statefulsets.apps", "db", {"spec": {"replicas": 1}})
        await cluster.wait_until(lambda: cluster.names("persistentvolumeclaims") == ["data-db-0"])
        await cluster.delete("statefulsets.apps", "db")
        await cluster.wait_until(lambda: not cluster.all("persistentvolumes"))

        assert cluster.all("persistentvolumeclaims") == []


async def test_a_stateful_set_is_updated_from_the_highest_ordinal() -> None:
    async with run_cluster() as cluster:
        await cluster.create(workload("StatefulSet", "db", serviceName="db"))
        await cluster.wait_until(lambda: len(ready_pods(cluster)) == 3)
        order: list[str] = []

        def look() -> bool:
            for one in cluster.all("pods"):
                name = one["metadata"]["name"]
                if one["spec"]["containers"][0]["image"] == "web:2" and name not in order:
                    order.append(name)
            status = cluster.require("statefulsets.apps", "db")["status"]
            same = status["currentRevision"] == status["updateRevision"]
            return bool(same and status.get("updatedReplicas") == 3)

        await cluster.patch("statefulsets.apps", "db", image("web:2"))
        await cluster.wait_until(lambda: look() and len(order) == 3)

        assert order == ["db-2", "db-1", "db-0"]


async def test_a_daemon_set_has_a_pod_on_every_node() -> None:
    async with run_cluster() as cluster:
        daemon = workload("DaemonSet", "agent")
        del daemon["spec"]["replicas"]
        await cluster.create(daemon)
        await cluster.wait_until(lambda: len(ready_pods(cluster)) == 3)

        await cluster.patch("daemonsets.apps", "agent", image("web:2"))
        await cluster.wait_until(
            lambda: images(cluster) == {"web:2"} and len(ready_pods(cluster)) == 3
        )

        nodes = {one["spec"]["nodeName"] for one in cluster.all("pods")}
        assert nodes == set(cluster.names("nodes"))


async def test_a_job_completes() -> None:
    async with run_cluster() as cluster:
        spec = {"containers": [{"name": "work", "image": "work:1"}], "restartPolicy": "Never"}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "once"},
            "spec": {"completions": 3, "parallelism": 2, "template": {"spec": spec}},
        }
        await cluster.create(job)

        await cluster.wait_until(
            lambda: cluster.require("jobs.batch", "once").get("status", {}).get("completionTime")
        )

        assert cluster.require("jobs.batch", "once")["status"]["succeeded"] == 3
        assert len(cluster.all("pods")) == 3


async def test_events_are_recorded() -> None:
    async with run_cluster() as cluster:
        await cluster.create(workload("Deployment"))
        await cluster.wait_until(lambda: is_rolled_out(cluster))
        await cluster.writes_during()

        recorded = {(one["involvedObject"]["kind"], one["reason"]) for one in cluster.all("events")}
        assert recorded == {
            ("Deployment", "ScalingReplicaSet"),
            ("ReplicaSet", "SuccessfulCreate"),
            ("Pod", "Scheduled"),
            ("Pod", "Started"),
        }


async def test_pods_of_a_deleted_node_are_recreated_on_another() -> None:
    async with run_cluster() as cluster:
        await cluster.create(workload("Deployment"))
        await cluster.wait_until(lambda: is_rolled_out(cluster))

        await cluster.delete("nodes", "lubeck-node-1")
        await cluster.writes_during()

        assert len(ready_pods(cluster)) == 3
        nodes = {one["spec"]["nodeName"] for one in cluster.all("pods")}
        assert nodes == {"lubeck-node-2", "lubeck-node-3"}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
async def test_a_settled_workload_is_not_written_again(kind: str) -> None:
    async with run_cluster() as cluster:
        await cluster.create(
            workload(kind, serviceName="web") if kind == "StatefulSet" else workload(kind)
        )
        await cluster.wait_until(lambda: len(ready_pods(cluster)) == 3)
        await cluster.writes_during(30)

        assert await cluster.writes_during(3600) == 0


async def test_a_restart_over_a_settled_cluster_writes_nothing() -> None:
    async with run_cluster() as cluster:
        await cluster.create(workload("Deployment"))
        await cluster.create(workload("StatefulSet", "db", volumeClaimTemplates=CLAIMS))
        await cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "web"},
                "spec": {
                    "type": "LoadBalancer",
                    "selector": {"app": "web"},
                    "ports": [{"port": 80}],
                },
            }
        )
        await cluster.wait_until(lambda: len(ready_pods(cluster)) == 6)
        await cluster.writes_during(60)
        snapshot = cluster.api.storage.snapshot()

    async with run_cluster(snapshot=snapshot) as again:
        assert await again.writes_during(60) == 0


async def test_pods_can_start_at_once() -> None:
    at_once = Simulation(pod_timing=PodTiming(start_after=PodTiming().start_after * 0))
    async with run_cluster(simulation=at_once) as cluster:
        await cluster.create(workload("Deployment", replicas=20))

        await cluster.wait_until(lambda: is_rolled_out(cluster, replicas=20))

        assert cluster.api.clock.now().second == 0
