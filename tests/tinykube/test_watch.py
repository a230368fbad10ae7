"""Watches on virtual time: history, new events, timeouts, errors."""

import pytest

from tests.tinykube.api_client import CONFIGMAPS, Cluster, configmap
from tinykube.errors import StatusError
from tinykube.request import Request
from tinykube.virtual_time import ON_VIRTUAL_TIME


@pytest.fixture
def anyio_backend() -> object:
    return ON_VIRTUAL_TIME


async def test_a_watch_sends_existing_objects_then_changes() -> None:
    cluster = Cluster()
    await cluster.create(CONFIGMAPS, configmap("a"))

    async with cluster.watch(CONFIGMAPS) as watch:
        assert await watch.next_name() == ("ADDED", "a")
        await cluster.create(CONFIGMAPS, configmap("b"))
        await cluster.merge(f"{CONFIGMAPS}/a", {"data": {"x": "1"}})
        await cluster.send("DELETE", f"{CONFIGMAPS}/b")

        assert await watch.next_name() == ("ADDED", "b")
        assert await watch.next_name() == ("MODIFIED", "a")
        assert await watch.next_name() == ("DELETED", "b")


async def test_a_watch_resumes_after_a_version() -> None:
    cluster = Cluster()
    first = await cluster.create(CONFIGMAPS, configmap("a"))
    await cluster.create(CONFIGMAPS, configmap("b"))

    version = first["metadata"]["resourceVersion"]
    async with cluster.watch(CONFIGMAPS, resourceVersion=version) as watch:
        assert await watch.next_name() == ("ADDED", "b")


async def test_a_compacted_version_ends_the_watch_with_an_error_event() -> None:
    cluster = Cluster()
    first = await cluster.create(CONFIGMAPS, configmap("a"))
    await cluster.create(CONFIGMAPS, configmap("b"))
    cluster.api.storage.compact()

    version = first["metadata"]["resourceVersion"]
    async with cluster.watch(CONFIGMAPS, resourceVersion=version) as watch:
        events = await watch.rest()

    assert [event["type"] for event in events] == ["ERROR"]
    assert events[0]["object"]["code"] == 410
    assert events[0]["object"]["reason"] == "Expired"


async def test_what_starts_to_match_appears_and_what_stops_is_deleted() -> None:
    cluster = Cluster()
    await cluster.create(CONFIGMAPS, configmap("a", {"app": "web"}, x="1"))
    await cluster.create(CONFIGMAPS, configmap("b"))

    async with cluster.watch(CONFIGMAPS, labelSelector="app=web") as watch:
        assert await watch.next_name() == ("ADDED", "a")
        await cluster.merge(f"{CONFIGMAPS}/b", {"metadata": {"labels": {"app": "web"}}})
        left = await cluster.merge(f"{CONFIGMAPS}/a", {"metadata": {"labels": None}})

        assert await watch.next_name() == ("ADDED", "b")
        gone = await watch.next()

    assert gone["type"] == "DELETED"
    assert gone["object"]["metadata"]["labels"] == {"app": "web"}
    assert gone["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


async def test_a_watch_sees_its_namespace_or_its_one_object() -> None:
    cluster = Cluster()

    async with (
        cluster.watch(CONFIGMAPS) as inside,
        cluster.watch("/api/v1/watch/namespaces/default/configmaps/b") as single,
        cluster.watch("/api/v1/configmaps", fieldSelector="metadata.name=b") as chosen,
    ):
        await cluster.create("/api/v1/namespaces/kube-system/configmaps", configmap("far"))
        await cluster.create(CONFIGMAPS, configmap("a"))
        await cluster.create(CONFIGMAPS, configmap("b"))

        assert await inside.next_name() == ("ADDED", "a")
        assert await single.next_name() == ("ADDED", "b")
        assert await chosen.next_name() == ("ADDED", "b")


async def test_initial_events_end_with_a_marked_bookmark() -> None:
    cluster = Cluster()
    await cluster.create(CONFIGMAPS, configmap("a"))

    async with cluster.watch(
        CONFIGMAPS,
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    ) as watch:
        assert await watch.next_name() == ("ADDED", "a")
        mark = await watch.next()

    assert mark["type"] == "BOOKMARK"
    metadata = mark["object"]["metadata"]
    assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert metadata["resourceVersion"] == str(cluster.api.storage.version)


async def test_bookmarks_come_each_minute_until_the_time_is_over() -> None:
    cluster = Cluster()

    async with cluster.watch(CONFIGMAPS, allowWatchBookmarks="true", timeoutSeconds=150) as watch:
        events = await watch.rest()

    assert [event["type"] for event in events] == ["BOOKMARK", "BOOKMARK"]


async def test_after_a_restore_no_cached_event_is_sent() -> None:
    cluster = Cluster()
    backup = cluster.api.storage.snapshot()
    await cluster.create(CONFIGMAPS, configmap("old"))
    async with cluster.watch(CONFIGMAPS) as watch:
        assert await watch.next_name() == ("ADDED", "old")

    cluster.api.storage.restore(backup)
    await cluster.create(CONFIGMAPS, configmap("new"))

    async with cluster.watch(CONFIGMAPS) as watch:
        assert await watch.next_name() == ("ADDED", "new")


async def test_a_restored_cluster_ends_its_watches() -> None:
    cluster = Cluster()
    backup = cluster.api.storage.snapshot()

    async with cluster.watch(CONFIGMAPS) as watch:
        await cluster.create(CONFIGMAPS, configmap("a"))
        cluster.api.storage.restore(backup)
        await cluster.create(CONFIGMAPS, configmap("b"))
        events = await watch.rest()

    assert events == [], "what was not read before the restore is not sent after it"
    async with cluster.watch(CONFIGMAPS) as watch:
        assert await watch.next_name() == ("ADDED", "b"), "and not in place of what came later"


async def test_dropped_watches_end() -> None:
    cluster = Cluster()

    async with cluster.watch(CONFIGMAPS) as watch:
        cluster.api.drop_watches()

        assert await watch.rest() == []


async def test_every_watcher_of_a_version_sees_the_same_bytes() -> None:
    cluster = Cluster()
    request = Request("GET", CONFIGMAPS, (("watch", "true"),))

    async with cluster.api.stream(request) as one, cluster.api.stream(request) as two:
        await cluster.create(CONFIGMAPS, configmap("a"))

        assert await anext(one) is await anext(two)


async def test_a_watch_with_contradictory_options_is_refused() -> None:
    api = Cluster().api
    query = (("watch", "true"), ("sendInitialEvents", "true"))

    with pytest.raises(StatusError) as refused:
        async with api.stream(Request("GET", CONFIGMAPS, query)):
            pass

    assert "sendInitialEvents requires setting resourceVersionMatch" in str(refused.value)


async def test_watches_come_as_tables_with_columns_once() -> None:
    cluster = Cluster()
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    request = Request("GET", CONFIGMAPS, (("watch", "true"),), accept=table)

    async with cluster.api.stream(request) as lines:
        await cluster.create(CONFIGMAPS, configmap("a"))
        await cluster.create(CONFIGMAPS, configmap("b"))
        first, second = await anext(lines), await anext(lines)

    assert b'"columnDefinitions":[{' in first
    assert b'"columnDefinitions":null' in second
