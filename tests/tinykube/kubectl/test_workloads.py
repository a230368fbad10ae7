"""Workloads that become ready: `rollout`, `wait`, `scale` and `get`."""

from tests.tinykube.kubectl.command import Kubectl
from tests.tinykube.kubectl.objects import deployment


async def test_a_deployment_rolls_out_and_back(workload_kubectl: Kubectl) -> None:
    await workload_kubectl("apply", "-f", "-", stdin=deployment("web", replicas=3))
    first = await workload_kubectl("rollout", "status", "deployment/web", "--timeout=25s")
    await workload_kubectl("set", "image", "deployment/web", "web=nginx:2")
    await workload_kubectl("rollout", "status", "deployment/web", "--timeout=25s")
    history = await workload_kubectl("rollout", "history", "deployment/web")
    await workload_kubectl("rollout", "undo", "deployment/web")
    await workload_kubectl("rollout", "status", "deployment/web", "--timeout=25s")

    images = await workload_kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={..image}")
    rows = await workload_kubectl.rows("deployment", "web")

    assert "successfully rolled out" in first
    assert [line.split()[0] for line in history.splitlines() if line[:1].isdecimal()] == ["1", "2"]
    assert "nginx:1" in images
    assert rows[1][:4] == ["web", "3/3", "3", "3"]


async def test_scaling_is_followed(workload_kubectl: Kubectl) -> None:
    await workload_kubectl("create", "deployment", "web", "--image=nginx")
    await workload_kubectl("scale", "deployment/web", "--replicas=4", "--timeout=20s")
    ready = "--for=jsonpath={.status.readyReplicas}=4"

    await workload_kubectl("wait", ready, "deployment/web", "--timeout=25s")

    assert len(await workload_kubectl.rows("pods", "-l", "app=web", "--no-headers")) == 4


async def test_pods_services_and_nodes_are_described(workload_kubectl: Kubectl) -> None:
    await workload_kubectl(
        "create", "deployment", "web", "--image=nginx", "--replicas=2", "--port=80"
    )
    await workload_kubectl("expose", "deployment/web", "--type=LoadBalancer")
    await workload_kubectl("rollout", "status", "deployment/web", "--timeout=25s")
    await workload_kubectl(
        "wait", "--for=jsonpath={.status.loadBalancer.ingress}", "service/web", "--timeout=10s"
    )

    pods = await workload_kubectl.rows("pods", "-o", "wide")
    pod = await workload_kubectl("describe", "pod", "-l", "app=web")
    service = await workload_kubectl("describe", "service", "web")
    nodes = await workload_kubectl.rows("nodes", "-o", "wide")
    node = await workload_kubectl("describe", "node", nodes[1][0])

    assert [row[1:3] for row in pods[1:]] == [["1/1", "Running"]] * 2
    assert "Container ID" in pod
    assert "LoadBalancer Ingress:" in service
    assert all(row[1] == "Ready" for row in nodes[1:])
    assert "Non-terminated Pods:" in node


async def test_get_all_shows_what_belongs_to_an_application(workload_kubectl: Kubectl) -> None:
    await workload_kubectl("create", "deployment", "web", "--image=nginx")
    await workload_kubectl("rollout", "status", "deployment/web", "--timeout=25s")

    output = await workload_kubectl("get", "all")

    for kind in ("pod/web-", "service/kubernetes", "deployment.apps/web", "replicaset.apps/web-"):
        assert kind in output


async def test_a_restart_replaces_the_pods(workload_kubectl: Kubectl) -> None:
    await workload_kubectl("create", "deployment", "web", "--image=nginx")
    await workload_kubectl("rollout", "status", "deployment/web", "--timeout=25s")
    before = await workload_kubectl("get", "pods", "-o", "name")

    await workload_kubectl("rollout", "restart", "deployment/web")
    await workload_kubectl("rollout", "status", "deployment/web", "--timeout=25s")

    assert await workload_kubectl("get", "pods", "-l", "app=web", "-o", "name") != before


async def test_a_pod_is_evicted_when_its_node_is_drained(workload_kubectl: Kubectl) -> None:
    await workload_kubectl("create", "deployment", "web", "--image=nginx")
    await workload_kubectl("rollout", "status", "deployment/web", "--timeout=25s")
    node = await workload_kubectl("get", "pods", "-o", "jsonpath={.items[0].spec.nodeName}")

    await workload_kubectl("drain", node, "--ignore-daemonsets", "--force", "--timeout=25s")

    assert "SchedulingDisabled" in await workload_kubectl("get", "node", node)
