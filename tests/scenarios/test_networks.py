"""Tenants and networks: creation, objects, peering and deletion."""

import pytest
from msgspec.structs import replace

from hanse.features.networks.names import NETWORK, TENANT, parse_network_name
from hanse.features.networks.reachability import (
    ReachabilityMatrix,
    reachability_matrix,
)
from hanse.model.kinds.apps import Deployment
from hanse.model.kinds.core import Endpoints, Namespace, Pod, Service, ServiceAccount
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.networking import NetworkPolicy, ServiceCIDR
from hanse.model.kinds.networks import Network, NetworkPeering, Tenant
from hanse.model.kinds.policy import PodDisruptionBudget
from hanse.model.kinds.rbac import RbacRole, RoleBinding
from hanse.model.objects import Object, Wire, to_wire
from tests.scenarios.networks import NetworksScenario, made
from tests.support.scenario import Check


async def test_a_tenant_gets_a_default_network_with_dns_and_an_api_of_its_own(
    tenancy: NetworksScenario,
) -> None:
    acme = await tenancy.create_tenant()

    network = await tenancy.scenario.eventually(tenancy.has_phase(f"{acme}.default", "Ready"))

    dns = await tenancy.dns_of(f"{acme}.default")
    assert network.status.dns_service_ip == dns.spec.cluster_ip != ""
    assert network.metadata.finalizers == ("arktos.futurewei.com/network",)
    home = f"{acme}-kube-system"
    workload = await tenancy.admin.read(Deployment, "kube-dns-default", home)
    assert workload.spec.replicas == 2
    await tenancy.admin.read(PodDisruptionBudget, "kube-dns-default", home)
    await tenancy.admin.read(Service, "kubernetes-default", f"{acme}-default")
    tenant = await tenancy.admin.read(Tenant, acme)
    assert tenant.status.default_network == f"{acme}.default"
    await tenancy.scenario.settled()


async def test_a_networks_kubernetes_follows_the_clusters_endpoints(
    tenancy: NetworksScenario,
) -> None:
    acme = await tenancy.create_tenant()
    await tenancy.scenario.eventually(tenancy.has_phase(f"{acme}.default", "Ready"))
    cluster = await tenancy.admin.read(EndpointSlice, "kubernetes", "default")

    name = "kubernetes-default-kubernetes"
    alias = await tenancy.scenario.eventually(tenancy.there(EndpointSlice, name, f"{acme}-default"))

    assert alias.endpoints == cluster.endpoints
    assert alias.ports == cluster.ports
    assert alias.metadata.labels["kubernetes.io/service-name"] == "kubernetes-default"


async def test_what_others_change_of_a_networks_own_objects_is_mended(
    tenancy: NetworksScenario,
) -> None:
    """Nobody gives the DNS server of a tenant more rights, and its API alias leads nowhere else."""
    acme = await tenancy.create_tenant()
    await tenancy.scenario.eventually(tenancy.has_phase(f"{acme}.default", "Ready"))
    home, dns = f"{acme}-kube-system", "kube-dns-default"
    secrets = {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}
    anna = {"kind": "User", "name": "anna", "apiGroup": "rbac.authorization.k8s.io"}
    elsewhere = {"addresses": [{"ip": "10.9.9.9"}], "ports": [{"port": 443}]}
    changes: tuple[tuple[type[Object], str, str, Wire], ...] = (
        (RbacRole, home, dns, {"rules": [secrets]}),
        (RoleBinding, home, dns, {"subjects": [anna]}),
        (ServiceAccount, home, dns, {"metadata": {"labels": {NETWORK: "other"}}}),
        (PodDisruptionBudget, home, dns, {"spec": {"minAvailable": 0}}),
        (Endpoints, f"{acme}-default", "kubernetes-default", {"subsets": [elsewhere]}),
    )
    await tenancy.scenario.settled()
    before = [await tenancy.admin.read(kind, name, where) for kind, where, name, _ in changes]

    for kind, where, name, change in changes:
        await tenancy.edit(kind, name, change, where)

    for (kind, where, name, _), one in zip(changes, before, strict=True):
        await tenancy.scenario.eventually(_is_as_before(tenancy, kind, name, where, one))
    await tenancy.scenario.settled()


def _is_as_before(
    tenancy: NetworksScenario, kind: type[Object], name: str, where: str, before: Object
) -> Check[None]:
    """That an object has all that it had: its fields, and its labels."""

    async def check() -> None:
        now = await tenancy.admin.read(kind, name, where)
        same = replace(now, metadata=replace(before.metadata, labels=now.metadata.labels))
        assert (_without_status(same), now.metadata.labels) == (
            _without_status(before),
            before.metadata.labels,
        )

    return check


def _without_status(obj: Object) -> Wire:
    return {field: value for field, value in to_wire(obj).items() if field != "status"}


async def test_namespaces_are_made_as_asked_and_outlive_their_tenant(
    tenancy: NetworksScenario,
) -> None:
    acme = await tenancy.create_tenant(namespaces=["shop"])
    space = await tenancy.scenario.eventually(tenancy.there(Namespace, f"{acme}-shop"))
    assert space.metadata.labels[TENANT] == acme
    await tenancy.scenario.eventually(tenancy.has_phase(f"{acme}.default", "Ready"))

    await tenancy.admin.delete(Tenant, acme, "")

    await tenancy.scenario.eventually(tenancy.gone(Network, f"{acme}.default"))
    await tenancy.scenario.settled()
    left = await tenancy.admin.read(Namespace, f"{acme}-shop")
    assert left.metadata.deletion_timestamp is None


async def test_a_network_of_nobody_fails_until_its_tenant_comes(tenancy: NetworksScenario) -> None:
    acme = tenancy.tenant()
    tenancy.tenants.append(acme)
    name = await tenancy.create_network(acme, "lab")
    await tenancy.scenario.eventually(tenancy.has_phase(name, "Failed", f"create Tenant {acme}"))

    await tenancy.create_tenant()

    await tenancy.scenario.eventually(tenancy.has_phase(name, "Ready"))


async def test_a_network_waits_for_its_pods_and_services_and_then_goes_with_all_it_had(
    tenancy: NetworksScenario,
) -> None:
    acme = await tenancy.create_tenant()
    space = await tenancy.create_namespace(acme)
    name = await tenancy.create_network(acme, "lab")
    await tenancy.scenario.eventually(tenancy.has_phase(name, "Ready"))
    await tenancy.create_pod(space, "worker", "lab")

    await tenancy.admin.delete(Network, name, "")

    await tenancy.scenario.eventually(tenancy.has_phase(name, "Terminating", f"Pod {space}/worker"))
    assert await tenancy.found(Service, "kube-dns-lab", f"{acme}-kube-system") is not None
    await tenancy.admin.delete(Pod, "worker", space)
    await tenancy.scenario.eventually(tenancy.gone(Network, name))
    for kind, called, where in (
        (Service, "kube-dns-lab", f"{acme}-kube-system"),
        (Deployment, "kube-dns-lab", f"{acme}-kube-system"),
        (Service, "kubernetes-lab", f"{acme}-default"),
        (NetworkPolicy, "hanse-network.lab", space),
    ):
        await tenancy.scenario.eventually(tenancy.gone(kind, called, where))
    await tenancy.scenario.settled()


async def test_ranges_that_overlap_go_to_who_had_them_first(tenancy: NetworksScenario) -> None:
    acme, bolt = await tenancy.create_tenant("acme"), await tenancy.create_tenant("bolt")
    first = await tenancy.create_network(acme, "one", service={"cidrs": ["10.77.0.0/24"]})
    await tenancy.scenario.eventually(tenancy.has_phase(first, "Ready"))

    second = await tenancy.create_network(bolt, "two", service={"cidrs": ["10.77.0.128/25"]})

    await tenancy.scenario.eventually(
        tenancy.has_phase(second, "Failed", f"overlaps 10.77.0.0/24 of network {first}")
    )
    await tenancy.admin.delete(Network, first, "")
    await tenancy.scenario.eventually(tenancy.has_phase(second, "Ready"))


async def test_a_network_with_ranges_has_its_own_addresses_in_them(
    tenancy: NetworksScenario,
) -> None:
    acme = await tenancy.create_tenant()

    name = await tenancy.create_network(
        acme, "own", service={"cidrs": ["10.78.0.0/24", "10.79.0.0/24"]}
    )

    ready = await tenancy.scenario.eventually(tenancy.has_phase(name, "Ready"))
    assert ready.status.dns_service_ip == "10.78.0.10"
    alias = await tenancy.admin.read(Service, "kubernetes-own", f"{acme}-default")
    assert alias.spec.cluster_ip == "10.78.0.1"
    cidrs = [c.spec.cidrs for c in (await tenancy.admin.list(ServiceCIDR)).objects]
    assert ("10.78.0.0/24",) in cidrs
    assert ("10.79.0.0/24",) in cidrs
    await tenancy.admin.delete(Network, name, "")
    await tenancy.scenario.eventually(tenancy.gone(Network, name))
    left = [c.spec.cidrs for c in (await tenancy.admin.list(ServiceCIDR)).objects]
    assert ("10.78.0.0/24",) not in left


async def test_the_default_network_is_its_tenants_to_change(tenancy: NetworksScenario) -> None:
    acme = await tenancy.create_tenant()
    name = f"{acme}.default"
    await tenancy.scenario.eventually(tenancy.has_phase(name, "Ready"))

    await tenancy.edit(Network, name, {"spec": {"service": {"cidrs": ["10.80.0.0/24"]}}})

    await tenancy.scenario.settled()
    kept = await tenancy.admin.read(Network, name)
    assert kept.spec.service.cidrs == ("10.80.0.0/24",)


async def test_policies_follow_namespaces_and_networks(tenancy: NetworksScenario) -> None:
    acme = await tenancy.create_tenant()
    space = await tenancy.create_namespace(acme)
    default = ("hanse-deny", "hanse-network.default", "hanse-unlabelled")
    await tenancy.scenario.eventually(tenancy.policies(space, *default))

    await tenancy.create_network(acme, "lab")
    await tenancy.scenario.eventually(tenancy.policies(space, *default, "hanse-network.lab"))
    await tenancy.admin.delete(NetworkPolicy, "hanse-deny", space)
    await tenancy.scenario.eventually(tenancy.policies(space, *default, "hanse-network.lab"))
    await tenancy.edit(Namespace, space, {"metadata": {"labels": {TENANT: None}}})

    await tenancy.scenario.eventually(tenancy.policies(space))


async def test_an_agent_that_starts_over_a_settled_cluster_writes_nothing(
    tenancy: NetworksScenario,
) -> None:
    acme = await tenancy.create_tenant()
    await tenancy.create_namespace(acme)
    await tenancy.create_network(acme, "own", service={"cidrs": ["10.81.0.0/24"]})
    await tenancy.scenario.eventually(tenancy.has_phase(f"{acme}.own", "Ready"))
    await tenancy.scenario.settled()

    await tenancy.scenario.kill_agent("lubeck")
    start = len(tenancy.scenario.network.sent)
    await tenancy.scenario.start_agent("lubeck")
    await tenancy.scenario.settled()

    assert tenancy.scenario.writes_since(start) == []


async def written(tenancy: NetworksScenario, *tenants: str) -> ReachabilityMatrix:
    """Who reaches whom among some tenants, by the policies that are in the cluster."""
    spaces = [
        s
        for s in (await tenancy.admin.list(Namespace)).objects
        if s.metadata.labels.get(TENANT) in tenants
    ]
    inside = {s.metadata.name for s in spaces}
    pods = [p for p in (await tenancy.admin.list(Pod)).objects if p.metadata.namespace in inside]
    policies = (await tenancy.admin.list(NetworkPolicy)).objects
    networks = [
        parse_network_name(n.metadata.name)
        for n in (await tenancy.admin.list(Network)).objects
        if n.spec.tenant in tenants
    ]
    return reachability_matrix(spaces, pods, policies, networks)


def peering(space: str, network: str, peer: str) -> NetworkPeering:
    return made(NetworkPeering, "peer", space, spec={"network": network, "peer": peer})


async def test_networks_reach_each_other_once_both_owners_agree_and_until_one_does_not(
    tenancy: NetworksScenario,
) -> None:
    acme, bolt = await tenancy.create_tenant("acme"), await tenancy.create_tenant("bolt")
    spaces = [await tenancy.create_namespace(tenant) for tenant in (acme, bolt)]
    for tenant in (acme, bolt):
        await tenancy.scenario.eventually(tenancy.has_phase(f"{tenant}.default", "Ready"))
    pair = {(f"{acme}.default", f"{bolt}.default"), (f"{bolt}.default", f"{acme}.default")}

    def reached(*leaks: tuple[str, str]) -> Check[None]:
        async def check() -> None:
            whole = await written(tenancy, acme, bolt)
            assert set(whole.leaks()) == set(leaks)
            for name in (f"{acme}.default", f"{bolt}.default"):
                assert whole.reach[name, name] == "all"

        return check

    await tenancy.scenario.eventually(reached())
    await tenancy.admin.create(peering(spaces[0], "default", f"{bolt}.default"))
    await tenancy.scenario.eventually(is_peered(tenancy, spaces[0], "Pending"))
    await reached()()
    await tenancy.admin.create(peering(spaces[1], "default", f"{acme}.default"))
    await tenancy.scenario.eventually(is_peered(tenancy, spaces[0], "Ready"))
    await tenancy.scenario.eventually(reached(*pair))
    await tenancy.admin.delete(NetworkPeering, "peer", spaces[1])

    await tenancy.scenario.eventually(reached())
    await tenancy.scenario.eventually(is_peered(tenancy, spaces[0], "Pending"))


def is_peered(tenancy: NetworksScenario, space: str, phase: str) -> Check[None]:
    async def check() -> None:
        found = await tenancy.admin.read(NetworkPeering, "peer", space)
        assert found.status.phase == phase, found.status

    return check


@pytest.mark.virtual  # an API server writes its own endpoints
async def test_policies_follow_the_api_servers_addresses(tenancy: NetworksScenario) -> None:
    acme = await tenancy.create_tenant()
    space = await tenancy.create_namespace(acme)
    base = "hanse-network.default"
    await tenancy.scenario.eventually(tenancy.there(NetworkPolicy, base, space))
    own = await tenancy.admin.read(EndpointSlice, "kubernetes", "default")
    moved = [{"addresses": ["192.0.2.77"], "conditions": {"ready": True}}]

    await tenancy.edit(EndpointSlice, "kubernetes", {"endpoints": moved}, "default")

    async def follows() -> None:
        policy = await tenancy.admin.read(NetworkPolicy, base, space)
        blocks = [
            peer.ip_block.cidr
            for rule in policy.spec.egress or ()
            for peer in rule.to
            if peer.ip_block is not None
        ]
        assert blocks == ["192.0.2.77/32"], blocks
        alias = await tenancy.admin.read(
            EndpointSlice, "kubernetes-default-kubernetes", f"{acme}-default"
        )
        assert [e.addresses for e in alias.endpoints or ()] == [("192.0.2.77",)]

    await tenancy.scenario.eventually(follows)
    assert own.endpoints


async def test_a_tenant_of_the_same_name_has_not_agreed_to_peer(tenancy: NetworksScenario) -> None:
    acme, bolt = await tenancy.create_tenant("acme"), await tenancy.create_tenant("bolt")
    spaces = [await tenancy.create_namespace(tenant) for tenant in (acme, bolt)]
    for tenant in (acme, bolt):
        await tenancy.scenario.eventually(tenancy.has_phase(f"{tenant}.default", "Ready"))
    await tenancy.admin.create(peering(spaces[0], "default", f"{bolt}.default"))
    await tenancy.admin.create(peering(spaces[1], "default", f"{acme}.default"))
    await tenancy.scenario.eventually(is_peered(tenancy, spaces[0], "Ready"))

    await tenancy.admin.delete(Tenant, bolt, "")
    await tenancy.scenario.eventually(tenancy.gone(Network, f"{bolt}.default"))
    await tenancy.scenario.eventually(is_peered(tenancy, spaces[0], "Pending"))
    await tenancy.create_tenant("bolt")
    await tenancy.scenario.eventually(tenancy.has_phase(f"{bolt}.default", "Ready"))

    for space in spaces:
        await tenancy.scenario.eventually(is_peered(tenancy, space, "Failed"))
    assert not (await written(tenancy, acme, bolt)).leaks()
