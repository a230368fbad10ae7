"""Whether policies or guards isolate, by what guards say of their nodes."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from hanse.features.networks.feature import Networks
from hanse.features.networks.guarded_nodes import Isolation, isolated_by
from hanse.features.networks.isolation_plan import isolated_condition
from hanse.features.networks.lookups import needs_no_guard
from hanse.features.networks.names import TENANT
from hanse.features.networks.options import NetworksOptions
from hanse.features.networks.reachability import is_allowed
from hanse.features.networks.traffic import TrafficEndpoint, TrafficPort
from hanse.model.conditions import merge_conditions
from hanse.model.facts import Fact, HolderState, KindServed, LeaseLiveness
from hanse.model.kinds.core import Node, Pod
from hanse.model.kinds.networking import NetworkPolicy
from hanse.model.kinds.networks import Network, NetworkAccess
from hanse.model.kinds.policynetworking import ClusterNetworkPolicy
from hanse.model.objects import Object
from hanse.model.ownership import OWNER
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot
from tests.features.networks.builders import (
    HERE,
    cluster_snapshot,
    guard_lease,
    guard_liveness,
    network,
    node,
    pod,
    space,
)
from tinykube.virtual_time import EPOCH

GUARDS = NetworksOptions(guard=True)
WEB = Key("isolation", "acme-web")
READY, SILENT, UNKNOWN = HolderState.READY, HolderState.SILENT, HolderState.UNKNOWN


def by(*objects: Object, facts: Sequence[Fact] = ()) -> Isolation:
    return isolated_by(cluster_snapshot(*objects, facts=facts), GUARDS)


def new_node(**more: object) -> Node:
    """A node that registered, and was never ready."""
    at = EPOCH.isoformat()
    not_ready = {"type": "Ready", "status": "False", "lastTransitionTime": at}
    made = node("node-2", "boot-2", ready=not_ready, **more)
    return replace(made, metadata=replace(made.metadata, creation_timestamp=EPOCH))


def bound(to: str, ip: str = "") -> Pod:
    """A tenant's pod on a node."""
    made = pod("a", "acme-web", ip)
    return replace(made, spec=replace(made.spec, node_name=to))


def test_guards_isolate_once_every_node_has_one() -> None:
    one, two = (node(), guard_lease()), (node("node-2"), guard_lease("node-2"))
    ready = [guard_liveness(), guard_liveness("node-2")]

    assert by() is Isolation.POLICIES
    assert by(*one, facts=ready) is Isolation.GUARDS
    assert by(*one, node("node-2"), facts=ready) is Isolation.POLICIES
    assert by(*one, *two, facts=ready) is Isolation.GUARDS
    assert by(*one, guard_lease("gone"), facts=ready) is Isolation.GUARDS
    assert isolated_by(cluster_snapshot(*one, facts=ready), NetworksOptions()) is Isolation.POLICIES


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ([guard_liveness(state=SILENT)], Isolation.POLICIES),
        ([guard_liveness(state=UNKNOWN, outdated=True)], Isolation.POLICIES),
        ([guard_liveness(state=UNKNOWN)], Isolation.UNDECIDED),
        ([], Isolation.UNDECIDED),
    ],
    ids=["silent", "outdated", "unknown", "not judged"],
)
def test_a_lease_counts_as_long_as_it_is_renewed(facts: list[Fact], found: Isolation) -> None:
    assert by(node(), guard_lease(), facts=facts) is found


def test_rules_do_not_outlive_the_boot_of_their_machine() -> None:
    assert by(node(boot="boot-2"), guard_lease(), facts=[guard_liveness()]) is Isolation.POLICIES
    assert by(node(boot=""), guard_lease(boot=""), facts=[guard_liveness()]) is Isolation.POLICIES


def test_a_node_that_was_never_ready_needs_no_guard_until_a_tenants_pod_is_bound_to_it() -> None:
    guarded, facts = (node(), guard_lease()), [guard_liveness()]
    was_ready = new_node()
    later = EPOCH + timedelta(seconds=9)
    (condition,) = was_ready.status.conditions
    status = replace(was_ready.status, conditions=(replace(condition, last_transition_time=later),))

    assert by(*guarded, new_node(), facts=facts) is Isolation.GUARDS
    assert by(*guarded, new_node(), bound("node-2"), facts=facts) is Isolation.POLICIES
    assert by(*guarded, replace(was_ready, status=status), facts=facts) is Isolation.POLICIES


def test_policies_stay_as_they_are_while_it_is_not_known_who_isolates() -> None:
    feature, nodes = Networks(GUARDS), (node(), guard_lease(), network("acme.default"))

    def plan(*facts: Fact) -> Plan:
        return feature.plan(WEB, cluster_snapshot(*nodes, facts=facts))

    assert plan(guard_liveness()) == Plan()
    assert plan() == Plan(keep_all=True)
    silent = plan(guard_liveness(state=SILENT))
    assert [one.object.metadata.name for one in silent.desired] == [
        "hanse-deny",
        "hanse-network.default",
        "hanse-unlabelled",
    ]


def keys(change: Change, snapshot: Snapshot, options: NetworksOptions = GUARDS) -> set[Key]:
    return set(Networks(options).keys_for(change, snapshot))


def test_what_changes_who_isolates_concerns_all_namespaces_and_networks() -> None:
    seen = cluster_snapshot(node(), new_node(), guard_lease(), network("acme.default"))
    silent = FactChange(guard_liveness(), guard_liveness(state=SILENT))
    renewed = replace(guard_lease(), metadata=replace(guard_lease().metadata, generation=2))
    other = LeaseLiveness(HERE, "hanse-system", "node-1", "x", SILENT, EPOCH)
    concerned: list[Change] = [
        silent,
        ObjectChange(HERE, None, node()),
        ObjectChange(HERE, node(), None),
        ObjectChange(HERE, node(), node(boot="boot-2")),
        ObjectChange(HERE, new_node(), node("node-2", "boot-2")),
        ObjectChange(HERE, guard_lease(), None),
        ObjectChange(HERE, guard_lease(), guard_lease(boot="boot-2")),
        ObjectChange(HERE, pod("a"), bound("node-2")),
    ]
    unconcerned: list[Change] = [
        ObjectChange(HERE, node(), node(unschedulable=True)),
        ObjectChange(HERE, guard_lease(), renewed),
        ObjectChange(HERE, pod("a"), bound("node-1")),
        FactChange(None, other),
    ]

    for change in concerned:
        assert {WEB, Key("isolation", "bolt-web"), Key("network", "acme.default")} <= keys(
            change, seen
        )
    for change in unconcerned:
        assert keys(change, seen) == set()
    assert keys(silent, seen, NetworksOptions()) == set()


def written(snapshot: Snapshot, space: str = "acme-web") -> list[NetworkPolicy]:
    plan = Networks(GUARDS).plan(Key("isolation", space), snapshot)
    return [one.object for one in plan.desired if isinstance(one.object, NetworkPolicy)]


def test_the_condition_of_a_network_says_what_is_so() -> None:
    found, nodes = network("acme.default"), (node(), guard_lease())
    spaces = [space(), space("acme-kube-system"), space("acme-default")]

    def told(*objects: Object, facts: Sequence[Fact] = ()) -> list[tuple[str, str]]:
        seen = cluster_snapshot(found, *nodes, *spaces, *objects, facts=facts)
        return [(c.status, c.reason) for c in isolated_condition(found, seen, GUARDS)]

    bare = cluster_snapshot(found, *spaces, node())
    policies = [p for s in spaces for p in written(bare, s.metadata.name)]
    assert told(facts=[guard_liveness()]) == [("True", "Guards")]
    assert told() == []
    silent = [guard_liveness(state=SILENT)]
    assert told(facts=silent) == []
    assert told(*policies, facts=silent) == [("True", "GuardsMissing")]
    said = isolated_condition(
        found, cluster_snapshot(found, *nodes, facts=[guard_liveness()]), GUARDS
    )
    found = replace(
        found, status=replace(found.status, conditions=merge_conditions((), said, EPOCH))
    )
    assert told(*policies[1:], facts=silent) == [("False", "Pending")]
    assert not needs_no_guard(found)


ADMIN = NetworksOptions(admin_policies=True)
SERVED = KindServed(HERE, ClusterNetworkPolicy.kind, served=True)


def admin_policies(*objects: Object) -> list[ClusterNetworkPolicy]:
    """The ClusterNetworkPolicies for networks among the objects, and for namespaces."""
    seen, feature = cluster_snapshot(*objects, facts=[SERVED]), Networks(ADMIN)
    spaces = ("acme-web", "acme-kube-system", "acme-default", "bolt-web")
    networks = [o.metadata.name for o in objects if isinstance(o, Network)]
    keys = (*(Key("isolation", s) for s in spaces), *(Key("network", n) for n in networks))
    plans = [feature.plan(key, seen) for key in keys]
    found = (one.object for plan in plans for one in plan.desired)
    return [one for one in found if isinstance(one, ClusterNetworkPolicy)]


@pytest.mark.parametrize(
    "labels",
    [{}, {"arktos.futurewei.com/network": ""}, {"arktos.futurewei.com/network": "gone"}],
    ids=["no label", "an empty one", "of a network that is not there"],
)
def test_pods_of_no_network_reach_no_tenant_where_administrators_policies_isolate(
    labels: dict[str, str],
) -> None:
    """As with NetworkPolicies, which deny what no network allows."""
    lab = network("acme.lab")
    found = admin_policies(lab)
    lost, bolt = (
        TrafficEndpoint("pod", f"{one}-web", labels, {**name(one), TENANT: one}, ("10.4.1.5",))
        for one in ("acme", "bolt")
    )
    own = replace(lost, labels={"arktos.futurewei.com/network": "lab"})

    for one, other in ((lost, bolt), (bolt, lost), (lost, own), (own, lost), (lost, lost)):
        assert not is_allowed(one, other, TrafficPort(80), (), found)
    assert is_allowed(own, own, TrafficPort(80), (), found)
    assert is_allowed(lost, FRONT, TrafficPort(80), (), found)


def name(tenant: str) -> dict[str, str]:
    return {"kubernetes.io/metadata.name": f"{tenant}-web"}


def test_the_condition_of_a_network_waits_for_administrators_policies() -> None:
    found = network("acme.default")
    policies = admin_policies(found)

    def told(*objects: Object) -> list[tuple[str, str]]:
        seen = cluster_snapshot(found, *objects, facts=[SERVED])
        return [(c.status, c.reason) for c in isolated_condition(found, seen, ADMIN)]

    assert told() == []
    assert told(*policies) == [("True", "ClusterNetworkPolicies")]
    seen = cluster_snapshot(found, *policies, facts=[SERVED])
    said = merge_conditions((), isolated_condition(found, seen, ADMIN), EPOCH)
    found = replace(found, status=replace(found.status, conditions=said))
    for missing in policies:
        if missing.metadata.labels[TENANT] == "acme":
            rest = [one for one in policies if one is not missing]
            assert told(*rest) == [("False", "Pending")], missing.metadata.name


def test_network_policies_stay_until_those_of_administrators_are_there() -> None:
    found = network("acme.default")
    bare = [stored_policy(one) for one in written(cluster_snapshot(found, node()))]
    policies = admin_policies(found)

    def kept(*objects: Object) -> set[str]:
        seen = cluster_snapshot(found, *bare, *objects, facts=[SERVED])
        return {ref.ref.name for ref in Networks(ADMIN).plan(WEB, seen).kept}

    assert kept() == {one.metadata.name for one in bare} != set()
    assert kept(*policies[1:]) == kept()
    assert kept(*policies) == set()


def stored_policy(policy: NetworkPolicy) -> NetworkPolicy:
    """A policy with the owner label that the runtime gives it."""
    labels = {**policy.metadata.labels, OWNER: "networks-1"}
    return replace(policy, metadata=replace(policy.metadata, labels=labels))


def test_administrators_policies_that_appear_or_go_concern_their_tenant() -> None:
    found = network("acme.default")
    policies = [one for one in admin_policies(found) if one.metadata.labels[TENANT] == "acme"]
    seen = cluster_snapshot(found, facts=[SERVED])

    for one in policies:
        for change in (ObjectChange(HERE, None, one), ObjectChange(HERE, one, None)):
            assert {WEB, Key("network", "acme.default")} <= keys(change, seen, ADMIN)
        assert keys(ObjectChange(HERE, one, one), seen, ADMIN) == set()


def access(**spec: object) -> NetworkAccess:
    wire = {"metadata": {"name": "platform"}, "spec": {"networks": ["acme.*"], **spec}}
    return msgspec.convert(wire, NetworkAccess)


OWN = TrafficEndpoint(
    "own",
    "acme-web",
    {"arktos.futurewei.com/network": "default"},
    {"arktos.futurewei.com/tenant": "acme"},
    ("10.4.1.5",),
)
FRONT = TrafficEndpoint(
    "front", "ingress", {}, {"kubernetes.io/metadata.name": "ingress"}, ("10.4.1.9",)
)


def outside(address: str) -> TrafficEndpoint:
    return TrafficEndpoint("outside", addresses=(address,))


def test_policies_allow_what_the_platform_allows_and_guards_let_through() -> None:
    """Both are there while guards come and go: what passes is what both allow."""
    ports = [{"port": 8080}]
    peers = [{"namespace": "ingress", "ports": ports}, {"nodes": True}, {"cidr": "203.0.113.0/24"}]
    nodes = node(podCIDR="10.4.1.0/24"), bound("node-1", "10.4.1.5")
    more = access(**{"from": peers, "to": [{"cidr": "0.0.0.0/0"}]})
    policies = written(cluster_snapshot(network("acme.default"), *nodes, more))

    assert is_allowed(FRONT, OWN, TrafficPort(8080), policies)
    assert not is_allowed(FRONT, OWN, TrafficPort(22), policies)
    assert not is_allowed(OWN, FRONT, TrafficPort(8080), policies)
    tenants = replace(
        FRONT, namespace_labels={**FRONT.namespace_labels, "arktos.futurewei.com/tenant": "bolt"}
    )
    assert not is_allowed(tenants, OWN, TrafficPort(8080), policies)
    assert is_allowed(outside("172.18.0.1"), OWN, TrafficPort(22), policies)
    assert is_allowed(outside("203.0.113.7"), OWN, TrafficPort(22), policies)
    assert not is_allowed(outside("198.51.100.7"), OWN, TrafficPort(22), policies)
    for address, reached in {
        "198.51.100.7": True,
        "10.4.2.1": True,
        "10.4.1.77": False,  # pods
        "172.18.0.1": False,  # a node
        "169.254.169.254": False,
    }.items():
        assert is_allowed(OWN, outside(address), TrafficPort(443), policies) is reached, address


def test_ranges_are_not_opened_where_it_is_not_known_which_addresses_pods_have() -> None:
    everywhere, net = access(to=[{"cidr": "0.0.0.0/0"}, {"nodes": True}]), network("acme.default")
    for pods in (node(), node(podCIDR="10.5.0.0/24")):
        seen = cluster_snapshot(net, pods, bound("node-1", "10.4.1.5"), everywhere)
        policies = written(seen)

        assert not is_allowed(OWN, outside("198.51.100.7"), TrafficPort(443), policies)
        assert is_allowed(OWN, outside("172.18.0.1"), TrafficPort(443), policies)


def test_pods_of_others_with_the_networks_labels_do_not_close_its_ranges() -> None:
    forged = pod("web", "plain", "10.99.0.1", **{TENANT: "acme"})
    everywhere, net = access(to=[{"cidr": "0.0.0.0/0"}]), network("acme.default")
    known = node(podCIDR="10.4.1.0/24"), bound("node-1", "10.4.1.5")

    policies = written(cluster_snapshot(net, *known, forged, everywhere))

    assert is_allowed(OWN, outside("198.51.100.7"), TrafficPort(443), policies)


def test_a_range_within_the_cluster_opens_nothing() -> None:
    seen = cluster_snapshot(
        network("acme.default"), node(podCIDR="10.4.0.0/16"), access(to=[{"cidr": "10.4.1.0/24"}])
    )

    assert not is_allowed(OWN, FRONT, TrafficPort(443), written(seen))
