"""Networks with optional kinds: kube-ovn, and ClusterNetworkPolicies.

Their definitions are stand-ins; what their controllers would do is done by hand, step by step.
"""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from hanse.features.networks.feature import Networks
from hanse.features.networks.kube_ovn import IP_ADDRESS, SWITCH
from hanse.features.networks.names import NETWORK, TENANT
from hanse.features.networks.options import NetworksOptions
from hanse.features.networks.ports import PORT_MESSAGE
from hanse.model.conditions import find_condition
from hanse.model.kinds.core import Namespace, Pod, Service
from hanse.model.kinds.kubeovn import OvnSubnet, SwitchLBRule, Vpc
from hanse.model.kinds.networks import Network, NetworkPeering
from hanse.model.kinds.policynetworking import ClusterNetworkPolicy
from hanse.model.objects import Object
from tests.scenarios.network_fixtures import agent_users
from tests.scenarios.networks import HERE, NetworksScenario, made, refusal
from tests.scenarios.test_networks_ports import gated, released
from tests.scenarios.test_networks_tenants import POD
from tests.support.scenario import Check, Scenario, describe_writes
from tests.support.testbed_embedded import embedded_testbed
from tinykube.virtual_time import ON_VIRTUAL_TIME

pytestmark = pytest.mark.anyio

OVN_KINDS = (Vpc, OvnSubnet, SwitchLBRule)
SUBNETS = [{"name": "front", "cidr": "10.30.0.0/24"}, {"name": "back", "cidr": "10.31.0.0/24"}]
THEIRS = "kubeovn.io/kube-ovn-controller"


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


@pytest.fixture
async def tenancy() -> AsyncIterator[NetworksScenario]:
    """Tenants of a cluster whose agent guards them by ClusterNetworkPolicies where it can."""
    options = NetworksOptions(admin_policies=True, agents=agent_users("kinds"))
    async with (
        embedded_testbed((HERE,)) as testbed,
        Scenario(testbed, "kinds", lambda: (Networks(options),)) as scenario,
    ):
        tenancy = NetworksScenario(scenario, 1)
        await tenancy.open()
        await scenario.start_agent(HERE)
        yield tenancy
        await scenario.kill_agent(HERE)


class KubeOvn:
    """What kube-ovn's controller does to its objects."""

    def __init__(self, tenancy: NetworksScenario) -> None:
        self._city = tenancy

    async def holds(self, kind: type[Object], name: str, held: bool = True) -> None:
        """Put its finalizer on an object, or let the object go."""
        finalizers = {"metadata": {"finalizers": [THEIRS] if held else None}}
        await self._city.admin.patch(kind, name, "", finalizers)

    async def says(self, subnet: str, status: str) -> None:
        """Tell whether a Subnet can be used, and fill in what it fills in."""
        spec = {"protocol": "IPv4", "excludeIps": ["10.30.0.1"]}
        await self._city.admin.patch(OvnSubnet, subnet, "", {"spec": spec})
        conditions = [{"type": "Ready", "status": status}]
        change = {"status": {"conditions": conditions}}
        await self._city.admin.patch(OvnSubnet, subnet, "", change, subresource="status")


async def networked(tenancy: NetworksScenario) -> tuple[str, str, KubeOvn]:
    """A tenant with a network by kube-ovn that is ready; its namespace and the network's name."""
    await tenancy.install_crds(*OVN_KINDS)
    acme = await tenancy.create_tenant()
    space = await tenancy.create_namespace(acme)
    name = await tenancy.create_network(acme, "ovn", "kube-ovn", subnets=SUBNETS)
    await tenancy.scenario.eventually(
        tenancy.has_phase(name, "Pending", f"waiting for Subnet {acme}-ovn-front")
    )
    ovn = KubeOvn(tenancy)
    for subnet in ("front", "back"):
        await ovn.says(f"{acme}-ovn-{subnet}", "True")
    await tenancy.scenario.eventually(tenancy.has_phase(name, "Ready"))
    return space, name, ovn


async def test_a_vpc_and_subnets_are_created_for_kube_ovn_and_its_readiness_is_followed(
    tenancy: NetworksScenario,
) -> None:
    space, name, ovn = await networked(tenancy)
    acme = name.partition(".")[0]

    vpc = await tenancy.admin.read(Vpc, f"{acme}-ovn")
    assert space in vpc.spec.namespaces
    front = await tenancy.admin.read(OvnSubnet, f"{acme}-ovn-front")
    assert (front.spec.vpc, front.spec.cidr_block) == (f"{acme}-ovn", "10.30.0.0/24")
    assert front.spec.gateway == "10.30.0.1"
    assert front.spec.protocol == "IPv4", "what kube-ovn fills in is its own"
    await ovn.says(f"{acme}-ovn-back", "False")
    await tenancy.scenario.eventually(
        tenancy.has_phase(name, "Pending", f"waiting for Subnet {acme}-ovn-back")
    )
    await ovn.says(f"{acme}-ovn-back", "True")
    await tenancy.scenario.eventually(tenancy.has_phase(name, "Ready"))
    await tenancy.scenario.settled()
    await tenancy.scenario.kill_agent(HERE)
    start = len(tenancy.scenario.network.sent)
    await tenancy.scenario.start_agent(HERE)
    await tenancy.scenario.settled()
    assert describe_writes(tenancy.scenario.writes_since(start)) == []


async def test_pods_and_services_on_kube_ovn_get_its_annotations_and_are_deleted_in_order(
    tenancy: NetworksScenario,
) -> None:
    space, name, ovn = await networked(tenancy)
    acme = name.partition(".")[0]
    marks = {NETWORK: "ovn", TENANT: acme}

    await tenancy.create_pod(space, "web", "ovn", **gated('{"subnet": "back", "ip": "10.31.0.9"}'))
    web = await tenancy.scenario.eventually(released(tenancy, space, "web"))
    assert web.metadata.annotations[SWITCH] == f"{acme}-ovn-back"
    assert web.metadata.annotations[IP_ADDRESS] == "10.31.0.9"
    spec = {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]}
    namespace = await tenancy.admin.create(made(Service, "shop", space, labels=marks, spec=spec))
    rule = await tenancy.scenario.eventually(leads_to_a_pod(tenancy, namespace))
    assert rule.spec.namespace == space

    for kind, called in ((Vpc, "ovn"), (OvnSubnet, "ovn-front"), (OvnSubnet, "ovn-back")):
        await ovn.holds(kind, f"{acme}-{called}")
    await tenancy.admin.delete(Network, name, "")
    await tenancy.scenario.eventually(tenancy.has_phase(name, "Terminating", f"Pod {space}/web"))
    await tenancy.admin.delete(Service, "shop", space)
    await tenancy.admin.delete(Pod, "web", space)
    removes = f"kube-ovn removes {acme}-ovn-back, {acme}-ovn-front"
    await tenancy.scenario.eventually(tenancy.has_phase(name, "Terminating", removes))
    assert not (await tenancy.admin.list(SwitchLBRule)).objects
    kept = await tenancy.admin.read(Vpc, f"{acme}-ovn")
    assert kept.metadata.deletion_timestamp is None, "a Vpc goes after its Subnets"
    for subnet in ("front", "back"):
        await ovn.holds(OvnSubnet, f"{acme}-ovn-{subnet}", held=False)
    await tenancy.scenario.eventually(
        tenancy.has_phase(name, "Terminating", f"kube-ovn removes {acme}-ovn")
    )
    await ovn.holds(Vpc, f"{acme}-ovn", held=False)
    await tenancy.scenario.eventually(tenancy.gone(Network, name))


async def test_only_pods_of_a_network_name_its_subnets_of_kube_ovn(
    tenancy: NetworksScenario,
) -> None:
    space, name, _ = await networked(tenancy)
    acme = name.partition(".")[0]
    bolt = await tenancy.create_tenant("bolt")
    other, plain = await tenancy.create_namespace(bolt), tenancy.scenario.namespace
    anna = await tenancy.tenant_client()
    joined = {SWITCH: f"{acme}-ovn-front"}
    beside = {f"net.default.{SWITCH}": f"x,{acme}-ovn-front"}

    async def are_refused() -> None:
        for where, notes in ((plain, joined), (other, joined), (other, beside), (space, joined)):
            pod = made(Pod, f"{acme}-x", where, annotations=notes, spec=POD)
            assert f"of network {name}" in await refusal(anna.create(pod, dry_run=True))
        change = {"metadata": {"annotations": joined}}
        for where in (plain, other):
            attempt = anna.patch(Namespace, where, "", change)
            assert f"of network {name}" in await refusal(attempt)

    await tenancy.scenario.eventually(are_refused)
    controller = await tenancy.tenant_client(
        "system:serviceaccount:kube-system:replicaset-controller"
    )
    of_template = made(Pod, f"{acme}-x", other, annotations=joined, spec=POD)
    assert f"of network {name}" in await refusal(controller.create(of_template, dry_run=True))
    await tenancy.create_pod(plain, f"{acme}-plain")
    attempt = anna.patch(Pod, f"{acme}-plain", plain, {"metadata": {"annotations": joined}})
    assert f"of network {name}" in await refusal(attempt)
    labels = {TENANT: acme, NETWORK: "ovn"}
    own = made(Pod, "own", space, labels=labels, annotations=joined, spec=POD)
    await anna.create(own, dry_run=True)
    free = made(Pod, "free", plain, annotations={SWITCH: "ovn-default"}, spec=POD)
    await anna.create(free, dry_run=True)


def leads_to_a_pod(tenancy: NetworksScenario, service: Service) -> Check[SwitchLBRule]:
    async def check() -> SwitchLBRule:
        rules = (await tenancy.admin.list(SwitchLBRule)).objects
        found = [r for r in rules if r.spec.vip == service.spec.cluster_ip and r.spec.endpoints]
        assert len(found) == 1, f"{service.metadata.name} leads nowhere: {rules}"
        return found[0]

    return check


async def test_networks_go_on_once_kube_ovn_comes_to_a_cluster(tenancy: NetworksScenario) -> None:
    acme = await tenancy.create_tenant()
    name = await tenancy.create_network(acme, "ovn", "kube-ovn", subnets=SUBNETS)
    await tenancy.scenario.eventually(tenancy.has_phase(name, "Failed", "kubeovn.io is not served"))

    await tenancy.install_crds(*OVN_KINDS)

    await tenancy.scenario.eventually(tenancy.has_phase(name, "Pending", "waiting for Subnet"))


async def test_only_pods_that_wait_for_their_annotations_are_told_that_kube_ovn_is_gone(
    tenancy: NetworksScenario,
) -> None:
    acme = await tenancy.create_tenant()
    space = await tenancy.create_namespace(acme)
    name = await tenancy.create_network(acme, "ovn", "kube-ovn", subnets=SUBNETS)
    await tenancy.create_pod(space, "old", "ovn", annotations={SWITCH: f"{acme}-ovn-front"})
    await tenancy.create_pod(space, "new", "ovn", **gated())

    async def is_told() -> None:
        new = await tenancy.admin.read(Pod, "new", space)
        assert "kubeovn.io is not served" in new.metadata.annotations.get(PORT_MESSAGE, "")

    await tenancy.scenario.eventually(is_told)
    await tenancy.scenario.settled()
    old = await tenancy.admin.read(Pod, "old", space)
    assert PORT_MESSAGE not in old.metadata.annotations, "it has all that it needs"
    await tenancy.install_crds(*OVN_KINDS)
    await tenancy.scenario.eventually(tenancy.has_phase(name, "Pending", "waiting for Subnet"))
    new = await tenancy.scenario.eventually(released(tenancy, space, "new"), timedelta(seconds=90))
    assert PORT_MESSAGE not in new.metadata.annotations


async def test_each_network_is_guarded_by_a_policy_that_follows_its_peers_and_goes_with_it(
    tenancy: NetworksScenario,
) -> None:
    await tenancy.install_crds(ClusterNetworkPolicy)
    acme, bolt = await tenancy.create_tenant("acme"), await tenancy.create_tenant("bolt")
    spaces = [await tenancy.create_namespace(tenant) for tenant in (acme, bolt)]
    lab = await tenancy.create_network(acme, "lab")
    pair = (f"{acme}.default", f"{bolt}.default")
    both = (*pair, *(f"unlabelled-{one}" for one in pair))

    await tenancy.scenario.eventually(guarded(tenancy, {**dict.fromkeys(both, 2), lab: 1}))
    peer = {"network": "default", "peer": pair[1]}
    await tenancy.admin.create(made(NetworkPeering, "peer", spaces[0], spec=peer))
    back = {"network": "default", "peer": pair[0]}
    await tenancy.admin.create(made(NetworkPeering, "peer", spaces[1], spec=back))
    await tenancy.scenario.eventually(guarded(tenancy, {**dict.fromkeys(both, 4), lab: 1}))

    await tenancy.admin.delete(ClusterNetworkPolicy, f"networks.hanse.dev-{lab}", "")
    await tenancy.scenario.eventually(guarded(tenancy, {**dict.fromkeys(both, 4), lab: 1}))
    await tenancy.admin.delete(Network, lab, "")
    await tenancy.scenario.eventually(tenancy.gone(Network, lab))
    await tenancy.scenario.eventually(guarded(tenancy, dict.fromkeys(both, 4)))


def guarded(tenancy: NetworksScenario, wanted: dict[str, int]) -> Check[None]:
    """That these policies are there, each open to so many groups of pods, its own among them.

    A default network has two groups: with its label, and without any.
    """

    async def check() -> None:
        policies = (await tenancy.admin.list(ClusterNetworkPolicy)).objects
        found = [one for one in policies if NETWORK in one.metadata.labels]
        open_to = {
            p.metadata.name.removeprefix("networks.hanse.dev")[1:]: len(p.spec.ingress[0]["from"])
            for p in found
        }
        assert open_to == wanted
        for policy in found:
            for rules in (policy.spec.ingress, policy.spec.egress):
                assert [rule["action"] for rule in rules] == ["Pass", "Deny"]
        spaces = (await tenancy.admin.list(Namespace)).objects
        denied = [one.metadata.name for one in policies if NETWORK not in one.metadata.labels]
        assert sorted(denied) == sorted(
            f"networks.hanse.dev-{one.metadata.name}"
            for one in spaces
            if TENANT in one.metadata.labels
        )
        for network in (await tenancy.admin.list(Network)).objects:
            isolated = find_condition(network.status.conditions, "Isolated")
            assert isolated is not None
            assert (isolated.status, isolated.reason) == ("True", "ClusterNetworkPolicies")

    return check
