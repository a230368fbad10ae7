"""Federated Services over elected leaders, on virtual time and a network that can fail."""

from collections.abc import AsyncIterator

import pytest

from hanse.features.federated.feature import FederatedServices
from hanse.features.federated.names import CLUSTER, FEDERATED
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import ClusterId
from tests.features.federated.builders import GLOBAL_ANNOTATION, SHOP, join
from tests.support.builders import namespace
from tests.support.faults import READ_METHODS
from tests.support.supervised_world import SupervisedWorld
from tinykube.virtual_time import ON_VIRTUAL_TIME

NAMES = ("lubeck", "hamburg", "bergen")


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


@pytest.fixture
async def world() -> AsyncIterator[SupervisedWorld]:
    """Two supervisors and a child, each with a shop."""
    world = SupervisedWorld(NAMES, 2, lambda: (FederatedServices(),))
    await world.open()
    for name in NAMES:
        await world.admin(name).create(namespace(SHOP))
    async with world.running():
        yield world


async def endpoints(world: SupervisedWorld, where: ClusterId) -> dict[str, list[str]]:
    listed = await world.admin(where).list(EndpointSlice, namespace=SYSTEM)
    by_cluster: dict[str, list[str]] = {}
    for endpoint_slice in listed.objects:
        source = endpoint_slice.metadata.annotations[CLUSTER]
        by_cluster.setdefault(source, []).extend(
            a for e in endpoint_slice.endpoints or () for a in e.addresses
        )
    return {c: sorted(a) for c, a in by_cluster.items()}


async def test_a_federated_service_is_in_every_member_with_all_endpoints(
    world: SupervisedWorld,
) -> None:
    await join(world, "lubeck", "10.1.0.1")
    await join(world, "bergen", "10.3.0.1", "10.3.0.2")

    await world.settle()

    for name in NAMES:
        service = await world.admin(name).read(Service, "web", SYSTEM)
        assert FEDERATED in service.metadata.annotations
        assert service.spec.cluster_ip not in ("", "None")
        assert await endpoints(world, name) == {
            "lubeck": ["10.1.0.1"],
            "bergen": ["10.3.0.1", "10.3.0.2"],
        }


async def test_it_is_deleted_with_its_last_member(world: SupervisedWorld) -> None:
    await join(world, "lubeck", "10.1.0.1")
    await join(world, "bergen", "10.3.0.1")
    await world.settle()

    await world.admin("lubeck").delete(Service, "web-lubeck", SHOP)
    await world.settle()
    assert await endpoints(world, "hamburg") == {"bergen": ["10.3.0.1"]}
    change = {"metadata": {"annotations": {GLOBAL_ANNOTATION: None}}}
    await world.admin("bergen").patch(Service, "web-bergen", SHOP, change)
    await world.settle()

    for name in NAMES:
        left = await world.admin(name).list(Service, namespace=SYSTEM)
        assert [s.metadata.name for s in left.objects] == []
        assert await endpoints(world, name) == {}


async def test_a_settled_federation_writes_nothing_also_after_a_restart(
    world: SupervisedWorld,
) -> None:
    await join(world, "lubeck", "10.1.0.1")
    await join(world, "bergen", "10.3.0.1")
    await world.settle()
    sent = len(world.network.sent)

    for name in world.supervisor_names:
        await world.kill(name)
        world.start(name)
    await world.settle()

    writes = [
        f"{s.request.method} {s.target}{s.request.path}"
        for s in world.network.sent[sent:]
        if s.request.method not in READ_METHODS and "/leases" not in s.request.path
    ]
    assert writes == []


def writes_since(world: SupervisedWorld, start: int) -> list[str]:
    return [
        f"{s.source}: {s.request.method} {s.target}{s.request.path}"
        for s in world.network.sent[start:]
        if s.request.method not in READ_METHODS and "/leases" not in s.request.path
    ]


async def test_another_supervisor_takes_over_without_a_write(world: SupervisedWorld) -> None:
    await join(world, "lubeck", "10.1.0.1")
    await join(world, "bergen", "10.3.0.1")
    await world.settle()
    [leader] = [n for n, s in world.supervisors.items() if "bergen" in s.leads]
    start = len(world.network.sent)

    await world.kill(leader)
    await world.settle()

    [other] = world.supervisors.values()
    assert other.leads == set(NAMES)
    assert writes_since(world, start) == []


async def test_endpoints_follow_a_host_name() -> None:
    names = {"lb.example.org": ["192.0.2.1"]}

    async def resolve(*, host: str) -> dict[str, object]:
        if host not in names:
            raise OSError("no answer")
        return {"addresses": names[host], "ttl": 30}

    world = SupervisedWorld(
        NAMES, 2, lambda: (FederatedServices(),), providers={"resolve": resolve}
    )
    await world.open()
    for name in NAMES:
        await world.admin(name).create(namespace(SHOP))
    async with world.running():
        await join(world, "bergen", "10.3.0.1")
        admin = world.admin("bergen")
        await admin.patch(Service, "web-bergen", SHOP, {"spec": {"type": "LoadBalancer"}})
        ingress = {"status": {"loadBalancer": {"ingress": [{"hostname": "lb.example.org"}]}}}
        await admin.patch(Service, "web-bergen", SHOP, ingress, subresource="status")
        await world.settle()
        there = ["192.0.2.1", "lb.example.org"]
        assert await endpoints(world, "lubeck") == {"bergen": there}
        assert await endpoints(world, "bergen") == {"bergen": ["10.3.0.1"]}

        names["lb.example.org"] = ["192.0.2.2", "fd00::2"]
        await world.settle()
        now = {"bergen": ["192.0.2.2", "fd00::2", "lb.example.org"]}
        assert await endpoints(world, "lubeck") == now

        del names["lb.example.org"]
        await world.settle()
        assert await endpoints(world, "lubeck") == now


async def test_a_leader_reads_nothing_of_members_that_others_lead(world: SupervisedWorld) -> None:
    await join(world, "bergen", "10.3.0.1")
    await world.settle()

    for supervisor in world.supervisors.values():
        stores = supervisor.reconciler.informers.stores
        watched = {where for where, kind in stores if kind == EndpointSlice.kind}
        assert watched == supervisor.leads
