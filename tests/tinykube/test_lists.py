"""Lists: selectors, pagination, resourceVersion."""

import pytest

from tests.tinykube.api_client import CONFIGMAPS, PODS, Cluster, configmap, pod


async def fleet() -> Cluster:
    cluster = Cluster()
    for name, labels in (
        ("anna", {"app": "web", "tier": "front"}),
        ("berta", {"app": "web", "size": "7"}),
        ("carla", {"app": "db"}),
        ("dora", {}),
    ):
        await cluster.create(CONFIGMAPS, configmap(name, labels))
    return cluster


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("app=web", ["anna", "berta"]),
        ("app==db", ["carla"]),
        ("app!=web", ["carla", "dora"]),
        ("app in (web, db)", ["anna", "berta", "carla"]),
        ("app notin (web)", ["carla", "dora"]),
        ("app", ["anna", "berta", "carla"]),
        ("!app", ["dora"]),
        ("app=web,tier", ["anna"]),
        ("size>6", ["berta"]),
        ("size<7", []),
        ("", ["anna", "berta", "carla", "dora"]),
    ],
)
async def test_label_selectors_choose(selector: str, expected: list[str]) -> None:
    cluster = await fleet()

    assert await cluster.names(CONFIGMAPS, labelSelector=selector) == expected


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("app in web", "unable to parse requirement: found 'web', expected: '('"),
        ("=web", "found '=', expected: !, identifier, or 'end of string'"),
        ("app=web,", "found '', expected: identifier after ','"),
        ("size>x", "the value must be an integer"),
        ("a b", "found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    ],
)
async def test_a_selector_that_cannot_be_read_is_refused(selector: str, message: str) -> None:
    answer = await Cluster().send("GET", CONFIGMAPS, labelSelector=selector)

    assert answer.status == 400
    assert message in answer.message


async def test_field_selectors_choose_by_what_the_kind_offers() -> None:
    cluster = Cluster()
    await cluster.create(PODS, pod("a", nodeName="n1"))
    await cluster.create(PODS, pod("b"))

    assert await cluster.names("/api/v1/pods", fieldSelector="spec.nodeName=n1") == ["a"]
    assert await cluster.names(PODS, fieldSelector="spec.nodeName!=n1") == ["b"]
    assert await cluster.names(PODS, fieldSelector="metadata.name=b,status.phase=Pending") == ["b"]
    refused = await cluster.send("GET", PODS, fieldSelector="spec.colour=red")
    assert refused.message == "field label not supported: spec.colour"


async def test_pages_show_one_moment_though_objects_come_and_go() -> None:
    cluster = await fleet()
    first = (await cluster.send("GET", CONFIGMAPS, limit=2)).body
    await cluster.send("DELETE", f"{CONFIGMAPS}/carla")
    await cluster.create(CONFIGMAPS, configmap("bruno"))

    second = (
        await cluster.send(
            "GET", CONFIGMAPS, limit=2, **{"continue": first["metadata"]["continue"]}
        )
    ).body

    assert [item["metadata"]["name"] for item in first["items"]] == ["anna", "berta"]
    assert first["metadata"]["remainingItemCount"] == 2
    assert [item["metadata"]["name"] for item in second["items"]] == ["carla", "dora"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in second["metadata"]


async def test_an_expired_page_has_a_token_to_continue_inconsistently() -> None:
    cluster = await fleet()
    first = (await cluster.send("GET", CONFIGMAPS, limit=1)).body
    await cluster.create(CONFIGMAPS, configmap("emil"))
    cluster.api.storage.compact()

    gone = await cluster.send("GET", CONFIGMAPS, **{"continue": first["metadata"]["continue"]})
    onward = gone.body["metadata"]["continue"]
    rest = await cluster.names(CONFIGMAPS, **{"continue": onward})

    assert gone.status == 410
    assert gone.body["reason"] == "Expired"
    assert rest == ["berta", "carla", "dora", "emil"]


async def test_a_list_can_be_of_an_exact_version() -> None:
    cluster = await fleet()
    version = cluster.api.storage.version
    await cluster.create(CONFIGMAPS, configmap("emil"))

    exact = await cluster.names(CONFIGMAPS, resourceVersion=version, resourceVersionMatch="Exact")
    newer = await cluster.names(
        CONFIGMAPS, resourceVersion=version, resourceVersionMatch="NotOlderThan"
    )

    assert exact == ["anna", "berta", "carla", "dora"]
    assert newer == [*exact, "emil"]


async def test_a_version_that_was_never_reached_is_refused() -> None:
    answer = await Cluster().send("GET", CONFIGMAPS, resourceVersion=999_999)

    assert answer.status == 504
    assert answer.message.startswith("Timeout: Too large resource version: 999999, current: ")


async def test_lists_come_as_tables_and_as_metadata_alone() -> None:
    cluster = await fleet()
    table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

    rows = (await cluster.send("GET", CONFIGMAPS, accept=table)).body
    names = (await cluster.send("GET", CONFIGMAPS, accept=partial)).body

    assert rows["kind"] == "Table"
    assert [row["cells"][0] for row in rows["rows"]] == ["anna", "berta", "carla", "dora"]
    assert names["kind"] == "PartialObjectMetadataList"
    assert set(names["items"][0]) == {"kind", "apiVersion", "metadata"}


async def test_a_collection_is_deleted_by_selector() -> None:
    cluster = await fleet()

    answer = await cluster.send("DELETE", CONFIGMAPS, labelSelector="app=web")

    assert answer.status == 200
    assert answer.body["kind"] == "ConfigMapList"
    assert await cluster.names(CONFIGMAPS) == ["carla", "dora"]
