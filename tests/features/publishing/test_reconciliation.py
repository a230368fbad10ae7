"""From services in a cluster to names on a BIND, by the runtime."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from hanse.features.publishing.feature import Publishing
from hanse.features.publishing.options import NAME_SERVER, PublishingOptions, ServerOptions
from hanse.features.services.zone import ServiceZone
from hanse.kube.transport import Request
from hanse.model.crds import crd_of
from hanse.model.dns.zones import View
from hanse.model.facts import Role
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.multicluster import ServiceImport
from hanse.runtime.external import ExternalApi
from hanse.runtime.reconciler import Reconciler
from tests.dns.builders import NXDOMAIN, endpoint_slice, imported
from tests.features.publishing.servers import ZONE, ExternalServer, name_server
from tests.support.builders import namespace
from tests.support.world import World

pytestmark = pytest.mark.anyio

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATIENCE = 20.0
WEB = "web.shop.svc"


@pytest.fixture(params=["bind", "knot"])
async def theirs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ExternalServer]:
    async with name_server(request.param, tmp_path) as server:
        yield server


def world_of(theirs: ExternalServer) -> World:
    options = PublishingOptions(ZONE, server=ServerOptions("127.0.0.1", theirs.port))
    view = View("published", zone=ZONE)
    return World(["lubeck"], lambda: (Publishing([ServiceZone(view)], options),))


@asynccontextmanager
async def publishing(world: World, theirs: ExternalServer) -> AsyncIterator[Reconciler]:
    reconciler = world.reconciler("lubeck")
    outside = ExternalApi(theirs.connect(), poll_interval=lambda: timedelta(seconds=0.2))
    reconciler.informers.join(NAME_SERVER, {Role.OUTSIDE}, outside)
    async with reconciler.running():
        yield reconciler


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await check():  # noqa: ASYNC110 - another process, which tells when asked
            await asyncio.sleep(0.05)


async def open_shop(world: World) -> None:
    client = world.client("lubeck")
    body = msgspec.json.encode(crd_of(ServiceImport))
    await client.send(Request("POST", CRDS, body=body))
    await client.create(namespace("shop"))
    await client.create(imported())
    await client.create(endpoint_slice("bergen", "10.2.0.1"))


async def test_names_follow_the_services_of_a_cluster(theirs: ExternalServer) -> None:
    world = world_of(theirs)
    await open_shop(world)
    client = world.client("lubeck")

    async def answers(*addresses: str) -> bool:
        return (await theirs.ask(WEB)).records == addresses

    async def served_by_port() -> bool:
        answer = await theirs.ask(f"_http._tcp.{WEB}", "SRV")
        return answer.records == (f"0 50 80 {WEB}.{ZONE}.",)

    async with publishing(world, theirs):
        await until(lambda: answers("10.2.0.1"))
        await until(served_by_port)

        await client.create(endpoint_slice("hamburg", "10.1.0.1"))
        await until(lambda: answers("10.1.0.1", "10.2.0.1"))
        await theirs.edit(lambda update: update.add(WEB, 5, "A", "192.0.2.1"))
        await until(lambda: answers("10.1.0.1", "10.2.0.1"))

        await client.delete(EndpointSlice, "web-bergen-ipv4", "shop")
        await until(lambda: answers("10.1.0.1"))
        await client.delete(ServiceImport, "web", "shop")

        async def gone() -> bool:
            return (await theirs.ask(WEB)).code == NXDOMAIN

        await until(gone)
    assert (await theirs.ask("www")).records == ("192.0.2.80",)


async def test_nothing_is_written_by_one_who_starts_anew(theirs: ExternalServer) -> None:
    world = world_of(theirs)
    await open_shop(world)

    async def published() -> bool:
        return (await theirs.ask(f"_http._tcp.bergen.{WEB}", "SRV")).code == "NOERROR"

    async with publishing(world, theirs):
        await until(published)
        await _calm(theirs)
    before = await theirs.serial()

    async with publishing(world, theirs) as reconciler:

        async def has_looked() -> bool:
            return reconciler.owned.count(NAME_SERVER, "publishing") > 0

        await until(has_looked)
        await _calm(theirs)

    assert await theirs.serial() == before


async def test_a_name_that_a_user_created_is_kept_and_reported_until_they_delete_it(
    theirs: ExternalServer,
) -> None:
    world = world_of(theirs)
    await open_shop(world)
    await theirs.edit(lambda update: update.add(WEB, 5, "A", "192.0.2.1"))

    async def has_condition(status: str) -> bool:
        service = await world.client("lubeck").read(ServiceImport, "web", "shop")
        return [c.status for c in service.status.conditions if c.type == "Published"] == [status]

    async with publishing(world, theirs):
        await until(lambda: has_condition("False"))
        assert (await theirs.ask(WEB)).records == ("192.0.2.1",)

        await theirs.edit(lambda update: update.delete(WEB))
        await until(lambda: has_condition("True"))
        assert (await theirs.ask(WEB)).records == ("10.2.0.1",)


async def _calm(theirs: ExternalServer) -> None:
    """Wait until the zone has not changed over several looks of the agent."""
    serial, looks = "", 0
    while looks < 10:
        await asyncio.sleep(0.1)
        found = await theirs.serial()
        serial, looks = found, looks + 1 if found == serial else 0
