"""A real API server accepts our CRDs and examples, and rejects invalid objects."""

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

CRDS_PATH = resource_path(CustomResourceDefinition.kind)
DRY = ("dryRun", "All")


@pytest.fixture(scope="module")
async def broker(
    binaries: dict[str, Path], kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RealFleet]:
    """A single broker with all our CRDs and the stand-ins."""
    until = ("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
    async with RealFleet(tmp_path_factory.mktemp("crds"), binaries, names=()) as fleet:
        async with admin_transport(fleet.broker) as api:
            for crd in (*crds(), *placeholder_crds()):
                await post(api, CRDS_PATH, crd)
        assert (await kubectl(fleet.kubeconfig, "broker", *until)).status == 0
        yield fleet


@pytest.fixture
async def api(broker: RealFleet) -> AsyncIterator[Transport]:
    async with admin_transport(broker.broker) as transport:
        yield transport


async def send(
    api: Transport, method: str, path: str, body: Wire | None = None, *query: tuple[str, str]
) -> Response:
    kept = json.dumps(body).encode() if body is not None else b""
    return await api.send(Request(method, path, query, kept, JSON))


async def list_crds(api: Transport) -> list[Any]:
    found: list[Any] = (await get(api, CRDS_PATH))["items"]
    return found


def established(crd: Any) -> bool:
    return conditions(crd).get("Established") == "True"


def conditions(crd: Any) -> dict[str, str]:
    return {c["type"]: c["status"] for c in crd.get("status", {}).get("conditions") or ()}


def collection(kind: type[Object]) -> str:
    return resource_path(kind.kind, "default" if kind.kind.namespaced else "")


def _decode_success(response: Response) -> Any:
    if response.status >= 300:
        raise error_from_response(response)
    return json.loads(response.body)


async def test_every_crd_is_established_and_structural(api: Transport) -> None:
    known = await list_crds(api)

    assert len(known) == len(OWN_KINDS) + len(FOREIGN_KINDS)
    assert all(established(crd) for crd in known)
    assert not [
        crd["metadata"]["name"] for crd in known if "NonStructuralSchema" in conditions(crd)
    ]


async def test_no_field_of_our_crds_is_dropped(api: Transport) -> None:
    stored = {crd["metadata"]["name"]: crd for crd in await list_crds(api)}

    for ours in crds():
        kept = stored[ours["metadata"]["name"]]
        assert kept["spec"]["versions"] == ours["spec"]["versions"]


@pytest.mark.parametrize("kind", OWN_KINDS, ids=lambda kind: kind.__name__)
async def test_a_valid_object_is_stored_completely(api: Transport, kind: type[Object]) -> None:
    strict = ("fieldValidation", "Strict")

    stored_object = _decode_success(
        await send(api, "POST", collection(kind), good(kind), strict, DRY)
    )

    assert _is_subset(good(kind), stored_object)


@pytest.mark.parametrize(
    "case", [case for case in BAD if not case.updating], ids=lambda case: case.id
)
async def test_an_invalid_object_is_rejected_with_the_field(api: Transport, case: Refused) -> None:
    refusal = await send(api, "POST", collection(case.kind), case.applied(), DRY)

    assert refusal.status == 422, refusal.body
    assert case.blamed in json.loads(refusal.body)["message"]


@pytest.mark.parametrize("case", [case for case in BAD if case.updating], ids=lambda case: case.id)
async def test_a_change_of_an_immutable_field_is_rejected(api: Transport, case: Refused) -> None:
    before = good(case.kind)
    before["metadata"].pop("finalizers", None)
    kept = await post(api, collection(case.kind), before)
    path = f"{collection(case.kind)}/{kept['metadata']['name']}"
    changed = {**case.applied(), "metadata": kept["metadata"]}

    refusal = await send(api, "PUT", path, changed)
    await send(api, "DELETE", path)

    assert refusal.status == 422, refusal.body
    assert case.blamed in json.loads(refusal.body)["message"]


@pytest.mark.parametrize("kind", FOREIGN_KINDS, ids=lambda kind: kind.__name__)
async def test_a_stand_in_crd_keeps_unknown_fields(api: Transport, kind: type[Object]) -> None:
    anything: Wire = {
        "apiVersion": kind.kind.api_version,
        "kind": kind.kind.name,
        "metadata": {"name": "any"},
        "spec": {"unheard": [{"of": {"deep": 1}}]},
    }

    stored_object = _decode_success(await send(api, "POST", collection(kind), anything, DRY))

    assert stored_object["spec"] == anything["spec"]


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

    stored_object = _decode_success(await send(api, "POST", collection(kind), bare, DRY))

    assert _is_subset(filled, stored_object["spec"])


async def test_both_versions_of_an_import_are_one_object(api: Transport) -> None:
    older = {**good(ServiceImport), "apiVersion": "multicluster.x-k8s.io/v1alpha1"}
    path = collection(ServiceImport)
    old_path = path.replace("v1beta1", "v1alpha1")

    _decode_success(await send(api, "POST", old_path, older))
    newer = _decode_success(await send(api, "GET", f"{path}/web"))
    _decode_success(await send(api, "DELETE", f"{path}/web"))

    assert newer["apiVersion"] == "multicluster.x-k8s.io/v1beta1"
    assert _is_subset(older["spec"], newer["spec"])


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


def _is_subset(part: Any, actual: Any) -> bool:
    """Whether all fields of one value are in the other."""
    if isinstance(part, dict):
        return all(key in actual and _is_subset(value, actual[key]) for key, value in part.items())
    if isinstance(part, list):
        return len(part) == len(actual) and all(map(_is_subset, part, actual))
    return bool(part == actual)
