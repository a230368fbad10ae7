"""Tenants and their networks: how they come to be, what they have, and how they end."""

import pytest

from hanse.features.networks.names import TENANT
from hanse.model.kinds.apps import Deployment
from hanse.model.kinds.core import Namespace, Pod, Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.networking import NetworkPolicy, ServiceCIDR
from hanse.model.kinds.networks import Network, Tenant
from hanse.model.kinds.policy import PodDisruptionBudget
from tests.scenarios.city import City


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


@pytest.mark.virtual
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


@pytest.mark.virtual
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


@pytest.mark.virtual
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


@pytest.mark.virtual
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
