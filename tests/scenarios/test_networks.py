"""Tenants and their networks: how they come to be, what they have, and how they end."""

import pytest

from hanse.features.networks.matrix import Matrix, matrix
from hanse.features.networks.names import NETWORK, TENANT, parsed
from hanse.features.networks.reach import Knock, Spot, can_reach
from hanse.model.kinds.apps import Deployment
from hanse.model.kinds.core import Namespace, Pod, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.networking import NetworkPolicy, ServiceCIDR
from hanse.model.kinds.networks import Network, NetworkPeering, Tenant
from hanse.model.kinds.policy import PodDisruptionBudget
from tests.scenarios.city import City, made
from tests.support.stage import Check


async def test_a_tenant_gets_a_default_network_with_dns_and_an_api_of_its_own(city: City) -> None:
    acme = await city.welcome()

    network = await city.stage.eventually(city.is_(f"{acme}.default", "Ready"))

    dns = await city.dns_of(f"{acme}.default")
    assert network.status.dns_service_ip == dns.spec.cluster_ip != ""
    assert network.metadata.finalizers == ("arktos.futurewei.com/network",)
    home = f"{acme}-kube-system"
    workload = await city.person.read(Deployment, "kube-dns-default", home)
    assert workload.spec.replicas == 2
    await city.person.read(PodDisruptionBudget, "kube-dns-default", home)
    await city.person.read(Service, "kubernetes-default", f"{acme}-default")
    tenant = await city.person.read(Tenant, acme)
    assert tenant.status.default_network == f"{acme}.default"
    await city.stage.settled()


async def test_a_networks_kubernetes_follows_the_clusters_endpoints(city: City) -> None:
    acme = await city.welcome()
    await city.stage.eventually(city.is_(f"{acme}.default", "Ready"))
    cluster = await city.person.read(EndpointSlice, "kubernetes", "default")

    name = "kubernetes-default-kubernetes"
    alias = await city.stage.eventually(city.there(EndpointSlice, name, f"{acme}-default"))

    assert alias.endpoints == cluster.endpoints
    assert alias.ports == cluster.ports
    assert alias.metadata.labels["kubernetes.io/service-name"] == "kubernetes-default"


async def test_namespaces_are_made_as_asked_and_outlive_their_tenant(city: City) -> None:
    acme = await city.welcome(namespaces=["shop"])
    space = await city.stage.eventually(city.there(Namespace, f"{acme}-shop"))
    assert space.metadata.labels[TENANT] == acme
    await city.stage.eventually(city.is_(f"{acme}.default", "Ready"))

    await city.person.delete(Tenant, acme, "")

    await city.stage.eventually(city.gone(Network, f"{acme}.default"))
    await city.stage.settled()
    left = await city.person.read(Namespace, f"{acme}-shop")
    assert left.metadata.deletion_timestamp is None


async def test_a_network_of_nobody_fails_until_its_tenant_comes(city: City) -> None:
    acme = city.tenant()
    city.tenants.append(acme)
    name = await city.build(acme, "lab")
    await city.stage.eventually(city.is_(name, "Failed", f"create Tenant {acme}"))

    await city.welcome()

    await city.stage.eventually(city.is_(name, "Ready"))


async def test_a_network_waits_for_its_pods_and_services_and_then_goes_with_all_it_had(
    city: City,
) -> None:
    acme = await city.welcome()
    space = await city.space(acme)
    name = await city.build(acme, "lab")
    await city.stage.eventually(city.is_(name, "Ready"))
    await city.run(space, "worker", "lab")

    await city.person.delete(Network, name, "")

    await city.stage.eventually(city.is_(name, "Terminating", f"Pod {space}/worker"))
    assert await city.found(Service, "kube-dns-lab", f"{acme}-kube-system") is not None
    await city.person.delete(Pod, "worker", space)
    await city.stage.eventually(city.gone(Network, name))
    for kind, called, where in (
        (Service, "kube-dns-lab", f"{acme}-kube-system"),
        (Deployment, "kube-dns-lab", f"{acme}-kube-system"),
        (Service, "kubernetes-lab", f"{acme}-default"),
        (NetworkPolicy, "hanse-network-lab", space),
    ):
        await city.stage.eventually(city.gone(kind, called, where))
    await city.stage.settled()


async def test_ranges_that_overlap_go_to_who_had_them_first(city: City) -> None:
    acme, bolt = await city.welcome("acme"), await city.welcome("bolt")
    first = await city.build(acme, "one", service={"cidrs": ["10.77.0.0/24"]})
    await city.stage.eventually(city.is_(first, "Ready"))

    second = await city.build(bolt, "two", service={"cidrs": ["10.77.0.128/25"]})

    await city.stage.eventually(
        city.is_(second, "Failed", f"overlaps 10.77.0.0/24 of network {first}")
    )
    await city.person.delete(Network, first, "")
    await city.stage.eventually(city.is_(second, "Ready"))


async def test_a_network_with_ranges_has_its_own_addresses_in_them(city: City) -> None:
    acme = await city.welcome()

    name = await city.build(acme, "own", service={"cidrs": ["10.78.0.0/24", "10.79.0.0/24"]})

    ready = await city.stage.eventually(city.is_(name, "Ready"))
    assert ready.status.dns_service_ip == "10.78.0.10"
    alias = await city.person.read(Service, "kubernetes-own", f"{acme}-default")
    assert alias.spec.cluster_ip == "10.78.0.1"
    cidrs = [c.spec.cidrs for c in (await city.person.list(ServiceCIDR)).objects]
    assert ("10.78.0.0/24",) in cidrs
    assert ("10.79.0.0/24",) in cidrs
    await city.person.delete(Network, name, "")
    await city.stage.eventually(city.gone(Network, name))
    left = [c.spec.cidrs for c in (await city.person.list(ServiceCIDR)).objects]
    assert ("10.78.0.0/24",) not in left


async def test_the_default_network_is_its_tenants_to_change(city: City) -> None:
    acme = await city.welcome()
    name = f"{acme}.default"
    await city.stage.eventually(city.is_(name, "Ready"))

    await city.edit(Network, name, {"spec": {"service": {"cidrs": ["10.80.0.0/24"]}}})

    await city.stage.settled()
    kept = await city.person.read(Network, name)
    assert kept.spec.service.cidrs == ("10.80.0.0/24",)


async def test_policies_follow_namespaces_and_networks(city: City) -> None:
    acme = await city.welcome()
    space = await city.space(acme)
    default = ("hanse-base-default", "hanse-base-default-unnamed")
    within = ("hanse-network-default", "hanse-network-default-unnamed")
    await city.stage.eventually(city.policies(space, "hanse-deny", *default, *within))

    await city.build(acme, "lab")
    lab = ("hanse-base-lab", "hanse-network-lab")
    await city.stage.eventually(city.policies(space, "hanse-deny", *default, *within, *lab))
    await city.person.delete(NetworkPolicy, "hanse-deny", space)
    await city.stage.eventually(city.policies(space, "hanse-deny", *default, *within, *lab))
    await city.edit(Namespace, space, {"metadata": {"labels": {TENANT: None}}})

    await city.stage.eventually(city.policies(space))


async def test_an_agent_that_starts_over_a_settled_cluster_writes_nothing(city: City) -> None:
    acme = await city.welcome()
    await city.space(acme)
    await city.build(acme, "own", service={"cidrs": ["10.81.0.0/24"]})
    await city.stage.eventually(city.is_(f"{acme}.own", "Ready"))
    await city.stage.settled()

    await city.stage.kill_agent("lubeck")
    start = len(city.stage.network.sent)
    await city.stage.start_agent("lubeck")
    await city.stage.settled()

    assert city.stage.writes_since(start) == []


async def written(city: City, *tenants: str) -> Matrix:
    """Who reaches whom among some tenants, by the policies that are in the cluster."""
    spaces = [
        s
        for s in (await city.person.list(Namespace)).objects
        if s.metadata.labels.get(TENANT) in tenants
    ]
    inside = {s.metadata.name for s in spaces}
    pods = [p for p in (await city.person.list(Pod)).objects if p.metadata.namespace in inside]
    policies = (await city.person.list(NetworkPolicy)).objects
    networks = [
        parsed(n.metadata.name)
        for n in (await city.person.list(Network)).objects
        if n.spec.tenant in tenants
    ]
    return matrix(spaces, pods, policies, networks)


def peering(space: str, network: str, peer: str) -> NetworkPeering:
    return made(NetworkPeering, "peer", space, spec={"network": network, "peer": peer})


async def test_networks_reach_each_other_once_both_owners_agree_and_until_one_does_not(
    city: City,
) -> None:
    acme, bolt = await city.welcome("acme"), await city.welcome("bolt")
    spaces = [await city.space(tenant) for tenant in (acme, bolt)]
    for tenant in (acme, bolt):
        await city.stage.eventually(city.is_(f"{tenant}.default", "Ready"))
    pair = {(f"{acme}.default", f"{bolt}.default"), (f"{bolt}.default", f"{acme}.default")}

    def reached(*leaks: tuple[str, str]) -> Check[None]:
        async def check() -> None:
            whole = await written(city, acme, bolt)
            assert set(whole.leaks()) == set(leaks)
            for name in (f"{acme}.default", f"{bolt}.default"):
                assert whole.reach[name, name] == "all"

        return check

    await city.stage.eventually(reached())
    await city.person.create(peering(spaces[0], "default", f"{bolt}.default"))
    await city.stage.eventually(is_peered(city, spaces[0], "Pending"))
    await reached()()
    await city.person.create(peering(spaces[1], "default", f"{acme}.default"))
    await city.stage.eventually(is_peered(city, spaces[0], "Ready"))
    await city.stage.eventually(reached(*pair))
    await city.person.delete(NetworkPeering, "peer", spaces[1])

    await city.stage.eventually(reached())
    await city.stage.eventually(is_peered(city, spaces[0], "Pending"))


def is_peered(city: City, space: str, phase: str) -> Check[None]:
    async def check() -> None:
        found = await city.person.read(NetworkPeering, "peer", space)
        assert found.status.phase == phase, found.status

    return check


@pytest.mark.virtual  # an API server writes its own endpoints
async def test_policies_follow_the_api_servers_addresses(city: City) -> None:
    acme = await city.welcome()
    space = await city.space(acme)
    base = "hanse-base-default"
    await city.stage.eventually(city.there(NetworkPolicy, base, space))
    own = await city.person.read(EndpointSlice, "kubernetes", "default")
    moved = [{"addresses": ["192.0.2.77"], "conditions": {"ready": True}}]

    await city.edit(EndpointSlice, "kubernetes", {"endpoints": moved}, "default")

    async def follows() -> None:
        policy = await city.person.read(NetworkPolicy, base, space)
        blocks = [
            peer.ip_block.cidr
            for rule in policy.spec.egress or ()
            for peer in rule.to
            if peer.ip_block is not None
        ]
        assert blocks == ["192.0.2.77/32"], blocks
        alias = await city.person.read(
            EndpointSlice, "kubernetes-default-kubernetes", f"{acme}-default"
        )
        assert [e.addresses for e in alias.endpoints or ()] == [("192.0.2.77",)]

    await city.stage.eventually(follows)
    assert own.endpoints


async def test_people_narrow_their_network_by_policies_of_their_own(city: City) -> None:
    acme = await city.welcome()
    space = await city.space(acme)
    await city.stage.eventually(city.is_(f"{acme}.default", "Ready"))
    rule = {"from": [{"podSelector": {"matchLabels": {"app": "web"}}}]}
    spec = {"podSelector": {"matchLabels": {"app": "db"}}, "ingress": [rule]}
    for name in ("web", "db", "batch"):
        await city.run(space, name, "default")

    await city.person.create(made(NetworkPolicy, "only-web", space, spec=spec))

    async def narrowed() -> None:
        policies = (await city.person.list(NetworkPolicy, namespace=space)).objects
        marks = {TENANT: acme, "kubernetes.io/metadata.name": space}

        def spot(app: str) -> Spot:
            return Spot(app, space, {"app": app, NETWORK: "default"}, marks, ("10.0.0.1",))

        told = {
            app: can_reach(spot(app), spot("db"), Knock(80), policies) for app in ("web", "batch")
        }
        assert told == {"web": True, "batch": False}, told
        assert can_reach(spot("db"), spot("batch"), Knock(80), policies)

    await city.stage.eventually(narrowed)
