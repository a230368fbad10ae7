"""Federated Services and machines with optional kinds, whose CRDs may be installed at any time."""

from collections.abc import AsyncIterator, Iterable

import pytest

from hanse.features.federated.feature import FederatedServices
from hanse.features.federated.options import FederatedOptions
from hanse.features.federation.feature import Membership
from hanse.features.machines.feature import Machines
from hanse.model.kinds.antrea import (
    AntreaClusterNetworkPolicy,
    AntreaNetworkPolicy,
    ClusterGroup,
    ExternalEntity,
    Group,
)
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.kinds.federation import SYSTEM
from hanse.model.kinds.machines import (
    CloudAddress,
    CloudInterface,
    CloudMachine,
    CloudMachineStatus,
    InstanceInterface,
    VirtualMachineInstance,
    VirtualMachineInstanceStatus,
)
from hanse.model.objects import Meta, Wire
from tests.scenarios.federated import TAG, FederatedScenario, address, federated_scenario
from tests.support.scenario import Features, Scenario

L1 = address("lubeck", 1)


@pytest.fixture
def features() -> Features:
    options = FederatedOptions(hostname="{name}.example.org")
    return lambda: (Membership(), FederatedServices(options), Machines())


@pytest.fixture
async def federated(scenario: Scenario) -> AsyncIterator[FederatedScenario]:
    async with federated_scenario(scenario) as federated:
        yield federated


async def test_groups_and_external_names_are_written_once_their_kinds_are_served(
    federated: FederatedScenario,
) -> None:
    scenario, web = federated.scenario, federated.web
    await federated.join("lubeck", 1)
    await scenario.eventually(federated.everywhere(lubeck=[L1]))

    for kind in (ClusterGroup, Group, DNSEndpoint):
        await federated.install_crds("bergen", kind)

    async def groups_written() -> None:
        cluster_group = await federated.find("bergen", ClusterGroup, web, "")
        namespace_group = await federated.find("bergen", Group, web, SYSTEM)
        assert cluster_group is not None
        assert namespace_group is not None
        assert cluster_group.spec == namespace_group.spec
        assert [b.cidr for b in cluster_group.spec.ip_blocks] == [f"{L1}/32"]
        listed = await federated.admin("bergen").list(DNSEndpoint, namespace=SYSTEM)
        records = [(r.dns_name, r.targets) for e in listed.objects for r in e.spec.endpoints]
        assert (f"{web}.example.org", (L1,)) in records

    await scenario.eventually(groups_written)
    found = await federated.find("bergen", Service, web)
    assert found is not None
    for prefix in ("external-dns.alpha.kubernetes.io", "external-dns.kubernetes.io"):
        assert found.metadata.annotations[f"{prefix}/hostname"] == f"{web}.example.org"
        assert found.metadata.annotations[f"{prefix}/target"] == L1
    await federated.admin("lubeck").delete(Service, "web", federated.namespace)

    async def gone() -> None:
        assert await federated.find("bergen", ClusterGroup, web, "") is None
        assert await federated.find("bergen", Group, web, SYSTEM) is None

    await scenario.eventually(gone)


async def test_a_group_stands_in_each_namespace_whose_policies_name_it(
    federated: FederatedScenario,
) -> None:
    scenario, web = federated.scenario, federated.web
    await federated.join("lubeck", 1)
    for kind in (ClusterGroup, Group, AntreaClusterNetworkPolicy, AntreaNetworkPolicy):
        await federated.install_crds("bergen", kind)
    rule: Wire = {"ingress": [{"action": "Drop", "from": [{"group": web}]}]}
    meta = Meta(name="deny", namespace=federated.namespace)
    admin = federated.admin("bergen")
    await admin.create(AntreaNetworkPolicy(metadata=meta, spec=rule))

    async def group_where_it_is_named(*addresses: str) -> None:
        named = await federated.find("bergen", Group, web, federated.namespace)
        assert named is not None
        assert [b.cidr for b in named.spec.ip_blocks] == list(addresses)

    await scenario.eventually(lambda: group_where_it_is_named(f"{L1}/32"))
    await federated.admin("lubeck").delete(Service, "web", federated.namespace)

    # a policy names it: it stands, empty
    await scenario.eventually(group_where_it_is_named)
    await admin.delete(AntreaNetworkPolicy, "deny", federated.namespace)

    async def gone_with_its_policy() -> None:
        assert await federated.find("bergen", Group, web, federated.namespace) is None

    await scenario.eventually(gone_with_its_policy)


async def test_machines_of_all_sources_are_one_service_and_entities(
    federated: FederatedScenario,
) -> None:
    scenario = federated.scenario
    for kind in (CloudMachine, VirtualMachineInstance, ExternalEntity):
        await federated.install_crds("bergen", kind)
    admin = federated.admin("bergen")
    await federated.machine("bergen", "ours", "10.7.0.1")
    cloud = CloudInterface(ips=(CloudAddress(address="10.7.0.2", address_type="InternalIP"),))
    await federated.put_with_status(
        "bergen",
        CloudMachine(
            metadata=Meta(name="nephes", namespace=federated.namespace),
            status=CloudMachineStatus(
                tags={TAG: "db"}, network_interfaces=(cloud,), state="running"
            ),
        ),
    )
    namespace_group = InstanceInterface(name="default", ip_address="10.7.0.3")
    await federated.put_with_status(
        "bergen",
        VirtualMachineInstance(
            metadata=Meta(name="kubevirts", namespace=federated.namespace, labels={TAG: "db"}),
            status=VirtualMachineInstanceStatus(phase="Running", interfaces=(namespace_group,)),
        ),
    )

    async def served() -> None:
        listed = await admin.list(EndpointSlice, namespace=federated.namespace)
        found = [a for s in listed.objects for e in s.endpoints or () for a in e.addresses]
        assert sorted(found) == ["10.7.0.1", "10.7.0.2", "10.7.0.3"]
        entities = (await admin.list(ExternalEntity, namespace=federated.namespace)).objects
        assert sorted(len(e.spec.endpoints) for e in entities) == [1, 1, 1, 3]

    await scenario.eventually(served)


async def test_a_machine_is_an_endpoint_of_the_ports_alone_that_it_serves(
    federated: FederatedScenario,
) -> None:
    for name, ip, ports in (("a", "10.7.0.1", "http:80/TCP"), ("b", "10.7.0.2", "alt:8080/TCP")):
        await federated.machine("bergen", name, ip, ports=ports, joins=federated.web)
    expected = {("10.7.0.1", 80), ("10.7.0.2", 8080)}

    def served(slices: Iterable[EndpointSlice]) -> set[tuple[str, int | None]]:
        endpoints = [(e, s.ports or ()) for s in slices for e in s.endpoints or ()]
        return {(a, port.port) for e, ports in endpoints for a in e.addresses for port in ports}

    async def apart() -> None:
        own = await federated.slices("bergen", "db", federated.namespace)
        assert served(own) == expected, own
        for cluster in federated.membership.members:
            made = await federated.admin(cluster).read(Service, federated.web, SYSTEM)
            assert {port.port for port in made.spec.ports} == {80, 8080}, cluster
            slices = await federated.slices(cluster)
            assert served(slices) == expected, f"{cluster} has {slices}"

    await federated.scenario.eventually(apart)


async def test_a_service_with_the_name_of_a_machine_is_left_alone_and_reported(
    federated: FederatedScenario,
) -> None:
    theirs = await federated.serve("bergen", "db", marks={})
    await federated.machine("bergen", "db-1", "10.7.0.1")

    await federated.scenario.eventually(
        federated.has_conditions(
            "bergen", Service, "db", "MachineNameFree", "NameTaken", federated.namespace
        )
    )

    found = await federated.find("bergen", Service, "db", federated.namespace)
    assert found is not None
    assert (found.metadata.uid, found.spec) == (theirs.metadata.uid, theirs.spec)
