"""Workloads converge to their specs after random changes and faults, and then nothing writes."""

from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tinykube.virtual_time import run

from .scenario import ClusterClient, ready_pods, run_cluster, workload
from .test_garbagecollector import namespace

Action = Callable[[ClusterClient], Awaitable[Any]]
KINDS = {"Deployment": "deployments.apps", "StatefulSet": "statefulsets.apps"}


def scale(kind: str, replicas: int) -> Action:
    body = {"spec": {"replicas": replicas}}
    return lambda cluster: cluster.patch(KINDS[kind], kind.lower(), body)


def change_image(kind: str, version: int) -> Action:
    containers = [{"name": "web", "image": f"web:{version}"}]
    body = {"spec": {"template": {"spec": {"containers": containers}}}}
    return lambda cluster: cluster.patch(KINDS[kind], kind.lower(), body)


def annotate_pod(number: int, annotation: str, value: str) -> Action:
    async def apply(cluster: ClusterClient) -> None:
        names = cluster.names("pods")
        if names:
            body = {"metadata": {"annotations": {f"sim.hanse.dev/{annotation}": value}}}
            await cluster.patch("pods", names[number % len(names)], body)

    return apply


def delete_pod(number: int) -> Action:
    async def apply(cluster: ClusterClient) -> None:
        names = cluster.names("pods")
        if names:
            await cluster.delete("pods", names[number % len(names)])

    return apply


def make_node_unready(number: int) -> Action:
    body = {"metadata": {"annotations": {"sim.hanse.dev/ready": "false"}}}
    return lambda cluster: cluster.patch("nodes", f"lubeck-node-{number + 1}", body)


def wait(seconds: float) -> Action:
    return lambda cluster: cluster.writes_during(seconds)


kinds = st.sampled_from(sorted(KINDS))
numbers = st.integers(0, 9)
actions = st.one_of(
    st.builds(scale, kinds, st.integers(0, 6)),
    st.builds(change_image, kinds, st.integers(1, 3)),
    st.builds(annotate_pod, numbers, st.just("ready"), st.just("false")),
    st.builds(
        annotate_pod, numbers, st.just("phase"), st.sampled_from(("CrashLoop", "Failed", "Pending"))
    ),
    st.builds(delete_pod, numbers),
    st.builds(make_node_unready, st.integers(0, 2)),
    st.builds(wait, st.sampled_from((0.0, 0.05, 0.15, 2.0))),
)


async def heal(cluster: ClusterClient) -> None:
    """Remove all fault annotations from nodes and pods."""
    node_patch = {"metadata": {"annotations": {"sim.hanse.dev/ready": None}}}
    for name in cluster.names("nodes"):
        await cluster.patch("nodes", name, node_patch)
    pod_patch = {
        "metadata": {"annotations": {"sim.hanse.dev/ready": None, "sim.hanse.dev/phase": None}}
    }
    for name in cluster.names("pods"):
        await cluster.patch("pods", name, pod_patch)


async def check_convergence(sequence: list[Action]) -> None:
    async with run_cluster() as cluster:
        await cluster.wait_until(lambda: len(cluster.names("nodes")) == 3)
        for kind in KINDS:
            await cluster.create(workload(kind, kind.lower()))
        for action in sequence:
            await action(cluster)
        await heal(cluster)
        await cluster.writes_during(900)

        for kind, store in KINDS.items():
            workload_object = cluster.require(store, kind.lower())
            image = workload_object["spec"]["template"]["spec"]["containers"][0]["image"]
            ready = ready_pods(cluster, app=kind.lower())
            images = {
                cluster.require("pods", one)["spec"]["containers"][0]["image"] for one in ready
            }
            assert len(ready) == workload_object["spec"]["replicas"]
            assert images <= {image}
        assert await cluster.writes_during(600) == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(actions, max_size=12))
def test_workloads_converge_after_any_faults(sequence: list[Action]) -> None:
    run(check_convergence(sequence))


async def check_namespace_deletion(sequence: list[Action]) -> None:
    async with run_cluster() as cluster:
        await cluster.create(namespace("shop"))
        for kind in KINDS:
            await cluster.create(workload(kind, kind.lower()), "shop")
        for action in sequence:
            await action(cluster)
        await cluster.delete("namespaces", "shop")
        await cluster.wait_until(lambda: cluster.get("namespaces", "shop") is None)

        remaining = [
            one for one in cluster.api.storage.stores() if cluster.api.storage.count(one, "shop")
        ]
        assert remaining == []


@settings(max_examples=20, deadline=None)
@given(st.lists(st.builds(wait, st.floats(0, 0.3)), max_size=2))
def test_a_namespace_can_be_deleted_at_any_time(sequence: list[Action]) -> None:
    run(check_namespace_deletion(sequence))
