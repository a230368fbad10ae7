"""The cluster that other programs' tests start, in process."""

import asyncio

import pytest

from tinykube.cluster import Cluster
from tinykube.controllers.controller_manager import CORE_CONTROLLERS
from tinykube.errors import StatusError
from tinykube.virtual_time import ON_VIRTUAL_TIME, LoopClock

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


@pytest.mark.parametrize("path", ["/nowhere", "/api/v1/namespaces/none"])
async def test_what_does_not_exist_is_an_error(path: str) -> None:
    async with Cluster(clock=LoopClock(), controllers=CORE_CONTROLLERS) as cluster:
        with pytest.raises(StatusError) as raised:
            await cluster.request("GET", path)

    assert raised.value.code == 404


async def test_an_object_of_an_unknown_kind_is_an_error() -> None:
    async with Cluster(clock=LoopClock(), controllers=CORE_CONTROLLERS) as cluster:
        with pytest.raises(StatusError, match="no matches for"):
            await cluster.create({"apiVersion": "example.com/v1", "kind": "Ship", "metadata": {}})


async def test_waiting_sees_an_object_that_is_created_later() -> None:
    async with (
        Cluster(clock=LoopClock(), controllers=CORE_CONTROLLERS) as cluster,
        asyncio.TaskGroup() as group,
    ):
        waiting = group.create_task(cluster.wait_for("/api/v1/namespaces/shop", lambda _: True))
        await asyncio.sleep(60)
        await cluster.create(NAMESPACE)

    assert waiting.result()["status"]["phase"] == "Active"


async def test_the_same_seed_gives_the_same_uids() -> None:
    uids = []
    for _ in range(2):
        async with Cluster(clock=LoopClock(), seed=7) as cluster:
            uids.append((await cluster.create(NAMESPACE))["metadata"]["uid"])

    assert uids[0] == uids[1]
