"""Providers and plans as pure functions: the desired objects of networks and pods."""

from ipaddress import ip_address, ip_network
from typing import Any, TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from hanse.features.networks.feature import Networks
from hanse.features.networks.isolation import cluster_policy_names
from hanse.features.networks.kube_ovn import IP_ADDRESS, SWITCH
from hanse.features.networks.names import (
    CNI_ARGS,
    NETWORK,
    NIC,
    READINESS,
    TENANT,
    parse_network_name,
)
from hanse.features.networks.options import NetworksOptions
from hanse.features.networks.vpc import mac_address, port_name
from hanse.model.facts import KindServed, Role
from hanse.model.kinds.core import Namespace, Pod, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.kubeovn import OvnSubnet, SwitchLBRule, Vpc, VpcSpec
from hanse.model.kinds.networks import Network, NetworkPeering, NetworkPort, Tenant
from hanse.model.kinds.policynetworking import ClusterNetworkPolicy
from hanse.model.objects import Meta, Object
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import ObjectChange, Snapshot
from hanse.runtime.ownership import Owner, with_owner
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
OVN_KINDS = (Vpc, OvnSubnet, SwitchLBRule)
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
    return owned(msgspec.convert(wire, OvnSubnet), Key("network", "acme.ovn"))


def owned(obj: T, key: Key) -> T:
    """The object as the agent has written it for a key."""
    return stored(with_owner(obj, Owner("networks", key, HERE)))


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


def test_networks_never_share_a_cluster_network_policy() -> None:
    names = ("acme.default", "acme.default.unlabelled", "unlabelled.acme.default")

    policies = [one for name in names for one in cluster_policy_names(parse_network_name(name))]

    assert len(set(policies)) == len(policies) == 4


# -- names of kube-ovn's objects


def ovn_names(plan: Plan) -> set[str]:
    return {d.object.metadata.name for d in plan.desired if type(d.object) in OVN_KINDS}


def balanced(namespace: str, name: str, of: str) -> tuple[Service, EndpointSlice]:
    """A Service of a tenant's network `ovn` with a ready endpoint."""
    labels = {TENANT: of, NETWORK: "ovn"}
    service = {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"clusterIP": "10.96.0.7", "ports": [{"port": 80}]},
    }
    labels = {**labels, "kubernetes.io/service-name": name}
    endpoints = {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "addressType": "IPv4",
        "ports": [{"port": 80}],
        "endpoints": [{"addresses": ["10.30.0.2"], "conditions": {"ready": True}}],
    }
    return (
        stored(msgspec.convert(service, Service)),
        stored(msgspec.convert(endpoints, EndpointSlice)),
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("a-b.c", "a.b-c", id="dashes"),
        pytest.param("a.b", "a.b-front", id="a subnet's name"),
        pytest.param(f"{'a' * 40}-b.{'c' * 40}", f"{'a' * 40}.b-{'c' * 40}", id="long"),
    ],
)
def test_networks_never_share_objects_of_kube_ovn(one: str, other: str) -> None:
    subnets = [{"name": n, "cidr": "10.30.0.0/24"} for n in ("front", "front-front")]
    networks = [network(name, "kube-ovn", subnets=subnets) for name in (one, other)]
    observed = cluster_snapshot(*networks)

    first, second = (FEATURE.plan(Key("network", name), observed) for name in (one, other))

    assert not ovn_names(first) & ovn_names(second)
    assert {len(ovn_names(first)), len(ovn_names(second))} == {3}
    assert all(len(name) <= 63 for name in ovn_names(first) | ovn_names(second))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(("acme-a", "b-c"), ("acme-a-b", "c"), id="dashes"),
        pytest.param(("acme-a", "b-0"), ("acme-a-b", "0"), id="a number"),
        pytest.param(("acme-a", f"b-{'c' * 60}"), ("acme-a-b", "c" * 60), id="long"),
    ],
)
def test_services_never_share_a_load_balancer_of_kube_ovn(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    spaces = [space(one[0]), space(other[0])]
    objects = [*balanced(*one, "acme"), *balanced(*other, "acme"), *spaces]
    observed = cluster_snapshot(OVN, *objects)

    names = [
        ovn_names(FEATURE.plan(Key("service", name, namespace), observed))
        for namespace, name in (one, other)
    ]

    assert len(names[0]) == len(names[1]) == 1
    assert names[0] != names[1]
    assert all(len(f"slr-{name}") <= 63 for name in names[0] | names[1])


def test_objects_of_kube_ovn_keep_their_names_and_others_get_names_of_their_own() -> None:
    """Those of earlier versions had dashes for all separators."""
    first = network("a-b.ovn", "kube-ovn", subnets=SUBNETS)
    second = network("a.b-ovn", "kube-ovn", subnets=SUBNETS)
    key, spaces = Key("network", "a-b.ovn"), (space("a-b-web", of="a-b"), space("a-web", of="a"))
    web, endpoints = balanced("a-b-web", "web", "a-b")
    rule = "a-b-ovn-a-b-web-web-0"
    existing = (
        owned(Vpc(metadata=Meta(name="a-b-ovn"), spec=VpcSpec()), key),
        owned(msgspec.convert({"metadata": {"name": "a-b-ovn-front"}}, OvnSubnet), key),
        owned(
            msgspec.convert({"metadata": {"name": rule}, "spec": {"vip": "x"}}, SwitchLBRule),
            Key("service", "web", "a-b-web"),
        ),
    )
    waiting = [
        annotated(
            pod("db", "a-b-web", **{TENANT: "a-b", NETWORK: "ovn"}), {NIC: '{"subnet": "front"}'}
        ),
        annotated(
            pod("db", "a-web", **{TENANT: "a", NETWORK: "b-ovn"}), {NIC: '{"subnet": "front"}'}
        ),
    ]
    observed = cluster_snapshot(first, second, *spaces, web, endpoints, *existing, *waiting)

    kept = FEATURE.plan(key, observed)
    other = FEATURE.plan(Key("network", "a.b-ovn"), observed)
    switches = [
        FEATURE.plan(Key("port", p.name, p.namespace), observed)
        .patches[0]
        .change["metadata"]["annotations"][SWITCH]
        for p in waiting
    ]

    assert {"a-b-ovn", "a-b-ovn-front"} < ovn_names(kept)
    assert {s.spec.vpc for s in desired_objects(kept, OvnSubnet)} == {"a-b-ovn"}
    assert ovn_names(FEATURE.plan(Key("service", "web", "a-b-web"), observed)) == {rule}
    assert not ovn_names(other) & {o.metadata.name for o in existing}
    (vpc,) = desired_objects(other, Vpc)
    assert {s.spec.vpc for s in desired_objects(other, OvnSubnet)} == {vpc.metadata.name}
    assert switches[0] == "a-b-ovn-front"
    assert switches[1] in {s.metadata.name for s in desired_objects(other, OvnSubnet)}


# -- ports


def test_a_network_with_the_vpc_of_another_tenant_gives_no_ports() -> None:
    """As two that were admitted at the same time: the older one has it."""
    victim = network("bolt.lab", "vpc", vpcID="v-1", subnets=SUBNETS, age=9)
    vpc = network("acme.lab", "vpc", vpcID="v;1", subnets=SUBNETS)
    waiting, key = pod("web", **{NETWORK: "lab"}), Key("port", "web", "acme-web")

    plan = FEATURE.plan(key, cluster_snapshot(victim, vpc, waiting))

    assert not plan.desired
    assert "spec.vpcID: v;1 is of tenant bolt" in str(plan.patches)
    (port,) = desired_objects(FEATURE.plan(key, cluster_snapshot(vpc, waiting)), NetworkPort)
    later = FEATURE.plan(key, cluster_snapshot(victim, vpc, waiting, stored(port)))
    assert desired_objects(later, NetworkPort) == [port], "what it has it keeps"


@pytest.mark.parametrize("where", ["plain", "bolt-web"])
def test_labels_of_a_tenants_network_give_no_port_in_it_to_pods_of_others(where: str) -> None:
    vpc = network("acme.lab", "vpc", vpcID="v", subnets=SUBNETS)
    marks = {TENANT: "acme", NETWORK: "lab"}
    forged = annotated(pod("web", where, **marks), {READINESS: "false"})
    on_ovn = pod("db", where, **{TENANT: "acme", NETWORK: "ovn"})
    observed = cluster_snapshot(vpc, OVN, forged, on_ovn)

    assert FEATURE.plan(Key("port", "web", where), observed) == Plan()
    assert FEATURE.plan(Key("port", "db", where), observed) == Plan()


@pytest.mark.parametrize("where", ["plain", "bolt-web"])
def test_labels_of_a_tenants_network_give_no_load_balancer_to_services_of_others(
    where: str,
) -> None:
    observed = cluster_snapshot(OVN, *balanced(where, "web", "acme"))

    assert FEATURE.plan(Key("service", "web", where), observed) == Plan()


def test_pods_get_their_port_once_it_is_known_whose_their_namespace_is() -> None:
    vpc = network("acme.lab", "vpc", vpcID="v", subnets=SUBNETS)
    waiting = annotated(pod("web", "acme-new", **{NETWORK: "lab"}), {READINESS: "false"})
    key, found = Key("port", "web", "acme-new"), space("acme-new")
    before, after = cluster_snapshot(vpc, waiting), cluster_snapshot(vpc, waiting, found)

    assert FEATURE.plan(key, before) == Plan()
    assert key in set(FEATURE.keys_for(ObjectChange(HERE, None, found), after))
    assert desired_objects(FEATURE.plan(key, after), NetworkPort)


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


@pytest.mark.parametrize("cidr", ["10.8.0.5/32", "fd00:8::5/128"])
def test_a_port_outlives_a_subnet_that_shrinks_to_one_address(cidr: str) -> None:
    vpc = network("acme.lab", "vpc", vpcID="v", subnets=SUBNETS)
    waiting, key = pod("web", **{NETWORK: "lab"}), Key("port", "web", "acme-web")
    (port,) = desired_objects(FEATURE.plan(key, cluster_snapshot(vpc, waiting)), NetworkPort)
    subnets = [{"name": port.spec.subnet, "cidr": cidr}]
    shrunk = network("acme.lab", "vpc", vpcID="v", subnets=subnets)

    after = FEATURE.plan(key, cluster_snapshot(shrunk, waiting, stored(port)))

    assert desired_objects(after, NetworkPort) == [port]


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

    labelled, unlabelled = desired_objects(
        feature.plan(Key("network", "acme.default"), observed), ClusterNetworkPolicy
    )

    own = [
        {
            "pods": {
                "namespaceSelector": {"matchLabels": {TENANT: "acme"}},
                "podSelector": selector,
            }
        }
        for selector in (
            {"matchLabels": {NETWORK: "default"}},
            {"matchExpressions": [{"key": NETWORK, "operator": "DoesNotExist"}]},
        )
    ]
    assert [guard.spec.subject for guard in (labelled, unlabelled)] == own
    for guard in (labelled, unlabelled):
        assert guard.spec.tier == "Admin"
        assert [rule["action"] for rule in guard.spec.ingress] == ["Pass", "Deny"]
        assert guard.spec.ingress[0]["from"] == own


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

    for guard in desired_objects(
        feature.plan(Key("network", "acme.default"), observed), ClusterNetworkPolicy
    ):
        assert len(guard.spec.egress[0]["to"]) == 4, "labelled and unlabelled pods of both"


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
