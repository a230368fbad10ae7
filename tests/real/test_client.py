"""The client, watches and leader election against a real API server."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing, suppress
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from hanse.kube import requests
from hanse.kube.client import Client
from hanse.kube.clock import WallClock
from hanse.kube.credentials import from_files
from hanse.kube.discovery import refresh
from hanse.kube.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    KubeError,
    NotFound,
)
from hanse.kube.http_transport import HttpTransport
from hanse.kube.leader_election import Leader, LeaderElector, LeaderState, Standby
from hanse.kube.watch_events import Applied, Deleted, Listed, WatchEvent
from hanse.kube.watcher import list_and_watch
from hanse.local.real.fleet import RealFleet
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.objects import Meta

pytestmark = pytest.mark.anyio

NAMESPACE = "client-test"


@pytest.fixture
async def client(real_clusters: RealFleet) -> AsyncIterator[Client]:
    """A client of the broker, with a namespace for the test."""
    made = Client(HttpTransport(from_files((real_clusters.kubeconfig,), context="broker")))
    with suppress(AlreadyExists):
        await made.create(Namespace(metadata=Meta(name=NAMESPACE)))
    yield made
    await made.close()


def new_config_map(name: str, **content: str) -> ConfigMap:
    return ConfigMap(metadata=Meta(name=name, namespace=NAMESPACE), data=content)


async def error_of(call: Coroutine[Any, Any, object]) -> type[KubeError]:
    with pytest.raises(KubeError) as raised:
        await call
    return type(raised.value)


async def test_preconditions_are_enforced(client: Client) -> None:
    made = await client.create(new_config_map("held", x="1"))
    stale = {"metadata": {"resourceVersion": made.metadata.resource_version}}
    other = {"metadata": {"uid": "other"}}
    await client.patch(ConfigMap, "held", NAMESPACE, {**stale, "data": {"x": "2"}})

    errors = [
        await error_of(client.patch(ConfigMap, "held", NAMESPACE, {**stale, "data": {"x": "3"}})),
        await error_of(client.patch(ConfigMap, "held", NAMESPACE, other)),
        await error_of(client.delete(ConfigMap, "held", NAMESPACE, uid="other")),
        await error_of(client.delete(ConfigMap, "held", NAMESPACE, resource_version="1")),
        await error_of(client.create(new_config_map("held"))),
        await error_of(client.read(ConfigMap, "none", NAMESPACE)),
        await error_of(client.list(ConfigMap, labels="a in")),
    ]
    deleted = await client.delete(ConfigMap, "held", NAMESPACE, uid=made.metadata.uid)

    assert errors == [Conflict, Invalid, Conflict, Conflict, AlreadyExists, NotFound, Invalid]
    assert deleted is None


async def test_deleting_an_object_with_finalizers_returns_it(client: Client) -> None:
    meta = Meta(name="finalized", namespace=NAMESPACE, finalizers=("test.hanse.dev/held",))
    await client.create(ConfigMap(metadata=meta))

    left = await client.delete(ConfigMap, "finalized", NAMESPACE)
    await client.patch(ConfigMap, "finalized", NAMESPACE, {"metadata": {"finalizers": None}})

    assert left is not None
    assert left.metadata.deletion_timestamp is not None
    assert await error_of(client.read(ConfigMap, "finalized", NAMESPACE)) is NotFound


async def test_a_watch_list_and_a_paged_list_return_the_same(client: Client) -> None:
    await asyncio.gather(*(client.create(new_config_map(f"page-{n}")) for n in range(600)))
    stream = list_and_watch(client, ConfigMap, namespace=NAMESPACE, random=Random(1))

    async with aclosing(stream) as events:
        streamed = await anext(events)
    by_pages = await client.list(ConfigMap, namespace=NAMESPACE)

    assert isinstance(streamed, Listed)
    assert client.supports_watch_list is True
    assert {one.name for one in streamed.objects} == {one.name for one in by_pages.objects}


async def test_watch_events_arrive_in_order(client: Client) -> None:
    stream = list_and_watch(client, ConfigMap, namespace=NAMESPACE, random=Random(1))
    received: list[WatchEvent[ConfigMap]] = []

    async with aclosing(stream) as events:
        await anext(events)
        await client.create(new_config_map("told", x="1"))
        await client.patch(ConfigMap, "told", NAMESPACE, {"data": {"x": "2"}})
        await client.delete(ConfigMap, "told", NAMESPACE)
        async for event in events:
            received.append(event)
            if isinstance(event, Deleted):
                break

    contents = [event.object.data["x"] for event in received if isinstance(event, Applied)]
    assert contents == ["1", "2"]


async def test_a_watch_from_a_future_resource_version_sends_nothing(client: Client) -> None:
    """If this fails, servers reject such watches, and our check after an outage is obsolete."""
    now = await client.current_resource_version(ConfigMap)
    ahead = requests.watch(
        ConfigMap.kind, NAMESPACE, after=str(int(now) + 10**6), timeout=timedelta(seconds=2)
    )

    async with client.stream(ahead) as lines:
        await client.create(new_config_map("unseen"))
        received = [line async for line in lines]

    assert received == []


async def test_discovery_finds_kinds(client: Client) -> None:
    await refresh(client)

    assert client.rest_mapper.served is not None
    assert {ConfigMap.kind, Lease.kind} <= client.rest_mapper.served.kinds


async def test_a_lease_is_released_to_the_next_candidate(client: Client) -> None:
    received: asyncio.Queue[tuple[str, LeaderState]] = asyncio.Queue()

    def stand(name: str) -> "asyncio.Task[None]":
        elector = LeaderElector(
            client, NAMESPACE, "elected", name, clock=WallClock(), random=Random(name)
        )
        run = elector.run(lambda state: received.put_nowait((name, state)))
        return asyncio.create_task(run, name=name)

    async def until(expected: tuple[str, LeaderState]) -> None:
        async with asyncio.timeout(20):
            while await received.get() != expected:
                pass

    first = stand("first")
    await until(("first", Leader(0)))
    second = stand("second")
    await until(("second", Standby("first")))
    first.cancel()
    await until(("second", Leader(1)))
    held = await client.read(Lease, "elected", NAMESPACE)
    second.cancel()
    await asyncio.wait({first, second})
    released = await client.read(Lease, "elected", NAMESPACE)

    assert (held.spec.holder_identity, held.spec.lease_transitions) == ("second", 1)
    assert (released.spec.holder_identity, released.spec.lease_duration_seconds) == ("", 1)
