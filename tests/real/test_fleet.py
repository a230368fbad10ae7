"""The shared fleet: versions, RBAC, certificates, simulated pods."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from ipaddress import IPv4Network

import pytest
import yaml
from msgspec import structs

from hanse.kube.client_config import ClientConfig, Identity, StaticCredentials
from hanse.kube.errors import BadCredentials, Forbidden, Unreachable
from hanse.kube.http_transport import HttpTransport
from hanse.local.real.fleet import NAMES, RealFleet
from tests.real.api_requests import admin_transport, get, post
from tests.real.conftest import Kubectl
from tests.support.service_accounts import Account, grant

RunKubectl = Callable[..., Awaitable[str]]

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
"""

STATEFUL_SET = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: db, image: db, volumeMounts: [{name: disk, mountPath: /disk}]}]
  volumeClaimTemplates:
  - metadata: {name: disk}
    spec:
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 1Gi}}
"""


GATED = """
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec:
  readinessGates: [{conditionType: example.com/open}]
  containers: [{name: gated, image: gated}]
"""


@pytest.fixture
async def namespace(
    real_clusters: RealFleet, kubectl: Kubectl, request: pytest.FixtureRequest
) -> str:
    """A new namespace in every cluster."""
    name = str(request.node.name).replace("_", "-")[:60].rstrip("-")
    for cluster in real_clusters.clusters:
        await kubectl(real_clusters.kubeconfig, cluster, "create", "namespace", name)
    return name


async def test_every_server_has_the_pinned_version(real_clusters: RealFleet) -> None:
    for cluster in real_clusters.clusters.values():
        async with admin_transport(cluster) as admin:
            version = await get(admin, "/version")

        assert (version["gitVersion"], version["major"], version["minor"]) == ("v1.35.4", "1", "35")


async def test_kubectl_has_a_context_for_each_cluster_and_starts_with_the_first(
    real_clusters: RealFleet, kubectl: Kubectl
) -> None:
    config = yaml.safe_load(real_clusters.kubeconfig.read_text())

    assert [one["name"] for one in config["contexts"]] == [*NAMES, "broker"]
    assert config["current-context"] == "lubeck"
    for name in (*NAMES, "broker"):
        result = await kubectl(real_clusters.kubeconfig, name, "auth", "whoami", "-o", "name")
        assert result.status == 0, result.errors


async def test_a_server_with_another_ca_is_not_trusted(real_clusters: RealFleet) -> None:
    lubeck, bergen = (real_clusters.clusters[name].access for name in ("lubeck", "bergen"))
    misled = _transport(
        ClientConfig(structs.replace(lubeck.endpoint, ca=bergen.endpoint.ca), lubeck.identity)
    )

    with pytest.raises(Unreachable, match="certificate"):
        await get(misled, "/version")
    await misled.close()


async def test_credentials_of_one_cluster_are_rejected_by_others(real_clusters: RealFleet) -> None:
    lubeck, bergen = (real_clusters.clusters[name].access for name in ("lubeck", "bergen"))
    stranger = _transport(ClientConfig(lubeck.endpoint, bergen.identity))

    with pytest.raises((BadCredentials, Unreachable)):
        await get(stranger, "/api/v1/nodes")
    await stranger.close()


async def test_an_unknown_token_is_rejected(real_clusters: RealFleet) -> None:
    lubeck = real_clusters.clusters["lubeck"].access
    stranger = _transport(ClientConfig(lubeck.endpoint, Identity(token="guessed")))

    with pytest.raises(BadCredentials):
        await get(stranger, "/api/v1/nodes")
    await stranger.close()


async def test_a_service_account_may_do_what_its_rules_say_and_nothing_else(
    real_clusters: RealFleet, namespace: str
) -> None:
    bergen = real_clusters.clusters["bergen"]
    reads = {"apiGroups": [""], "resources": ["services"], "verbs": ["list"]}
    writes = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}
    account = Account("agent", namespace, everywhere=(reads,), inside={namespace: (writes,)})
    mark = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mark"}}

    async with admin_transport(bergen) as admin:
        access = await grant(admin, bergen.access, account, lifetime=timedelta(minutes=10))
    agent = _transport(access)

    assert (await get(agent, "/api/v1/services"))["kind"] == "ServiceList"
    await post(agent, f"/api/v1/namespaces/{namespace}/configmaps", mark)
    with pytest.raises(Forbidden, match=f"system:serviceaccount:{namespace}:agent"):
        await post(agent, "/api/v1/namespaces/default/configmaps", mark)
    with pytest.raises(Forbidden):
        await get(agent, "/api/v1/secrets")
    await agent.close()


async def test_a_deployment_becomes_ready_with_addresses_of_its_own_cluster(
    real_clusters: RealFleet, kubectl: Kubectl, namespace: str
) -> None:
    for name in NAMES:
        cluster, inside = real_clusters.clusters[name], f"--namespace={namespace}"
        await kubectl(real_clusters.kubeconfig, name, inside, "apply", "-f-", stdin=DEPLOYMENT)
        rollout = await kubectl(
            real_clusters.kubeconfig,
            name,
            inside,
            "rollout",
            "status",
            "deploy/web",
            "--timeout=60s",
        )

        async with admin_transport(cluster) as admin:
            pods = await get(admin, f"/api/v1/namespaces/{namespace}/pods")
            service = await get(admin, f"/api/v1/namespaces/{namespace}/services/web")
        assert rollout.status == 0, rollout.errors
        addresses = {pod["status"]["podIP"] for pod in pods["items"]}
        assert len(addresses) == 6
        assert all(cluster.config.ranges.pods.supernet_of(_host(one)) for one in addresses)
        assert cluster.config.ranges.services.supernet_of(_host(service["spec"]["clusterIP"]))
        assert {pod["spec"]["nodeName"] for pod in pods["items"]} == {
            f"{name}-node-1",
            f"{name}-node-2",
            f"{name}-node-3",
        }


async def test_pod_annotations_simulate_faults_and_take_effect_at_once(
    real_clusters: RealFleet, kubectl: Kubectl, namespace: str
) -> None:
    does = _kubectl_in(kubectl, real_clusters, "hamburg", namespace)
    ready = ("wait", "pod/one", "--for=condition=Ready", "--timeout=30s")
    unready = ("wait", "pod/one", "--for=condition=Ready=false", "--timeout=30s")

    await does("run", "one", "--image=one", "--annotations=sim.hanse.dev/ready=false")
    await does("wait", "pod/one", "--for=jsonpath={.status.phase}=Running", "--timeout=30s")
    await does(*unready)

    await does("annotate", "pod/one", "sim.hanse.dev/ready-")
    await does(*ready)

    await does("annotate", "pod/one", "sim.hanse.dev/phase=CrashLoop")
    await does(*unready)
    assert "CrashLoopBackOff" in await does("get", "pod/one")

    await does("annotate", "pod/one", "sim.hanse.dev/phase-")
    await does(*ready)

    await does("annotate", "pod/one", "sim.hanse.dev/phase=Failed")
    await does("wait", "pod/one", "--for=jsonpath={.status.phase}=Failed", "--timeout=30s")


async def test_ready_after_delays_readiness(
    real_clusters: RealFleet, kubectl: Kubectl, namespace: str
) -> None:
    does = _kubectl_in(kubectl, real_clusters, "hamburg", namespace)

    await does("run", "late", "--image=late", "--annotations=sim.hanse.dev/ready-after=2s")
    await does("wait", "pod/late", "--for=condition=Ready", "--timeout=30s")

    async with admin_transport(real_clusters.clusters["hamburg"]) as admin:
        pod = await get(admin, f"/api/v1/namespaces/{namespace}/pods/late")
    [ready] = [one for one in pod["status"]["conditions"] if one["type"] == "Ready"]
    started = datetime.fromisoformat(pod["status"]["startTime"])
    assert datetime.fromisoformat(ready["lastTransitionTime"]) - started >= timedelta(seconds=1)


async def test_a_pod_with_a_readiness_gate_is_ready_once_the_gate_is_true(
    real_clusters: RealFleet, kubectl: Kubectl, namespace: str
) -> None:
    does = _kubectl_in(kubectl, real_clusters, "bergen", namespace)
    opened = '{"status": {"conditions": [{"type": "example.com/open", "status": "True"}]}}'

    await does("apply", "-f-", stdin=GATED)
    await does("wait", "pod/gated", "--for=condition=ContainersReady", "--timeout=30s")
    await does("wait", "pod/gated", "--for=condition=Ready=false", "--timeout=30s")

    await does("patch", "pod/gated", "--subresource=status", "-p", opened)
    await does("wait", "pod/gated", "--for=condition=Ready", "--timeout=30s")


async def test_a_job_completes(real_clusters: RealFleet, kubectl: Kubectl, namespace: str) -> None:
    does = _kubectl_in(kubectl, real_clusters, "bergen", namespace)

    await does("create", "job", "once", "--image=once")

    await does("wait", "job/once", "--for=condition=Complete", "--timeout=30s")


async def test_a_stateful_set_gets_its_volumes_and_is_ready(
    real_clusters: RealFleet, kubectl: Kubectl, namespace: str
) -> None:
    does = _kubectl_in(kubectl, real_clusters, "lubeck", namespace)

    await does("apply", "-f-", stdin=STATEFUL_SET)

    await does("rollout", "status", "statefulset/db", "--timeout=60s")
    claims = await does("get", "pvc", "-o", "jsonpath={.items[*].status.phase}")
    assert claims.split() == ["Bound", "Bound"]


async def test_a_load_balancer_gets_an_address_of_its_cluster(
    real_clusters: RealFleet, kubectl: Kubectl, namespace: str
) -> None:
    does = _kubectl_in(kubectl, real_clusters, "lubeck", namespace)
    ingress = "{.status.loadBalancer.ingress[0].ip}"

    await does("create", "service", "loadbalancer", "web", "--tcp=80")
    await does("wait", "service/web", f"--for=jsonpath={ingress}", "--timeout=30s")

    address = await does("get", "service/web", "-o", f"jsonpath={ingress}")
    ranges = real_clusters.clusters["lubeck"].config.ranges
    assert ranges.load_balancers.supernet_of(_host(address))


async def test_the_broker_cleans_up_namespaces_and_runs_no_workloads(
    real_clusters: RealFleet, kubectl: Kubectl, namespace: str
) -> None:
    does = _kubectl_in(kubectl, real_clusters, "broker", namespace)

    await does("create", "deployment", "web", "--image=web")
    await does("create", "configmap", "mark")
    await does("delete", "namespace", namespace, "--timeout=60s")

    assert await does("get", "nodes", "-o", "name") == ""
    assert await does("get", "pods,replicasets", "-A", "-o", "name") == ""


async def test_memory_of_a_cluster_stays_within_a_gigabyte(real_clusters: RealFleet) -> None:
    memory = real_clusters.memory()

    assert set(memory) == {*NAMES, "broker"}
    assert all(0 < used < 2**30 for used in memory.values()), memory


def _kubectl_in(kubectl: Kubectl, fleet: RealFleet, cluster: str, namespace: str) -> RunKubectl:
    """Run kubectl in one namespace of one cluster; returns its output and asserts success."""

    async def does(*arguments: str, stdin: str = "") -> str:
        inside = f"--namespace={namespace}"
        result = await kubectl(fleet.kubeconfig, cluster, inside, *arguments, stdin=stdin)
        assert result.status == 0, result.errors
        return result.output

    return does


def _transport(access: ClientConfig) -> HttpTransport:
    return HttpTransport(StaticCredentials(access))


def _host(address: str) -> IPv4Network:
    return IPv4Network(f"{address}/32")
