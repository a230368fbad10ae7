"""`kubectl get`, `describe`, `explain` and discovery."""

import asyncio
import json

import pytest

from tests.tinykube.kubectl.command import Kubectl
from tests.tinykube.kubectl.objects import configmap, crd, deployment, listed, ship


@pytest.fixture
async def filled(kubectl: Kubectl) -> Kubectl:
    await kubectl(
        "apply",
        "-f",
        "-",
        stdin=listed(
            configmap("a", {"x": "1", "y": "2"}, app="web", tier="1"),
            configmap("b", app="db"),
            configmap("c", {"x": "9"}),
        ),
    )
    return kubectl


async def test_get_prints_the_columns_of_the_kind(filled: Kubectl) -> None:
    rows = await filled.rows("configmaps", "a", "b")

    assert rows[0] == ["NAME", "DATA", "AGE"]
    assert [row[:2] for row in rows[1:]] == [["a", "2"], ["b", "0"]]


async def test_get_in_every_form(filled: Kubectl) -> None:
    whole = json.loads(await filled("get", "cm/a", "-o", "json"))
    named = await filled("get", "cm", "-l", "app", "-o", "name")
    path = await filled("get", "cm", "-l", "app", "-o", "jsonpath={.items[*].metadata.name}")
    columns = await filled(
        "get", "cm/a", "-o", "custom-columns=N:.metadata.name,X:.data.x", "--no-headers"
    )
    yaml_text = await filled("get", "cm/a", "-o", "yaml")

    assert whole["data"] == {"x": "1", "y": "2"}
    assert named == "configmap/a\nconfigmap/b\n"
    assert path == "a b"
    assert columns.split() == ["a", "1"]
    assert "\n  name: a\n" in yaml_text


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        (["-l", "app=web"], "a"),
        (["-l", "app in (web,db)"], "a b"),
        (["-l", "app,app!=web"], "b"),
        (["--field-selector", "metadata.name=c"], "c"),
        (["-l", "app", "--sort-by=.metadata.labels.app"], "b a"),
        (["-l", "app", "--chunk-size=1"], "a b"),
    ],
    ids=str,
)
async def test_get_selects_sorts_and_pages(
    filled: Kubectl, selector: list[str], names: str
) -> None:
    rows = await filled.rows("configmaps", *selector, "--no-headers")

    assert " ".join(row[0] for row in rows) == names


async def test_get_across_namespaces_and_with_labels(filled: Kubectl) -> None:
    await filled("create", "namespace", "shop")
    await filled("create", "configmap", "a", "-n", "shop")

    everywhere = await filled.rows("cm", "-A", "--field-selector=metadata.name=a")
    labelled = await filled.rows("cm", "-l", "app=web", "--show-labels")
    column = await filled.rows("cm", "a", "-L", "tier")

    assert [row[:2] for row in everywhere[1:]] == [["default", "a"], ["shop", "a"]]
    assert labelled[1][-1] == "app=web,tier=1"
    assert (column[0][-1], column[1][-1]) == ("TIER", "1")


async def test_get_of_several_kinds(filled: Kubectl) -> None:
    output = await filled("get", "configmap/a", "service/kubernetes")

    assert "configmap/a" in output
    assert "service/kubernetes" in output


async def test_get_of_nothing(kubectl: Kubectl) -> None:
    assert await kubectl.warns("get", "pods") == "No resources found in default namespace.\n"
    assert await kubectl("get", "pods", "nobody", "--ignore-not-found") == ""


async def test_a_watch_prints_events_as_they_happen(filled: Kubectl) -> None:
    watching = ("get", "cm", "-l", "app=web", "--watch", "--output-watch-events", "--no-headers")
    async with filled.streaming(*watching) as lines, asyncio.timeout(20):
        first = (await lines.readline()).split()
        await filled("label", "cm/a", "more=yes")
        second = (await lines.readline()).split()
        await filled("label", "cm/a", "app-")
        third = (await lines.readline()).split()

    assert [line[:2] for line in (first, second, third)] == [
        [b"ADDED", b"a"],
        [b"MODIFIED", b"a"],
        [b"DELETED", b"a"],
    ]


async def test_a_watch_of_whole_objects(filled: Kubectl) -> None:
    watching = ("get", "cm/a", "--watch-only", "-o", "jsonpath={.data.x}{'\\n'}")
    async with filled.streaming(*watching) as lines, asyncio.timeout(20):
        waiting = asyncio.create_task(lines.readline())
        value = 2
        while not waiting.done():
            # There is no telling when the watch has begun, so the object changes until it is seen.
            await filled("patch", "cm/a", "--type=merge", "-p", f'{{"data":{{"x":"{value}"}}}}')
            value += 1

    assert int(waiting.result()) >= 2


async def test_describe(filled: Kubectl) -> None:
    await filled("create", "service", "clusterip", "web", "--tcp=80")
    await filled("apply", "-f", "-", stdin=deployment("web"))

    config = await filled("describe", "configmap", "a")
    service = await filled("describe", "service", "web")
    described = await filled("describe", "deployment", "web")
    namespace = await filled("describe", "namespace", "default")

    assert "app=web" in config
    assert "Port:                     80  80/TCP" in service
    assert "2 desired" in described
    assert "Status:       Active" in namespace


async def test_api_resources_and_versions(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=crd())
    await kubectl("wait", "--for=condition=Established", "crd/ships.sea.example.com")

    resources = await kubectl("api-resources", "--api-group=sea.example.com", "--no-headers")
    everything = await kubectl("api-resources", "-o", "name")
    versions = (await kubectl("api-versions")).split()

    assert resources.split() == ["ships", "sh", "sea.example.com/v1", "true", "Ship"]
    assert {"pods", "deployments.apps", "ships.sea.example.com"} <= set(everything.split())
    assert {"v1", "apps/v1", "sea.example.com/v1"} <= set(versions)


async def test_explain_a_custom_resource(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=crd())
    await kubectl("wait", "--for=condition=Established", "crd/ships.sea.example.com")

    whole = await kubectl("explain", "ship")
    field = await kubectl("explain", "ship.spec.masts")
    tree = await kubectl("explain", "sh", "--recursive")

    assert "A ship of the league." in whole
    assert "How the ship is built." in whole
    assert "FIELD: masts <integer>" in field
    assert "How many masts she carries." in field
    assert ["masts", "<integer>", "-required-"] in [line.split() for line in tree.splitlines()]
    assert "cargo\t<[]string>" in tree


async def test_explain_built_ins(kubectl: Kubectl) -> None:
    pod = await kubectl("explain", "pod.spec.containers")
    deployment = await kubectl("explain", "deployment", "--recursive")

    assert "image\t<string>" in pod
    assert "name\t<string> -required-" in pod
    assert "maxUnavailable" in deployment
    assert "does not exist" in await kubectl.fails("explain", "pod.spec.nonsense")


async def test_events(kubectl: Kubectl) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "web",
            "namespace": "default",
        },
        "reason": "Sunk",
        "message": "it went down",
        "type": "Warning",
        "count": 1,
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    await kubectl("create", "-f", "-", stdin=event)

    listed_events = await kubectl.rows("events", "--field-selector=involvedObject.name=web")
    output = await kubectl("events", "--for=pod/web")

    assert listed_events[0] == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert listed_events[1][1:4] == ["Warning", "Sunk", "pod/web"]
    assert "it went down" in output


async def test_who_one_is_and_what_one_may(kubectl: Kubectl) -> None:
    assert "kubernetes-admin" in await kubectl("auth", "whoami")
    assert "eve" in await kubectl("auth", "whoami", "--as=eve", "--as-group=sailors")
    assert await kubectl("auth", "can-i", "create", "pods") == "yes\n"


async def test_versions_and_health(kubectl: Kubectl) -> None:
    version = json.loads(await kubectl("version", "-o", "json"))

    assert version["serverVersion"]["gitVersion"].startswith("v1.35.")
    assert await kubectl("get", "--raw", "/readyz") == "ok"
    assert "readyz check passed" in await kubectl("get", "--raw", "/readyz?verbose")
    assert "is running at" in await kubectl("cluster-info")


async def test_a_custom_resource_has_its_columns(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=crd())
    await kubectl("wait", "--for=condition=Established", "crd/ships.sea.example.com")
    await kubectl("apply", "-f", "-", stdin=ship())

    assert [row[:2] for row in await kubectl.rows("ships")] == [["NAME", "MASTS"], ["anna", "3"]]
    assert (await kubectl.rows("sh", "-o", "wide"))[1] == ["anna", "3", "gaff"]
    assert "Masts:  3" in await kubectl("describe", "ship", "anna")
