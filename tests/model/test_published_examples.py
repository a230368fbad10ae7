"""The objects that the published designs show are read as they stand there."""

import msgspec
import pytest
import yaml

from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Pod, Service
from hanse.model.kinds.gslb import AMKOCluster
from hanse.model.kinds.networking import LabelRequirement, LabelSelector, NetworkPolicy
from hanse.model.kinds.networks import Network
from hanse.model.objects import K


def read(kind: type[K], text: str) -> K:
    return msgspec.json.decode(msgspec.json.encode(yaml.safe_load(text)), type=kind)


def test_the_amko_cluster_of_a_leader() -> None:
    leader = read(
        AMKOCluster,
        """
        apiVersion: amko.vmware.com/v1alpha1
        kind: AMKOCluster
        metadata: {name: amkocluster-sample, namespace: avi-system}
        spec: {isLeader: true, clusterContext: cluster1, version: 1.4.2,
               clusters: [cluster1, cluster2]}
        status:
          conditions:
          - {status: valid AMKOCluster object, type: current AMKOCluster Validation}
          - {status: all cluster clients fetched, type: member cluster initialisation}
        """,
    )

    assert leader.spec.is_leader
    assert leader.spec.version == "1.4.2"
    assert [c.type for c in leader.status.conditions] == [
        "current AMKOCluster Validation",
        "member cluster initialisation",
    ]


@pytest.mark.parametrize(
    ("text", "type_", "vpc", "ipam", "cidrs"),
    [
        pytest.param("{type: flat}", "flat", "", "", (), id="flat"),
        pytest.param("{type: vpc, vpcID: vpc-1a2b3c4d}", "vpc", "vpc-1a2b3c4d", "", (), id="vpc"),
        pytest.param(
            "{type: flat, service: {cidrs: [10.0.0.0/16, 192.168.0.0/24]}}",
            "flat",
            "",
            "",
            ("10.0.0.0/16", "192.168.0.0/24"),
            id="ranges of its own",
        ),
        pytest.param(
            "{type: mizar, service: {ipam: External}}", "mizar", "", "External", (), id="external"
        ),
    ],
)
def test_the_networks(text: str, type_: str, vpc: str, ipam: str, cidrs: tuple[str, ...]) -> None:
    network = read(Network, f"{{metadata: {{name: default}}, spec: {text}}}")

    spec = network.spec
    assert (spec.type, spec.vpc_id) == (type_, vpc)
    assert (spec.service.ipam, spec.service.cidrs) == (ipam, cidrs)


def test_the_template_of_a_default_network() -> None:
    network = read(
        Network,
        """
        {"metadata": {"name": "default", "finalizers": ["arktos.futurewei.com/network"]},
         "spec": {"type": "vpc", "vpcID": "acme-default-network"}}
        """,
    )

    assert network.metadata.finalizers == ("arktos.futurewei.com/network",)
    assert network.spec.vpc_id == "acme-default-network"


def test_a_pod_and_a_service_on_a_network() -> None:
    pod = read(
        Pod,
        """
        apiVersion: v1
        kind: Pod
        metadata:
          name: nginx
          labels: {arktos.futurewei.com/network: vpc-1}
          annotations: {arktos.futurewei.com/nic: '{"name": "eth0", "ip": "192.168.0.12"}'}
        spec: {containers: [{name: nginx, image: nginx}]}
        """,
    )
    service = read(
        Service,
        """
        apiVersion: v1
        kind: Service
        metadata: {name: my-service, labels: {arktos.futurewei.com/network: my-network}}
        spec: {selector: {app: MyApp}, ports: [{protocol: TCP, port: 80, targetPort: 9376}]}
        """,
    )

    assert pod.metadata.labels["arktos.futurewei.com/network"] == "vpc-1"
    assert pod.spec.dns_policy == "ClusterFirst"
    assert service.spec.ports[0].target_port == 9376


def test_a_policy_for_pods_without_a_network() -> None:
    policy = read(
        NetworkPolicy,
        """
        apiVersion: networking.k8s.io/v1
        kind: NetworkPolicy
        metadata: {name: implicit-default-network-isolated-policy, namespace: bar}
        spec:
          podSelector:
            matchExpressions: [{key: arktos.futurewei.com/network, operator: DoesNotExist}]
          policyTypes: [Ingress, Egress]
          ingress:
          - from: [{namespaceSelector: {},
                    podSelector: {matchLabels: {arktos.futurewei.com/network: default}}}]
        """,
    )

    absent = LabelRequirement(key="arktos.futurewei.com/network", operator="DoesNotExist")
    assert policy.spec.pod_selector == LabelSelector(match_expressions=(absent,))
    assert policy.spec.ingress
    (peer,) = policy.spec.ingress[0].from_
    assert peer.namespace_selector == LabelSelector()


def test_a_stateful_set_keeps_all_of_its_template() -> None:
    text = """
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {name: etcd, namespace: mynamespace}
        spec:
          serviceName: etcd
          replicas: 11
          selector: {matchLabels: {app: etcd}}
          template:
            metadata: {labels: {app: etcd}, creationTimestamp: null}
            spec: {containers: [{name: etcd, image: coreos/etcd,
                                 volumeMounts: [{name: etcd-store, mountPath: /var/etcd}]}]}
          volumeClaimTemplates:
          - metadata: {name: etcd-store}
            spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}}
        """

    spec = read(StatefulSet, text).spec

    written = yaml.safe_load(text)["spec"]
    assert spec.replicas == 11
    assert spec.template == written["template"]
    assert list(spec.volume_claim_templates) == written["volumeClaimTemplates"]
