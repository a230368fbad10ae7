"""Federated Services over elected leaders, on virtual time and a network that can fail."""

from collections.abc import AsyncIterator

import pytest

from hanse.features.federated.feature import FederatedServices
from hanse.features.federated.names import CLUSTER, FEDERATED, HOME
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.objects import ClusterId
from hanse.testing.builders import namespace
from hanse.testing.faults import READING
from hanse.testing.league import League
from hanse.testing.time import ON_VIRTUAL_TIME
from tests.features.federated.given import GLOBAL_MARK, SHOP
from tests.features.federated.people import join

NAMES = ("lubeck", "hamburg", "bergen")


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


@pytest.fixture
async def league() -> AsyncIterator[League]:
    """Two supervisors and a child, each with a shop."""
    league = League(NAMES, 2, lambda: (FederatedServices(),))
    await league.open()
    for name in NAMES:
        await league.person(name).create(namespace(SHOP))
    async with league.running():
        yield league


async def endpoints(league: League, where: ClusterId) -> dict[str, list[str]]:
    listed = await league.person(where).list(EndpointSlice, namespace=HOME)
    told: dict[str, list[str]] = {}
    for piece in listed.objects:
        source = piece.metadata.annotations[CLUSTER]
        told.setdefault(source, []).extend(a for e in piece.endpoints or () for a in e.addresses)
    return {c: sorted(a) for c, a in told.items()}


async def test_a_federated_service_is_in_every_member_with_everybodys_endpoints(
    league: League,
) -> None:
    await join(league, "lubeck", "10.1.0.1")
    await join(league, "bergen", "10.3.0.1", "10.3.0.2")

    await league.settle()

    for name in NAMES:
        service = await league.person(name).read(Service, "web", HOME)
        assert FEDERATED in service.metadata.annotations
        assert service.spec.cluster_ip not in ("", "None")
        assert await endpoints(league, name) == {
            "lubeck": ["10.1.0.1"],
            "bergen": ["10.3.0.1", "10.3.0.2"],
        }


async def test_it_goes_with_its_last_member(league: League) -> None:
    await join(league, "lubeck", "10.1.0.1")
    await join(league, "bergen", "10.3.0.1")
    await league.settle()

    await league.person("lubeck").delete(Service, "web-lubeck", SHOP)
    await league.settle()
    assert await endpoints(league, "hamburg") == {"bergen": ["10.3.0.1"]}
    change = {"metadata": {"annotations": {GLOBAL_MARK: None}}}
    await league.person("bergen").patch(Service, "web-bergen", SHOP, change)
    await league.settle()

    for name in NAMES:
        left = await league.person(name).list(Service, namespace=HOME)
        assert [s.metadata.name for s in left.objects] == []
        assert await endpoints(league, name) == {}


async def test_a_settled_league_writes_nothing_also_after_a_restart(league: League) -> None:
    await join(league, "lubeck", "10.1.0.1")
    await join(league, "bergen", "10.3.0.1")
    await league.settle()
    sent = len(league.network.sent)

    for name in league.chiefs:
        await league.kill(name)
        league.start(name)
    await league.settle()

    writes = [
        f"{s.request.method} {s.target}{s.request.path}"
        for s in league.network.sent[sent:]
        if s.request.method not in READING and "/leases" not in s.request.path
    ]
    assert writes == []
