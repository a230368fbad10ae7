"""The shared fleet is what it says: versions, rights, certificates, pods."""

from datetime import timedelta
from ipaddress import IPv4Network

import pytest
import yaml
from msgspec import structs

from hanse.kube.access import Access, Fixed, Identity
from hanse.kube.errors import BadCredentials, Forbidden, Unreachable
from hanse.kube.http import HttpTransport
from hanse.local.real.accounts import Account, grant
from hanse.local.real.fleet import NAMES, RealFleet
from tests.real.conftest import Kubectl
from tests.real.scenarios import admin_of, get, post

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
      storageClassName: by-hand
      resources: {requests: {storage: 1Gi}}
"""


def volume(number: int) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"disk-{number}"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "by-hand",
                "hostPath": {"path": f"/disks/{number}"},
            },
        }
    )


@pytest.fixture
async def namespace(
    real_clusters: RealFleet, kubectl: Kubectl, request: pytest.FixtureRequest
) -> str:
    """A namespace of the test's own in every cluster."""
    name = str(request.node.name).replace("_", "-")[:60].rstrip("-")
    for cluster in real_clusters.clusters:
        await kubectl(real_clusters.kubeconfig, cluster, "create", "namespace", name)
    return name


async def test_every_server_is_of_the_version_that_is_pinned(real_clusters: RealFleet) -> None:
    for cluster in real_clusters.clusters.values():
        async with admin_of(cluster) as admin:
            version = await get(admin, "/version")

        assert (version["gitVersion"], version["major"], version["minor"]) == ("v1.35.4", "1", "35")


async def test_kubectl_has_a_context_for_each_cluster_and_starts_with_the_first(
    real_clusters: RealFleet, kubectl: Kubectl
) -> None:
    config = yaml.safe_load(real_clusters.kubeconfig.read_text())

    assert [one["name"] for one in config["contexts"]] == [*NAMES, "broker"]
    assert config["current-context"] == "lubeck"
    for name in (*NAMES, "broker"):
        said = await kubectl(real_clusters.kubeconfig, name, "auth", "whoami", "-o", "name")
        assert said.status == 0, said.errors


async def test_a_server_of_another_authority_is_not_trusted(real_clusters: RealFleet) -> None:
    lubeck, bergen = (real_clusters.clusters[name].access for name in ("lubeck", "bergen"))
    misled = _transport(
        Access(structs.replace(lubeck.endpoint, ca=bergen.endpoint.ca), lubeck.identity)
    )

    with pytest.raises(Unreachable, match="certificate"):
        await get(misled, "/version")
    await misled.close()


async def test_credentials_of_one_cluster_open_no_other(real_clusters: RealFleet) -> None:
    lubeck, bergen = (real_clusters.clusters[name].access for name in ("lubeck", "bergen"))
    stranger = _transport(Access(lubeck.endpoint, bergen.identity))

    with pytest.raises((BadCredentials, Unreachable)):
        await get(stranger, "/api/v1/nodes")
    await stranger.close()


async def test_an_unknown_token_is_refused(real_clusters: RealFleet) -> None:
    lubeck = real_clusters.clusters["lubeck"].access
    stranger = _transport(Access(lubeck.endpoint, Identity(token="guessed")))

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

    async with admin_of(bergen) as admin:
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
        await kubectl(real_clusters.kubeconfig, name, inside, "apply", "-f-", given=DEPLOYMENT)
        rollout = await kubectl(
            real_clusters.kubeconfig,
            name,
            inside,
            "rollout",
            "status",
            "deploy/web",
            "--timeout=60s",
        )

        async with admin_of(cluster) as admin:
            pods = await get(admin, f"/api/v1/namespaces/{namespace}/pods")
            service = await get(admin, f"/api/v1/namespaces/{namespace}/services/web")
        assert rollout.status == 0, rollout.errors
        addresses = {pod["status"]["podIP"] for pod in pods["items"]}
        assert len(addresses) == 6
        assert all(cluster.layout.ranges.pods.supernet_of(_host(one)) for one in addresses)
        assert cluster.layout.ranges.services.supernet_of(_host(service["spec"]["clusterIP"]))
        assert {pod["spec"]["nodeName"] for pod in pods["items"]} == {
            f"{name}-node-1",
            f"{name}-node-2",
            f"{name}-node-3",
        }


async def test_a_pod_can_be_kept_from_being_ready_and_let_go_again(
    real_clusters: RealFleet, kubectl: Kubectl, namespace: str
) -> None:
    def on(*arguments: str) -> list[str]:
        return [f"--namespace={namespace}", *arguments]

    async def does(*arguments: str) -> None:
        said = await kubectl(real_clusters.kubeconfig, "hamburg", *on(*arguments))
        assert said.status == 0, said.errors

    held = "--annotations=sim.hanse.dev/ready=false"
    await does("run", "one", "--image=one", held)
    await does("wait", "pod/one", "--for=jsonpath={.status.phase}=Running", "--timeout=30s")
    await does("wait", "pod/one", "--for=condition=Ready=false", "--timeout=30s")

    await does("annotate", "pod/one", "sim.hanse.dev/ready-")
    await does("wait", "pod/one", "--for=condition=Ready", "--timeout=30s")

    await does("annotate", "pod/one", "sim.hanse.dev/phase=CrashLoop")
    await does("wait", "pod/one", "--for=condition=Ready=false", "--timeout=30s")

    await does("annotate", "--overwrite", "pod/one", "sim.hanse.dev/phase=Failed")
    await does("wait", "pod/one", "--for=jsonpath={.status.phase}=Failed", "--timeout=30s")


async def test_a_stateful_set_waits_for_volumes_and_is_ready_once_they_are_there(
    real_clusters: RealFleet, kubectl: Kubectl, namespace: str
) -> None:
    inside = f"--namespace={namespace}"

    async def does(*arguments: str, given: str = "") -> None:
        said = await kubectl(real_clusters.kubeconfig, "lubeck", *arguments, given=given)
        assert said.status == 0, said.errors

    await does(inside, "apply", "-f-", given=STATEFUL_SET)
    unscheduled = "--for=jsonpath={.status.conditions[?(@.type=='PodScheduled')].status}=False"
    await does(inside, "wait", "--for=create", "pod/db-0", "--timeout=30s")
    await does(inside, "wait", "pod/db-0", unscheduled, "--timeout=30s")

    await does("apply", "-f-", given=f"{volume(1)}---\n{volume(2)}")

    await does(inside, "rollout", "status", "statefulset/db", "--timeout=60s")
    await does("delete", "pv", "disk-1", "disk-2", "--wait=false")


async def test_the_broker_cleans_up_namespaces_and_runs_no_workloads(
    real_clusters: RealFleet, kubectl: Kubectl, namespace: str
) -> None:
    async def does(*arguments: str) -> str:
        said = await kubectl(real_clusters.kubeconfig, "broker", *arguments)
        assert said.status == 0, said.errors
        return said.output

    await does("create", "deployment", "web", "--image=web", f"--namespace={namespace}")
    await does("create", "configmap", "mark", f"--namespace={namespace}")
    await does("delete", "namespace", namespace, "--timeout=60s")

    assert await does("get", "nodes", "-o", "name") == ""
    assert await does("get", "pods,replicasets", "-A", "-o", "name") == ""


async def test_memory_of_a_cluster_stays_within_half_a_gigabyte(real_clusters: RealFleet) -> None:
    memory = real_clusters.memory()

    assert set(memory) == {*NAMES, "broker"}
    assert all(0 < used < 512 * 2**20 for used in memory.values()), memory


def _transport(access: Access) -> HttpTransport:
    return HttpTransport(Fixed(access))


def _host(address: str) -> IPv4Network:
    return IPv4Network(f"{address}/32")
