"""An agent of version 0.1.0 in a fleet of this one, and back: nothing that is shared is lost.

The clusters are embedded ones; the test is here because it takes minutes.
"""

import json
from collections.abc import Iterator
from functools import partial

import pytest

from tests.cli.programs import running
from tests.real.earlier_version import earlier_source
from tests.real.skewed_fleet import Fleet, soon

NAMES = ("lubeck", "hamburg", "bergen")
SYSTEM = "antrea-plus-system"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("skew")
    earlier = earlier_source(folder)
    with running(folder, "--clusters", ",".join(NAMES)) as federation:
        fleet = Fleet(federation, earlier, folder)
        for cluster in NAMES:
            fleet.on(cluster, "create", "namespace", "market")
        yield fleet


def _export(fleet: Fleet, name: str) -> None:
    """Services of a broker: what two clusters export is imported in all."""
    for cluster in ("lubeck", "hamburg"):
        fleet.on(cluster, "-n", "market", "create", "service", "clusterip", name, "--tcp=80")
        fleet.apply(
            cluster,
            f"""
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {{name: {name}, namespace: market}}
""",
        )
    _check_export(fleet, name)


def _check_export(fleet: Fleet, name: str) -> None:
    get = ("-n", "market", "get", "serviceimport", name, "--ignore-not-found", "-o")

    def importing() -> dict[str, str]:
        clusters = "jsonpath={.status.clusters[*].cluster}"
        return {cluster: fleet.on(cluster, *get, clusters) for cluster in NAMES}

    soon(importing, dict.fromkeys(NAMES, "hamburg lubeck"))


def _federate(fleet: Fleet, name: str) -> None:
    """Federated Services: endpoints of two clusters, and a machine of one, are in all members."""
    for number, cluster in enumerate(("lubeck", "hamburg"), start=1):
        fleet.apply(
            cluster,
            f"""
apiVersion: v1
kind: Service
metadata:
  name: {name}
  namespace: market
  annotations: {{svc.global.federated.antreaplus.vmware.com: {name}}}
spec: {{ports: [{{name: http, port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}-pods, namespace: market, labels: {{kubernetes.io/service-name: {name}}}}}
addressType: IPv4
endpoints: [{{addresses: [10.210.{number}.1], conditions: {{ready: true}}}}]
ports: [{{name: http, port: 8080, protocol: TCP}}]
""",
        )
    fleet.apply(
        "hamburg",
        f"""
apiVersion: antreaplus.vmware-tanzu.com/v1alpha1
kind: VirtualMachine
metadata: {{name: {name}-machine, namespace: market}}
spec:
  id: i-{name}
  tags:
    svc.antreaplus.vmware.com: {name}-machine
    ports.antreaplus.vmware.com: http:80/TCP
    svc.global.federated.antreaplus.vmware.com: {name}
  networkInterfaces: [{{name: eth0, ips: [{{addressType: InternalIP, address: 10.210.9.1}}]}}]
""",
    )
    _check_federated(fleet, name)


def _check_federated(fleet: Fleet, name: str) -> None:
    wanted = {"10.210.1.1", "10.210.2.1", "10.210.9.1"}
    labels = f"kubernetes.io/service-name={name}"
    get = ("-n", SYSTEM, "get", "endpointslices", "-l", labels, "-o")
    addresses = "jsonpath={.items[*].endpoints[*].addresses[*]}"

    def found() -> dict[str, set[str]]:
        return {cluster: _words(fleet, cluster, *get, addresses) for cluster in NAMES}

    soon(found, dict.fromkeys(NAMES, wanted))


def _addresses(fleet: Fleet, name: str) -> list[str]:
    """The ClusterIPs of a federated Service."""
    get = ("-n", SYSTEM, "get", "service", name, "-o", "jsonpath={.spec.clusterIP}")
    return [fleet.on(cluster, *get) for cluster in NAMES]


def _replicate(fleet: Fleet, name: str) -> None:
    """Policies: made in one member, changed in another, the same in all."""
    fleet.apply(
        "hamburg",
        f"""
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {{name: {name}, annotations: {{federated.anp.antreaplus.vmware.com: "true"}}}}
spec:
  priority: 5
  appliedTo: [{{namespaceSelector: {{}}}}]
  ingress: [{{action: Drop, ports: [{{protocol: TCP, port: 23}}]}}]
""",
    )
    policy = f"clusternetworkpolicy/{name}"
    for cluster in ("lubeck", "bergen"):
        fleet.wait(cluster, policy, "jsonpath={.spec.priority}=5")
    fleet.on("lubeck", "patch", policy, "--type=merge", "-p", '{"spec": {"priority": 7}}')
    _check_replicated(fleet, name)


def _check_replicated(fleet: Fleet, name: str) -> None:
    for cluster in NAMES:
        fleet.wait(cluster, f"clusternetworkpolicy/{name}", "jsonpath={.spec.priority}=7")


def _spread(fleet: Fleet, name: str) -> None:
    """StatefulSets over clusters: as many replicas as are asked for run, in all clusters."""
    fleet.apply(
        "broker",
        f"""
apiVersion: v1
kind: Namespace
metadata: {{name: {name}}}
---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {name}}}
spec: {{clusterIP: None, ports: [{{port: 80}}], selector: {{app: {name}}}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: {name}, namespace: {name}}}
spec:
  serviceName: {name}
  replicas: 3
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{containers: [{{name: store, image: store}}]}}
""",
    )
    _check_spread(fleet, name, 3)


def _check_spread(fleet: Fleet, name: str, replicas: int) -> None:
    def ready() -> list[int]:
        get = ("-n", name, "get", "pods", "-l", f"app={name}", "--ignore-not-found", "-o", "name")
        return [len(fleet.on(cluster, *get).split()) for cluster in NAMES]

    soon(ready, [replicas // len(NAMES)] * len(NAMES))
    fleet.wait(
        "broker", f"statefulset/{name}", f"jsonpath={{.status.readyReplicas}}={replicas}", name
    )


def _serve_host(fleet: Fleet, name: str) -> None:
    """Global hosts: load balancers of two clusters are answered in all of them."""
    for cluster in ("lubeck", "hamburg"):
        fleet.apply(
            cluster,
            f"""
apiVersion: v1
kind: Service
metadata:
  name: {name}
  namespace: shop
  labels: {{gslb: shared}}
  annotations: {{external-dns.alpha.kubernetes.io/hostname: {name}.global.test}}
spec: {{type: LoadBalancer, selector: {{app: web}}, ports: [{{name: http, port: 80}}]}}
""",
        )
    _check_host(fleet, name)


def _check_host(fleet: Fleet, name: str) -> None:
    get = ("-n", "shop", "get", "service", name, "-o")
    ingress = "jsonpath={.status.loadBalancer.ingress[0].ip}"

    def answers() -> dict[str, set[str]]:
        found = json.loads(fleet.hanse("resolve", f"{name}.global.test", "--json").out)
        return {
            one["cluster"]: {record["value"] for record in one["records"]}
            for one in found["clusters"]
            if one["cluster"] in NAMES
        }

    addresses = {fleet.on(cluster, *get, ingress) for cluster in ("lubeck", "hamburg")}
    soon(answers, dict.fromkeys(NAMES, addresses))


def test_both_versions_serve_one_fleet_on_every_feature_and_nothing_is_lost_either_way(
    fleet: Fleet,
) -> None:
    features = (
        (_export, _check_export),
        (_federate, _check_federated),
        (_replicate, _check_replicated),
        (_spread, partial(_check_spread, replicas=3)),
        (_serve_host, _check_host),
    )
    for begin, _ in features:
        begin(fleet, "first")
    before = _addresses(fleet, "first")

    with fleet.agent_of_0_1_0("hamburg"):
        for begin, check in features:
            begin(fleet, "second")
            check(fleet, "first")

    for name in ("first", "second"):
        for _, check in features:
            check(fleet, name)
    assert _addresses(fleet, "first") == before, "addresses of federated Services changed"


@pytest.mark.parametrize("earlier", NAMES)
def test_a_set_is_scaled_and_rolled_out_while_one_agent_is_of_the_version_before(
    fleet: Fleet, earlier: str
) -> None:
    name = f"set-of-{earlier}"
    _spread(fleet, name)
    _roll_out(fleet, name, "store:2")
    _check_images(fleet, name, "store:2")

    with fleet.agent_of_0_1_0(earlier):
        _scale(fleet, name, 6)
        _check_spread(fleet, name, 6)
        _scale(fleet, name, 3)
        _check_spread(fleet, name, 3)
        _roll_out(fleet, name, "store:3")
        _check_images(fleet, name, "store:3")

    _check_images(fleet, name, "store:3")
    _scale(fleet, name, 6)
    _check_spread(fleet, name, 6)
    _roll_out(fleet, name, "store:4")
    _check_images(fleet, name, "store:4")
    _check_spread(fleet, name, 6)


def _scale(fleet: Fleet, name: str, replicas: int) -> None:
    fleet.on("broker", "-n", name, "scale", f"statefulset/{name}", f"--replicas={replicas}")


def _roll_out(fleet: Fleet, name: str, image: str) -> None:
    fleet.on("broker", "-n", name, "set", "image", f"statefulset/{name}", f"store={image}")


def _check_images(fleet: Fleet, name: str, image: str, *clusters: str) -> None:
    get = ("-n", name, "get", "pods", "-l", f"app={name}", "--ignore-not-found", "-o")
    images = "jsonpath={.items[*].spec.containers[*].image}"
    for cluster in clusters or NAMES:
        soon(partial(_words, fleet, cluster, *get, images), {image})


def _words(fleet: Fleet, cluster: str, *arguments: str) -> set[str]:
    return {*fleet.on(cluster, *arguments).split()}
