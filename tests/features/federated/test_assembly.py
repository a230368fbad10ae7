"""Federated Services over elected leaders, on virtual time and a network that can fail."""

from collections.abc import AsyncIterator

import pytest

from hanse.features.federated.feature import FederatedServices
from hanse.features.federated.names import CLUSTER, FEDERATED, HOME
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.objects import ClusterId
from hanse.testing.assembly import Assembly
from hanse.testing.builders import namespace
from hanse.testing.faults import READING
from hanse.testing.time import ON_VIRTUAL_TIME
from tests.features.federated.given import GLOBAL_MARK, SHOP
from tests.features.federated.people import join

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
    listed = await assembly.person(where).list(EndpointSlice, namespace=HOME)
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
        service = await assembly.person(name).read(Service, "web", HOME)
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
        left = await assembly.person(name).list(Service, namespace=HOME)
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
