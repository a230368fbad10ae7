"""Networks by kinds of others, whole flows: kube-ovn's, and policies that tenants cannot open.

Their definitions are stand-ins; what their controllers would do is done by hand, step by step.
"""

from collections.abc import AsyncIterator

import pytest

from hanse.features.networks.feature import Networks
from hanse.features.networks.kube_ovn import IP_ADDRESS, SWITCH
from hanse.features.networks.names import NETWORK, TENANT
from hanse.features.networks.options import NetworksOptions
from hanse.model.kinds.core import Pod, Service
from hanse.model.kinds.kubeovn import OvnSubnet, SwitchLBRule, Vpc
from hanse.model.kinds.networks import Network, NetworkPeering
from hanse.model.kinds.policynetworking import ClusterNetworkPolicy
from hanse.model.objects import Object
from tests.scenarios.city import HERE, City, made
from tests.scenarios.test_networks_ports import gated, released
from tests.support.stage import Check, Stage, told
from tests.support.stage_embedded import embedded_ground
from tests.support.time import ON_VIRTUAL_TIME

pytestmark = pytest.mark.anyio

OVN_KINDS = (Vpc, OvnSubnet, SwitchLBRule)
SUBNETS = [{"name": "front", "cidr": "10.30.0.0/24"}, {"name": "back", "cidr": "10.31.0.0/24"}]
THEIRS = "kubeovn.io/kube-ovn-controller"


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


@pytest.fixture
async def city() -> AsyncIterator[City]:
    """Tenants of a cluster whose agent guards them by ClusterNetworkPolicies where it can."""
    options = NetworksOptions(guard=True)
    async with (
        embedded_ground((HERE,)) as ground,
        Stage(ground, "kinds", lambda: (Networks(options),)) as stage,
    ):
        city = City(stage, 1)
        await city.open()
        await stage.start_agent(HERE)
        yield city
        await stage.kill_agent(HERE)


class KubeOvn:
    """What kube-ovn's controller does to its objects."""

    def __init__(self, city: City) -> None:
        self._city = city

    async def holds(self, kind: type[Object], name: str, held: bool = True) -> None:
        """Put its finalizer on an object, or let the object go."""
        finalizers = {"metadata": {"finalizers": [THEIRS] if held else None}}
        await self._city.person.patch(kind, name, "", finalizers)

    async def says(self, subnet: str, status: str) -> None:
        """Tell whether a Subnet can be used, and fill in what it fills in."""
        spec = {"protocol": "IPv4", "excludeIps": ["10.30.0.1"]}
        await self._city.person.patch(OvnSubnet, subnet, "", {"spec": spec})
        conditions = [{"type": "Ready", "status": status}]
        change = {"status": {"conditions": conditions}}
        await self._city.person.patch(OvnSubnet, subnet, "", change, subresource="status")


async def networked(city: City) -> tuple[str, str, KubeOvn]:
    """A tenant with a network by kube-ovn that is ready; its namespace and the network's name."""
    await city.teach(*OVN_KINDS)
    acme = await city.welcome()
    space = await city.space(acme)
    name = await city.build(acme, "ovn", "kube-ovn", subnets=SUBNETS)
    await city.stage.eventually(city.is_(name, "Pending", f"waiting for Subnet {acme}-ovn-front"))
    ovn = KubeOvn(city)
    for subnet in ("front", "back"):
        await ovn.says(f"{acme}-ovn-{subnet}", "True")
    await city.stage.eventually(city.is_(name, "Ready"))
    return space, name, ovn


async def test_kube_ovn_is_asked_for_a_vpc_and_subnets_and_heard_when_they_are_ready(
    city: City,
) -> None:
    space, name, ovn = await networked(city)
    acme = name.partition(".")[0]

    vpc = await city.person.read(Vpc, f"{acme}-ovn")
    assert space in vpc.spec.namespaces
    front = await city.person.read(OvnSubnet, f"{acme}-ovn-front")
    assert (front.spec.vpc, front.spec.cidr_block) == (f"{acme}-ovn", "10.30.0.0/24")
    assert front.spec.gateway == "10.30.0.1"
    assert front.spec.protocol == "IPv4", "what kube-ovn fills in is its own"
    await ovn.says(f"{acme}-ovn-back", "False")
    await city.stage.eventually(city.is_(name, "Pending", f"waiting for Subnet {acme}-ovn-back"))
    await ovn.says(f"{acme}-ovn-back", "True")
    await city.stage.eventually(city.is_(name, "Ready"))
    await city.stage.settled()
    await city.stage.kill_agent(HERE)
    start = len(city.stage.network.sent)
    await city.stage.start_agent(HERE)
    await city.stage.settled()
    assert told(city.stage.writes_since(start)) == []


async def test_pods_and_services_on_kube_ovn_are_told_in_its_words_and_it_ends_in_order(
    city: City,
) -> None:
    space, name, ovn = await networked(city)
    acme = name.partition(".")[0]
    marks = {NETWORK: "ovn", TENANT: acme}

    await city.run(space, "web", "ovn", **gated('{"subnet": "back", "ip": "10.31.0.9"}'))
    web = await city.stage.eventually(released(city, space, "web"))
    assert web.metadata.annotations[SWITCH] == f"{acme}-ovn-back"
    assert web.metadata.annotations[IP_ADDRESS] == "10.31.0.9"
    spec = {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]}
    shop = await city.person.create(made(Service, "shop", space, labels=marks, spec=spec))
    rule = await city.stage.eventually(leads_to_a_pod(city, shop))
    assert rule.spec.namespace == space

    for kind, called in ((Vpc, "ovn"), (OvnSubnet, "ovn-front"), (OvnSubnet, "ovn-back")):
        await ovn.holds(kind, f"{acme}-{called}")
    await city.person.delete(Network, name, "")
    await city.stage.eventually(city.is_(name, "Terminating", f"Pod {space}/web"))
    await city.person.delete(Service, "shop", space)
    await city.person.delete(Pod, "web", space)
    removes = f"kube-ovn removes {acme}-ovn-back, {acme}-ovn-front"
    await city.stage.eventually(city.is_(name, "Terminating", removes))
    assert not (await city.person.list(SwitchLBRule)).objects
    kept = await city.person.read(Vpc, f"{acme}-ovn")
    assert kept.metadata.deletion_timestamp is None, "a Vpc goes after its Subnets"
    for subnet in ("front", "back"):
        await ovn.holds(OvnSubnet, f"{acme}-ovn-{subnet}", held=False)
    await city.stage.eventually(city.is_(name, "Terminating", f"kube-ovn removes {acme}-ovn"))
    await ovn.holds(Vpc, f"{acme}-ovn", held=False)
    await city.stage.eventually(city.gone(Network, name))


def leads_to_a_pod(city: City, service: Service) -> Check[SwitchLBRule]:
    async def check() -> SwitchLBRule:
        rules = (await city.person.list(SwitchLBRule)).objects
        found = [r for r in rules if r.spec.vip == service.spec.cluster_ip and r.spec.endpoints]
        assert len(found) == 1, f"{service.metadata.name} leads nowhere: {rules}"
        return found[0]

    return check


async def test_networks_go_on_once_kube_ovn_comes_to_a_cluster(city: City) -> None:
    acme = await city.welcome()
    name = await city.build(acme, "ovn", "kube-ovn", subnets=SUBNETS)
    await city.stage.eventually(city.is_(name, "Failed", "kubeovn.io is not served"))

    await city.teach(*OVN_KINDS)

    await city.stage.eventually(city.is_(name, "Pending", "waiting for Subnet"))


async def test_each_network_is_guarded_by_a_policy_that_follows_its_peers_and_goes_with_it(
    city: City,
) -> None:
    await city.teach(ClusterNetworkPolicy)
    acme, bolt = await city.welcome("acme"), await city.welcome("bolt")
    spaces = [await city.space(tenant) for tenant in (acme, bolt)]
    lab = await city.build(acme, "lab")
    pair = (f"{acme}.default", f"{bolt}.default")

    await city.stage.eventually(guarded(city, {pair[0]: 1, pair[1]: 1, lab: 1}))
    peer = {"network": "default", "peer": pair[1]}
    await city.person.create(made(NetworkPeering, "peer", spaces[0], spec=peer))
    back = {"network": "default", "peer": pair[0]}
    await city.person.create(made(NetworkPeering, "peer", spaces[1], spec=back))
    await city.stage.eventually(guarded(city, {pair[0]: 2, pair[1]: 2, lab: 1}))

    await city.person.delete(ClusterNetworkPolicy, f"networks.hanse.dev-{lab}", "")
    await city.stage.eventually(guarded(city, {pair[0]: 2, pair[1]: 2, lab: 1}))
    await city.person.delete(Network, lab, "")
    await city.stage.eventually(city.gone(Network, lab))
    await city.stage.eventually(guarded(city, {pair[0]: 2, pair[1]: 2}))


def guarded(city: City, wanted: dict[str, int]) -> Check[None]:
    """That these networks are guarded, each open to so many networks, itself among them."""

    async def check() -> None:
        found = (await city.person.list(ClusterNetworkPolicy)).objects
        open_to = {
            p.metadata.name.removeprefix("networks.hanse.dev-"): len(p.spec.ingress[0]["from"])
            for p in found
        }
        assert open_to == wanted
        for policy in found:
            for rules in (policy.spec.ingress, policy.spec.egress):
                assert [rule["action"] for rule in rules] == ["Pass", "Deny"]

    return check
