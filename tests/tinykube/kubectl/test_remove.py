"""`kubectl delete` with each propagation policy, and `wait`."""

import asyncio

import pytest

from tests.tinykube.kubectl.command import Kubectl
from tests.tinykube.kubectl.objects import configmap, deployment


async def gone(kubectl: Kubectl, target: str) -> bool:
    return await kubectl("get", target, "--ignore-not-found") == ""


async def test_delete_one_several_and_all(kubectl: Kubectl) -> None:
    for name in ("a", "b", "c", "d"):
        await kubectl("create", "configmap", name)
    await kubectl("label", "cm/c", "x=1")

    one = await kubectl("delete", "cm", "a")
    await kubectl("delete", "cm", "-l", "x=1")
    await kubectl("delete", "cm", "--all")

    assert one.startswith('configmap "a" deleted')
    assert await gone(kubectl, "cm/b")
    assert "not found" in await kubectl.fails("delete", "cm", "a")
    assert await kubectl("delete", "cm", "a", "--ignore-not-found") == ""


async def owned_by(kubectl: Kubectl, owner: str) -> str:
    """A config map that belongs to another."""
    await kubectl("create", "configmap", owner)
    uid = (await kubectl.read(f"cm/{owner}"))["metadata"]["uid"]
    child = configmap("child")
    child["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner,
            "uid": uid,
            "blockOwnerDeletion": True,
        }
    ]
    await kubectl("create", "-f", "-", stdin=child)
    return "cm/child"


@pytest.mark.parametrize("cascade", ["background", "foreground"])
async def test_dependents_of_a_deleted_object_are_deleted(kubectl: Kubectl, cascade: str) -> None:
    child = await owned_by(kubectl, "owner")

    await kubectl("delete", "cm/owner", f"--cascade={cascade}")
    await kubectl("wait", "--for=delete", child, "--timeout=10s")

    assert await gone(kubectl, "cm/owner")
    assert await gone(kubectl, child)


async def test_orphans_stay(kubectl: Kubectl) -> None:
    child = await owned_by(kubectl, "owner")

    await kubectl("delete", "cm/owner", "--cascade=orphan")

    assert "ownerReferences" not in (await kubectl.read(child))["metadata"]
    assert await gone(kubectl, "cm/owner")


async def test_delete_waits_for_finalizers_unless_wait_is_false(kubectl: Kubectl) -> None:
    held = configmap("c")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await kubectl("create", "-f", "-", stdin=held)

    await kubectl("delete", "cm/c", "--wait=false")
    async with kubectl.streaming("delete", "cm/c") as output, asyncio.timeout(20):
        first = await output.readline()
        assert not await gone(kubectl, "cm/c")
        patch = '{"metadata":{"finalizers":null}}'
        await kubectl("patch", "cm/c", "--type=merge", "-p", patch)
        await output.read()  # ends with the command

    assert first.startswith(b'configmap "c" deleted')
    assert await gone(kubectl, "cm/c")


async def test_a_namespace_is_deleted_with_its_content(kubectl: Kubectl) -> None:
    await kubectl("create", "namespace", "shop")
    await kubectl("create", "configmap", "c", "-n", "shop")
    await kubectl("apply", "-n", "shop", "-f", "-", stdin=deployment("web"))

    await kubectl("delete", "namespace", "shop", "--timeout=20s")

    assert await gone(kubectl, "namespace/shop")
    assert "not found" in await kubectl.fails("create", "configmap", "c", "-n", "shop")


async def test_a_pod_is_forced_away(workload_kubectl: Kubectl) -> None:
    await workload_kubectl("run", "p", "--image=nginx", "--restart=Never")
    await workload_kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=20s")

    await workload_kubectl("delete", "pod/p", "--grace-period=0", "--force")

    assert await gone(workload_kubectl, "pod/p")


async def test_wait_for_a_value(kubectl: Kubectl) -> None:
    await kubectl("create", "configmap", "c", "--from-literal=state=open")

    waiting = asyncio.create_task(
        kubectl("wait", "--for=jsonpath={.data.state}=shut", "cm/c", "--timeout=15s")
    )
    await kubectl("patch", "cm/c", "--type=merge", "-p", '{"data":{"state":"shut"}}')

    assert "condition met" in await waiting
    late = await kubectl.fails("wait", "--for=delete", "cm/c", "--timeout=1s")
    assert "timed out" in late
