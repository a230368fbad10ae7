"""Networks that share a DNS server: the address of their DNS stays, whichever servers answer."""

from contextlib import suppress

from hanse.features.networks.feature import Networks
from hanse.features.networks.names import SHARED_DNS
from hanse.features.networks.options import NetworksOptions
from hanse.kube.errors import AlreadyExists
from hanse.model.kinds.apps import Deployment
from hanse.model.kinds.core import ConfigMap, Namespace, ServiceAccount
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.networks import Network
from hanse.model.kinds.rbac import RbacRole
from hanse.model.naming import SYSTEM_NAMESPACE
from hanse.model.objects import Meta
from tests.scenarios.network_fixtures import agent_users
from tests.scenarios.networks import HERE, NetworksScenario, made
from tests.support.scenario import Check

DNS = "kube-dns-default"
SLICE = f"{SHARED_DNS}-1"
"""A slice of the shared server's Service, as the cluster makes it."""
COPY = f"{DNS}-{SLICE}"


async def test_a_network_moves_to_the_shared_server_and_back_under_one_address(
    tenancy: NetworksScenario,
) -> None:
    acme = await tenancy.create_tenant()
    before = await tenancy.scenario.eventually(tenancy.has_phase(f"{acme}.default", "Ready"))
    home = f"{acme}-kube-system"
    await tenancy.scenario.eventually(tenancy.there(Deployment, DNS, home))

    await _restart_agent(tenancy, "shared")
    await _create_shared_server(tenancy, ready=False)
    await tenancy.scenario.eventually(tenancy.there(EndpointSlice, COPY, home))
    await tenancy.scenario.settled()
    await tenancy.admin.read(Deployment, DNS, home)  # until the shared one answers

    await tenancy.edit(EndpointSlice, SLICE, _endpoints("10.4.0.9"), SYSTEM_NAMESPACE)
    for kind in (Deployment, ConfigMap, ServiceAccount, RbacRole):
        await tenancy.scenario.eventually(tenancy.gone(kind, DNS, home))
    await tenancy.scenario.eventually(_leads_to(tenancy, home, "10.4.0.9"))
    bolt = await tenancy.create_tenant("bolt")
    await tenancy.scenario.eventually(tenancy.has_phase(f"{bolt}.default", "Ready"))
    await tenancy.scenario.eventually(_leads_to(tenancy, f"{bolt}-kube-system", "10.4.0.9"))
    await tenancy.scenario.settled()
    assert await tenancy.found(Deployment, DNS, f"{bolt}-kube-system") is None

    await tenancy.edit(EndpointSlice, SLICE, _endpoints("10.4.0.10"), SYSTEM_NAMESPACE)
    for tenant in (acme, bolt):
        await tenancy.scenario.eventually(_leads_to(tenancy, f"{tenant}-kube-system", "10.4.0.10"))

    await _restart_agent(tenancy, "hanse")
    await tenancy.admin.delete(EndpointSlice, SLICE, SYSTEM_NAMESPACE)
    await tenancy.scenario.eventually(tenancy.there(Deployment, DNS, home))
    await tenancy.scenario.eventually(tenancy.gone(EndpointSlice, COPY, home))
    after = await tenancy.admin.read(Network, f"{acme}.default")
    assert after.status.dns_service_ip == before.status.dns_service_ip != ""
    service = await tenancy.dns_of(f"{acme}.default")
    assert service.spec.cluster_ip == before.status.dns_service_ip
    await tenancy.scenario.settled()


async def test_networks_of_other_types_keep_servers_of_their_own(
    tenancy: NetworksScenario,
) -> None:
    await _restart_agent(tenancy, "shared")
    acme = await tenancy.create_tenant()
    await tenancy.scenario.eventually(tenancy.has_phase(f"{acme}.default", "Ready"))
    subnets = [{"name": "one", "cidr": "10.88.0.0/24"}]
    await tenancy.create_network(acme, "far", "vpc", vpcID=f"vpc-{acme}", subnets=subnets)

    await tenancy.scenario.eventually(
        tenancy.there(Deployment, "kube-dns-far", f"{acme}-kube-system")
    )

    assert await tenancy.found(Deployment, DNS, f"{acme}-kube-system") is None
    await _restart_agent(tenancy, "hanse")


async def _restart_agent(tenancy: NetworksScenario, dns: str) -> None:
    """An agent with another setting of networks' DNS servers."""
    scenario = tenancy.scenario
    options = NetworksOptions(agents=agent_users(scenario.namespace), dns_workload=dns)
    scenario.features = lambda: (Networks(options),)
    await scenario.kill_agent(HERE)
    await scenario.start_agent(HERE)


async def _create_shared_server(tenancy: NetworksScenario, *, ready: bool) -> None:
    """The slice of the shared server's Service, in our own namespace."""
    with suppress(AlreadyExists):
        await tenancy.admin.create(Namespace(metadata=Meta(name=SYSTEM_NAMESPACE)))
    labels = {"kubernetes.io/service-name": SHARED_DNS}
    ports = [
        {"name": n, "port": 53, "protocol": p} for n, p in (("dns", "UDP"), ("dns-tcp", "TCP"))
    ]
    endpoints = _endpoints("10.4.0.9", ready=ready)["endpoints"]
    wire = {"addressType": "IPv4", "ports": ports, "endpoints": endpoints}
    await tenancy.admin.create(made(EndpointSlice, SLICE, SYSTEM_NAMESPACE, labels=labels, **wire))


def _endpoints(address: str, *, ready: bool = True) -> dict[str, list[dict[str, object]]]:
    return {"endpoints": [{"addresses": [address], "conditions": {"ready": ready}}]}


def _leads_to(tenancy: NetworksScenario, home: str, address: str) -> Check[None]:
    """That a network's DNS Service has a server of this address, and no other of ours."""

    async def check() -> None:
        slices = (await tenancy.admin.list(EndpointSlice, namespace=home)).objects
        ours = [s for s in slices if s.metadata.name == COPY]
        found = [a for s in ours for e in s.endpoints or () for a in e.addresses]
        assert found == [address], found
        assert {p.name for s in ours for p in s.ports or ()} == {"dns", "dns-tcp"}

    return check
