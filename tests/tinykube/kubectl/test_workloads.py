"""Workloads that become ready: `rollout`, `wait`, `scale` and what `get` shows of them."""

from tests.tinykube.kubectl.objects import deployment
from tests.tinykube.kubectl.running import Kubectl


async def test_a_deployment_rolls_out_and_back(busy: Kubectl) -> None:
    await busy("apply", "-f", "-", given=deployment("web", replicas=3))
    first = await busy("rollout", "status", "deployment/web", "--timeout=25s")
    await busy("set", "image", "deployment/web", "web=nginx:2")
    await busy("rollout", "status", "deployment/web", "--timeout=25s")
    history = await busy("rollout", "history", "deployment/web")
    await busy("rollout", "undo", "deployment/web")
    await busy("rollout", "status", "deployment/web", "--timeout=25s")

    images = await busy("get", "pods", "-l", "app=web", "-o", "jsonpath={..image}")
    rows = await busy.rows("deployment", "web")

    assert "successfully rolled out" in first
    assert [line.split()[0] for line in history.splitlines() if line[:1].isdecimal()] == ["1", "2"]
    assert "nginx:1" in images
    assert rows[1][:4] == ["web", "3/3", "3", "3"]


async def test_scaling_is_followed(busy: Kubectl) -> None:
    await busy("create", "deployment", "web", "--image=nginx")
    await busy("scale", "deployment/web", "--replicas=4", "--timeout=20s")
    ready = "--for=jsonpath={.status.readyReplicas}=4"

    await busy("wait", ready, "deployment/web", "--timeout=25s")

    assert len(await busy.rows("pods", "-l", "app=web", "--no-headers")) == 4


async def test_pods_services_and_nodes_are_described(busy: Kubectl) -> None:
    await busy("create", "deployment", "web", "--image=nginx", "--replicas=2", "--port=80")
    await busy("expose", "deployment/web", "--type=LoadBalancer")
    await busy("rollout", "status", "deployment/web", "--timeout=25s")
    await busy(
        "wait", "--for=jsonpath={.status.loadBalancer.ingress}", "service/web", "--timeout=10s"
    )

    pods = await busy.rows("pods", "-o", "wide")
    pod = await busy("describe", "pod", "-l", "app=web")
    service = await busy("describe", "service", "web")
    nodes = await busy.rows("nodes", "-o", "wide")
    node = await busy("describe", "node", nodes[1][0])

    assert [row[1:3] for row in pods[1:]] == [["1/1", "Running"]] * 2
    assert "Container ID" in pod
    assert "LoadBalancer Ingress:" in service
    assert all(row[1] == "Ready" for row in nodes[1:])
    assert "Non-terminated Pods:" in node


async def test_get_all_shows_what_belongs_to_an_application(busy: Kubectl) -> None:
    await busy("create", "deployment", "web", "--image=nginx")
    await busy("rollout", "status", "deployment/web", "--timeout=25s")

    said = await busy("get", "all")

    for kind in ("pod/web-", "service/kubernetes", "deployment.apps/web", "replicaset.apps/web-"):
        assert kind in said


async def test_a_restart_replaces_the_pods(busy: Kubectl) -> None:
    await busy("create", "deployment", "web", "--image=nginx")
    await busy("rollout", "status", "deployment/web", "--timeout=25s")
    before = await busy("get", "pods", "-o", "name")

    await busy("rollout", "restart", "deployment/web")
    await busy("rollout", "status", "deployment/web", "--timeout=25s")

    assert await busy("get", "pods", "-l", "app=web", "-o", "name") != before


async def test_a_pod_is_evicted_when_its_node_is_drained(busy: Kubectl) -> None:
    await busy("create", "deployment", "web", "--image=nginx")
    await busy("rollout", "status", "deployment/web", "--timeout=25s")
    node = await busy("get", "pods", "-o", "jsonpath={.items[0].spec.nodeName}")

    await busy("drain", node, "--ignore-daemonsets", "--force", "--timeout=25s")

    assert "SchedulingDisabled" in await busy("get", "node", node)
