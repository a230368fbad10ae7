"""A real API server takes our definitions, our examples, and refuses what it should."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hanse.kube.errors import error_from_response
from hanse.kube.requests import resource_path
from hanse.kube.transport import JSON, Request, Response, Transport
from hanse.local.real.fleet import RealFleet
from hanse.model.crds import FOREIGN_KINDS, OWN_KINDS, crds, placeholder_crds
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.gslb import GlobalDeploymentPolicy
from hanse.model.kinds.hanse import ClusterSet, FederatedStatefulSet
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.objects import Object, Wire
from tests.model.examples import BAD, Refused, good
from tests.real.api_requests import admin_transport, get, post
from tests.real.conftest import Kubectl

DEFINITIONS = resource_path(CustomResourceDefinition.kind)
DRY = ("dryRun", "All")


@pytest.fixture(scope="module")
async def broker(
    binaries: dict[str, Path], kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RealFleet]:
    """A broker alone, with all our definitions and the stand-ins."""
    until = ("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
    async with RealFleet(tmp_path_factory.mktemp("crds"), binaries, names=()) as fleet:
        async with admin_transport(fleet.broker) as api:
            for definition in (*crds(), *placeholder_crds()):
                await post(api, DEFINITIONS, definition)
        assert (await kubectl(fleet.kubeconfig, "broker", *until)).status == 0
        yield fleet


@pytest.fixture
async def api(broker: RealFleet) -> AsyncIterator[Transport]:
    async with admin_transport(broker.broker) as transport:
        yield transport


async def sent(
    api: Transport, method: str, path: str, body: Wire | None = None, *query: tuple[str, str]
) -> Response:
    kept = json.dumps(body).encode() if body is not None else b""
    return await api.send(Request(method, path, query, kept, JSON))


async def listed(api: Transport) -> list[Any]:
    found: list[Any] = (await get(api, DEFINITIONS))["items"]
    return found


def established(crd: Any) -> bool:
    return conditions(crd).get("Established") == "True"


def conditions(crd: Any) -> dict[str, str]:
    return {c["type"]: c["status"] for c in crd.get("status", {}).get("conditions") or ()}


def collection(kind: type[Object]) -> str:
    return resource_path(kind.kind, "default" if kind.kind.namespaced else "")


def _accepted(response: Response) -> Any:
    if response.status >= 300:
        raise error_from_response(response)
    return json.loads(response.body)


async def test_every_definition_is_established_and_structural(api: Transport) -> None:
    known = await listed(api)

    assert len(known) == len(OWN_KINDS) + len(FOREIGN_KINDS)
    assert all(established(crd) for crd in known)
    assert not [
        crd["metadata"]["name"] for crd in known if "NonStructuralSchema" in conditions(crd)
    ]


async def test_nothing_of_our_definitions_is_dropped_or_warned_about(api: Transport) -> None:
    told = {crd["metadata"]["name"]: crd for crd in await listed(api)}

    for ours in crds():
        kept = told[ours["metadata"]["name"]]
        assert kept["spec"]["versions"] == ours["spec"]["versions"]


@pytest.mark.parametrize("kind", OWN_KINDS, ids=lambda kind: kind.__name__)
async def test_a_good_object_is_taken_whole(api: Transport, kind: type[Object]) -> None:
    strict = ("fieldValidation", "Strict")

    taken = _accepted(await sent(api, "POST", collection(kind), good(kind), strict, DRY))

    assert _within(good(kind), taken)


@pytest.mark.parametrize(
    "case", [case for case in BAD if not case.updating], ids=lambda case: case.id
)
async def test_a_bad_object_is_refused_with_the_field_to_blame(
    api: Transport, case: Refused
) -> None:
    refusal = await sent(api, "POST", collection(case.kind), case.applied(), DRY)

    assert refusal.status == 422, refusal.body
    assert case.blamed in json.loads(refusal.body)["message"]


@pytest.mark.parametrize("case", [case for case in BAD if case.updating], ids=lambda case: case.id)
async def test_a_field_that_cannot_change_is_blamed_when_it_does(
    api: Transport, case: Refused
) -> None:
    before = good(case.kind)
    before["metadata"].pop("finalizers", None)
    kept = await post(api, collection(case.kind), before)
    path = f"{collection(case.kind)}/{kept['metadata']['name']}"
    changed = {**case.applied(), "metadata": kept["metadata"]}

    refusal = await sent(api, "PUT", path, changed)
    await sent(api, "DELETE", path)

    assert refusal.status == 422, refusal.body
    assert case.blamed in json.loads(refusal.body)["message"]


@pytest.mark.parametrize("kind", FOREIGN_KINDS, ids=lambda kind: kind.__name__)
async def test_a_stand_in_keeps_whatever_it_is_given(api: Transport, kind: type[Object]) -> None:
    anything: Wire = {
        "apiVersion": kind.kind.api_version,
        "kind": kind.kind.name,
        "metadata": {"name": "any"},
        "spec": {"unheard": [{"of": {"deep": 1}}]},
    }

    taken = _accepted(await sent(api, "POST", collection(kind), anything, DRY))

    assert taken["spec"] == anything["spec"]


@pytest.mark.parametrize(
    ("kind", "filled"),
    [
        pytest.param(
            ClusterSet,
            {"profile": "lighthouse", "paused": False, "leaseDurationSeconds": 30},
            id="ClusterSet",
        ),
        pytest.param(
            GlobalDeploymentPolicy,
            {"trafficSplit": [{"cluster": "k8s", "weight": 1, "priority": 10}]},
            id="GlobalDeploymentPolicy",
        ),
    ],
)
async def test_defaults_are_filled_in(api: Transport, kind: type[Object], filled: Wire) -> None:
    bare = {**good(kind), "spec": {}}
    if "trafficSplit" in filled:
        bare["spec"] = {"trafficSplit": [{"cluster": "k8s"}]}

    taken = _accepted(await sent(api, "POST", collection(kind), bare, DRY))

    assert _within(filled, taken["spec"])


async def test_both_versions_of_an_import_are_one_object(api: Transport) -> None:
    older = {**good(ServiceImport), "apiVersion": "multicluster.x-k8s.io/v1alpha1"}
    path = collection(ServiceImport)
    old_path = path.replace("v1beta1", "v1alpha1")

    _accepted(await sent(api, "POST", old_path, older))
    newer = _accepted(await sent(api, "GET", f"{path}/web"))
    _accepted(await sent(api, "DELETE", f"{path}/web"))

    assert newer["apiVersion"] == "multicluster.x-k8s.io/v1beta1"
    assert _within(older["spec"], newer["spec"])


async def test_kubectl_scales_lists_and_explains(broker: RealFleet, kubectl: Kubectl) -> None:
    config, context = broker.kubeconfig, "broker"
    store = json.dumps(good(FederatedStatefulSet))

    made = await kubectl(config, context, "apply", "-f", "-", stdin=store)
    scaled = await kubectl(config, context, "scale", "fsts/store", "--replicas=6")
    shown = await kubectl(config, context, "get", "fsts", "store")
    explained = await kubectl(config, context, "explain", "network.spec.service.ipam")
    grouped = await kubectl(config, context, "get", "hanse", "-A")
    deleted = await kubectl(config, context, "delete", "fsts", "store")

    assert [result.status for result in (made, scaled, shown, explained, grouped, deleted)] == [
        0
    ] * 6
    assert shown.output.split()[:4] == ["NAME", "WANTED", "READY", "AGE"]
    assert shown.output.split()[4:6] == ["store", "6"]
    assert "ENUM: Arktos Kubernetes External" in " ".join(explained.output.split())
    assert "Who gives them out" in explained.output
    assert "federatedstatefulset.hanse.dev/store" in grouped.output


def _within(part: Any, whole: Any) -> bool:
    """Whether all that one says, the other says too."""
    if isinstance(part, dict):
        return all(key in whole and _within(value, whole[key]) for key, value in part.items())
    if isinstance(part, list):
        return len(part) == len(whole) and all(map(_within, part, whole))
    return bool(part == whole)
