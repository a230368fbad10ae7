"""Deployments, StatefulSets, DaemonSets and Jobs in a whole cluster."""

from typing import Any

import pytest

from tinykube.controllers.controller_manager import Simulation
from tinykube.controllers.kubelet import PodTiming
from tinykube.resources import Object

from .scenario import Cluster, cluster, ready_pods, workload

pytestmark = pytest.mark.anyio


def images(there: Cluster) -> set[str]:
    return {one["spec"]["containers"][0]["image"] for one in there.all("pods")}


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


def is_rolled_out(there: Cluster, name: str = "web", replicas: int = 3) -> bool:
    """As `kubectl rollout status` judges a Deployment."""
    found = there.seen("deployments.apps", name)
    status = found.get("status", {})
    fields = ("updatedReplicas", "replicas", "availableReplicas")
    observed = int(status.get("observedGeneration", 0)) >= found["metadata"]["generation"]
    return observed and all(status.get(field, 0) == replicas for field in fields)


async def test_a_deployment_becomes_ready() -> None:
    async with cluster() as there:
        await there.create(workload("Deployment"))

        await there.until(lambda: is_rolled_out(there))

        found = there.seen("deployments.apps", "web")
        assert condition(found, "Available")["status"] == "True"
        assert condition(found, "Progressing")["reason"] == "NewReplicaSetAvailable"
        assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
        assert {one["spec"]["nodeName"] for one in there.all("pods")} == set(there.names("nodes"))


async def test_a_rollout_replaces_every_pod_and_never_has_too_few() -> None:
    async with cluster() as there:
        await there.create(workload("Deployment", replicas=4))
        await there.until(lambda: is_rolled_out(there, replicas=4))
        fewest = 4

        def count() -> bool:
            nonlocal fewest
            fewest = min(fewest, len(ready_pods(there)))
            return is_rolled_out(there, replicas=4) and images(there) == {"web:2"}

        await there.patch("deployments.apps", "web", image("web:2"))
        await there.until(count)

        assert fewest >= 3
        assert len(there.all("replicasets.apps")) == 2


async def test_undoing_a_rollout_brings_the_first_replica_set_back() -> None:
    async with cluster() as there:
        await there.create(workload("Deployment"))
        await there.until(lambda: is_rolled_out(there))
        (first,) = there.names("replicasets.apps")
        await there.patch("deployments.apps", "web", image("web:2"))
        await there.until(lambda: is_rolled_out(there) and images(there) == {"web:2"})

        await there.patch("deployments.apps", "web", image("web:1"))
        await there.until(lambda: is_rolled_out(there) and images(there) == {"web:1"})

        notes = there.seen("replicasets.apps", first)["metadata"]["annotations"]
        assert notes["deployment.kubernetes.io/revision"] == "3"
        assert len(there.all("replicasets.apps")) == 2


async def test_recreate_never_runs_two_templates_together() -> None:
    async with cluster() as there:
        await there.create(workload("Deployment", strategy={"type": "Recreate"}))
        await there.until(lambda: is_rolled_out(there))
        together = False

        def look() -> bool:
            nonlocal together
            together = together or len(images(there)) > 1
            return is_rolled_out(there) and images(there) == {"web:2"}

        await there.patch("deployments.apps", "web", image("web:2"))
        await there.until(look)

        assert not together


async def test_a_broken_rollout_stops_and_is_overdue_in_the_end() -> None:
    async with cluster() as there:
        await there.create(workload("Deployment", progressDeadlineSeconds=30))
        await there.until(lambda: is_rolled_out(there))

        broken = image("web:2", **{"sim.hanse.dev/phase": "CrashLoop"})
        await there.patch("deployments.apps", "web", broken)
        await there.until(
            lambda: (
                condition(there.seen("deployments.apps", "web"), "Progressing")["reason"]
                == "ProgressDeadlineExceeded"
            )
        )

        assert len(ready_pods(there)) == 3


async def test_scaling_up_and_down_by_the_scale_subresource() -> None:
    async with cluster() as there:
        await there.create(workload("Deployment"))
        await there.until(lambda: is_rolled_out(there))

        await there.patch("deployments.apps", "web", {"spec": {"replicas": 7}}, sub="scale")
        await there.until(lambda: is_rolled_out(there, replicas=7))
        await there.patch("deployments.apps", "web", {"spec": {"replicas": 0}}, sub="scale")
        await there.until(lambda: not there.all("pods"))

        assert len(there.all("replicasets.apps")) == 1


async def test_a_deleted_pod_is_replaced() -> None:
    async with cluster() as there:
        await there.create(workload("Deployment"))
        await there.until(lambda: is_rolled_out(there))
        victim = there.names("pods")[0]

        await there.delete("pods", victim)
        await there.until(lambda: victim not in there.names("pods") and is_rolled_out(there))

        assert len(ready_pods(there)) == 3


async def test_a_failed_pod_is_replaced_and_a_hopeless_template_does_not_spin() -> None:
    async with cluster() as there:
        template = {
            "metadata": {
                "labels": {"app": "web"},
                "annotations": {"sim.hanse.dev/phase": "Failed"},
            },
            "spec": {"containers": [{"name": "web", "image": "web:1"}]},
        }
        await there.create(workload("ReplicaSet", replicas=1, template=template))

        await there.rest(60)

        assert 3 < len(there.all("pods")) < 10


async def test_a_replica_set_adopts_pods_that_it_selects() -> None:
    async with cluster() as there:
        orphan = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "mine", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:1"}]},
        }
        await there.create(orphan)
        await there.create(workload("ReplicaSet", replicas=2))

        await there.until(lambda: len(ready_pods(there)) == 2)

        assert "mine" in there.names("pods")
        owner = there.seen("pods", "mine")["metadata"]["ownerReferences"][0]
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
    async with cluster() as there:
        spec: dict[str, Any] = {"serviceName": "db", "volumeClaimTemplates": CLAIMS}
        await there.create(workload("StatefulSet", "db", **spec))

        await there.until(lambda: len(ready_pods(there)) == 3)

        assert there.names("pods") == ["db-0", "db-1", "db-2"]
        created = [one["metadata"]["resourceVersion"] for one in there.all("pods")]
        assert created == sorted(created, key=int)
        claims = there.all("persistentvolumeclaims")
        assert [one["status"]["phase"] for one in claims] == ["Bound"] * 3
        volumes = there.all("persistentvolumes")
        assert {one["spec"]["volumeName"] for one in claims} == {
            one["metadata"]["name"] for one in volumes
        }


async def test_a_stateful_set_shrinks_from_the_top_and_its_volumes_stay() -> None:
    async with cluster() as there:
        spec: dict[str, Any] = {"serviceName": "db", "volumeClaimTemplates": CLAIMS}
        await there.create(workload("StatefulSet", "db", **spec))
        await there.until(lambda: len(ready_pods(there)) == 3)

        await there.patch("statefulsets.apps", "db", {"spec": {"replicas": 1}})
        await there.until(lambda: len(there.all("pods")) == 1)

        assert there.names("pods") == ["db-0"]
        assert len(there.all("persistentvolumeclaims")) == 3


async def test_claims_go_with_the_scale_if_they_should() -> None:
    async with cluster() as there:
        policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
        spec: dict[str, Any] = {
            "serviceName": "db",
            "volumeClaimTemplates": CLAIMS,
            "persistentVolumeClaimRetentionPolicy": policy,
        }
        await there.create(workload("StatefulSet", "db", **spec))
        await there.until(lambda: len(ready_pods(there)) == 3)

        await there.patch("statefulsets.apps", "db", {"spec": {"replicas": 1}})
        await there.until(lambda: there.names("persistentvolumeclaims") == ["data-db-0"])
        await there.delete("statefulsets.apps", "db")
        await there.until(lambda: not there.all("persistentvolumes"))

        assert there.all("persistentvolumeclaims") == []


async def test_a_stateful_set_is_updated_from_the_top() -> None:
    async with cluster() as there:
        await there.create(workload("StatefulSet", "db", serviceName="db"))
        await there.until(lambda: len(ready_pods(there)) == 3)
        order: list[str] = []

        def look() -> bool:
            for one in there.all("pods"):
                name = one["metadata"]["name"]
                if one["spec"]["containers"][0]["image"] == "web:2" and name not in order:
                    order.append(name)
            status = there.seen("statefulsets.apps", "db")["status"]
            same = status["currentRevision"] == status["updateRevision"]
            return bool(same and status.get("updatedReplicas") == 3)

        await there.patch("statefulsets.apps", "db", image("web:2"))
        await there.until(lambda: look() and len(order) == 3)

        assert order == ["db-2", "db-1", "db-0"]


async def test_a_daemon_set_has_a_pod_on_every_node() -> None:
    async with cluster() as there:
        daemon = workload("DaemonSet", "agent")
        del daemon["spec"]["replicas"]
        await there.create(daemon)
        await there.until(lambda: len(ready_pods(there)) == 3)

        await there.patch("daemonsets.apps", "agent", image("web:2"))
        await there.until(lambda: images(there) == {"web:2"} and len(ready_pods(there)) == 3)

        nodes = {one["spec"]["nodeName"] for one in there.all("pods")}
        assert nodes == set(there.names("nodes"))


async def test_a_job_runs_to_its_end() -> None:
    async with cluster() as there:
        spec = {"containers": [{"name": "work", "image": "work:1"}], "restartPolicy": "Never"}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "once"},
            "spec": {"completions": 3, "parallelism": 2, "template": {"spec": spec}},
        }
        await there.create(job)

        await there.until(
            lambda: there.seen("jobs.batch", "once").get("status", {}).get("completionTime")
        )

        assert there.seen("jobs.batch", "once")["status"]["succeeded"] == 3
        assert len(there.all("pods")) == 3


async def test_events_tell_what_happened() -> None:
    async with cluster() as there:
        await there.create(workload("Deployment"))
        await there.until(lambda: is_rolled_out(there))
        await there.rest()

        told = {(one["involvedObject"]["kind"], one["reason"]) for one in there.all("events")}
        assert told == {
            ("Deployment", "ScalingReplicaSet"),
            ("ReplicaSet", "SuccessfulCreate"),
            ("Pod", "Scheduled"),
            ("Pod", "Started"),
        }


async def test_pods_of_a_node_that_is_deleted_go_to_another() -> None:
    async with cluster() as there:
        await there.create(workload("Deployment"))
        await there.until(lambda: is_rolled_out(there))

        await there.delete("nodes", "lubeck-node-1")
        await there.rest()

        assert len(ready_pods(there)) == 3
        nodes = {one["spec"]["nodeName"] for one in there.all("pods")}
        assert nodes == {"lubeck-node-2", "lubeck-node-3"}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
async def test_a_settled_workload_is_not_written_again(kind: str) -> None:
    async with cluster() as there:
        await there.create(
            workload(kind, serviceName="web") if kind == "StatefulSet" else workload(kind)
        )
        await there.until(lambda: len(ready_pods(there)) == 3)
        await there.rest(30)

        assert await there.rest(3600) == 0


async def test_a_restart_over_a_settled_cluster_writes_nothing() -> None:
    async with cluster() as there:
        await there.create(workload("Deployment"))
        await there.create(workload("StatefulSet", "db", volumeClaimTemplates=CLAIMS))
        await there.create(
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
        await there.until(lambda: len(ready_pods(there)) == 6)
        await there.rest(60)
        snapshot = there.api.storage.snapshot()

    async with cluster(snapshot=snapshot) as again:
        assert await again.rest(60) == 0


async def test_pods_can_start_at_once() -> None:
    at_once = Simulation(pod_timing=PodTiming(start_after=PodTiming().start_after * 0))
    async with cluster(simulation=at_once) as there:
        await there.create(workload("Deployment", replicas=20))

        await there.until(lambda: is_rolled_out(there, replicas=20))

        assert there.api.clock.now().second == 0
