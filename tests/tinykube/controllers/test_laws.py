"""Whatever is done to a cluster, it comes to rest where it was told to be, and then stays there."""

from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tinykube.virtual_time import run

from .scenario import Cluster, cluster, ready_pods, workload
from .test_garbagecollector import namespace

Act = Callable[[Cluster], Awaitable[Any]]
KINDS = {"Deployment": "deployments.apps", "StatefulSet": "statefulsets.apps"}


def scale(kind: str, replicas: int) -> Act:
    body = {"spec": {"replicas": replicas}}
    return lambda there: there.patch(KINDS[kind], kind.lower(), body)


def reimage(kind: str, version: int) -> Act:
    containers = [{"name": "web", "image": f"web:{version}"}]
    body = {"spec": {"template": {"spec": {"containers": containers}}}}
    return lambda there: there.patch(KINDS[kind], kind.lower(), body)


def hurt(number: int, annotation: str, value: str) -> Act:
    async def act(there: Cluster) -> None:
        names = there.names("pods")
        if names:
            body = {"metadata": {"annotations": {f"sim.hanse.dev/{annotation}": value}}}
            await there.patch("pods", names[number % len(names)], body)

    return act


def kill(number: int) -> Act:
    async def act(there: Cluster) -> None:
        names = there.names("pods")
        if names:
            await there.delete("pods", names[number % len(names)])

    return act


def lose_node(number: int) -> Act:
    body = {"metadata": {"annotations": {"sim.hanse.dev/ready": "false"}}}
    return lambda there: there.patch("nodes", f"lubeck-node-{number + 1}", body)


def wait(seconds: float) -> Act:
    return lambda there: there.rest(seconds)


kinds = st.sampled_from(sorted(KINDS))
numbers = st.integers(0, 9)
acts = st.one_of(
    st.builds(scale, kinds, st.integers(0, 6)),
    st.builds(reimage, kinds, st.integers(1, 3)),
    st.builds(hurt, numbers, st.just("ready"), st.just("false")),
    st.builds(hurt, numbers, st.just("phase"), st.sampled_from(("CrashLoop", "Failed", "Pending"))),
    st.builds(kill, numbers),
    st.builds(lose_node, st.integers(0, 2)),
    st.builds(wait, st.sampled_from((0.0, 0.05, 0.15, 2.0))),
)


async def heal(there: Cluster) -> None:
    """Undo every hurt; a pod that cannot go on by itself is deleted, as a person would."""
    unhurt = {"metadata": {"annotations": {"sim.hanse.dev/ready": None}}}
    for name in there.names("nodes"):
        await there.patch("nodes", name, unhurt)
    gone = {"metadata": {"annotations": {"sim.hanse.dev/ready": None, "sim.hanse.dev/phase": None}}}
    for name in there.names("pods"):
        await there.patch("pods", name, gone)


async def live_through(deeds: list[Act]) -> None:
    async with cluster() as there:
        await there.until(lambda: len(there.names("nodes")) == 3)
        for kind in KINDS:
            await there.create(workload(kind, kind.lower()))
        for deed in deeds:
            await deed(there)
        await heal(there)
        await there.rest(900)

        for kind, store in KINDS.items():
            wanted = there.seen(store, kind.lower())
            image = wanted["spec"]["template"]["spec"]["containers"][0]["image"]
            ready = ready_pods(there, app=kind.lower())
            images = {there.seen("pods", one)["spec"]["containers"][0]["image"] for one in ready}
            assert len(ready) == wanted["spec"]["replicas"]
            assert images <= {image}
        assert await there.rest(600) == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(acts, max_size=12))
def test_workloads_converge_after_any_mishaps(deeds: list[Act]) -> None:
    run(live_through(deeds))


async def end_of(deeds: list[Act]) -> None:
    async with cluster() as there:
        await there.create(namespace("shop"))
        for kind in KINDS:
            await there.create(workload(kind, kind.lower()), "shop")
        for deed in deeds:
            await deed(there)
        await there.delete("namespaces", "shop")
        await there.until(lambda: there.get("namespaces", "shop") is None)

        left = [one for one in there.api.storage.stores() if there.api.storage.count(one, "shop")]
        assert left == []


@settings(max_examples=20, deadline=None)
@given(st.lists(st.builds(wait, st.floats(0, 0.3)), max_size=2))
def test_a_namespace_can_go_at_any_moment(deeds: list[Act]) -> None:
    run(end_of(deeds))
