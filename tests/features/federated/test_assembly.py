"""Federated Services over elected leaders, on virtual time and a network that can fail."""

from collections.abc import AsyncIterator

import pytest

from hanse.features.federated.feature import FederatedServices
from hanse.features.federated.names import CLUSTER, FEDERATED
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import ClusterId
from tests.features.federated.given import GLOBAL_MARK, SHOP
from tests.features.federated.people import join
from tests.support.assembly import Assembly
from tests.support.builders import namespace
from tests.support.faults import READING
from tests.support.time import ON_VIRTUAL_TIME

NAMES = ("lubeck", "hamburg", "bergen")


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


@pytest.fixture
async def assembly() -> AsyncIterator[Assembly]:
    """Two supervisors and a child, each with a shop."""
    assembly = Assembly(NAMES, 2, lambda: (FederatedServices(),))
    await assembly.open()
    for name in NAMES:
        await assembly.person(name).create(namespace(SHOP))
    async with assembly.running():
        yield assembly


async def endpoints(assembly: Assembly, where: ClusterId) -> dict[str, list[str]]:
    listed = await assembly.person(where).list(EndpointSlice, namespace=SYSTEM)
    told: dict[str, list[str]] = {}
    for piece in listed.objects:
        source = piece.metadata.annotations[CLUSTER]
        told.setdefault(source, []).extend(a for e in piece.endpoints or () for a in e.addresses)
    return {c: sorted(a) for c, a in told.items()}


async def test_a_federated_service_is_in_every_member_with_everybodys_endpoints(
    assembly: Assembly,
) -> None:
    await join(assembly, "lubeck", "10.1.0.1")
    await join(assembly, "bergen", "10.3.0.1", "10.3.0.2")

    await assembly.settle()

    for name in NAMES:
        service = await assembly.person(name).read(Service, "web", SYSTEM)
        assert FEDERATED in service.metadata.annotations
        assert service.spec.cluster_ip not in ("", "None")
        assert await endpoints(assembly, name) == {
            "lubeck": ["10.1.0.1"],
            "bergen": ["10.3.0.1", "10.3.0.2"],
        }


async def test_it_goes_with_its_last_member(assembly: Assembly) -> None:
    await join(assembly, "lubeck", "10.1.0.1")
    await join(assembly, "bergen", "10.3.0.1")
    await assembly.settle()

    await assembly.person("lubeck").delete(Service, "web-lubeck", SHOP)
    await assembly.settle()
    assert await endpoints(assembly, "hamburg") == {"bergen": ["10.3.0.1"]}
    change = {"metadata": {"annotations": {GLOBAL_MARK: None}}}
    await assembly.person("bergen").patch(Service, "web-bergen", SHOP, change)
    await assembly.settle()

    for name in NAMES:
        left = await assembly.person(name).list(Service, namespace=SYSTEM)
        assert [s.metadata.name for s in left.objects] == []
        assert await endpoints(assembly, name) == {}


async def test_a_settled_assembly_writes_nothing_also_after_a_restart(assembly: Assembly) -> None:
    await join(assembly, "lubeck", "10.1.0.1")
    await join(assembly, "bergen", "10.3.0.1")
    await assembly.settle()
    sent = len(assembly.network.sent)

    for name in assembly.chiefs:
        await assembly.kill(name)
        assembly.start(name)
    await assembly.settle()

    writes = [
        f"{s.request.method} {s.target}{s.request.path}"
        for s in assembly.network.sent[sent:]
        if s.request.method not in READING and "/leases" not in s.request.path
    ]
    assert writes == []


def writes_since(assembly: Assembly, start: int) -> list[str]:
    return [
        f"{s.source}: {s.request.method} {s.target}{s.request.path}"
        for s in assembly.network.sent[start:]
        if s.request.method not in READING and "/leases" not in s.request.path
    ]


async def test_another_supervisor_takes_over_without_a_write(assembly: Assembly) -> None:
    await join(assembly, "lubeck", "10.1.0.1")
    await join(assembly, "bergen", "10.3.0.1")
    await assembly.settle()
    [leader] = [n for n, s in assembly.supervisors.items() if "bergen" in s.leads]
    start = len(assembly.network.sent)

    await assembly.kill(leader)
    await assembly.settle()

    [other] = assembly.supervisors.values()
    assert other.leads == set(NAMES)
    assert writes_since(assembly, start) == []


async def test_a_host_name_is_followed_wherever_it_leads() -> None:
    names = {"lb.example.org": ["192.0.2.1"]}

    async def resolve(*, host: str) -> dict[str, object]:
        if host not in names:
            raise OSError("no answer")
        return {"addresses": names[host], "ttl": 30}

    assembly = Assembly(NAMES, 2, lambda: (FederatedServices(),), providers={"resolve": resolve})
    await assembly.open()
    for name in NAMES:
        await assembly.person(name).create(namespace(SHOP))
    async with assembly.running():
        await join(assembly, "bergen", "10.3.0.1")
        person = assembly.person("bergen")
        await person.patch(Service, "web-bergen", SHOP, {"spec": {"type": "LoadBalancer"}})
        ingress = {"status": {"loadBalancer": {"ingress": [{"hostname": "lb.example.org"}]}}}
        await person.patch(Service, "web-bergen", SHOP, ingress, subresource="status")
        await assembly.settle()
        there = ["192.0.2.1", "lb.example.org"]
        assert await endpoints(assembly, "lubeck") == {"bergen": there}
        assert await endpoints(assembly, "bergen") == {"bergen": ["10.3.0.1"]}

        names["lb.example.org"] = ["192.0.2.2", "fd00::2"]
        await assembly.settle()
        now = {"bergen": ["192.0.2.2", "fd00::2", "lb.example.org"]}
        assert await endpoints(assembly, "lubeck") == now

        del names["lb.example.org"]
        await assembly.settle()
        assert await endpoints(assembly, "lubeck") == now


async def test_a_leader_reads_nothing_of_members_that_others_lead(assembly: Assembly) -> None:
    await join(assembly, "bergen", "10.3.0.1")
    await assembly.settle()

    for supervisor in assembly.supervisors.values():
        stores = supervisor.engine.fleet.stores
        watched = {where for where, kind in stores if kind == EndpointSlice.kind}
        assert watched == supervisor.leads
