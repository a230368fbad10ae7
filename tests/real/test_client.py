"""The client, the stream and elections against a real API server."""

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
from hanse.kube.discovery import refresh, server_version
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

SPACE = "client-test"


@pytest.fixture
async def client(real_clusters: RealFleet) -> AsyncIterator[Client]:
    """A client of the broker, with a namespace that it may fill."""
    made = Client(HttpTransport(from_files((real_clusters.kubeconfig,), context="broker")))
    with suppress(AlreadyExists):
        await made.create(Namespace(metadata=Meta(name=SPACE)))
    yield made
    await made.close()


def thing(name: str, **content: str) -> ConfigMap:
    return ConfigMap(metadata=Meta(name=name, namespace=SPACE), data=content)


async def error_of(call: Coroutine[Any, Any, object]) -> type[KubeError]:
    with pytest.raises(KubeError) as raised:
        await call
    return type(raised.value)


async def test_every_precondition_is_held_to(client: Client) -> None:
    made = await client.create(thing("held", x="1"))
    stale = {"metadata": {"resourceVersion": made.metadata.resource_version}}
    other = {"metadata": {"uid": "other"}}
    await client.patch(ConfigMap, "held", SPACE, {**stale, "data": {"x": "2"}})

    errors = [
        await error_of(client.patch(ConfigMap, "held", SPACE, {**stale, "data": {"x": "3"}})),
        await error_of(client.patch(ConfigMap, "held", SPACE, other)),
        await error_of(client.delete(ConfigMap, "held", SPACE, uid="other")),
        await error_of(client.delete(ConfigMap, "held", SPACE, resource_version="1")),
        await error_of(client.create(thing("held"))),
        await error_of(client.read(ConfigMap, "none", SPACE)),
        await error_of(client.list(ConfigMap, labels="a in")),
    ]
    gone = await client.delete(ConfigMap, "held", SPACE, uid=made.metadata.uid)

    assert errors == [Conflict, Invalid, Conflict, Conflict, AlreadyExists, NotFound, Invalid]
    assert gone is None


async def test_what_a_finalizer_holds_is_given_back(client: Client) -> None:
    meta = Meta(name="finalized", namespace=SPACE, finalizers=("test.hanse.dev/held",))
    await client.create(ConfigMap(metadata=meta))

    left = await client.delete(ConfigMap, "finalized", SPACE)
    await client.patch(ConfigMap, "finalized", SPACE, {"metadata": {"finalizers": None}})

    assert left is not None
    assert left.metadata.deletion_timestamp is not None
    assert await error_of(client.read(ConfigMap, "finalized", SPACE)) is NotFound


async def test_a_list_as_a_stream_and_one_by_pages_find_the_same(client: Client) -> None:
    await asyncio.gather(*(client.create(thing(f"page-{n}")) for n in range(600)))
    stream = list_and_watch(client, ConfigMap, namespace=SPACE, random=Random(1))

    async with aclosing(stream) as events:
        streamed = await anext(events)
    by_pages = await client.list(ConfigMap, namespace=SPACE)

    assert isinstance(streamed, Listed)
    assert client.supports_watch_list is True
    assert {one.name for one in streamed.objects} == {one.name for one in by_pages.objects}


async def test_changes_are_told_in_their_order(client: Client) -> None:
    stream = list_and_watch(client, ConfigMap, namespace=SPACE, random=Random(1))
    told: list[WatchEvent[ConfigMap]] = []

    async with aclosing(stream) as events:
        await anext(events)
        await client.create(thing("told", x="1"))
        await client.patch(ConfigMap, "told", SPACE, {"data": {"x": "2"}})
        await client.delete(ConfigMap, "told", SPACE)
        async for event in events:
            told.append(event)
            if isinstance(event, Deleted):
                break

    contents = [event.object.data["x"] for event in told if isinstance(event, Applied)]
    assert contents == ["1", "2"]


async def test_a_watch_from_the_future_is_silent_which_is_why_we_check(client: Client) -> None:
    """If this fails, servers have begun to refuse it, and the check after an outage can go."""
    now = await client.newest(ConfigMap)
    ahead = requests.watch(
        ConfigMap.kind, SPACE, after=str(int(now) + 10**6), lasting=timedelta(seconds=2)
    )

    async with client.stream(ahead) as lines:
        await client.create(thing("unseen"))
        told = [line async for line in lines]

    assert told == []


async def test_kinds_and_release_are_found(client: Client) -> None:
    await refresh(client)

    assert client.kinds.known is not None
    assert {ConfigMap.kind, Lease.kind} <= client.kinds.known.kinds
    assert (await server_version(client)).number >= (1, 30)


async def test_a_lease_passes_from_hand_to_hand(client: Client) -> None:
    told: asyncio.Queue[tuple[str, LeaderState]] = asyncio.Queue()

    def stand(name: str) -> "asyncio.Task[None]":
        elector = LeaderElector(
            client, SPACE, "elected", name, clock=WallClock(), random=Random(name)
        )
        run = elector.run(lambda standing: told.put_nowait((name, standing)))
        return asyncio.create_task(run, name=name)

    async def until(wanted: tuple[str, LeaderState]) -> None:
        async with asyncio.timeout(20):
            while await told.get() != wanted:
                pass

    first = stand("first")
    await until(("first", Leader(0)))
    second = stand("second")
    await until(("second", Standby("first")))
    first.cancel()
    await until(("second", Leader(1)))
    held = await client.read(Lease, "elected", SPACE)
    second.cancel()
    await asyncio.wait({first, second})
    released = await client.read(Lease, "elected", SPACE)

    assert (held.spec.holder_identity, held.spec.lease_transitions) == ("second", 1)
    assert (released.spec.holder_identity, released.spec.lease_duration_seconds) == ("", 1)
