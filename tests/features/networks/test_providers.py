"""Providers and plans as pure functions: the desired objects of networks and pods."""

from ipaddress import ip_address, ip_network
from typing import Any, TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from hanse.features.networks.feature import Networks
from hanse.features.networks.kube_ovn import IP_ADDRESS, SWITCH
from hanse.features.networks.names import CNI_ARGS, NETWORK, NIC, READINESS, TENANT
from hanse.features.networks.options import NetworksOptions
from hanse.features.networks.vpc import mac_address, port_name
from hanse.model.facts import KindServed, Role
from hanse.model.kinds.core import Namespace, Pod, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.kubeovn import OvnSubnet, SwitchLBRule, Vpc
from hanse.model.kinds.networks import Network, NetworkPeering, NetworkPort, Tenant
from hanse.model.kinds.policynetworking import ClusterNetworkPolicy
from hanse.model.objects import Object
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import ObjectChange, Snapshot
from tests.features.networks.builders import (
    FEATURE,
    HERE,
    cluster_snapshot,
    network,
    pod,
    space,
    tenant,
)
from tests.support.builders import annotated, cluster, snapshot, stored

T = TypeVar("T", bound=Object)
SUBNETS = [{"name": "front", "cidr": "10.30.0.0/24"}, {"name": "back", "cidr": "10.31.0.0/24"}]
OVN = network("acme.ovn", "kube-ovn", subnets=SUBNETS)


def desired_objects(plan: Plan, kind: type[T]) -> list[T]:
    return [d.object for d in plan.desired if isinstance(d.object, kind)]


def status(plan: Plan) -> dict[str, Any]:
    (patch,) = [p for p in plan.patches if p.subresource == "status"]
    result: dict[str, Any] = patch.change["status"]
    return result


def subnet(name: str, ready: bool) -> OvnSubnet:
    conditions = [{"type": "Ready", "status": str(ready)}]
    wire = {
        "metadata": {"name": name},
        "spec": {"vpc": "acme-ovn"},
        "status": {"conditions": conditions},
    }
    return stored(msgspec.convert(wire, OvnSubnet))


def test_kube_ovn_gets_a_vpc_and_a_subnet_for_each_of_ours() -> None:
    plan = FEATURE.plan(Key("network", "acme.ovn"), cluster_snapshot(OVN))

    (vpc,) = desired_objects(plan, Vpc)
    assert vpc.spec.namespaces == ("acme-default", "acme-kube-system", "acme-web")
    assert [
        (s.metadata.name, s.spec.cidr_block, s.spec.vpc) for s in desired_objects(plan, OvnSubnet)
    ] == [
        ("acme-ovn-front", "10.30.0.0/24", "acme-ovn"),
        ("acme-ovn-back", "10.31.0.0/24", "acme-ovn"),
    ]
    assert status(plan)["phase"] == "Pending"
    assert "waiting for Subnet acme-ovn-front" in status(plan)["message"]


def test_a_kube_ovn_network_goes_on_once_its_subnets_are_ready() -> None:
    ready = [subnet(f"acme-ovn-{name}", True) for name in ("front", "back")]

    plan = FEATURE.plan(Key("network", "acme.ovn"), cluster_snapshot(OVN, *ready))

    assert "waiting for the address" in status(plan)["message"]


def test_a_pod_on_kube_ovn_gets_its_annotations_and_loses_its_gate() -> None:
    notes = {READINESS: "false", NIC: '{"subnet": "back", "ip": "10.31.0.9"}'}
    waiting = pod("web", **{NETWORK: "ovn"})
    waiting = replace(waiting, metadata=replace(waiting.metadata, annotations=notes))

    plan = FEATURE.plan(Key("port", "web", "acme-web"), cluster_snapshot(OVN, waiting))

    (patch,) = plan.patches
    result = patch.change["metadata"]["annotations"]
    assert result[SWITCH] == "acme-ovn-back"
    assert result[IP_ADDRESS] == "10.31.0.9"
    assert result[READINESS] is None


def test_a_pod_on_kube_ovn_that_asks_for_part_of_a_subnet_is_refused() -> None:
    waiting = annotated(
        pod("web", **{NETWORK: "ovn"}), {READINESS: "false", NIC: '{"subnet": "10.31.0.0/28"}'}
    )

    plan = FEATURE.plan(Key("port", "web", "acme-web"), cluster_snapshot(OVN, waiting))

    assert "kube-ovn gives addresses of whole subnets; name subnet back" in str(plan.patches)


def test_a_service_on_kube_ovn_leads_to_its_ready_pods_without_a_proxy() -> None:
    labels = {TENANT: "acme", NETWORK: "ovn"}
    web = msgspec.convert(
        {
            "metadata": {"name": "web", "namespace": "acme-web", "labels": labels},
            "spec": {"clusterIP": "10.96.0.7", "ports": [{"name": "http", "port": 80}]},
        },
        Service,
    )
    piece = msgspec.convert(
        {
            "metadata": {
                "name": "web-1",
                "namespace": "acme-web",
                "labels": {**labels, "kubernetes.io/service-name": "web"},
            },
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080}],
            "endpoints": [
                {"addresses": ["10.30.0.2"], "conditions": {"ready": True}},
                {"addresses": ["10.30.0.3"], "conditions": {"ready": False}},
            ],
        },
        EndpointSlice,
    )
    key = Key("service", "web", "acme-web")

    plan = FEATURE.plan(key, cluster_snapshot(OVN, stored(web), stored(piece)))

    (rule,) = desired_objects(plan, SwitchLBRule)
    assert (rule.spec.vip, rule.spec.endpoints) == ("10.96.0.7", ("10.30.0.2",))
    assert [(p.port, p.target_port) for p in rule.spec.ports] == [(80, 8080)]
    assert FEATURE.plan(key, cluster_snapshot(OVN)) == Plan()
    change = ObjectChange(HERE, None, piece)
    assert key in set(FEATURE.keys_for(change, cluster_snapshot(OVN, stored(web), stored(piece))))


def test_a_kube_ovn_network_waits_at_its_end_for_what_kube_ovn_holds() -> None:
    gone = replace(
        OVN, metadata=replace(OVN.metadata, deletion_timestamp=OVN.metadata.creation_timestamp)
    )
    result = {"type": "Drained", "status": "True", "reason": "Unused", "message": ""}
    draining = replace(gone, status=msgspec.convert({"conditions": [result]}, type(gone.status)))

    held = FEATURE.plan(
        Key("network", "acme.ovn"), cluster_snapshot(draining, subnet("acme-ovn-front", True))
    )
    free = FEATURE.plan(Key("network", "acme.ovn"), cluster_snapshot(draining))

    assert "kube-ovn removes acme-ovn-front" in status(held)["message"]
    assert free.patches[0].change == {"metadata": {"finalizers": None}}


def test_the_same_pod_asks_for_the_same_port_again() -> None:
    vpc = network("acme.lab", "vpc", vpcID="v", subnets=SUBNETS)
    waiting = pod("web", **{NETWORK: "lab"})
    key = Key("port", "web", "acme-web")

    first = desired_objects(FEATURE.plan(key, cluster_snapshot(vpc, waiting)), NetworkPort)
    again = desired_objects(FEATURE.plan(key, cluster_snapshot(vpc, waiting)), NetworkPort)
    standing = stored(first[0])
    after = FEATURE.plan(key, cluster_snapshot(vpc, waiting, standing))

    assert first == again == desired_objects(after, NetworkPort)
    assert (
        f"IPV4={first[0].spec.address}"
        in after.patches[0].change["metadata"]["annotations"][CNI_ARGS]
    )


def test_a_pod_gets_the_interface_that_it_asks_for() -> None:
    vpc = network("acme.lab", "vpc", vpcID="v", subnets=[{"name": "all", "cidr": "10.8.0.0/16"}])
    asks = annotated(
        pod("web", **{NETWORK: "lab"}), {NIC: '{"name": "eth1", "subnet": "10.8.7.0/29"}'}
    )
    key = Key("port", "web", "acme-web")

    (port,) = desired_objects(FEATURE.plan(key, cluster_snapshot(vpc, asks)), NetworkPort)
    after = FEATURE.plan(key, cluster_snapshot(vpc, asks, stored(port)))

    assert ip_address(port.spec.address) in ip_network("10.8.7.0/29")
    result = after.patches[0].change["metadata"]["annotations"][CNI_ARGS]
    assert result.startswith(f"IFNAME=eth1;IPV4={port.spec.address};PREFIX=16;GATEWAY=10.8.0.1;")


def test_a_full_part_of_a_subnet_is_reported_as_that_part() -> None:
    vpc = network("acme.lab", "vpc", vpcID="v", subnets=[{"name": "all", "cidr": "10.8.0.0/16"}])
    key = Key("port", "web", "acme-web")

    def asking(name: str) -> Pod:
        return annotated(pod(name, **{NETWORK: "lab"}), {NIC: '{"subnet": "10.8.7.4/32"}'})

    (port,) = desired_objects(
        FEATURE.plan(replace(key, name="other"), cluster_snapshot(vpc, asking("other"))),
        NetworkPort,
    )
    plan = FEATURE.plan(key, cluster_snapshot(vpc, asking("web"), stored(port)))

    assert port.spec.address == "10.8.7.4"
    assert desired_objects(plan, NetworkPort) == []
    assert "is free in all (10.8.7.4/32)" in str(plan.patches[0].change)
    assert plan.requeue_after is not None


def test_the_last_port_to_go_wakes_a_network_that_waits_for_it() -> None:
    lab = network("acme.lab", "vpc", vpcID="v", subnets=SUBNETS)
    ends = replace(lab.metadata, deletion_timestamp=lab.metadata.creation_timestamp)
    ending = replace(lab, metadata=ends)
    (port,) = desired_objects(
        FEATURE.plan(
            Key("port", "web", "acme-web"), cluster_snapshot(lab, pod("web", **{NETWORK: "lab"}))
        ),
        NetworkPort,
    )

    woken = FEATURE.keys_for(ObjectChange(HERE, stored(port), None), cluster_snapshot(ending))

    assert Key("network", "acme.lab") in set(woken)


def test_a_network_that_is_listed_after_its_pods_wakes_their_ports() -> None:
    lab = stored(network("acme.lab", "vpc", vpcID="v", subnets=SUBNETS))

    woken = FEATURE.keys_for(
        ObjectChange(HERE, None, lab), cluster_snapshot(lab, pod("web", **{NETWORK: "lab"}))
    )

    assert Key("port", "web", "acme-web") in set(woken)


def test_a_pod_that_has_ended_or_is_gone_has_no_port() -> None:
    vpc = network("acme.lab", "vpc", vpcID="v")
    ended = pod("web", **{NETWORK: "lab"})
    ended = replace(ended, status=replace(ended.status, phase="Succeeded"))

    assert FEATURE.plan(Key("port", "web", "acme-web"), cluster_snapshot(vpc, ended)) == Plan()
    assert FEATURE.plan(Key("port", "web", "acme-web"), cluster_snapshot(vpc)) == Plan()


@pytest.mark.parametrize("address", ["10.0.0.1", "fd00::1", "fd00:0:0:1::"])
def test_each_address_has_a_port_name_and_a_mac_of_its_own(address: str) -> None:
    others = [a for a in ("10.0.0.1", "10.0.0.11", "fd00::1", "fd00:0:0:1::") if a != address]

    assert port_name("t.n", address) not in {port_name("t.n", other) for other in others}
    assert mac_address("t.n", address) != mac_address("t.m", address)
    assert int(mac_address("t.n", address)[:2], 16) & 3 == 2


def guarded_world(*objects: Object) -> tuple[Networks, Snapshot]:
    feature = Networks(NetworksOptions(admin_policies=True))
    homes = [space(), space("acme-kube-system"), space("bolt-web", of="bolt")]
    tenants = [] if any(isinstance(o, Tenant) for o in objects) else [tenant(), tenant("bolt")]
    here = [*tenants, *homes, *objects]
    served = KindServed(HERE, ClusterNetworkPolicy.kind, served=True)
    return feature, snapshot(feature, HERE, [cluster(HERE, Role.LOCAL)], {HERE: here}, [served])


def test_the_guard_passes_the_network_on_and_denies_other_tenants_before_they_are_asked() -> None:
    feature, observed = guarded_world(network())

    (guard,) = desired_objects(
        feature.plan(Key("network", "acme.default"), observed), ClusterNetworkPolicy
    )

    assert guard.spec.tier == "Admin"
    assert [rule["action"] for rule in guard.spec.ingress] == ["Pass", "Deny"]
    assert guard.spec.ingress[0]["from"] == [
        {
            "pods": {
                "namespaceSelector": {"matchLabels": {TENANT: "acme"}},
                "podSelector": {"matchLabels": {NETWORK: "default"}},
            }
        }
    ]


def test_the_guard_lets_peers_through() -> None:
    def peering(where: str, mine: str, peer: str) -> NetworkPeering:
        uids = {name: tenants[name].metadata.uid for name in tenants}
        own, theirs = where.partition("-")[0], peer.partition(".")[0]
        wire = {
            "metadata": {"name": "p", "namespace": where},
            "spec": {"network": mine, "peer": peer},
            "status": {"tenantUID": uids[own], "peerTenantUID": uids[theirs]},
        }
        return stored(msgspec.convert(wire, NetworkPeering))

    tenants = {name: tenant(name) for name in ("acme", "bolt")}

    both = (
        peering("acme-web", "default", "bolt.default"),
        peering("bolt-web", "default", "acme.default"),
    )
    networks = (network(), network("bolt.default"))
    feature, observed = guarded_world(*tenants.values(), *networks, *both)

    (guard,) = desired_objects(
        feature.plan(Key("network", "acme.default"), observed), ClusterNetworkPolicy
    )

    assert len(guard.spec.egress[0]["to"]) == 2


def test_without_being_asked_for_there_is_no_guard() -> None:
    plan = FEATURE.plan(Key("network", "acme.default"), cluster_snapshot(network()))

    assert desired_objects(plan, ClusterNetworkPolicy) == []


def test_a_service_of_another_feature_is_somebody_who_uses_a_network() -> None:
    lab = network("acme.lab")
    ends = replace(lab.metadata, deletion_timestamp=lab.metadata.creation_timestamp)
    labels = {TENANT: "acme", NETWORK: "lab", "hanse.dev/owner": "services-1"}
    wire = {"metadata": {"name": "derived", "namespace": "acme-web", "labels": labels}}
    derived = stored(msgspec.convert(wire, Service))

    plan = FEATURE.plan(
        Key("network", "acme.lab"), cluster_snapshot(replace(lab, metadata=ends), derived)
    )

    assert status(plan)["message"] == "waiting for Service acme-web/derived to be deleted"


def test_names_that_are_too_long_are_shortened_and_stay_apart() -> None:
    long = "n" * 63
    observed = cluster_snapshot(network(f"acme.{long}"))

    names = {
        d.object.metadata.name
        for d in FEATURE.plan(Key("network", f"acme.{long}"), observed).desired
        if not isinstance(d.object, Namespace | Network | Pod)
    }

    assert names
    assert all(len(name) <= 63 for name in names), names
