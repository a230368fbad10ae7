"""Federated Services and machines beside the kinds of others, which may come at any time."""

from collections.abc import AsyncIterator

import pytest

from hanse.features.federated.feature import FederatedServices
from hanse.features.federated.options import FederatedOptions
from hanse.features.federation.feature import Membership
from hanse.features.machines.feature import Machines
from hanse.model.kinds.antrea import ClusterGroup, ExternalEntity, Group
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
from hanse.model.objects import Meta
from tests.scenarios.guild import TAG, Guild, address, guild_on
from tests.support.stage import Features, Stage

L1 = address("lubeck", 1)


@pytest.fixture
def features() -> Features:
    options = FederatedOptions(hostname="{name}.example.org")
    return lambda: (Membership(), FederatedServices(options), Machines())


@pytest.fixture
async def guild(stage: Stage) -> AsyncIterator[Guild]:
    async with guild_on(stage) as guild:
        yield guild


async def test_groups_and_outside_names_come_with_their_kinds(guild: Guild) -> None:
    stage, web = guild.stage, guild.web
    await guild.join("lubeck", 1)
    await stage.eventually(guild.everywhere(lubeck=[L1]))

    for kind in (ClusterGroup, Group, DNSEndpoint):
        await guild.teach("bergen", kind)

    async def told() -> None:
        whole = await guild.find("bergen", ClusterGroup, web, "")
        inside = await guild.find("bergen", Group, web, SYSTEM)
        assert whole is not None
        assert inside is not None
        assert whole.spec == inside.spec
        assert [b.cidr for b in whole.spec.ip_blocks] == [f"{L1}/32"]
        listed = await guild.person("bergen").list(DNSEndpoint, namespace=SYSTEM)
        records = [(r.dns_name, r.targets) for e in listed.objects for r in e.spec.endpoints]
        assert (f"{web}.example.org", (L1,)) in records

    await stage.eventually(told)
    found = await guild.find("bergen", Service, web)
    assert found is not None
    for prefix in ("external-dns.alpha.kubernetes.io", "external-dns.kubernetes.io"):
        assert found.metadata.annotations[f"{prefix}/hostname"] == f"{web}.example.org"
        assert found.metadata.annotations[f"{prefix}/target"] == L1
    await guild.person("lubeck").delete(Service, "web", guild.shop)

    async def gone() -> None:
        assert await guild.find("bergen", ClusterGroup, web, "") is None
        assert await guild.find("bergen", Group, web, SYSTEM) is None

    await stage.eventually(gone)


async def test_machines_of_all_sources_are_one_service_and_entities(guild: Guild) -> None:
    stage = guild.stage
    for kind in (CloudMachine, VirtualMachineInstance, ExternalEntity):
        await guild.teach("bergen", kind)
    person = guild.person("bergen")
    await guild.machine("bergen", "ours", "10.7.0.1")
    cloud = CloudInterface(ips=(CloudAddress(address="10.7.0.2", address_type="InternalIP"),))
    await guild.put_with_status(
        "bergen",
        CloudMachine(
            metadata=Meta(name="nephes", namespace=guild.shop),
            status=CloudMachineStatus(
                tags={TAG: "db"}, network_interfaces=(cloud,), state="running"
            ),
        ),
    )
    inside = InstanceInterface(name="default", ip_address="10.7.0.3")
    await guild.put_with_status(
        "bergen",
        VirtualMachineInstance(
            metadata=Meta(name="kubevirts", namespace=guild.shop, labels={TAG: "db"}),
            status=VirtualMachineInstanceStatus(phase="Running", interfaces=(inside,)),
        ),
    )

    async def served() -> None:
        listed = await person.list(EndpointSlice, namespace=guild.shop)
        found = [a for s in listed.objects for e in s.endpoints or () for a in e.addresses]
        assert sorted(found) == ["10.7.0.1", "10.7.0.2", "10.7.0.3"]
        entities = (await person.list(ExternalEntity, namespace=guild.shop)).objects
        assert sorted(len(e.spec.endpoints) for e in entities) == [1, 1, 1, 3]

    await stage.eventually(served)


async def test_a_service_in_the_way_of_a_machine_is_left_alone_and_told(guild: Guild) -> None:
    theirs = await guild.serve("bergen", "db", marks={})
    await guild.machine("bergen", "db-1", "10.7.0.1")

    await guild.stage.eventually(
        guild.is_told("bergen", Service, "db", "MachineNameFree", "NameTaken", guild.shop)
    )

    found = await guild.find("bergen", Service, "db", guild.shop)
    assert found is not None
    assert (found.metadata.uid, found.spec) == (theirs.metadata.uid, theirs.spec)
